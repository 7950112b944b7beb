"""Replays the run with a change: what a fix would give back of the whole run.

Everything that does not change takes as long as it was recorded to take, and waits for the same things
(analysis/replay/graph.py). Uncaptured peers stay as they were. A change that touches every captured rank concerns the
whole job. Then they may also keep their distance to the captured ones. The larger saving of the two counts, because a
saving is a ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.finding import Change
from npulens.analysis.idle.issue import UNTOLD, tasks
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.replay.draft import (  # fmt: skip
    BUSY,
    COMM,
    COPY,
    EVENT,
    GAP,
    HOST,
    KERNEL,
    LAUNCH,
    MIRROR,
    OWN,
    PEER,
    QUEUE,
    SYNC,
)
from npulens.analysis.replay.graph import Graph, graph
from npulens.analysis.replay.host_edges import HostEdges, host_edges, of_script
from npulens.analysis.replay.maxplus import solve
from npulens.analysis.run import Run


@dataclass(frozen=True)
class Replay:
    """A replayed run: when each node happens with the change."""

    time: Ints  # of every node of the graph
    lag: Ints  # of every edge
    rest: Ints
    wall_ns: int


def saved_ns(run: Run, change: Change) -> int:
    """How much shorter the run's wall would be; never negative, and 0 for no change.

    Never more than the time in which the device did not compute, of the rank that has most. What of its work the change
    shortens is added. Nothing else can be given back.
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
    settled, peers = found.settled, edit.run.get(_of_peers)
    both = whole and peers.any
    for dropped in (peers.mirrors, peers.chained) if both else (peers.mirrors,):
        lag = edit.lag.copy() if both else edit.lag
        lag[dropped] = edit.NEVER
        time = solve(settled.first, settled.source, lag, edit.rest)
        yield Replay(time, lag, edit.rest, found.wall_ns(time))


def alone_ns(run: Run, change: Change) -> int:
    """How long the run with a change takes at least, if no rank waits for another.

    That is what the host and the device of the slowest rank need.
    """
    found = run.get(graph)
    settled, edit = found.settled, Edit(run, found)
    edit.apply(change)
    target = np.repeat(np.arange(len(settled.time)), np.diff(settled.first))
    edit.lag[(settled.rank[settled.source] < 0) & (settled.rank[target] >= 0)] = Edit.NEVER
    return found.wall_ns(solve(settled.first, settled.source, edit.lag, edit.rest))


@dataclass(frozen=True)
class _Peers:
    """Edges that peers which were not captured hang on, but for those that have nothing else."""

    mirrors: Ints  # their distance to the captured ranks
    chained: Ints  # to the collective before
    any: bool  # whether there is any distance to the captured ranks


def _of_peers(run: Run) -> _Peers:
    """A peer that came without a collective before has nothing but its distance."""
    settled = run.get(graph).settled
    of_kind = [np.flatnonzero(settled.kind == kind) for kind in (MIRROR, PEER)]
    count = np.diff(settled.first)
    mirrors, chained = (
        edges[count[np.searchsorted(settled.first, edges, "right") - 1] > 1] for edges in of_kind
    )  # fmt: skip
    return _Peers(mirrors, chained, bool(len(of_kind[0])))


def _removable(run: Run, change: Change) -> int:
    """The most that a change can give back: idle time, exposed communication and copies, and the work it shortens."""
    shortened, most = run.get(_lengths).shortened(change), run.get(_not_computing)
    for rank, cut in change.cut.items():
        shortened[rank] = shortened.get(rank, 0) + cut.total()
    more = (most[rank] + ns for rank, ns in shortened.items() if rank in most)
    return max(0, *most.values(), *more)


def _not_computing(run: Run) -> dict[int, int]:
    """How long each rank's device did not compute, of those that have a window."""
    found = {}
    for rank in run.ranks:
        window = run.window(rank)
        if window is not None:
            begin, end = (np.array([moment], np.int64) for moment in window)
            computing = run.activity(rank).surely_computing
            found[rank] = window[1] - window[0] - int(computing.within(begin, end)[0])
    return found


@dataclass(frozen=True)
class _Lengths:
    """Rank and length of every device task, by span id."""

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
    every = run.get(tasks)
    count = [len(did.ids) for did in every.values()]
    ids = np.concatenate([np.zeros(0, np.int64), *(did.ids for did in every.values())])
    length = np.concatenate([np.zeros(0, np.int64), *(did.ends - did.starts for did in every.values())])
    told = np.concatenate([np.zeros(0, np.bool_), *(did.kinds != UNTOLD for did in every.values())])
    order = np.flatnonzero(told)
    order = order[np.argsort(ids[order], kind="stable")]
    return _Lengths(ids[order], np.repeat(np.array(list(every), np.int64), count)[order], length[order])


