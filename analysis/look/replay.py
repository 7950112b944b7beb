"""One operator of a run by its name: the call to make again, its times, and what the capture shows beside it.

Beside it means what may make an operator slower in a job than alone. It is a conversion right before it, or other work
of the device at the same time. It is also a first call, or a clock below its rating. Each is found, not there, or not
recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np

from npulens.analysis import views
from npulens.analysis.device.conversion import conversion
from npulens.analysis.device.family import family
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import NO_HOST, Kernels, kernels
from npulens.analysis.device.tensors import spoken
from npulens.analysis.idle.first_use import first_use
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.run import Run
from npulens.analysis.work.operators import Operator, operators
from npulens.analysis.work.replay import Recorded, Refused, recorded

#: Told only where so much of its calls or of its time is concerned.
OFTEN, OVERLAPPED = 0.5, 0.1
#: A call is beside other work with so much of its time, alone with no more than this (as the detector of contention).
BESIDE, ALONE = 0.5, 0.05
#: The first call, and the slowest, count as slower from here on.
SLOWER = 1.5
#: Fewer calls than this have no usual time.
ENOUGH = 3
_NUMBER = re.compile(r"^(.*)#(\d{1,6})$", re.DOTALL)


@dataclass(frozen=True)
class Choice:
    """One operator that a name can mean; `number` is its place among them, longest first."""

    number: int
    operator: str
    shapes: str | None
    types: str | None
    given: str | None
    kernel: str
    calls: int
    ns: int
    reason: str | None  # why its call cannot be made again


@dataclass(frozen=True)
class Beside:
    """Something that can make an operator slower in its job. `state` is 'found', 'no' or 'not_measured'."""

    name: str  # 'conversion', 'inside', 'contention', 'first', 'first_use', 'clock', 'spread'
    state: str
    values: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Times:
    """Of the calls in the capture: the time of each call's kernels on the device."""

    calls: int
    min_ns: int
    median_ns: int
    max_ns: int
    first_ns: int
    kernels: float  # of a call


@dataclass(frozen=True)
class Replay:
    """The operator that was meant."""

    run_id: str
    choice: Choice
    call: Recorded | None  # None: its choice says why
    layouts: int  # how many sets of strides its calls had; the most frequent one counts
    times: Times
    beside: tuple[Beside, ...]
    backend: str
    device: str | None
    flops: int | None
    bytes: int | None

    def as_dict(self) -> dict[str, Any]:
        told = asdict(self)
        told["beside"] = [{"name": one.name, "state": one.state, **dict(one.values)} for one in self.beside]
        return told


@dataclass(frozen=True)
class Meant:
    """What a name means: exactly one operator with its replay, several, or none. `longest` are those of the run."""

    choices: tuple[Choice, ...]
    replay: Replay | None
    longest: tuple[str, ...]


def replay(con: duckdb.DuckDBPyConnection, name: str, shapes: str | None = None) -> Meant:
    """The operator of that name: as `npulens roofline` prints it, or the name of one of its kernels; `name#2`."""
    views.install(con)
    return of_run(Run.of(con), name, shapes)


def of_run(run: Run, name: str, shapes: str | None = None) -> Meant:
    every = run.get(operators).every
    places = _named(run, name)
    number = None
    if not places and (told := _NUMBER.match(name)) is not None:
        places, number = _named(run, told[1]), int(told[2])
    places = sorted(places, key=lambda at: -every[at].ns)
    choices = [_choice(run, at, place) for place, at in enumerate(places, 1)]
    if shapes is not None:
        wanted = _squeezed(spoken(shapes))
        kept = [at for at, one in enumerate(choices) if wanted in (_squeezed(one.shapes), str(one.number))]
    else:
        kept = [at for at, one in enumerate(choices) if number in (None, one.number)]
    if len(kept) == 1:
        found = _replay(run, places[kept[0]], choices[kept[0]])
        return Meant((choices[kept[0]],), found, ())
    longest = sorted(every, key=lambda one: -one.ns)
    names = dict.fromkeys(one.name.removeprefix("aten::") for one in longest)
    return Meant(tuple(choices[at] for at in kept) or tuple(choices), None, tuple(names)[:8])


def _squeezed(shapes: str | None) -> str:
    return re.sub(r"\s", "", shapes or "")


def _named(run: Run, name: str) -> list[int]:
    """The operators of that name; where there are none, those that have a kernel of that name."""
    found, every = run.get(operators), run.get(kernels)
    plain = name.removeprefix("aten::")
    places = [at for at, one in enumerate(found.every) if plain == one.name.removeprefix("aten::")]
    if places:
        return places
    wanted = every.of(name in (kind.name, kind.type, kind.op) for kind in every.kinds)
    return sorted(set(found.of[wanted].tolist()))


