"""Which operators have the time of a job that no device but the CPU worked for.

Where work of a device is missing although the runtime library was called, its calls are told with the operators. An
operator in none of whose calls such a call was recorded worked on the host, whatever became of the device's records.

An operator's own time is when it runs and none that it called does: thread by thread, so no moment counts twice there.
The own times of all operators add up to the time that operators ran, to the nanosecond. Operators of several threads
may run at once; then that is more than the time in which any ran. With steps only what lies in them counts.

A send or receive of Gloo is recorded on the thread that began it, until it has arrived. What the thread does meanwhile
is none of its calls: it counts with all of its length, as on a thread of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npulens.analysis.device.family import family
from npulens.analysis.device.host_alone import ALONE, UNKNOWN, Calls, Drawn, drawn, launched, within
from npulens.analysis.idle.culprit import codes
from npulens.analysis.idle.host_names import HOST_KINDS, special
from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans, hosts
from npulens.analysis.intervals import EMPTY, Intervals, Ints, distinct
from npulens.analysis.run import Run

#: Operators that are told; the others are told together.
SHOWN = 3
_DEVICES = "('kernel', 'memset', 'memcpy', 'comm_op', 'unknown', 'device_other')"
#: What is told: operators, and calls of the runtime library.
_CALLS = [OPERATOR, HOST_KINDS.index("runtime")]
_GLOO = "SELECT span_id FROM span WHERE kind = 'cpu_op' AND name LIKE 'gloo:%' ORDER BY 1"
#: Marks of the profiler itself tell nothing of how long the job was recorded.
_OF_THE_JOB = [HOST_KINDS.index(kind) for kind in HOST_KINDS if kind not in ("host_other", "gc")]


@dataclass(frozen=True)
class Spent:
    """One operator, by its name."""

    name: str
    own_ns: int
    calls: int
    code: str | None  # where its longest call came from; None where that was not recorded


@dataclass(frozen=True)
class HostTime:
    """The time of the operators, all ranks together."""

    whole_ns: int  # of the steps, or all that was recorded
    ran_ns: int  # of that, while any operator ran
    own_ns: int  # the operators' own times: more than that where threads run at once
    most: tuple[Spent, ...]  # the largest first
    others: int  # operators that are not among them
    others_ns: int
    called: bool  # whether calls of the runtime library are among them
    alone: frozenset[str] = frozenset()  # of the largest those within which no call of the runtime library was recorded
    launch: str | None = None  # the call that gave a device work most often, where none of that work was recorded
    asked: bool = False  # whether the profiler was asked for a device's work
    drawn: Drawn | None = None  # of a job whose device is not the CPU
    loads_ns: int = 0  # of such a job: in its data loader, with the operators that it calls

    def as_dict(self) -> dict[str, Any]:
        return {
            "whole_ns": self.whole_ns, "ran_ns": self.ran_ns, "own_ns": self.own_ns,
            "operators": [vars(one) for one in self.most], "others": self.others, "others_ns": self.others_ns,
            "runtime_calls": self.called, "launch": self.launch, "device_asked": self.asked,
            "without_calls": [one.name for one in self.most if one.name in self.alone],
            "drawn": None if self.drawn is None else vars(self.drawn), "data_loader_ns": self.loads_ns,
        }  # fmt: skip


def host_time(run: Run) -> HostTime | None:
    """None where a device beside the CPU worked, or no operator was recorded."""
    if run.get(family) != "cpu" and _worked(run):
        return None
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    gloo = run.columns(_GLOO)["span_id"].astype(np.int64)
    windows: dict[int, tuple[int, int]] = {}
    ran = 0
    for rank in run.ranks:
        spans = run.get(hosts).spans(rank)
        window = _window(run, rank, spans)
        if window is None:
            continue
        windows[rank] = window
        operators = _operators(spans, gloo)
        mine, covered = _own(operators, *window)
        called = np.flatnonzero((operators.ends > window[0]) & (operators.starts < window[1]))
        parts.append((operators.ids[called], mine[called], np.full(len(called), rank), within(operators)[called]))
        beside = np.isin(spans.ids, gloo) & (spans.ends > window[0]) & (spans.starts < window[1])
        starts, ends = np.clip(spans.starts[beside], *window), np.clip(spans.ends[beside], *window)
        alike = [np.full(len(starts), value, np.int64) for value in (rank, UNKNOWN)]
        parts.append((spans.ids[beside], ends - starts, alike[0], alike[1]))
        ran += (covered | Intervals.union_of(starts, ends)).total()
    if not ran:
        return None
    ids, own, ranks, states = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _summed(run, ids, own, ranks, states, windows, ran)


def _worked(run: Run) -> bool:
    return bool(run.con.execute(f"SELECT 1 FROM span WHERE kind IN {_DEVICES} LIMIT 1").fetchall())


def _window(run: Run, rank: int, spans: HostSpans) -> tuple[int, int] | None:
    """The rank's steps; without them from the first to the last that the job's host did."""
    if run.steps[rank]:
        return run.window(rank)
    mine = np.isin(spans.kinds, _OF_THE_JOB)
    return (int(spans.starts[mine].min()), int(spans.ends[mine].max())) if mine.any() else None


def _own(operators: HostSpans, begin: int, end: int) -> tuple[Ints, Intervals]:
    """Per operator its own time, and when any ran."""
    found, ran = np.zeros(len(operators.ids), np.int64), Intervals.union_of(operators.starts[:0], operators.ends[:0])
    for track in np.unique(operators.tracks).tolist():
        mine = operators.tracks == track
        edges = distinct(np.clip(np.concatenate((operators.starts[mine], operators.ends[mine])), begin, end))
        at = operators.innermost(track, edges[:-1])
        runs = np.flatnonzero(at != NONE)
        np.add.at(found, at[runs], np.diff(edges)[runs])
        ran = ran | Intervals.union_of(edges[:-1][runs], edges[1:][runs])
    return found, ran


def _operators(spans: HostSpans, gloo: Ints) -> HostSpans:
    """Operators and calls alone, without what Gloo moves: the parent of each is the one that called it."""
    calls = np.isin(spans.kinds, _CALLS) & ~np.isin(spans.ids, gloo)
    mine = np.flatnonzero(calls)
    parent = spans.parent[mine]
    while (others := (parent != NONE) & ~calls[parent]).any():
        parent[others] = spans.parent[parent[others]]
    place = np.full(len(spans.ids) + 1, NONE, np.int32)  # the last is where NONE points
    place[mine] = np.arange(len(mine))
    return HostSpans(
        spans.ids[mine], spans.tracks[mine], spans.starts[mine], spans.ends[mine], place[parent], spans.kinds[mine]
    )


def _summed(
    run: Run, ids: Ints, own: Ints, ranks: Ints, states: Ints, windows: dict[int, tuple[int, int]], ran: int
) -> HostTime:  # fmt: skip
    """By name."""
    rows = run.columns(
        "SELECT span_id, name, ts_ns, kind = 'runtime' AS called FROM span "
        "WHERE kind IN ('cpu_op', 'runtime') ORDER BY span_id"
    )
    place = np.searchsorted(rows["span_id"].astype(np.int64), ids)
    names, which, calls = np.unique(rows["name"][place].astype(str), return_inverse=True, return_counts=True)
    spent = np.zeros(len(names), np.int64)
    np.add.at(spent, which, own)
    order = np.argsort(-spent, kind="stable")
    most = []
    for one in order[:SHOWN].tolist():
        longest = int(np.argmax(np.where(which == one, own, -1)))
        began = rows["ts_ns"][place[longest]].astype(np.int64)
        code = codes(run, int(ranks[longest]), np.array([began]))[0].frame
        most.append(Spent(str(names[one]), int(spent[one]), int(calls[one]), code))
    rest = order[SHOWN:]
    called = bool(rows["called"][place].any())
    whole = sum(end - begin for begin, end in windows.values())
    told = (whole, ran, int(own.sum()), tuple(most), len(rest), int(spent[rest].sum()), called)
    if _worked(run):  # a CPU's: detectors speak of it
        return HostTime(*told)
    alone = frozenset(str(names[one]) for one in order[:SHOWN].tolist() if (states[which == one] == ALONE).all())
    begins = rows["ts_ns"][place].astype(np.int64)
    drew = drawn(run, Calls(names[which], begins, own, ranks, states, windows))
    loads = sum(_loads(run, rank, window).total() for rank, window in windows.items())
    return HostTime(*told, alone, *launched(run), drew, loads)


def _loads(run: Run, rank: int, window: tuple[int, int]) -> Intervals:
    """When a rank's threads were in its data loader."""
    known = run.get(special).get(rank)
    if known is None:
        return EMPTY
    mine = known.of("dataloader") & (known.ends > window[0]) & (known.starts < window[1])
    return Intervals.union_of(np.clip(known.starts[mine], *window), np.clip(known.ends[mine], *window))
