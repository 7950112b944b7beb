"""The host of each rank: its threads, and which span was innermost at a moment.

A thread of the operating system can have several tracks: torch_npu files its CANN calls apart from its Python frames.
Tracks with the same tid are one thread. The queue thread is the one that dequeues. The issuing threads are those that
enqueue, launch or synchronise, the queue thread left out.

A host stands still while none of these threads begins or ends anything: in code that nothing records, or held up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_names import HOST_KINDS, special
from npulens.analysis.intervals import EMPTY, Intervals, Ints, distinct
from npulens.analysis.run import Run

NONE = -1
#: Places of some kinds in HOST_KINDS.
OPERATOR, ENQUEUE, _RUNTIME = (HOST_KINDS.index(kind) for kind in ("cpu_op", "enqueue", "runtime"))
#: A host that stands still for so long is held up by one thing.
STANDS_NS = 500_000


@dataclass(frozen=True)
class Threads:
    """Which host tracks of one rank belong together, and what their threads do."""

    of_track: dict[int, str]  # track -> thread
    queue: frozenset[str]  # threads that dequeue
    issuing: frozenset[str]  # threads that hand work over

    def tracks(self, threads: frozenset[str]) -> list[int]:
        return sorted(track for track, thread in self.of_track.items() if thread in threads)


@dataclass(frozen=True)
class HostSpans:
    """Host spans of one rank, by track and start; `parent` is an index into the same arrays or NONE."""

    ids: Ints
    tracks: Ints
    starts: Ints
    ends: Ints
    parent: NDArray[np.int32]
    kinds: NDArray[np.uint8]  # places in HOST_KINDS

    @cached_property
    def _slices(self) -> dict[int, slice]:
        tracks, first = np.unique(self.tracks, return_index=True)
        last = np.append(first, len(self.tracks))[1:]
        return {int(t): slice(int(a), int(b)) for t, a, b in zip(tracks, first, last, strict=True)}

    def at(self, span_id: int) -> int:
        """The index of a span, or NONE."""
        if self._rising:
            place = int(np.searchsorted(self.ids, span_id))
            return place if place < len(self.ids) and self.ids[place] == span_id else NONE
        found = np.flatnonzero(self.ids == span_id)
        return int(found[0]) if len(found) else NONE

    @cached_property
    def _rising(self) -> bool:
        return bool((np.diff(self.ids) > 0).all())

    def within(self, span_id: int) -> tuple[int, float]:
        """How many operators of its track begin within a span, and the share of it that its longest rest has."""
        at = self.at(span_id)
        if at == NONE:
            return 0, 1.0
        where = self._slices[int(self.tracks[at])]
        begin, end = int(self.starts[at]), int(self.ends[at])
        inner = slice(at + 1, where.start + int(np.searchsorted(self.starts[where], end)))
        reach = np.maximum.accumulate(np.concatenate(([begin], self.ends[inner])))
        rests = np.append(self.starts[inner], end) - reach
        return int((self.kinds[inner] == OPERATOR).sum()), int(rests.max()) / max(1, end - begin)

    def innermost(self, track: int, at: Ints) -> Ints:
        """Per moment the index of the innermost span of a track that holds it, or NONE."""
        where = self._slices.get(track)
        if where is None:
            return np.full(len(at), NONE, np.int64)
        found = np.searchsorted(self.starts[where], at, side="right") + (where.start - 1)
        found[found < where.start] = NONE
        return self._up(found, at)

    def neighbours(self, track: int, at: Ints) -> tuple[Ints, Ints]:
        """Per moment the last span of a track that started before, and the first that starts after."""
        where = self._slices.get(track)
        if where is None:
            return np.full(len(at), NONE, np.int64), np.full(len(at), NONE, np.int64)
        after = np.searchsorted(self.starts[where], at, side="right") + where.start
        before = np.where(after > where.start, after - 1, NONE)
        return before, np.where(after < where.stop, after, NONE)

    def _up(self, found: Ints, at: Ints) -> Ints:
        """From the last span that started before a moment to its innermost ancestor that has not ended."""
        wrong = np.flatnonzero(found != NONE)
        while len(wrong):
            wrong = wrong[self.ends[found[wrong]] <= at[wrong]]
            found[wrong] = self.parent[found[wrong]]
            wrong = wrong[found[wrong] != NONE]
        return found

    def latest(self, tracks: list[int], at: Ints) -> Ints:
        """Per moment the span that started last among the innermost ones of several tracks: what was going on."""
        best = np.full(len(at), NONE, np.int64)
        for track in tracks:
            mine = self.innermost(track, at)
            better = (mine != NONE) & ((best == NONE) | (self.starts[mine] >= self.starts[best]))
            best[better] = mine[better]
        return best

    def covering(self, found: Ints, begins: Ints, ends: Ints) -> Ints:
        """From innermost spans up to those that cover at least half of their windows."""
        found = found.copy()
        small = np.flatnonzero(found != NONE)
        while len(small):
            at = found[small]
            covered = np.minimum(self.ends[at], ends[small]) - np.maximum(self.starts[at], begins[small])
            small = small[(2 * covered < ends[small] - begins[small]) & (self.parent[at] != NONE)]
            found[small] = self.parent[found[small]]
        return found


class Hosts:
    """The hosts of a run; spans of a rank are fetched when first asked for."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._spans: dict[int, HostSpans] = {}
        self.threads: dict[int, Threads] = _threads(run)

    def spans(self, rank: int) -> HostSpans:
        if rank not in self._spans:
            self._spans[rank] = _fetch(self._run, rank)
        return self._spans[rank]


