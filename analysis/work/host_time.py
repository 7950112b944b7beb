"""Which operators have the time of a job that no device but the CPU worked for.

Where work of a device is missing although the runtime library was called, its calls are told with the operators.

An operator's own time is when it runs and none that it called does: thread by thread, so no moment counts twice there.
The own times of all operators add up to the time that operators ran, to the nanosecond. Operators of several threads
may run at once; then that is more than the time in which any ran. With steps only what lies in them counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npulens.analysis.device.family import family
from npulens.analysis.idle.culprit import codes
from npulens.analysis.idle.host_names import HOST_KINDS
from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans, hosts
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run

#: Operators that are told; the others are told together.
SHOWN = 3
_DEVICES = "('kernel', 'memset', 'memcpy', 'comm_op', 'unknown', 'device_other')"
#: What is told: operators, and calls of the runtime library.
_CALLS = [OPERATOR, HOST_KINDS.index("runtime")]
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

    def as_dict(self) -> dict[str, Any]:
        return {
            "whole_ns": self.whole_ns, "ran_ns": self.ran_ns, "own_ns": self.own_ns,
            "operators": [vars(one) for one in self.most], "others": self.others, "others_ns": self.others_ns,
            "runtime_calls": self.called,
        }  # fmt: skip


def host_time(run: Run) -> HostTime | None:
    """None where a device beside the CPU worked, or no operator was recorded."""
    if run.get(family) != "cpu" and run.con.execute(
        f"SELECT 1 FROM span WHERE kind IN {_DEVICES} LIMIT 1"
    ).fetchall():  # fmt: skip
        return None
    ids, own, ranks = [], [], []
    whole = ran = 0
    for rank in run.ranks:
        spans = run.get(hosts).spans(rank)
        window = _window(run, rank, spans)
        if window is None:
            continue
        operators = _operators(spans)
        mine, covered = _own(operators, *window)
        called = np.flatnonzero((operators.ends > window[0]) & (operators.starts < window[1]))
        ids.append(operators.ids[called])
        own.append(mine[called])
        ranks.append(np.full(len(called), rank))
        whole, ran = whole + window[1] - window[0], ran + covered
    if not ran:
        return None
    return _summed(run, np.concatenate(ids), np.concatenate(own), np.concatenate(ranks), (whole, ran))


def _window(run: Run, rank: int, spans: HostSpans) -> tuple[int, int] | None:
    """The rank's steps; without them from the first to the last that the job's host did."""
    if run.steps[rank]:
        return run.window(rank)
    mine = np.isin(spans.kinds, _OF_THE_JOB)
    return (int(spans.starts[mine].min()), int(spans.ends[mine].max())) if mine.any() else None


def _own(operators: HostSpans, begin: int, end: int) -> tuple[Ints, int]:
    """Per operator its own time, and how long any ran."""
    found, ran = np.zeros(len(operators.ids), np.int64), Intervals.union_of(operators.starts[:0], operators.ends[:0])
    for track in np.unique(operators.tracks).tolist():
        mine = operators.tracks == track
        edges = np.unique(np.clip(np.concatenate((operators.starts[mine], operators.ends[mine])), begin, end))
        at = operators.innermost(track, edges[:-1])
        runs = np.flatnonzero(at != NONE)
        np.add.at(found, at[runs], np.diff(edges)[runs])
        ran = ran | Intervals.union_of(edges[:-1][runs], edges[1:][runs])
    return found, ran.total()


def _operators(spans: HostSpans) -> HostSpans:
    """Operators and calls alone: the parent of each is the one that called it."""
    mine = np.flatnonzero(np.isin(spans.kinds, _CALLS))
    parent = spans.parent[mine]
    while (others := (parent != NONE) & ~np.isin(spans.kinds[parent], _CALLS)).any():
        parent[others] = spans.parent[parent[others]]
    place = np.full(len(spans.ids) + 1, NONE, np.int32)  # the last is where NONE points
    place[mine] = np.arange(len(mine))
    return HostSpans(
        spans.ids[mine], spans.tracks[mine], spans.starts[mine], spans.ends[mine], place[parent], spans.kinds[mine]
    )


def _summed(run: Run, ids: Ints, own: Ints, ranks: Ints, time: tuple[int, int]) -> HostTime:
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
    return HostTime(*time, int(own.sum()), tuple(most), len(rest), int(spent[rest].sum()), called)