def _choice(run: Run, at: int, number: int) -> Choice:
    one = run.get(operators).every[at]
    try:
        recorded(one.kind, one.given, None)
        reason = None
    except Refused as refused:
        blind = refused.reason == "no_operator" and run.get(family) == "npu"
        reason = "no_shapes" if blind else refused.reason
    kind = one.kind
    return Choice(
        number, one.name, spoken(kind.input_shapes), kind.input_dtypes, one.given, kind.name, one.calls, one.ns, reason
    )


def _replay(run: Run, at: int, choice: Choice) -> Replay:
    one, every = run.get(operators).every[at], run.get(kernels)
    rows = np.flatnonzero(run.get(operators).of == at)
    strides, layouts = _strides(run, every, rows)
    call = None if choice.reason is not None else recorded(one.kind, one.given, strides)
    durations, begins = _calls(one, every, rows)
    return Replay(
        run.run_id, choice, call, layouts, _times(durations, len(rows)),
        _beside(run, one, rows, durations, begins), run.get(family), _device(run, every, rows, one),
        one.work.flops if one.work.flops is not None else one.work.matrix, one.work.bytes,
    )  # fmt: skip


def _device(run: Run, every: Kernels, rows: Ints, one: Operator) -> str | None:
    """The name as the capture tells it, or what is known to be behind it."""
    rank = int(every.rank[rows[0]])
    told = run.con.execute("SELECT device_name FROM rank WHERE rank = ?", [rank]).fetchall()
    return told[0][0] if told and told[0][0] else one.device


def _strides(run: Run, every: Kernels, rows: Ints) -> tuple[str | None, int]:
    """How its tensors lay in memory most often, as Kineto writes it, and in how many ways."""
    hosts = np.unique(every.host[rows])
    found = run.con.execute(
        """SELECT json_extract(args, '$."Input Strides"')::VARCHAR AS strides, count(*) AS n
        FROM arg SEMI JOIN (SELECT unnest(?) AS span_id) chosen USING (span_id)
        WHERE json_valid(args) AND contains(args, '"Input Strides"') GROUP BY 1 ORDER BY n DESC, strides""",
        [[int(one) for one in hosts if one != NO_HOST]],
    ).fetchall()
    return (found[0][0], len(found)) if found else (None, 0)


def _calls(one: Operator, every: Kernels, rows: Ints) -> tuple[Ints, Ints]:
    """Of each call, in the order of their beginnings: the time of its kernels, and the row of its first kernel."""
    hosted = one.kind.op_type is None and one.kind.op is not None
    call = np.where(hosted & (every.host[rows] != NO_HOST), every.host[rows], -every.span_id[rows] - 2)
    order = np.lexsort((every.ts[rows], call))
    new = np.ones(len(rows), np.bool_)
    new[1:] = call[order][1:] != call[order][:-1]
    ns = np.zeros(int(new.sum()), np.int64)
    np.add.at(ns, np.cumsum(new) - 1, every.dur[rows][order])
    begins = rows[order][new]
    when = np.argsort(every.ts[begins], kind="stable")
    return ns[when], begins[when]