# A change as edits of a graph's lags and rests.
#: What a call costs that has nothing to wait for: what the fastest ones take.
CALL_NS = 1_000


class Edit:
    """Lags and rests while they are changed; the graph itself stays."""

    NEVER = -(2**60)  # lag of an edge that holds nothing up

    def __init__(self, run: Run, found: Graph) -> None:
        self.run, self.graph = run, found
        self.lag = found.settled.lag.copy()
        self.rest = found.settled.rest.copy()
        self.changed = False

    def apply(self, change: Change) -> set[int]:
        """Makes every edit of a change; returns the ranks it touches."""
        touched = self._host(change.host)
        touched |= self._tasks(change.tasks, change.task_ns)
        touched |= self._delays(change.delays, change.delay_ns)
        touched |= self._syncs(change.syncs)
        touched |= {rank for rank, lost in change.cut.items() if self._cut(rank, lost)}
        self._peers(change.peers, change.peer_ns)
        return touched

    def target(self, edges: Ints) -> Ints:
        """The nodes that edges lead to."""
        return np.searchsorted(self.graph.settled.first, edges, "right") - 1

    def edges_to(self, nodes: Ints | NDArray[np.int32]) -> tuple[Ints, Ints]:
        """The edges that lead to some nodes, and which of the nodes each leads to."""
        first = self.graph.settled.first
        count = first[nodes + 1] - first[nodes]
        which = np.repeat(np.arange(len(nodes)), count)
        start = np.cumsum(count) - count
        return np.arange(int(count.sum())) - start[which] + first[nodes][which], which

    def _shorten(self, edges: Ints | NDArray[np.int32], ns: Ints | int) -> None:
        self.lag[edges] = np.maximum(self.lag[edges] - ns, np.minimum(self.lag[edges], 0))
        self.changed |= bool(len(edges))

    def _ease(self, nodes: Ints, ns: Ints) -> Ints:
        """Takes time from what nothing explains; returns what is left to take elsewhere."""
        taken = np.minimum(self.rest[nodes], ns)
        self.rest[nodes] -= taken
        self.changed |= bool(taken.any())
        return ns - taken

    def _host(self, host: Mapping[int, Intervals]) -> set[int]:
        """Host time that would not be spent; where launches are unknown, gaps that would close by as much."""
        axis = self.run.get(host_edges)
        touched: set[int] = set()
        for some in axis.together(
            [rank for rank, windows in host.items() if rank in axis.place and windows.starts.size]
        ):
            touched |= self._host_of(axis, some, host)
        return touched

    def _host_of(self, axis: HostEdges, ranks: list[int], host: Mapping[int, Intervals]) -> set[int]:
        """The same of ranks that are looked at together."""
        windows = axis.windows(ranks, host)
        near = axis.near(ranks, windows)
        if not len(near):
            return set()
        edges, nodes, begin, end = axis.edges[near], axis.nodes[near], axis.begin[near], axis.end[near]
        rest, lag, kind = self.graph.settled.rest[nodes], self.graph.settled.lag[edges], self.graph.settled.kind[edges]
        spent, unexplained = np.zeros((2, len(near)), np.int64)
        busy = kind == BUSY
        idle = ~busy & (kind != QUEUE)  # nobody works between two things in a queue
        for some, lost in ((busy, windows), (idle, of_script(self.run, axis, ranks, windows))):
            spent[some] = lost.within(begin[some], begin[some] + lag[some])
        late = rest > 0
        unexplained[late] = windows.within(end[late] - rest[late], end[late])
        hit = spent > 0
        self._shorten(edges[hit], spent[hit])
        left = np.flatnonzero(unexplained > 0)
        one = left[np.unique(nodes[left], return_index=True)[1]]
        self._ease(nodes[one].astype(np.int64), unexplained[one])
        places = np.unique(axis.of[np.concatenate((near[hit], near[one]))])
        return {self.graph.ranks[place] for place in places.tolist()}

    def _cut(self, rank: int, lost: Intervals) -> bool:
        """A piece of a rank's film is cut out: what its host and its device did then takes so much less."""
        if rank not in self.graph.ranks or not len(lost.starts):
            return False
        settled, index = self.graph.settled, self.graph.ranks.index(rank)
        lost = Intervals(lost.starts + self.graph.offsets[index], lost.ends + self.graph.offsets[index])
        nodes = self.run.get(_nodes_by_rank)[index]
        time = settled.time[nodes]
        began = np.full(len(nodes), int(min(lost.starts[0], settled.time[0])))
        after = time - lost.within(began, time)
        reached = time - settled.rest[nodes]
        before = reached - lost.within(np.minimum(began, reached), reached)
        edges, target = self.edges_to(nodes)
        inside = settled.rank[settled.source[edges]] == index
        edges, target = edges[inside], target[inside]
        source = np.searchsorted(nodes, settled.source[edges])
        self.lag[edges] = np.minimum(self.lag[edges], before[target] - after[source])
        has = settled.first[nodes + 1] > settled.first[nodes]
        self.rest[nodes[has]] = np.minimum(self.rest[nodes[has]], (after - before)[has])
        self.changed = True
        return True

    def _nodes_of(self, spans: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Places of spans among the device tasks, and which of them are any."""
        known = self.graph.task_span
        if not len(known):
            return np.zeros(len(spans), np.int64), np.zeros(len(spans), np.bool_)
        at = np.minimum(np.searchsorted(known, spans), len(known) - 1)
        return at, known[at] == spans

    def _ranks_of(self, nodes: Ints) -> set[int]:
        return {self.graph.ranks[index] for index in np.unique(self.graph.settled.rank[nodes]) if index >= 0}

    def _tasks(self, spans: Ints, ns: Ints) -> set[int]:
        if not len(spans):
            return set()
        at, known = self._nodes_of(spans)
        at, ns = at[known], ns[known]
        touched = self._ranks_of(self.graph.task_end[at])
        at, ns = self._together(at, ns)
        for nodes in (self.graph.task_end, self.graph.task_told):
            has = nodes[at] >= 0
            edges, which = self.edges_to(nodes[at[has]])
            of = np.isin(self.graph.settled.kind[edges], (KERNEL, COPY, COMM))
            self._shorten(edges[of], ns[has][which[of]])
        return touched

    def _together(self, at: Ints, ns: Ints) -> tuple[Ints, Ints]:
        """A collective is shorter on all of its members or on none."""
        instance = self.graph.task_instance
        more = np.zeros(len(instance), np.int64)
        np.maximum.at(more, at, ns)
        shared = at[instance[at] >= 0]
        if len(shared):
            best = np.zeros(int(instance.max()) + 1, np.int64)
            np.maximum.at(best, instance[shared], more[shared])
            of = np.flatnonzero(instance >= 0)
            more[of] = np.maximum(more[of], best[instance[of]])
        changed = np.flatnonzero(more > 0)
        return changed, more[changed]

    def _delays(self, spans: Ints, ns: Ints) -> set[int]:
        if not len(spans):
            return set()
        at, known = self._nodes_of(spans)
        nodes, ns = self.graph.task_start[at[known]], ns[known]
        nodes, first = np.unique(nodes, return_index=True)
        left = self._ease(nodes, ns[first])
        edges, which = self.edges_to(nodes)
        of = np.isin(self.graph.settled.kind[edges], (LAUNCH, GAP, EVENT, HOST))
        self._shorten(edges[of], left[which[of]])
        return self._ranks_of(nodes)

    def _syncs(self, spans: Ints) -> set[int]:
        """Calls that would not wait: neither for the device nor for the queue in front of it."""
        if not len(spans):
            return set()
        found = self.graph
        hit = np.isin(found.sync_span, spans)
        times = found.settled.time
        for rank, begin, end in self._elsewhere(spans[~np.isin(spans, found.sync_span)]):
            index = found.ranks.index(rank)
            mine = np.flatnonzero(found.sync_rank == index)
            low, reach = begin + found.offsets[index], np.maximum.accumulate(end + found.offsets[index])
            last = np.searchsorted(low, times[found.sync_start[mine]], "right") - 1  # of those that begin before it
            hit[mine] |= (last >= 0) & (reach[last] >= times[found.sync_end[mine]])
        # A window's begin stands still: what was waited for before it is nobody's saving. A call that waits for a task
        # that it launched itself, the first of the window, waits from there on.
        before = np.zeros(len(hit), np.int64)
        if hit.any():
            before = np.maximum(0, times[found.begin[found.sync_rank]] - times[found.sync_start])
            hit &= (before == 0) | np.isin(found.sync_span, self._opening(found.sync_span[hit & (before > 0)]))
        if not hit.any():
            return set()
        for nodes, kind in ((found.sync_end[hit], SYNC), (found.sync_start[hit], QUEUE)):
            edges, _ = self.edges_to(nodes)
            self.lag[edges[found.settled.kind[edges] == kind]] = self.NEVER
        edges, which = self.edges_to(found.sync_end[hit])
        own = found.settled.kind[edges] == OWN
        self.lag[edges[own]] = np.minimum(self.lag[edges[own]], np.maximum(CALL_NS, before[hit])[which[own]])
        self.rest[found.sync_end[hit]] = 0
        self.changed = True
        return {found.ranks[index] for index in np.unique(found.sync_rank[hit])}

    def _opening(self, calls: Ints) -> Ints:
        """Calls that launched nothing before the window of their rank begins, and something in it."""
        if not len(calls):
            return calls
        rows = self.run.columns(
            "SELECT l.src_span_id AS call, t.rank, min(t.ts_ns) AS ts_ns FROM link l "
            "JOIN span t ON t.span_id = l.dst_span_id WHERE list_contains(?, l.src_span_id) GROUP BY ALL",
            [calls.tolist()],
        )  # fmt: skip
        windows = [self.run.window(rank) for rank in np.asarray(rows["rank"]).tolist()]
        begins = np.array([window[0] if window else -1 for window in windows], np.int64)
        ts = np.asarray(rows["ts_ns"], np.int64)
        return np.asarray(rows["call"], np.int64)[(begins >= 0) & (ts >= begins)]

    def _elsewhere(self, spans: Ints) -> Iterator[tuple[int, Ints, Ints]]:
        """Spans that are no waiting calls themselves, by rank: operators and functions around them, by begin."""
        if not len(spans):
            return
        rows = self.run.columns(
            "SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE span_id IN (SELECT unnest(?)) "
            "ORDER BY rank, ts_ns", [spans.tolist()],
        )  # fmt: skip
        ranks = np.asarray(rows["rank"])
        for mine in np.split(np.arange(len(ranks)), np.flatnonzero(np.diff(ranks)) + 1):
            if len(mine):
                yield int(ranks[mine[0]]), np.asarray(rows["ts_ns"])[mine], np.asarray(rows["end_ns"])[mine]

    def _peers(self, spans: Ints, ns: Ints) -> None:
        """The last to come would come earlier: the uncaptured peer where it was last, else the latest member."""
        if not len(spans):
            return
        at, known = self._nodes_of(spans)
        at, ns = self._together(at[known], ns[known])
        settled = self.graph.settled
        edges, which = self.edges_to(self.graph.task_end[at])
        peer = settled.rank[settled.source[edges]] == -1
        edges, which = edges[peer & (settled.kind[edges] == COMM)], which[peer & (settled.kind[edges] == COMM)]
        into, of = self.edges_to(settled.source[edges].astype(np.int64))
        ours = np.isin(settled.kind[into], (PEER, MIRROR))
        virtual = np.unique(which[of[ours]])
        self.lag[into[ours]] -= ns[which[of[ours]]]
        slack = settled.time[self.target(into)] - settled.time[settled.source[into]] - settled.lag[into]
        last = ~ours & (slack == 0) & ~np.isin(which[of], virtual)
        self._earlier(into[last], ns[which[of[last]]])
        self.changed |= bool(len(into))

    def _earlier(self, edges: Ints, ns: Ints) -> None:
        """The latest members of collectives come earlier: into the meeting, and for their own end."""
        if not len(edges):
            return
        edges, first = np.unique(edges, return_index=True)
        ns = ns[first]
        self.lag[edges] -= ns
        sources = self.graph.settled.source[edges]
        order = np.argsort(sources, kind="stable")
        own, which = self.edges_to(self.graph.task_end)
        direct = (self.graph.settled.kind[own] == COMM) & np.isin(self.graph.settled.source[own], sources)
        own = own[direct]
        self.lag[own] -= ns[order][np.searchsorted(sources[order], self.graph.settled.source[own])]


def _nodes_by_rank(run: Run) -> list[NDArray[np.int32]]:
    """Per place of a rank its nodes, in the order of time."""
    found = run.get(graph)
    order = np.argsort(found.settled.rank, kind="stable").astype(np.int32)
    bounds = np.searchsorted(found.settled.rank[order], np.arange(len(found.ranks) + 1))
    return [order[begin:end] for begin, end in pairwise(bounds.tolist())]
