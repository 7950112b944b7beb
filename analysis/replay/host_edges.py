"""Where in the graph the time of the hosts is spent, and which of it is the script's own.

All ranks lie on one axis, one behind the other, so that a change on many of them is one question. A moment of a rank,
on its own clock, lies before every moment of the next rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_spans import hosts
from npulens.analysis.intervals import EMPTY, LONGEST, Intervals, Ints, origins
from npulens.analysis.replay.draft import BUSY, GAP, HOST, OWN, QUEUE
from npulens.analysis.replay.graph import Graph, graph
from npulens.analysis.run import Run

#: Where fewer than this share of the ranks is asked for, each is looked at by itself.
_MANY = 0.25
_GROUP = 256  # ranks that are looked at together, which bounds memory


@dataclass(frozen=True)
class HostEdges:
    """The edges that host time is spent on, by rank, and the nodes they lead to."""

    ranks: tuple[int, ...]
    place: Mapping[int, int]  # of each rank with a window
    window: NDArray[np.int64]  # by place: begin and end on the rank's own clock
    origin: Ints  # by place: what leads from the rank's own clock to the axis
    edges: NDArray[np.int32]
    nodes: NDArray[np.int32]
    of: NDArray[np.int32]  # the place of each one's rank
    begin: Ints
    end: Ints
    first: Ints  # a rank's edges are from first[place] to first[place + 1]
    graph: Graph
    _axis: dict[str, Intervals] = field(default_factory=dict)

    def together(self, ranks: list[int]) -> list[list[int]]:
        """Ranks in the order of the axis, in groups that are looked at together."""
        ranks = sorted(ranks, key=lambda rank: self.place[rank])
        if len(ranks) < 2 or (self.origin[1:] == self.origin[:-1]).any() or len(ranks) < _MANY * len(self.ranks):
            return [[rank] for rank in ranks]
        return [ranks[first : first + _GROUP] for first in range(0, len(ranks), _GROUP)]

    def windows(self, ranks: list[int], some: Mapping[int, Intervals]) -> Intervals:
        """What of some windows lies within the windows of their ranks, on the axis."""
        count = np.array([len(some[rank].starts) for rank in ranks], np.int64)
        place = np.repeat([self.place[rank] for rank in ranks], count)
        low, high = self.window[place].T
        starts, ends = (
            np.clip(np.concatenate([getattr(some[rank], side) for rank in ranks]), low, high) + self.origin[place]
            for side in ("starts", "ends")
        )
        keep = ends > starts
        return Intervals(starts[keep], ends[keep])

    def near(self, ranks: list[int], windows: Intervals) -> Ints:
        """The edges of these ranks between the first and the last window of each."""
        if not len(windows.starts):
            return np.zeros(0, np.int64)
        if len(ranks) == 1:
            place = self.place[ranks[0]]
            rows = slice(int(self.first[place]), int(self.first[place + 1]))
            inside = (self.end[rows] > windows.starts[0]) & (self.begin[rows] < windows.ends[-1])
            return np.flatnonzero(inside) + rows.start
        limits = self.window + self.origin[:, None]
        begins = np.searchsorted(windows.ends, limits[:, 0], "right")
        ends = np.searchsorted(windows.starts, limits[:, 1], "left")
        has = ends > begins
        low = np.where(has, windows.starts[np.minimum(begins, len(windows.starts) - 1)], LONGEST)
        high = np.where(has, windows.ends[np.maximum(ends - 1, 0)], -LONGEST)
        return np.flatnonzero((self.end > low[self.of]) & (self.begin < high[self.of]))

    def queued(self, ranks: list[int]) -> Intervals:
        """When the threads of the queues worked."""
        return self._joined("queued", ranks, self.graph.queued)

    def backlog(self, ranks: list[int]) -> Intervals:
        """When the queues were what everything waited for."""
        return self._joined("backlog", ranks, self.graph.backlog)

    def _joined(self, name: str, ranks: list[int], of: Mapping[int, Intervals]) -> Intervals:
        if len(ranks) == 1:
            return self.windows(ranks, of)
        if name not in self._axis:
            every = [rank for rank in self.ranks if rank in self.place]
            self._axis[name] = self.windows(every, of) if every else EMPTY
        return self._axis[name]


def host_edges(run: Run) -> HostEdges:
    """The edges that host time is spent on."""
    found = run.get(graph)
    settled = found.settled
    kind = settled.kind
    target = np.repeat(np.arange(len(settled.rest)), np.diff(settled.first))
    linked = np.append(found.is_linked, False)[settled.rank[target]]
    edges = np.flatnonzero(np.where(linked, np.isin(kind, (HOST, BUSY, OWN, QUEUE)), kind == GAP))
    index = settled.rank[target[edges]]
    by_rank = np.argsort(index, kind="stable")
    by_rank = by_rank[index[by_rank] >= 0]
    edges, index = edges[by_rank], index[by_rank]
    to = target[edges].astype(np.int32)
    begin = settled.time[settled.source[edges]] - found.offsets[index]
    end = settled.time[to] - found.offsets[index]
    windows = [run.window(rank) for rank in found.ranks]
    window = np.array([one or (0, 0) for one in windows], np.int64).reshape(-1, 2)
    origin = origins(len(windows), (begin, end, window))
    if origin is None:
        origin = np.zeros(len(windows), np.int64)
    return HostEdges(
        found.ranks, {rank: place for place, (rank, one) in enumerate(zip(found.ranks, windows, strict=True)) if one},
        window, origin, edges.astype(np.int32), to, index, begin + origin[index], end + origin[index],
        np.searchsorted(index, np.arange(len(windows) + 1)), found,
    )  # fmt: skip


@dataclass(frozen=True)
class _Edges:
    """Edges of one rank's host spans, sorted: of the thread of its queue, and of the others."""

    begins: dict[bool, Ints]
    ends: dict[bool, Ints]


