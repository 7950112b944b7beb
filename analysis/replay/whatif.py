"""Replays the run with a change: what a fix would give back of the whole run.

Everything that does not change takes as long as it was recorded to take, and waits for the same
things (analysis/replay/graph.py). Uncaptured peers are either as they were, or - where a change touches
every captured rank, so that it is the job's and not one rank's - keep their distance to them; the
kinder of the two counts, because a saving is a ceiling.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.finding import Change
from npulens.analysis.intervals import Ints
from npulens.analysis.replay.draft import MIRROR, PEER
from npulens.analysis.replay.edit import Edit
from npulens.analysis.replay.graph import Graph, graph
from npulens.analysis.run import Run

_native: Any = None
if not os.environ.get("NPULENS_PLAIN"):
    with suppress(ImportError):  # built without a compiler
        _native = import_module("npulens.analysis.replay._maxplus")


def solve(first: Ints, source: NDArray[np.int32], lag: Ints, rest: Ints) -> Ints:
    """The time of every node."""
    time = np.empty(len(rest), np.int64)
    if _native is not None:
        _native.solve(*(np.ascontiguousarray(part) for part in (first, source, lag, rest)), time)
    else:
        plain(first, source, lag, rest, time)
    return time


def plain(first: Ints, source: NDArray[np.int32], lag: Ints, rest: Ints, time: Ints) -> None:
    """The same without a compiler."""
    sources, lags, bounds = source.tolist(), lag.tolist(), first.tolist()
    times: list[int] = []
    if bounds[-1] > len(lags) or len(sources) != len(lags):
        raise ValueError("solve: buffers of unequal length")
    for i, more in enumerate(rest.tolist()):
        begin, end = bounds[i], bounds[i + 1]
        if any(not 0 <= sources[e] < i for e in range(begin, end)):
            raise ValueError("solve: an edge does not lead forward")
        times.append(max((times[sources[e]] + lags[e] for e in range(begin, end)), default=0) + more)
    time[:] = times


@dataclass(frozen=True)
class Replay:
    """The run with a change."""

    time: Ints  # of every node of the graph
    lag: Ints  # of every edge
    rest: Ints
    wall_ns: int


def saved_ns(run: Run, change: Change) -> int:
    """How much shorter the run's wall would be; never negative, and 0 for no change.

    Never more than what the device did not compute in, of the rank that has most, and what of its work the change
    shortens: nothing else can be given back.
    """
    found = replay(run, change)
    if found is None:
        return 0
    return min(max(0, run.get(graph).wall_ns(run.get(graph).settled.time) - found.wall_ns), _removable(run, change))


def replayed(run: Run, change: Change) -> Ints | None:
    """When everything happens with the change; None: it changes nothing."""
    found = replay(run, change)
    return None if found is None else found.time


def replay(run: Run, change: Change) -> Replay | None:
    """The run with the change, the better for it of what absent peers may do; None: it changes nothing."""
    found = run.get(graph)
    edit = Edit(run, found)
    touched = edit.apply(change)
    if not edit.changed:
        return None
    return min(_replays(found, edit, touched >= set(run.ranks)), key=lambda one: one.wall_ns)


def _replays(found: Graph, edit: Edit, whole: bool) -> Iterator[Replay]:
    """The run with the change: with peers as they were, and keeping their distance if the whole job changes."""
    settled = found.settled
    mirrors, chained = (np.flatnonzero(settled.kind == kind) for kind in (MIRROR, PEER))
    for dropped in (mirrors, chained) if whole and len(mirrors) else (mirrors,):
        lag = edit.lag.copy()
        # A peer that came without a collective before has nothing but its distance.
        lag[dropped[edit.in_edges(edit.target(dropped)) > 1]] = edit.NEVER
        time = solve(settled.first, settled.source, lag, edit.rest)
        yield Replay(time, lag, edit.rest, found.wall_ns(time))


def _removable(run: Run, change: Change) -> int:
    """The most that a change can give back: idle time, exposed communication and copies, and the work it shortens."""
    most, shortened = 0, run.get(_lengths).shortened(change)
    for rank in run.ranks:
        window = run.window(rank)
        if window is None:
            continue
        computing = run.activity(rank).surely_computing
        begin, end = (np.array([moment], np.int64) for moment in window)
        bare = window[1] - window[0] - int(computing.within(begin, end)[0])
        cut = change.cut[rank].total() if rank in change.cut else 0
        most = max(most, bare + cut + shortened.get(rank, 0))
    return most


@dataclass(frozen=True)
class _Lengths:
    """Whose a device task is."""

    span: Ints
    rank: Ints
    length: Ints

    def shortened(self, change: Change) -> dict[int, int]:
        """By how much a change shortens the tasks of each rank, together."""
        if not len(self.span) or not len(change.tasks):
            return {}
        at = np.minimum(np.searchsorted(self.span, change.tasks), len(self.span) - 1)
        known = self.span[at] == change.tasks
        at, ns = at[known], change.task_ns[known]
        ranks, which = np.unique(self.rank[at], return_inverse=True)
        total = np.bincount(which, np.minimum(ns, self.length[at]), len(ranks))
        return {int(rank): int(ns) for rank, ns in zip(ranks, total, strict=True)}


def _lengths(run: Run) -> _Lengths:
    rows = run.columns(
        "SELECT span_id, rank, dur_ns FROM span WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op') "
        "ORDER BY span_id"
    )
    return _Lengths(*(np.asarray(rows[name]).astype(np.int64) for name in ("span_id", "rank", "dur_ns")))
