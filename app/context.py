"""What a page knows: language, store, runs and the chosen run. The only place for caching, session and query params.

Cached values are keyed by store and run id. A run id is a hash of its content, so they never grow stale. Figures are
also keyed by language.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, Generic, TypeVar, TypeVarTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.navigation.page import Page

from npulens.analysis import split
from npulens.analysis.discovery import Detector
from npulens.analysis.engine import Outcome
from npulens.analysis.finding import Finding
from npulens.analysis.kept import TOGETHER
from npulens.analysis.limits import Limits, overridden
from npulens.analysis.run import Run
from npulens.analysis.selection import within
from npulens.analysis.settings import FILE, Settings
from npulens.app import run_check, run_open
from npulens.app.aside import measured as asked_of
from npulens.app.aside.process import LONG, SHORT, Aside
from npulens.app.charts import style
from npulens.app.report.subject import Subject
from npulens.app.selection import chosen
from npulens.app.selection.chosen import Selection
from npulens.app.settings.of_checks import in_force
from npulens.app.team import config as team_file
from npulens.app.team import session, who
from npulens.app.team.config import ALONE
from npulens.app.team.who import Act, Visitor
from npulens.app.text import i18n
from npulens.ingest.messages import render
from npulens.ingest.store import runs as store
from npulens.ingest.store.runs import RunInfo

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
Given = TypeVarTuple("Given")
_TICK = 0.25  # seconds between two looks at what is being computed; a click is heard at each
_ROOM = 0.5  # seconds that a browser gets for drawing what took long, before more is computed
_PATIENCE = 2.5  # seconds a page waits for a judgement before it says that it is still coming
#: For what nobody waits for. Where it fails, pages compute what they ask for themselves.
_afterwards = ThreadPoolExecutor(1, thread_name_prefix="afterwards")


@dataclass(frozen=True)
class Context:
    """Handed to every page and panel."""

    lang: str
    store: Path
    runs: tuple[RunInfo, ...]
    run: RunInfo | None
    asked_for: str | None  # the run id of a deep link that this store does not hold
    selection: Selection = field(default_factory=Selection)  # of the run
    visitor: Visitor = who.ALONE
    project: str = ALONE

    @property
    def part(self) -> within.Part | None:
        """What of the run is measured; None: all of it."""
        told = self.selection
        return within.Part(told.ranks, told.steps, told.window) if told.narrows else None

    def may(self, act: Act) -> bool:
        """Whether this visitor may do that here: what they may not is not on the page."""
        return self.visitor.may(act, self.project)

    def to(self, act: Act, what: str) -> Path:
        """The store, to do that there: asked anew, because a role may have ended since this was drawn."""
        team = team_file.current()
        if team.sign_in is None:
            return self.store
        return who.place(team, session.visitor(team), act, self.project, what)

    def now(self, act: Act) -> Visitor:
        """Who that is at this moment, where they may do that here; Denied otherwise."""
        team = team_file.current()
        visitor = session.visitor(team)
        who.project(team, visitor, act, self.project)
        return visitor

    @property
    def say(self) -> i18n.Speaker:
        """``say(key, values)``: a text in the visitor's language."""
        return i18n.Speaker(self.lang)


def register(pages: Mapping[str, Page]) -> None:
    """Remembers the pages of this script run, so that panels can link to them."""
    st.session_state["pages"] = dict(pages)


def page(name: str) -> Page | None:
    """The page of a name; None where only a part of the dashboard is drawn."""
    found = st.session_state.get("pages")
    return found.get(name) if isinstance(found, dict) else None


def current() -> Context:
    """The context of this script run."""
    _restore_query()
    team = team_file.current()
    visitor = session.visitor(team)
    project = session.project(team, visitor)
    place = project.store
    held = tuple(sorted(store.runs(place), key=lambda run: run.loaded_at, reverse=True))
    wanted = st.query_params.get("run")
    shown = next((run for run in held if run.run_id == wanted), _worth_seeing(held))
    lost = wanted if wanted and held and (shown is None or shown.run_id != wanted) else None
    selection = _restored(shown.run_id) if shown else Selection()
    return Context(language(), place, held, shown, lost, selection, visitor, project.name)


