"""Two sides of a comparison from the store, and what is said of them, for the terminal and for scripts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from npulens.analysis import views
from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.look import alike, compare
from npulens.analysis.regression.capture_drift import UNKNOWN, Drift, drift_of
from npulens.analysis.regression.change import Contribution
from npulens.analysis.regression.compared import Compared, apart, warm_up
from npulens.analysis.regression.late import Late
from npulens.analysis.regression.matching import SAYS
from npulens.analysis.regression.pieces import KINDS, Measured, NotExact, measure
from npulens.analysis.regression.verdict import MOST_PAIRS, Verdict
from npulens.analysis.steady import BEFORE_SHARE
from npulens.app.text import i18n, wording
from npulens.app.text.i18n import say
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, verbatim
from npulens.ingest.store import history
from npulens.ingest.store import runs as stores
from npulens.ingest.store.runs import RunInfo

Numbers = tuple[int, ...] | None
_COLOURS = {"regressed": "red", "improved": "green", "same": "green", "ambiguous": "yellow"}
_BAR = 16  # columns the largest contribution takes
_WIDEST = 60  # columns of a name
_LISTED = 120  # columns of the names of several kernels
_RUN = 12  # letters of a run id, which name one in any store
_SURE = 24  # columns of an interval
_EVEN = 0.05  # ranks whose steps differ by no more than this share are about equally long


@dataclass(frozen=True)
class Asked:
    """By what the verdict was judged."""

    margin: float
    alpha: float
    drift: Drift


@dataclass(frozen=True)
class Half:
    """One side: its runs as measured, and the steps left out as warm-up of any of them."""

    name: str
    runs: tuple[Measured, ...]
    warm: tuple[int, ...]


def named(store: Path, text: str) -> list[RunInfo]:
    """The runs that a side names: one, or several between commas."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and all(parts):
        return [stores.resolve(store, part) for part in parts]
    return [stores.resolve(store, text)]


def halves(
    store: Path, names: tuple[str, str], ranks: tuple[Numbers, Numbers], steps: tuple[Numbers, Numbers], warm: bool
) -> tuple[Half, Half]:
    """Both sides: their steps, or whole captures where one has none. ``warm``: warm-up steps stay in."""
    runs = [named(store, text) for text in names]
    for whole in (False, True):
        found = [
            _half(store, *side, warm or whole, whole) for side in zip(names, runs, ranks, steps, strict=True)
        ]  # fmt: skip
        if all(one.side.windows for half in found for one in half.runs):
            return found[0], found[1]
        if not whole and any(chosen is not None for chosen in steps):
            break
    lost = next(half.name for half in found if not all(one.side.windows for one in half.runs))
    raise IngestError("nothing_to_compare", Message("has_no_time_to_compare", {"name": repr(lost)}))


def _half(store: Path, name: str, runs: Sequence[RunInfo], ranks: Numbers, steps: Numbers, warm: bool,
          whole: bool) -> Half:  # fmt: skip
    found, left_out = [], set[int]()
    for run in runs:
        con = stores.open_run(store, run.run_id)
        try:
            views.install(con)
            cold = () if warm or steps is not None else warm_up(compare.side(con, ranks, None, False))
            left_out |= set(cold)
            found.append(measure(con, ranks, kept(con, ranks, cold) if cold else steps, whole))
        except NotExact as error:
            raise IngestError("not_exact", verbatim(error), run.run_id) from error
        finally:
            con.close()
    return Half(name, tuple(found), tuple(sorted(left_out)))


def kept(con: Any, ranks: Numbers, cold: tuple[int, ...]) -> tuple[int, ...]:
    """The steps that are no warm-up."""
    return tuple(step for step in compare.side(con, ranks, None, False).steps if step not in cold)


def ids(halves: tuple[Half, Half]) -> tuple[list[str], list[str]]:
    """The runs of both sides."""
    base, head = ([one.side.about.run_id for one in half.runs] for half in halves)
    return base, head