def hosts(run: Run) -> Hosts:
    """The hosts of a run."""
    return Hosts(run)


def standing(run: Run) -> dict[int, Intervals]:
    """Per rank: when its host stood still for long, outside of calls of the runtime and of what has a cause."""
    known, found = run.get(special), {}
    for rank, threads in run.get(hosts).threads.items():
        spans = run.get(hosts).spans(rank)
        mine = np.isin(spans.tracks, threads.tracks(threads.issuing | threads.queue))
        edges = distinct(np.concatenate((spans.starts[mine], spans.ends[mine])))
        long = np.flatnonzero(np.diff(edges) >= STANDS_NS)
        still = Intervals(edges[long], edges[long + 1])
        called = mine & (spans.kinds == _RUNTIME) & (spans.ends - spans.starts >= STANDS_NS)
        named = known.get(rank)
        found[rank] = (
            still - Intervals.union_of(spans.starts[called], spans.ends[called])
            - (Intervals.union_of(named.starts, named.ends) if named is not None else EMPTY)
        )  # fmt: skip
    return found


_THREADS = """
    WITH seen AS (
        SELECT rank, track, bool_or(kind = 'dequeue') AS queue, bool_or(kind IN ('enqueue', 'cpu_op')) AS issuing
        FROM span WHERE list_contains(?, kind) GROUP BY rank, track
    ), launching AS (
        SELECT DISTINCT s.track FROM link l JOIN span s ON s.span_id = l.src_span_id WHERE l.route <> 'fwdbwd'
    )
    SELECT rank, track, tid, queue, issuing OR track IN (FROM launching) AS issuing
    FROM seen LEFT JOIN (SELECT track, any_value(tid) AS tid FROM track GROUP BY track) USING (track)
    ORDER BY rank, track
"""


def _threads(run: Run) -> dict[int, Threads]:
    found: dict[int, tuple[dict[int, str], set[str], set[str]]] = {rank: ({}, set(), set()) for rank in run.ranks}
    for rank, track, tid, queue, issuing in run.con.execute(_THREADS, [list(HOST_KINDS)]).fetchall():
        of_track, queues, issuers = found.setdefault(rank, ({}, set(), set()))
        of_track[track] = thread = f"track {track}" if tid is None else tid
        if queue:
            queues.add(thread)
        if issuing:
            issuers.add(thread)
    return {
        rank: Threads(of_track, frozenset(queues), frozenset(issuers - queues))
        for rank, (of_track, queues, issuers) in found.items()
    }


_SPANS = f"""
    SELECT rank, span_id, track, ts_ns, ts_ns + dur_ns AS end_ns, coalesce(parent_id, -1) AS parent_id,
        (CASE kind {" ".join(f"WHEN '{kind}' THEN {place}" for place, kind in enumerate(HOST_KINDS))} END)::UTINYINT
        AS kind FROM span
    WHERE rank BETWEEN ? AND ? AND kind IN ({", ".join(repr(kind) for kind in HOST_KINDS)})
"""


def _fetch(run: Run, rank: int) -> HostSpans:
    columns = run.of_rank(_SPANS, rank)
    tracks, starts, ends = columns["track"], columns["ts_ns"], columns["end_ns"]
    ids, parents, kinds = columns["span_id"], columns["parent_id"], columns["kind"]
    if not _in_order(tracks, starts, ends):
        order = np.lexsort((-ends, starts, tracks))
        tracks, starts, ends, ids, parents, kinds = (
            part[order] for part in (tracks, starts, ends, ids, parents, kinds)
        )
    return HostSpans(ids, tracks, starts, ends, _places(ids, parents), kinds.astype(np.uint8))


def _in_order(tracks: Ints, starts: Ints, ends: Ints) -> bool:
    """By track, start, longest first: how spans are stored."""
    track, start, end = np.diff(tracks), np.diff(starts), np.diff(ends)
    return bool(((track > 0) | ((track == 0) & ((start > 0) | ((start == 0) & (end <= 0))))).all())


def _places(ids: Ints, parents: Ints) -> NDArray[np.int32]:
    """Where each parent is; a parent starts earlier or lasts longer, so it comes first, and anything else is none."""
    if not len(ids):
        return np.zeros(0, np.int32)
    order = np.arange(len(ids)) if (np.diff(ids) > 0).all() else np.argsort(ids, kind="stable")
    at = order[np.minimum(np.searchsorted(ids, parents, sorter=order), len(ids) - 1)]
    return np.where((ids[at] == parents) & (at < np.arange(len(ids))), at, NONE).astype(np.int32)