def _restored(run_id: str) -> Selection:
    """What the address says is selected, else what this visit has selected of the run. Either is in the address then.

    Streamlit empties the address when the page changes. What an address says of another run is none of this one's.
    """
    kept: dict[str, dict[str, str]] = st.session_state.setdefault("selections", {})
    before = st.session_state.get("selection_run")
    st.session_state["selection_run"] = run_id
    said = {key: st.query_params[key] for key in st.query_params}
    told = chosen.read(said).query()
    if before not in (None, run_id) and told == kept.get(before):
        told = {}
    told = told or kept.get(run_id, {})
    kept[run_id] = told
    _say_selection(told)
    return chosen.read(told)


def _say_selection(told: Mapping[str, str]) -> None:
    """All of it at once: nobody copies half of an address."""
    said = {key: st.query_params[key] for key in st.query_params}
    gone = chosen.stale(said, told)
    if gone or told:
        st.query_params.from_dict({key: text for key, text in said.items() if key not in gone} | dict(told))


def select(ctx: Context, selection: Selection) -> None:
    """Selects this of the chosen run, here, on every page and in the link."""
    told = selection.query()
    if selection.window != st.session_state.get("selected_area"):
        st.session_state["selected_area"] = None
    if ctx.run is not None:
        st.session_state.setdefault("selections", {})[ctx.run.run_id] = told
    _say_selection(told)


def select_from_timeline(ctx: Context, place: Mapping[str, object]) -> None:
    """What the canvas says when it has come to rest: its area and its span are selected."""
    area, span = str(place.get("area") or ""), str(place.get("span") or "")
    told = chosen.read({"area": area, "span": span})
    before = ctx.selection
    if told.window is None:  # no area any more, or none at all
        held = before.window if st.session_state.get("selected_area") is None else None
        select(ctx, replace(before, window=held, span=told.span))
    else:
        tracks = tuple(int(one) for one in area.split(",")[2:] if one.isdigit())
        ranks = measured(ctx, within.ranks_of, tracks) if tracks else before.ranks
        every = ctx.run is not None and set(ctx.run.ranks) == set(ranks)
        select(ctx, replace(before, ranks=() if every else ranks, steps=None, window=told.window, span=told.span))
    st.session_state["selected_area"] = told.window


def _worth_seeing(held: Sequence[RunInfo]) -> RunInfo | None:
    """The run to open where none was asked for: the newest that is neither simulated nor of a CPU alone.

    Where there is none, as in a store of samples, it is the one of most ranks, then of most events.
    """
    whole = [run for run in held if run.status != "damaged"]
    real = next((run for run in whole if run.evidence not in ("simulated", "cpu")), None)
    richest = max(whole, key=lambda run: (len(run.ranks), run.world_size or 0, run.events), default=None)
    return real or richest or (held[0] if held else None)


def language() -> str:
    """English or Chinese: ?lang= first, else what the visit had before a page was changed, else the browser's."""
    return i18n.language(st.query_params.get("lang") or st.session_state.get("query_lang"), st.context.locale)


def ink() -> str:
    """The colour of text in the visitor's theme; charts need it in numbers."""
    return style.INK["dark" if st.context.theme.type == "dark" else "light"]


def accent() -> str:
    """The visitor's theme's primary colour."""
    return style.ACCENT["dark" if st.context.theme.type == "dark" else "light"]


def choose_language(lang: str) -> None:
    """Switches the language of everything, here and in the link."""
    _set_query("lang", lang)


def choose_run(run_id: str) -> None:
    """Makes a run the chosen one, here and in the link."""
    _set_query("run", run_id)


def _set_query(key: str, value: str) -> None:
    st.query_params[key] = value
    st.session_state[f"query_{key}"] = value


def _restore_query() -> None:
    """Streamlit empties the query when the page changes; the link should keep saying what is on the screen.

    It is said every time. What a script says of the address is lost when the next script begins before it was sent.
    """
    for key in ("lang", "run"):
        asked = st.query_params.get(key) or st.session_state.get(f"query_{key}")
        if asked:
            _set_query(key, asked)