def same_runs(halves: tuple[Half, Half]) -> bool:
    """Whether a run is compared with itself."""
    base, head = ids(halves)
    return base == head


def drift(store: Path, runs: tuple[Sequence[str], Sequence[str]], given: float | None) -> Drift:
    """What was given, else what the history knows of other captures of the same job.

    Several captures a side, or two parts of one capture, need none."""
    if given is not None:
        return Drift(given, "given" if given else "off")
    if any(len(side) > 1 for side in runs) or runs[0] == runs[1]:
        return UNKNOWN
    compared = {run_id for side in runs for run_id in side}
    named_by = history.keyed(store)
    for (run_id,) in runs:
        key = history.identity_of(store, run_id)
        points = history.series(store, key, "step_ns") if key is not None else []
        others = [point.value for point in points if point.usable and point.run_id and point.run_id not in compared]
        found = drift_of(others, named_by[key].workload if key in named_by else "")
        if found.source == "history":
            return found
    return UNKNOWN


def as_dict(found: Compared, halves: tuple[Half, Half], lang: str, asked: Asked) -> dict[str, Any]:
    """The keys that `npulens compare --json` promises."""
    said, change = found.verdict, found.change
    base, head = ids(halves)
    return {
        "base": base[0] if len(base) == 1 else base, "head": head[0] if len(head) == 1 else head,
        "metric": found.metric, "verdict": said.said, "base_ns": change.base_ns, "head_ns": change.head_ns,
        "delta_ns": change.delta_ns, "delta_share": change.delta_share,
        "interval": None if said.low is None or said.high is None else [said.low - 1, said.high - 1],
        "log_interval": said.log_interval, "p": said.p, "n": said.n, "method": said.method,
        "separate_batches": found.batches, "settles": None if said.settles is None else asdict(said.settles),
        "drift": asdict(asked.drift),
        "contributions": [_contribution(one, _first(halves)) for one in change.contributions],
        "late": change.late and asdict(change.late),
        "clock_mhz": {"base": change.mhz[0], "head": change.mhz[1]},
        "residual_ns": change.residual_ns, "told_apart": list(change.told),
        "warm_up": {"base": list(halves[0].warm), "head": list(halves[1].warm)},
        "reasons": list(reasons(found, lang, asked)),
        "warnings": [asdict(one) for one in warnings(found, halves, lang)],
        "steps": [asdict(pair) for pair in found.steps],
    }  # fmt: skip


def _contribution(one: Contribution, runs: tuple[str, str]) -> dict[str, Any]:
    return {
        "kind": one.kind, "what": one.what, "delta_ns": one.delta_ns,
        "interval_ns": one.interval_ns and list(one.interval_ns), "base_ns": one.base_ns,
        "head_ns": one.head_ns, "base_count": one.base_count, "head_count": one.head_count, "state": one.state,
        "before": one.before or None, "members": one.members and asdict(one.members), "factor": one.factor,
        "parts": [_contribution(part, runs) for part in one.parts], "replay": replayed(one, runs),
        "shapes": one.shapes or None, "dtypes": one.dtypes or None,
    }  # fmt: skip


@dataclass(frozen=True)
class Warned:
    """Something to know before the figures are believed."""

    about: str  # what it is about: 'warm_up', 'untold', or a key of analysis/look/alike.py
    values: dict[str, Any]
    text: str


def warnings(found: Compared, halves: tuple[Half, Half], lang: str) -> Iterator[Warned]:
    """Everything that the terminal, the page and scripts are told beside the figures."""
    for name, half in zip(("base", "head"), halves, strict=True):
        if half.warm:
            yield Warned("warm_up", {"side": name, "steps": list(half.warm)}, say(lang, "verdict.warm_left", {
                "steps": i18n.ranges(half.warm), "side": wording.plain(half.name)}))  # fmt: skip
    yield from unalike(alike.notes(halves[0].runs[0].side, halves[1].runs[0].side), lang)
    yield from left_out(found, lang)
    yield from untold(found, lang)