class _Threads:
    """The edges of every rank that was asked for."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: dict[int, _Edges] = {}

    def edges(self, rank: int) -> _Edges:
        if rank not in self._known:
            there = self._run.get(hosts)
            spans, threads = there.spans(rank), there.threads[rank]
            long = spans.ends > spans.starts if threads.queue else np.zeros(len(spans.ids), np.bool_)
            long &= np.isin(spans.tracks, self._run.get(_host_tracks))
            queued = np.isin(spans.tracks, threads.tracks(threads.queue))
            begins, ends = (
                {mine: np.sort(moments[long & (queued == mine)], kind="stable") for mine in (True, False)}
                for moments in (spans.starts, spans.ends)
            )
            self._known[rank] = _Edges(begins, ends)
        return self._known[rank]


def _host_tracks(run: Run) -> Ints:
    """The tracks of threads of the host."""
    found: Ints = run.columns("SELECT track FROM track WHERE kind = 'host_thread'")["track"].astype(np.int64)
    return found


def of_script(run: Run, axis: HostEdges, ranks: list[int], windows: Intervals) -> Intervals:
    """Windows on the axis less those that are the queue's alone."""
    queue = axis.queued(ranks)
    asked = np.flatnonzero(queue.within(windows.starts, windows.ends) == windows.ends - windows.starts)
    if not len(queue.starts) or not len(asked):
        return windows
    votes = _votes(run, axis, ranks, windows.starts[asked], windows.ends[asked])

    def those(of: Ints) -> Intervals:
        return Intervals(windows.starts[of], windows.ends[of])

    return windows - those(asked[votes > 0]) - (those(asked[votes == 0]) & axis.backlog(ranks))


def _votes(run: Run, axis: HostEdges, ranks: list[int], starts: Ints, ends: Ints) -> Ints:
    """How many edges of spans say that each window is the queue's, less those that say it is not."""
    votes = np.zeros(len(starts), np.int64)
    places = [axis.place[rank] for rank in ranks]
    bounds = np.append(np.searchsorted(starts, axis.window[places, 0] + axis.origin[places]), len(starts)).tolist()
    for rank, one, begin, stop in zip(ranks, places, bounds[:-1], bounds[1:], strict=True):
        mine = slice(begin, stop)
        if begin == stop:
            continue
        edges = run.get(_Threads).edges(rank)
        for known, moments in ((edges.begins, starts[mine]), (edges.ends, ends[mine])):
            for own, says in ((True, 1), (False, -1)):
                votes[mine] += says * _among(moments - axis.origin[one], known[own])
    return votes


def _among(moments: Ints, known: Ints) -> NDArray[np.bool_]:
    """Which moments are among some, which are sorted."""
    if not len(known):
        return np.zeros(len(moments), np.bool_)
    return np.asarray(known[np.minimum(np.searchsorted(known, moments), len(known) - 1)] == moments)