def breakdown(ctx: Context) -> list[split.Row]:
    """The split of the chosen run."""
    return measured(ctx, split.breakdown) if ctx.run else []


def coverage(ctx: Context) -> list[store.CoverageRow]:
    """What the ranks of the chosen run recorded, with its reasons in the visitor's language."""
    rows = measured(ctx, store.coverage) if ctx.run else []
    if ctx.lang == "en":
        return rows
    return [
        replace(
            row, reason=render(row.reason, ctx.lang) or None, collect_with=render(row.collect_with, ctx.lang) or None
        )
        for row in rows
    ]


@st.cache_data(max_entries=256, max_size=2**28, show_spinner=False)
def _measured(
    place: str, run_id: str, part: within.Part | None, name: str, given: tuple[object, ...],
    _measure: Callable[..., Any],
) -> Any:  # fmt: skip
    return _by(SHORT, place, run_id, asked_of.measured, part, _measure, given)


def _by(aside: Aside, place: str, run_id: str, ask: Callable[..., T], *more: object) -> T:
    """``ask(place, run_id, *more)``: beside the server if the run is large."""
    if run_open.large(Path(place), run_id):
        return aside.ask((place, run_id), ask, place, run_id, *more)
    return ask(place, run_id, *more)


def selected(ctx: Context, measure: Callable[..., T], *given: object) -> T:
    """What a function of analysis says of what is selected of the chosen run, asked once and kept."""
    return _asked(ctx, ctx.run.run_id if ctx.run else "", ctx.part, measure, given)


def measured(ctx: Context, measure: Callable[..., T], *given: object) -> T:
    """What a function of analysis says of the whole of the chosen run: ``measure(con, *given)``."""
    return _asked(ctx, ctx.run.run_id if ctx.run else "", None, measure, given)


def measured_of(
    ctx: Context, run_id: str, measure: Callable[..., T], *given: object, part: within.Part | None = None
) -> T:
    """The same of any run, or of a part of it."""
    return _asked(ctx, run_id, part, measure, given)


def _asked(
    ctx: Context, run_id: str, part: within.Part | None, measure: Callable[..., T], given: tuple[object, ...]
) -> T:
    name = asked_of.name(measure)
    with st.spinner(ctx.say("shell.measuring")):
        found: T = _measured(str(ctx.store), run_id, part, name, given, measure)
    return found


def once(function: Callable[[*Given], T], *given: *Given) -> T:
    """``function(*given)``, computed once for what is given. Every visitor gets the same object: nobody changes it."""
    what = pickle.dumps((function.__module__, function.__qualname__, given))
    found: T = _once(hashlib.blake2b(what).digest(), lambda: function(*given))
    return found


@st.cache_resource(max_entries=128, show_spinner=False)
def _once(what: bytes, _compute: Callable[[], Any]) -> Any:
    return _compute()


# An answer in parts: each is a function of the same run, found one after the other beside the page.


@dataclass(frozen=True)
class Parts(Generic[T, U, V]):
    """The quickest part is found first. The others begin when that one has been drawn, so as not to delay it."""

    first: Future[T]
    second: Future[U]
    third: Future[V]
    drawn: Event


@st.cache_resource(max_entries=16, show_spinner=False)
def _in_parts(
    place: str, run_id: str, part: within.Part | None, names: str, _measures: tuple[Callable[[Run], Any], ...]
) -> Parts[Any, Any, Any]:
    drawn, bench = Event(), ThreadPoolExecutor(1, thread_name_prefix="measuring")

    def asked(measure: Callable[[Run], Any]) -> Future[Any]:
        return bench.submit(_by, LONG, place, run_id, asked_of.derived, part, measure)

    first, second, third = _measures
    found = asked(first)
    bench.submit(_leave_room, drawn, time.monotonic())
    parts = Parts(found, asked(second), asked(third), drawn)
    bench.shutdown(wait=False)
    return parts


def _leave_room(drawn: Event, began: float) -> None:
    """Waits until the first part is on the screen: a browser needs the machine too. A page that was left has none."""
    drawn.wait(_PATIENCE)
    time.sleep(min(_ROOM, (time.monotonic() - began) / 4))