def unalike(notes: Sequence[compare.Note], lang: str) -> Iterator[Warned]:
    """What makes the sides unlike."""
    for note in notes:
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in note.values}
        yield Warned(note.key, values, unlike(note, lang))


def left_out(found: Compared, lang: str) -> Iterator[Warned]:
    """Recorded time that whole captures leave out, where it changed clearly."""
    sides = [[one.outside for one in side if one.outside is not None] for side in (found.base, found.head)]
    if not all(sides):
        return
    base_all, head_all = (sum(one.recorded_ns for one in side) // len(side) for side in sides)
    cpu = [one.side.about.backends == ("cpu",) for side in (found.base, found.head) for one in side]
    task = say(lang, f"verdict.task_{'cpu' if all(cpu) else 'either' if any(cpu) else 'device'}")
    for name in ("before", "after"):
        base, head = (sum(int(getattr(one, f"{name}_ns")) for one in side) // len(side) for side in sides)
        if abs(head - base) <= BEFORE_SHARE * max(base_all, head_all):
            continue
        values = {"base_ns": base, "head_ns": head, "base_recorded_ns": base_all, "head_recorded_ns": head_all}
        yield Warned(f"left_out_{name}", values, say(lang, f"verdict.left_out_{name}", {
            "task": task, "base": i18n.duration(base), "head": i18n.duration(head), "change": signed(head - base),
            "base_all": i18n.duration(base_all), "head_all": i18n.duration(head_all),
        }))  # fmt: skip


def untold(found: Compared, lang: str) -> Iterator[Warned]:
    """The kinds that one side did not record."""
    kinds = [kind for kind in KINDS if kind not in found.change.told]
    if kinds:
        spoken = say(lang, "shell.comma").join(say(lang, f"verdict.kinds_{kind}") for kind in kinds)
        yield Warned("untold", {"kinds": kinds}, say(lang, "verdict.untold", {"kinds": spoken}))


def answer(found: Compared, lang: str) -> str:
    """The verdict with the change, in one sentence."""
    change = found.change
    return say(lang, "verdict.change", {
        "word": say(lang, f"verdict.{found.verdict.said}"), "base": i18n.duration(change.base_ns),
        "head": i18n.duration(change.head_ns), "change": signed(change.delta_ns), "share": percent(change.delta_share),
    })  # fmt: skip


def reasons(found: Compared, lang: str, asked: Asked) -> Iterator[str]:
    """The interval, how it came about, what it cannot say, what would settle it; who is waited for."""
    said, known = found.verdict, asked.drift
    values = {"n": said.n, "margin": i18n.share(round(asked.margin * 10**6), 10**6),
              "drift": percent(known.share).removeprefix("+"), "captures": known.captures,
              "workload": wording.plain(known.workload)}  # fmt: skip
    if said.low is None or said.high is None:
        yield say(lang, "verdict.no_interval", values)
    else:
        meaning = f"verdict.means_{said.said}"
        yield say(lang, "verdict.interval", {
            "sure": f"{100 * (1 - asked.alpha):g} %", "low": percent(said.low - 1), "high": percent(said.high - 1),
        }) + (" " + say(lang, meaning, values) if i18n.known(meaning) else "")  # fmt: skip
    counts = known.share and said.method == "captures" and said.low is not None
    whole = found.metric == "capture_ns" and said.method in ("captures", "ranks")
    yield say(lang, f"verdict.method_{said.method}" + (f"_{known.source}" if counts else "_whole" if whole else ""),
              values)  # fmt: skip
    if said.method == "ranks":
        yield ranks_apart(found, lang)
    if known.source == "off" and said.method == "captures":
        yield say(lang, "verdict.drift_off")
    if found.batches:
        yield say(lang, "verdict.batches")
    yield from settles(said, lang)
    if found.change.late is not None:
        yield waited_for(found.change.late, lang)


def ranks_apart(found: Compared, lang: str) -> str:
    """Whether two ranks take equally long; if not, how far apart they begin and end."""
    if abs(found.change.delta_share or 0) <= _EVEN:
        return say(lang, "verdict.ranks_even")
    base, head = found.base[0].side, found.head[0].side
    begins, ends = (say(lang, f"verdict.{'later' if ns >= 0 else 'earlier'}", {"time": i18n.duration(abs(ns))})
                    for ns in apart(base, head))  # fmt: skip
    return say(lang, "verdict.ranks_uneven", {
        "base": i18n.ranges(base.ranks), "head": i18n.ranges(head.ranks), "begins": begins, "ends": ends})  # fmt: skip


def waited_for(late: Late, lang: str) -> str:
    """The rank that is late, or no longer is."""
    return say(lang, "verdict.late" if late.wait_ns > 0 else "verdict.late_no_longer", {
        "rank": late.rank, "kind": say(lang, f"verdict.kinds_{late.kind}"),
        "own": signed(late.own_ns), "wait": signed(late.wait_ns),
    })  # fmt: skip


def settles(said: Verdict, lang: str) -> Iterator[str]:
    """What would settle it, if anything is left to settle."""
    if said.settles is not None and said.settles.n is None:
        yield say(lang, "verdict.settles_never", {"most": f"{MOST_PAIRS:,}"})
    elif said.settles is not None:
        key = f"verdict.settles_{said.method}"
        yield say(lang, key if i18n.known(key) else "verdict.settles_pairs", {"n": said.settles.n})


def lines(found: Compared, halves: tuple[Half, Half], lang: str, most: int, asked: Asked) -> Iterator[str]:
    """Everything for people."""
    yield click.style(answer(found, lang), bold=True, fg=_COLOURS[found.verdict.said])
    yield from (f"  {text}" for text in reasons(found, lang, asked))
    yield ""
    yield from (f"  {_scope(half, lang)}" for half in halves)
    yield from (f"  ◐ {one.text}" for one in warnings(found, halves, lang))
    yield ""
    yield click.style(say(lang, "verdict.made_of"), bold=True)
    yield from _table(found, lang, most)
    commands = scripts(found, _first(halves), most)
    if commands:
        yield ""
        yield say(lang, "verdict.replay")
        yield from (f"  {text}" for text in commands)


def _first(halves: tuple[Half, Half]) -> tuple[str, str]:
    """The first run of each side: scripts are made of it."""
    base, head = ids(halves)
    return base[0], head[0]


def scripts(found: Compared, runs: tuple[str, str], most: int) -> tuple[str, ...]:
    """The commands that write the scripts of the kernels that changed most; those that changed alike in their order."""
    moved = [one for one in found.change.contributions if one.delta_ns][:most]
    kernels = [part for one in moved for part in ([part for part in one.parts if part.delta_ns][:most] or [one])]
    return tuple(dict.fromkeys(text for one in kernels if (text := replayed(one, runs)) is not None))


def replayed(one: Contribution, runs: tuple[str, str]) -> str | None:
    """The command that writes the script of a changed kernel: of head, of base where head has it no more.

    None where shapes of it were not recorded: it could not be called again."""
    names = (one.members.base if one.state == "gone" else one.members.head) if one.members is not None else (one.what,)
    if one.kind != "kernel" or one.factor is not None or len(names) != 1:
        return None
    shapes = one.shapes or one.asked
    if SAYS.search(shapes) is None:
        return None
    if not f"{names[0]}{shapes}".isprintable():  # it would act on the terminal that it is pasted into
        return None
    run = runs[0 if one.state == "gone" else 1]
    return shlex.join(["npulens", "replay", run[:_RUN], names[0], "--shapes", shapes, "-o", "op.py"])


def _scope(half: Half, lang: str) -> str:
    sides = [one.side for one in half.runs]
    key = "verdict.scope_runs" if len(sides) > 1 else "verdict.scope_whole" if sides[0].whole else "verdict.scope"
    return say(lang, key, {
        "side": wording.plain(half.name), "runs": len(sides), "n": sum(len(side.steps) for side in sides),
        "ranks": i18n.ranges(rank for side in sides for rank in side.ranks),
    })  # fmt: skip


def _table(found: Compared, lang: str, most: int) -> Iterator[str]:
    """The largest contributions with their bars, the others together, and the residual."""
    change = found.change
    moved = [one for one in change.contributions if one.delta_ns]
    shown, others = moved[:most], moved[most:]
    longest = max([1, *(abs(one.delta_ns) for one in shown)])
    for one in shown:
        yield _row(one, called(one, lang, change.mhz), longest)
        parts = [part for part in one.parts if part.delta_ns]
        yield from (_row(part, "  " + called(part, lang), longest) for part in parts[:most])
        if rest := parts[most:]:
            yield _sum(sum(part.delta_ns for part in rest), "  " + say(lang, "verdict.others", {"n": len(rest)}))
    if others:
        yield _sum(sum(one.delta_ns for one in others), say(lang, "verdict.others", {"n": len(others)}))
    yield _sum(change.residual_ns, say(lang, "verdict.residual"))
    yield "  " + say(lang, "verdict.sums", {"delta": f"{change.delta_ns:+,}"})
    if any(one.parts for one in shown):
        yield "  " + say(lang, "verdict.parts_within")
    yield "  " + say(lang, "verdict.each_interval" if any(one.interval_ns for one in shown) else "verdict.no_intervals")


def _row(one: Contribution, name: str, longest: int) -> str:
    bar = "█" * max(1, round(_BAR * abs(one.delta_ns) / longest))
    drawn = click.style(f"{bar:<{_BAR}}", fg="red" if one.delta_ns > 0 else "green")
    return f"  {signed(one.delta_ns):>10}  {interval(one):>{_SURE}}  {drawn}  {name}"


def _sum(ns: int, name: str) -> str:
    return f"  {signed(ns):>10}  {'':<{_SURE + 2 + _BAR}}  {name}"


def interval(one: Contribution) -> str:
    """Within which a contribution lies; a dash where too little was repeated to tell."""
    sure = one.interval_ns
    return "-" if sure is None else f"[{signed(sure[0])}, {signed(sure[1])}]"


def called(one: Contribution, lang: str, mhz: tuple[float | None, float | None] = (None, None)) -> str:
    """What a contribution is, in one line."""
    if one.state == "alike":
        return all_alike(one, lang, mhz)
    name = what(one, lang)
    name = name if len(name) <= _WIDEST or one.kind == "gap" else name[: _WIDEST - 1] + "…"
    shapes = wording.plain(one.shapes or one.dtypes)
    state = say(lang, f"verdict.state_{one.state}", {
        "base": f"{one.base_count:.4g}", "head": f"{one.head_count:.4g}",
    }) if one.state in ("new", "gone", "count") and one.kind != "gap" else ""  # fmt: skip
    parts = [say(lang, f"verdict.kind_{one.kind}"), name, shapes[:_WIDEST], before(one, lang) or state,
             *hidden(one, lang)]  # fmt: skip
    return " · ".join(part for part in parts if part)


def all_alike(one: Contribution, lang: str, mhz: tuple[float | None, float | None]) -> str:
    """That all kernels changed by one factor, and the clock of both sides where it was recorded."""
    text = say(lang, "verdict.kernels_alike_by", {"share": percent(one.factor), "n": len(one.parts)})
    if mhz[0] is None or mhz[1] is None:
        return f"{text} · " + say(lang, "verdict.clock_unknown")
    return f"{text} · " + say(lang, "verdict.clock", {"base": f"{mhz[0]:,.0f}", "head": f"{mhz[1]:,.0f}"})


def before(one: Contribution, lang: str) -> str:
    """What a kernel was called, or which kernels were fused or split."""
    if one.members is None:
        return ""
    names = names_of(one.members.base)
    return say(lang, f"verdict.mark_{one.state}", {"before": names if len(names) <= _LISTED else
                                                  names[: _LISTED - 1] + "…"})  # fmt: skip


def hidden(one: Contribution, lang: str) -> Iterator[str]:
    """Of copies and communication: another kind of memory, and that they are hidden less, or more, than before."""
    if one.repinned:
        yield say(lang, f"verdict.now_{one.repinned}")
    if one.whole_ns is not None and one.uncovered:
        base, head = one.whole_ns
        yield say(lang, "verdict.hidden", {
            "base": i18n.duration(base), "head": i18n.duration(head),
            "base_hidden": i18n.duration(max(0, base - one.base_ns)),
            "head_hidden": i18n.duration(max(0, head - one.head_ns)),
        })  # fmt: skip


def names_of(names: Sequence[str]) -> str:
    """Kernels in the order in which they run."""
    return " + ".join(short(wording.plain(name)) for name in names)


def what(one: Contribution, lang: str) -> str:
    """The name of its thing; causes and directions in words."""
    causes = {**CAUSES, **GAP_ONLY}
    if one.bare and one.what == "launch_overhead":
        return f"{one.what}: {say(lang, 'verdict.launching')}"
    if one.kind == "gap" and one.what in causes:
        return f"{one.what}: {wording.of(lang, causes[one.what])}"
    if one.factor is not None:
        return say(lang, "verdict.kernels_alike_share", {"share": percent(one.factor)})
    if one.kind in ("gap", "copy") and i18n.known(f"verdict.{one.what}"):
        return say(lang, f"verdict.{one.what}")
    return short(wording.plain(one.what)) if one.members is None else names_of(one.members.head)


def short(name: str) -> str:
    """A C++ name without what every name of its kind has: return type, outer namespaces, parameters."""
    name = re.sub(r"\(anonymous namespace\)::|\bat::native::|^void ", "", name)
    return re.sub(r"(?<=[>\w])\([^()]*\)(?:::\w+)?$", "", name)


def signed(ns: float) -> str:
    """A change with its sign: +27.6 ms, −0.4 µs."""
    whole = round(ns)
    return f"{'+' if whole > 0 else '−' if whole < 0 else '±'}{i18n.duration(abs(whole))}"


def percent(share: float | None) -> str:
    """A change as a share with its sign: +2.3 %."""
    return "–" if share is None else f"{100 * share:+.3g} %".replace("-", "−")


#: So many names are in a sentence, and how many more there are.
_NAMED = 4


def unlike(found: compare.Note, lang: str) -> str:
    """What makes two sides of a comparison unlike; its values may be names from the capture."""
    comma = say(lang, "shell.comma")

    def spoken(name: str, value: object) -> str:
        if isinstance(value, tuple) and value and all(isinstance(each, int) for each in value):
            return i18n.ranges(value)
        if isinstance(value, tuple):
            part = {"tables": "recorded.table", "parts": "breakdown"}.get(name)
            known = [wording.text_of(lang, f"{part}{'_' if name == 'tables' else '.'}{each}" if part else
                             f"shell.format_{each}", wording.plain(str(each))) for each in value]  # fmt: skip
            if len(known) > _NAMED + 1:
                known[_NAMED:] = [say(lang, "compare.more", {"n": len(known) - _NAMED})]
            return comma.join(known) or say(lang, "compare.none")
        return say(lang, "compare.none") if value is None else wording.plain(str(value))

    return say(lang, f"compare.note_{found.key}", {name: spoken(name, value) for name, value in found.values})