def _times(durations: Ints, count: int) -> Times:
    ordered = np.sort(durations)
    return Times(
        len(ordered), int(ordered[0]), int(ordered[(len(ordered) - 1) // 2]), int(ordered[-1]), int(durations[0]),
        count / len(ordered),
    )  # fmt: skip


# ---- What may make it slower in its job


def _beside(run: Run, one: Operator, rows: Ints, durations: Ints, begins: Ints) -> tuple[Beside, ...]:
    every = run.get(kernels)
    return (
        _conversion(every, begins), _inside(every, one, rows), _contention(run, every, rows, durations, begins),
        _first(durations), _first_use(run, every, begins), _clock(run, every, rows), _spread(durations),
    )  # fmt: skip


def _conversion(every: Kernels, begins: Ints) -> Beside:
    """A kernel that only converts, right before the call on its stream."""
    before = begins[begins > 0] - 1
    after = before + 1
    there = (every.rank[before] == every.rank[after]) & (every.track[before] == every.track[after])
    converts = [conversion(kind) for kind in every.kinds]
    hit = before[there & every.of(name is not None for name in converts)[before]]
    if len(hit) < OFTEN * len(begins):
        return Beside("conversion", "no")
    most = int(every.kind[hit][np.argmax(np.bincount(every.kind[hit])[every.kind[hit]])])
    return Beside("conversion", "found", (
        ("conversion", converts[most]), ("kernel", every.kinds[most].type), ("calls", len(hit)), ("of", len(begins)),
        ("each_ns", int(every.dur[hit].sum()) // len(hit)),
    ))  # fmt: skip


def _inside(every: Kernels, one: Operator, rows: Ints) -> Beside:
    """Kernels of the call itself that only convert."""
    if one.kernels == one.calls:
        return Beside("inside", "no")
    mine = rows[every.of(conversion(kind) is not None for kind in every.kinds)[rows]]
    spent, whole = int(every.dur[mine].sum()), int(every.dur[rows].sum())
    if not whole or spent < OVERLAPPED * whole or spent == whole:
        return Beside("inside", "no")
    name = every.kinds[int(every.kind[mine[np.argmax(every.dur[mine])]])].type
    return Beside("inside", "found", (("kernel", name), ("share", spent / whole)))


def _contention(run: Run, every: Kernels, rows: Ints, durations: Ints, begins: Ints) -> Beside:
    """Other streams of its device at work meanwhile: kernels, transfers, copies."""
    shared = np.zeros(len(rows))
    for rank in np.unique(every.rank[rows]).tolist():
        activity, mine = run.activity(rank), np.flatnonzero(every.rank[rows] == rank)
        for track in np.unique(every.track[rows[mine]]).tolist():
            here = mine[every.track[rows[mine]] == track]
            others = np.flatnonzero((every.rank == rank) & (every.track != track))
            busy = Intervals.union_of(every.ts[others], every.end[others]) if len(others) else EMPTY
            for part in (activity.communication, activity.copy):
                busy = busy if part is None else busy | part
            at = rows[here]
            shared[here] = busy.within(every.ts[at], every.end[at]) / np.maximum(1, every.dur[at])
    whole = int(every.dur[rows].sum())
    share = float((shared * every.dur[rows]).sum() / whole) if whole else 0.0
    if share < OVERLAPPED:
        return Beside("contention", "no")
    by_row = dict(zip(rows.tolist(), shared.tolist(), strict=True))
    of_call = np.array([by_row[row] for row in begins.tolist()])
    told: tuple[tuple[str, Any], ...] = (("share", share),)
    slow, alone = durations[of_call >= BESIDE], durations[of_call <= ALONE]
    if min(len(slow), len(alone)) >= ENOUGH:
        told = (*told, ("beside_ns", int(np.median(slow))), ("alone_ns", int(np.median(alone))))
    return Beside("contention", "found", told)


def _first(durations: Ints) -> Beside:
    if len(durations) < ENOUGH + 1:
        return Beside("first", "not_measured", (("calls", len(durations)),))
    later = int(np.median(durations[1:]))
    state = "found" if durations[0] >= SLOWER * max(1, later) else "no"
    return Beside("first", state, (("first_ns", int(durations[0])), ("later_ns", later)))


def _first_use(run: Run, every: Kernels, begins: Ints) -> Beside:
    """Whether the host took a call of it as first use of the operator or its library."""
    hosts = set(every.host[begins].tolist()) - {NO_HOST}
    if not hosts:
        return Beside("first_use", "not_measured")
    took = sum(
        int(end - begin)
        for one in run.get(first_use).values()
        for begin, end, span in zip(one.starts.tolist(), one.ends.tolist(), one.ids.tolist(), strict=True)
        if span in hosts
    )  # fmt: skip
    return Beside("first_use", "found" if took else "no", (("ns", took),) if took else ())


def _clock(run: Run, every: Kernels, rows: Ints) -> Beside:
    measured = run.con.execute(
        "SELECT count(*) FROM sample WHERE counter ILIKE '%core freq%' AND value > 0"
    ).fetchall()[0][0]  # fmt: skip
    if not measured:
        return Beside("clock", "not_measured")
    share = float(np.average(run.get(clocked).share[rows], weights=np.maximum(1, every.dur[rows])))
    return Beside("clock", "found" if share < 1 else "no", (("share", share),))


def _spread(durations: Ints) -> Beside:
    """Calls that take much longer than the usual one."""
    if len(durations) < ENOUGH:
        return Beside("spread", "not_measured", (("calls", len(durations)),))
    usual = float(np.median(durations))
    slow = int((durations >= SLOWER * usual).sum())
    told = (("calls", slow), ("of", len(durations)), ("usual_ns", int(usual)))
    return Beside("spread", "found" if slow else "no", told)


def words_of(meant: Sequence[Beside]) -> tuple[tuple[Beside, ...], tuple[Beside, ...], tuple[Beside, ...]]:
    """What was found, what was looked for and is not there, and what was not recorded."""
    return (
        tuple(one for one in meant if one.state == "found"), tuple(one for one in meant if one.state == "no"),
        tuple(one for one in meant if one.state == "not_measured"),
    )  # fmt: skip