def in_parts(
    ctx: Context, first: Callable[[Run], T], second: Callable[[Run], U], third: Callable[[Run], V]
) -> Parts[T, U, V]:
    """What three functions say of what is selected, asked once and kept. A failure is not kept."""
    measures = (first, second, third)
    question = (
        str(ctx.store), ctx.run.run_id if ctx.run else "", ctx.part,
        " ".join(map(asked_of.name, measures)), measures,
    )  # fmt: skip
    parts: Parts[T, U, V] = _in_parts(*question)
    if any(one.done() and one.exception() is not None for one in (parts.first, parts.second, parts.third)):
        _in_parts.clear(*question)
        parts = _in_parts(*question)
    return parts


def awaited(ctx: Context, part: Future[T], slot: DeltaGenerator) -> T:
    """A part, as soon as it is there. Until then its place on the page says that it is being computed."""
    began = time.monotonic()
    while not wait([part], _TICK).done:
        slot.text(ctx.say("shell.computing", {"n": round(time.monotonic() - began)}))
    return part.result()


@dataclass(frozen=True)
class _Judging:
    """A judgement under way, and when it began."""

    future: Future[Subject]
    began: float


@st.cache_resource(show_spinner=False)
def _bench() -> ThreadPoolExecutor:
    """Two judgements at a time, so that a large run does not keep a small one waiting; the page goes on meanwhile."""
    return ThreadPoolExecutor(2, thread_name_prefix="judging")


@st.cache_resource(max_entries=20, show_spinner=False)
def _judging(place: str, run_id: str, said: str, _settings: Settings) -> _Judging:
    return _Judging(_bench().submit(_subject, place, run_id, _settings), time.monotonic())


def _subject(place: str, run_id: str, settings: Settings) -> Subject:
    found = _by(LONG, place, run_id, asked_of.judged, settings)
    if run_open.large(Path(place), run_id):
        for names in TOGETHER:
            _afterwards.submit(_prepare, place, run_id, names)
    return replace(found, detectors=run_check.ready(settings))


def _prepare(place: str, run_id: str, names: tuple[str, ...]) -> None:
    """Asks for what is kept, when nobody waits for something else."""
    while not LONG.free():
        time.sleep(_TICK)
    LONG.ask((place, run_id), asked_of.prepared, place, run_id, names)


def _question(ctx: Context) -> tuple[str, str, str, Settings]:
    settings = in_force(None)
    return str(ctx.store), ctx.run.run_id if ctx.run else "", repr(settings), settings


def judgement(ctx: Context) -> Subject | None:
    """What the detectors say of the chosen run; None while they are at work. A failure is not kept."""
    question = _question(ctx)
    future = _judging(*question).future
    if not wait([future], _PATIENCE).done:
        return None
    if future.exception() is not None:
        _judging.clear(*question)
    return future.result()


def judged(ctx: Context) -> bool:
    """Whether the judgement of the chosen run is there."""
    return _judging(*_question(ctx)).future.done()


def judging_for(ctx: Context) -> float:
    """Seconds since the judgement of the chosen run was asked for."""
    return time.monotonic() - _judging(*_question(ctx)).began


@st.cache_resource(max_entries=2, show_spinner=False, on_release=run_check.HeldRun.close)
def _held_run(place: str, run_id: str) -> run_check.HeldRun:
    return run_check.hold(Path(place), run_id)


def detectors() -> dict[str, Detector]:
    """Every detector that is not switched off, by name."""
    return {detector.name: detector for detector in run_check.ready(in_force(None))}


def limits_in_force(detector: Detector) -> Limits:
    """A detector's limits, those of npulens.toml included."""
    return overridden(detector.limits(), in_force(None).limits_of(detector.name), FILE)


def judged_with(ctx: Context, detector: Detector, changed: Mapping[str, float]) -> tuple[tuple[Finding, ...], Outcome]:
    """What a detector says of the chosen run with some of its limits moved."""
    held = _held_run(str(ctx.store), ctx.run.run_id if ctx.run else "")
    return held.judge(detector, changed, in_force(None))
