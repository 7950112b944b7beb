"""Is it slower than it was, since when, and what changed then? One metric, night after night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.regression.series import LIMITS
from npulens.app import context
from npulens.app.context import Context
from npulens.app.histories import Judged, amount, confirming, percent
from npulens.app.pages.history import charts as chart
from npulens.app.pages.history import pick
from npulens.app.pages.history.pick import called
from npulens.app.panels import cells
from npulens.app.panels.moment import PLAIN, answer
from npulens.app.team.who import Act
from npulens.app.text import wording
from npulens.ingest import messages
from npulens.ingest.store import history
from npulens.ingest.store.history import Annotation, Point

TITLE = "history.title"
ICON = ":material/show_chart:"
ORDER = 62
GROUP = "data"


def render(ctx: Context) -> None:
    """Choose a series; the sentence, the picture, its changes, notes, and the numbers behind it."""
    st.header(ctx.say("history.question"), anchor=False)
    known = pick.read(ctx)
    chosen = pick.show(ctx, known) if known else None
    if chosen is None:
        _empty(ctx)
        return
    held, several = chosen
    sentence(ctx, held)
    picture(ctx, held)
    changes(ctx, held)
    show_notes(ctx, held)
    table(ctx, held)
    every(ctx, several)


def _empty(ctx: Context) -> None:
    """Why there is nothing, and what fills it."""
    with st.container(key="prose"):
        st.text(ctx.say("history.empty"))
        st.text(ctx.say("history.empty_load"))
        st.code("npulens load PATH", language="bash")
        st.text(ctx.say("history.empty_watch"))
        st.code("npulens watch DIR", language="bash")


# What people add to a history: notes on a night, and nights that say nothing.
_NEW = 0


def show_notes(ctx: Context, held: Judged) -> None:
    """The form for notes, then the one for nights."""
    said = {each.id: each for each in history.annotated(ctx.store, held.identity.key)
            if each.metric in (None, held.metric)}  # fmt: skip
    if not ctx.may(Act.SAY):
        return
    with st.expander(ctx.say("history.notes", {"n": len(said)})):
        _notes(ctx, held, said)
    _nights(ctx, held)


def _notes(ctx: Context, held: Judged, said: Mapping[int, Annotation]) -> None:
    st.caption(ctx.say("history.notes_means"))
    key = f"{held.identity.key}_{held.metric}_{ctx.lang}"
    days = {f"{point.at_ns}": night(point) for point in reversed(held.points)}
    which = st.selectbox(
        ctx.say("history.note_which"), [_NEW, *said], key=f"history_note_{key}_{len(said)}",
        format_func=lambda number: ctx.say("history.note_new") if number == _NEW else wording.plain(said[number].text),
    ) if said else _NEW  # fmt: skip
    chosen = said.get(which)
    with st.form(f"history_note_form_{key}_{which}", clear_on_submit=chosen is None):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            at = str(chosen.at_ns) if chosen and str(chosen.at_ns) in days else next(iter(days))
            day = st.selectbox(ctx.say("history.note_night"), list(days), index=list(days).index(at), width=200,
                               format_func=days.__getitem__, key=f"history_note_day_{key}_{which}")  # fmt: skip
            text = st.text_input(
                ctx.say("history.note_text"), value=chosen.text if chosen else "", max_chars=history.MOST_ANNOTATION,
                key=f"history_note_text_{key}_{which}", help=ctx.say("history.note_help"),
            )  # fmt: skip
        everywhere = st.checkbox(ctx.say("history.note_everywhere"), value=chosen is None or chosen.metric is None,
                                 key=f"history_note_all_{key}_{which}")  # fmt: skip
        if st.form_submit_button(ctx.say("history.note_save"), icon=":material/save:"):
            metric = None if everywhere else held.metric
            place = ctx.to(Act.SAY, "a note of the history")
            history.annotate(place, held.identity.key, metric, int(day), text, chosen.id if chosen else None)
            st.rerun()


def _nights(ctx: Context, held: Judged) -> None:
    """One night out of the baselines of every metric of the identity, or back."""
    with st.expander(ctx.say("history.take_out")):
        key = f"{held.identity.key}_{held.metric}_{ctx.lang}"
        points = {point.source: point for point in reversed(held.points)}
        with st.container(horizontal=True, vertical_alignment="bottom"):
            source = st.selectbox(
                ctx.say("history.take_night"), list(points), key=f"history_take_{key}", width=260,
                format_func=lambda each: night(points[each]) + ("" if points[each].usable else " ✕"),
            )  # fmt: skip
            usable = points[source].usable
            reason = st.text_input(
                ctx.say("history.take_reason"), disabled=not usable,
                value=messages.render(points[source].reason, ctx.lang)[: history.MOST_TEXT],
                max_chars=history.MOST_TEXT, key=f"history_take_why_{key}_{source}",
            )  # fmt: skip
            if st.button(ctx.say("history.take_do" if usable else "history.take_back"), key=f"history_take_do_{key}"):
                history.set_usable(ctx.to(Act.SAY, source), held.identity.key, source, not usable, reason or None)
                st.rerun()


# One metric: what is said of it, the picture, the changes with what else changed there, and the numbers.
def sentence(ctx: Context, held: Judged) -> None:
    """Slower or not, since when; how much a night says; what would tell more."""
    said, what = held.verdict, called(ctx, held.metric)
    values: dict[str, object] = {
        "what": what, "level": amount(said.level, held.unit), "margin": f"{100 * LIMITS.margin:g} %",
    }  # fmt: skip
    if said.level is None:
        answer(ctx, [ctx.say("history.said_nothing", values)])
        return
    if said.verdict in ("same", "ambiguous"):
        parts = [ctx.say(f"history.said_{said.verdict}", values)]
        parts += [ctx.say("history.said_last", _spoken(ctx, held, len(said.changes) - 1))] if said.changes else []
    else:
        parts = [ctx.say("history.said_change", values | _spoken(ctx, held, len(said.changes) - 1))]
        parts += [] if held.stands else [ctx.say("history.doubt")]
    if said.verdict == "ambiguous":
        key = "history.settles_never" if said.settles is None else "history.settles"
        parts.append(ctx.say(key, {"n": said.settles or 0}))
    if said.floor is not None:
        parts.append(ctx.say("history.noise", {"noise": f"{100 * said.floor:.1f} %"}))
    if held.floor is not None:
        parts.append(ctx.say("history.floor", {"floor": f"{100 * held.floor.at_most:.1f} %", "n": held.floor.n}))
    answer(ctx, parts)


def _spoken(ctx: Context, held: Judged, number: int) -> dict[str, object]:
    """A change in words and figures."""
    change, used = held.verdict.changes[number], held.used
    return {
        "verdict": ctx.say(f"history.verdict_{'regressed' if held.worse(change) else 'improved'}"),
        "change": percent(change.ratio), "low": percent(change.low), "high": percent(change.high),
        "night": night(used[change.index]), "first": night(used[change.first]), "last": night(used[change.last]),
        "p": f"{change.p:.1g}",
    }  # fmt: skip


def night(point: Point) -> str:
    """The night of a point, or the day."""
    return wording.plain(point.night or f"{chart.when(point):%Y-%m-%d}")


def picture(ctx: Context, held: Judged) -> None:
    """The chart."""
    notes = [each for each in history.annotated(ctx.store, held.identity.key) if each.metric in (None, held.metric)]
    drawn = context.once(chart.series, held, notes, _varying(held), ctx.say, context.ink())
    alt = ctx.say("history.chart_alt", {"what": called(ctx, held.metric)})
    st.plotly_chart(drawn, key=f"history_chart_{held.identity.key}_{held.metric}_{ctx.lang}", config=PLAIN, alt=alt)


def _varying(held: Judged) -> list[str]:
    """Conditions that were not the same every night; those that changed least often first."""
    names = dict.fromkeys(name for point in held.points for name in point.covariates)
    told = {name: [point.covariates.get(name) for point in held.points] for name in names}
    switches = {name: sum(a != b for a, b in zip(v[:-1], v[1:], strict=True)) for name, v in told.items()}
    return sorted((name for name in names if switches[name]), key=lambda name: switches[name])


def changes(ctx: Context, held: Judged) -> None:
    """Each change, the last first: the runs on either side, and what else changed."""
    st.subheader(ctx.say("history.changes"), anchor=False)
    if not held.verdict.changes:
        st.text(ctx.say("history.changes_none"))
    for number in reversed(range(len(held.verdict.changes))):
        with st.container(border=True, key=f"gap_history_{number}"):
            spoken = _spoken(ctx, held, number)
            sure = spoken["first"] == spoken["last"]
            st.text(ctx.say("history.change_line", spoken))
            st.text(ctx.say("history.change_exact" if sure else "history.change_between", spoken))
            _compare(ctx, held.sides(number))
            _suspects(ctx, held, number)


def _compare(ctx: Context, sides: tuple[str, str] | None) -> None:
    """The way to Compare, where both runs are still there."""
    page, held = context.page("compare"), {run.run_id for run in ctx.runs}
    if sides is not None and page is not None and held.issuperset(sides):
        query = {"by": "runs", "base": sides[0], "head": sides[1], "lang": ctx.lang}
        st.page_link(page, label=ctx.say("history.compare"), icon=":material/compare_arrows:", query_params=query)


def _suspects(ctx: Context, held: Judged, number: int) -> None:
    found, key = held.suspects(number), f"{held.identity.key}_{held.metric}_{number}"
    if not found:
        st.caption(ctx.say("history.suspects_none"))
        return
    st.text(ctx.say("history.suspects"))
    frame = pd.DataFrame(
        {"name": each.name, "before": each.before, "after": each.after, "tells": f"{100 * each.tells:.0f} %",
         "switches": each.switches} for each in found
    )  # fmt: skip
    heads = {name: ctx.say(f"history.suspect_{name}") for name in frame.columns}
    cells.show(frame, heads, f"history_suspects_{key}_{ctx.lang}", ctx.say("history.suspects"), ("tells",))
    if command := confirming(found, held.identity.workload):
        st.caption(ctx.say("history.confirm_means"))
        st.code(command, language="bash")


def table(ctx: Context, held: Judged) -> None:
    """Every night as a number."""
    with st.expander(ctx.say("history.table")):
        frame = pd.DataFrame(
            {"night": night(point), "value": amount(point.value, point.unit), "run": point.run_id,
             "unusable": None if point.usable else messages.render(point.reason, ctx.lang) or "–", **point.covariates}
            for point in reversed(held.points)
        )  # fmt: skip
        heads = {name: ctx.say(f"history.col_{name}") for name in ("night", "value", "run", "unusable")}
        heads |= {name: wording.plain(name) for name in _varying(held)}
        about = ctx.say("history.table")
        cells.show(frame, heads, f"history_table_{held.identity.key}_{held.metric}_{ctx.lang}", about, ("value",))


def every(ctx: Context, several: Sequence[Judged]) -> None:
    """All metrics of the identity, one a line."""
    with st.expander(ctx.say("history.all")):
        frame = pd.DataFrame(
            {"metric": called(ctx, each.metric), "level": amount(each.verdict.level, each.unit),
             "noise": None if each.verdict.floor is None else f"{100 * each.verdict.floor:.1f} %",
             "nights": len(each.points), "verdict": ctx.say(f"history.verdict_{each.verdict.verdict}"),
             "change": percent(each.verdict.changes[-1].ratio) if each.verdict.changes else None,
             "since": night(each.used[each.verdict.changes[-1].index]) if each.verdict.changes else None}
            for each in several
        )  # fmt: skip
        heads = {name: ctx.say(f"history.col_{name}") for name in frame.columns if name != "since"}
        heads["since"] = ctx.say("history.col_began")
        key = f"history_every_{several[0].identity.key}_{ctx.lang}"
        cells.show(frame, heads, key, ctx.say("history.all"), ("level", "noise", "change"))
