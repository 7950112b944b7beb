"""Why the device idled: every gap of every rank cut into pieces, each with a cause.

A gap is time in the rank's window (analysis/run.py) in which no work runs on its device. The task
that ends it was issued by the host at one moment and launched at a later one (analysis/idle/issue.py):

* before it was issued, the gap is the host's, and what it did at each moment says why. Where several causes overlap,
  this order decides: first use of an operator or library, garbage collection, compiling, allocating. The profiler, a
  synchronising call and the data loader follow. Everything else is `host_late`. On a CPU, time in operators that make
  views or call others is `calling` instead;
* calls that read device values in the middle of a step also own a part of the gaps after them. It is what would not be
  there without them (analysis/idle/device_reads.py). A host that then stands still for long is held up by something
  else;
* between the two, the queue thread had not come to it: what that thread did says why;
* after the launch, a wait for another stream is `dependency`. So is a wait for an earlier node of the same graph, which
  nothing launches. What launches usually take is `launch_overhead`, and what is left is `unknown`;
* a stream runs in order. Its first recorded task may wait long after its launch. The device may have done next to
  nothing since the recording began. Then work from before the recording is in its way: `backlog`, not idle at all. The
  same holds of a gap at the beginning, before a task that was launched before the recording;
* in runs of kernels shorter than the fastest launches of the job, what a launch usually costs the
  host is `launch_overhead` too;
* where the profiler reads the counters of the cache after each kernel, the device waits for that first:
  `profiler_overhead`;
* a gap that ends with a task of unknown launch is `unknown` but for what the host certainly did. It is not where the
  launches that follow tell when it was launched, or a host that launched nothing meanwhile (analysis/idle/issue.py).

Pieces tile the gaps: their lengths sum to the idle time of the split, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.idle.calling import calling
from npulens.analysis.idle.device_reads import reads
from npulens.analysis.idle.first_use import FirstUse, first_use
from npulens.analysis.idle.host_names import ANY_THREAD, PATTERNS, Special, special
from npulens.analysis.idle.host_spans import NONE, hosts, standing
from npulens.analysis.idle.issue import COPY, ENOUGH, KERNEL, MEMSET, Tasks, came_back, launching, tasks
from npulens.analysis.idle.launch_costs import Waits, launch_costs
from npulens.analysis.intervals import EMPTY, Intervals, Ints, origins
from npulens.analysis.run import Run

#: Ranks whose profiler read the counters of the L2 cache after each kernel.
COUNTS_CACHE = "SELECT rank FROM rank WHERE regexp_matches(settings, '\"_?l2_cache\": *true')"
#: A device's own pause between two queued tasks is shorter (0.02 to 3 us in the real captures). Reading the counters
#: took 88 to 97 us in all of them.
_OWN_PAUSE_NS = 40_000
#: Work from before the recording is in the way for at least so long, and what was recorded until then is at most this
#: share of it.
_BACKLOG_NS, _BACKLOG_SHARE = 1_000_000, 0.01
#: Tasks so close belong together: a handful of launches.
_SOON_NS = 200_000


@dataclass(frozen=True)
class Gaps:
    """The gaps of one rank: who ends each, and when the host was done with it."""

    starts: Ints
    ends: Ints
    task: Ints  # index into the rank's tasks, NONE at the end of the window
    linked: NDArray[np.bool_]  # the launch of that task is known
    issued: Ints  # within the gap: before, the host had not issued the task
    launched: Ints  # within the gap, not before `issued`


def gaps(did: Tasks, empty: Intervals, latency_ns: Ints, last: Ints, calls: Intervals) -> Gaps:
    """The gaps with the task that ends each, and when it was issued and launched.

    Of each gap's rank: what a launch usually takes, and where its tasks end. `calls`: when hosts may have launched,
    where launches are missing.
    """
    starts, ends = empty.starts, empty.ends
    at = np.searchsorted(did.starts, ends)
    there = at < len(did.starts)
    there[there] = did.starts[at[there]] == ends[there]
    task = np.where(there, at, NONE)
    linked = there.copy()
    linked[there] = did.linked[at[there]]
    told = _just_launched(did, starts, np.where(there & ~linked, at, NONE), last)
    launched, issued = ends.copy(), ends.copy()
    mine = task[linked]
    late = np.clip(ends[linked] - latency_ns[linked], did.source_start[mine], did.source_end[mine])
    launched[linked] = late
    issued[linked] = np.where(did.queued[mine], did.issued[mine], late)
    back, since = came_back(calls, starts, ends)
    back &= there & ~linked
    launched[told] = issued[told] = ends[told] - latency_ns[told]
    launched[back] = issued[back] = np.maximum(ends - latency_ns, since)[back]
    linked |= told | back
    launched = np.clip(launched, starts, ends)
    return Gaps(starts, ends, task, linked, np.clip(issued, starts, launched), launched)


def _just_launched(did: Tasks, starts: Ints, task: Ints, last: Ints) -> NDArray[np.bool_]:
    """Which gaps end with a task whose launch is not recorded and yet certain: just before it started.

    The next task of a known launch follows soon or without another gap, and was launched only after this one had
    started. So the host was not ahead, and a device without any work does not let a task wait.
    """
    known = np.flatnonzero(did.linked & ~did.node)
    follows = np.searchsorted(known, task)
    found: NDArray[np.bool_] = np.logical_and(task != NONE, follows < len(known))
    found[found] = known[follows[found]] < last[found]
    after = known[follows[found]]
    before = np.append(starts[1:], np.iinfo(np.int64).max)[found]  # where the next gap begins
    mine = task[found]
    follows_on = (did.starts[after] <= before) | (did.starts[after] - did.starts[mine] <= _SOON_NS)
    found[found] = follows_on & (did.issued[after] > did.starts[mine])
    return found


def held_ns(found: Gaps, own: slice) -> int:
    """How long the device of a rank usually waits before a kernel that was queued; 0: no longer than it must."""
    starts = found.starts[own]
    queued = found.linked[own] & (found.launched[own] == starts)
    waited = (found.ends[own] - starts)[queued]
    waited = waited[waited >= _OWN_PAUSE_NS]
    return int(np.median(waited)) if len(waited) >= ENOUGH and 3 * len(waited) >= queued.sum() else 0


def between(begins: Ints, ends: Ints) -> Intervals:
    """Each [begin, end) that is not empty; they must be disjoint and in order."""
    keep = ends > begins
    return Intervals(begins[keep], ends[keep])


#: Every cause a piece can have; a piece holds its place in here.
CODES: tuple[str, ...] = (*CAUSES, *GAP_ONLY)
CODE = {cause: number for number, cause in enumerate(CODES)}
_LAST = np.iinfo(np.int64).max
#: Up to so many usual latencies a launch is slow rather than held up by something unseen.
LATENCIES = 3


@dataclass(frozen=True)
class Idle:
    """Pieces of idle time, by rank and start."""

    rank: Ints
    gap_start: Ints
    start: Ints
    end: Ints
    cause: Ints  # index into CODES
    host: Ints  # culprit host span, NONE where none is known
    task: Ints  # device span that ends the gap, NONE at the end of the window
    queued: NDArray[np.bool_]  # the queue's thread had it by then: enqueued, not yet launched
    ranks: tuple[int, ...]  # the ranks whose idle time could be measured

    def on(self, rank: int) -> slice:
        """Where a rank's pieces are."""
        begin, end = np.searchsorted(self.rank, [rank, rank + 1])
        return slice(int(begin), int(end))

    def pick(self, cause: str, rank: int | None = None) -> NDArray[np.bool_]:
        """Which pieces have a cause (on a rank)."""
        mine = np.asarray(self.cause == CODE[cause])
        return mine if rank is None else np.asarray(mine & (self.rank == rank))

    def windows(self, rank: int, cause: str, until: int = _LAST) -> Intervals:
        """When a rank idled because of something, in pieces that began before a moment."""
        own = self.on(rank)
        mine = (self.cause[own] == CODE[cause]) & (self.start[own] < until)
        return Intervals.union_of(self.start[own][mine], self.end[own][mine])

    def total(self, cause: str, rank: int | None = None) -> int:
        """Idle ns because of something, of one rank or of all."""
        mine = self.pick(cause, rank)
        return int((self.end[mine] - self.start[mine]).sum())

    def totals(self, pieces: NDArray[np.bool_]) -> dict[int, int]:
        """Idle ns of some pieces by rank; 0 where a rank has none."""
        at = np.flatnonzero(pieces)
        edges = np.searchsorted(self.rank[at], np.array([*self.ranks, _LAST], np.int64))  # pieces lie by rank
        until = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.end[at] - self.start[at])))[edges]
        return dict(zip(self.ranks, np.diff(until).tolist(), strict=True))

    def by_rank(self, cause: str) -> dict[int, int]:
        """Idle ns because of something, rank by rank; ranks without are left out."""
        return {rank: ns for rank, ns in self.totals(self.pick(cause)).items() if ns}


@dataclass
class Pieces:
    """Pieces of one rank in the making."""

    starts: list[Ints]
    ends: list[Ints]
    causes: list[Ints]
    culprits: list[Ints]

    def add(self, part: Intervals, cause: str, culprits: Ints) -> None:
        self.starts.append(part.starts)
        self.ends.append(part.ends)
        self.causes.append(np.full(len(part.starts), CODE[cause], np.int64))
        self.culprits.append(culprits)


def idle(run: Run) -> Idle:
    """Every gap of every rank, apportioned."""
    rows = [row for block in run.blocks for row in _rows(run, block)]
    parts = [_row(run, row) for row in rows]
    parts.append((*((np.zeros(0, np.int64),) * 7), np.zeros(0, np.bool_)))
    rank_, gap, start, end, cause, host, task, queued = (np.concatenate(column) for column in zip(*parts, strict=True))
    measured = tuple(rank for row in rows for rank in row.ranks)
    return Idle(rank_, gap, start, end, cause, host, task, queued, measured)


@dataclass(frozen=True)
class _Row:
    """Ranks that are looked at together, one behind the other on one axis: the times of each, moved by its origin."""

    ranks: tuple[int, ...]
    origin: Ints
    begin: Ints  # of each rank's window, on the axis
    end: Ints

    def laid(self, parts: Sequence[Ints]) -> Ints:
        """Moments of every rank, on the axis."""
        return np.concatenate([part + shift for part, shift in zip(parts, self.origin.tolist(), strict=True)])

    def of(self, moments: Ints) -> Ints:
        """The place of the rank in whose window each moment lies."""
        return np.searchsorted(self.begin, moments, side="right") - 1

    def tasks(self, every: Mapping[int, Tasks]) -> Tasks:
        """The tasks of all of them, one rank behind the other."""
        if len(self.ranks) == 1 and not self.origin.any():
            return every[self.ranks[0]]
        own = [every[rank] for rank in self.ranks]
        columns: dict[str, Any] = {}
        for name in Tasks.__dataclass_fields__:
            parts = [getattr(did, name) for did in own]
            columns[name] = self.laid(parts) if name in _MOMENTS else np.concatenate(parts)
        return Tasks(**columns)


#: The columns of tasks that are moments.
_MOMENTS = ("starts", "ends", "source_start", "source_end", "issued")


def _rows(run: Run, block: tuple[int, ...]) -> Iterator[_Row]:
    """The ranks of a block whose idle time can be measured."""
    ranks = tuple(rank for rank in block if run.window(rank) is not None and _complete(run, rank))
    if not ranks:
        return
    every, of_rank, once, costs = run.get(tasks), run.get(special), run.get(first_use), run.get(launch_costs)
    windows = np.array([run.window(rank) for rank in ranks], np.int64)
    moments = [windows]
    for rank in ranks:
        moments += [getattr(every[rank], name) for name in _MOMENTS]
        own = (of_rank.get(rank), once.get(rank), costs.waits[rank], run.get(calling).get(rank))
        moments += [part for one in own if one is not None
                    for part in (one.starts, one.ends)]  # fmt: skip
    origin = origins(len(ranks), moments) if len(ranks) > 1 else np.zeros(1, np.int64)
    if origin is None:
        for rank in ranks:
            yield from _rows(run, (rank,))
        return
    yield _Row(ranks, origin, windows[:, 0] + origin, windows[:, 1] + origin)


def _complete(run: Run, rank: int) -> bool:
    did = run.activity(rank)
    return did.computing is not None and did.communication is not None and did.copy is not None


def _row(run: Run, row: _Row) -> tuple[Any, ...]:
    """The columns of `Idle` for some ranks."""
    rhythm, did = run.get(launch_costs), row.tasks(run.get(tasks))
    count = np.array([len(run.get(tasks)[rank].ids) for rank in row.ranks], np.int64)
    work = [run.activity(rank).work() for rank in row.ranks]
    busy = Intervals(row.laid([one.starts for one in work]), row.laid([one.ends for one in work]))
    empty = busy.outside() & between(row.begin, row.end)
    of = row.of(empty.starts)
    latency = np.array([rhythm.latency_ns[rank] for rank in row.ranks], np.int64)[of]
    last = np.cumsum(count)
    calls = [run.get(launching).get(rank, EMPTY) for rank in row.ranks]
    may = Intervals(row.laid([one.starts for one in calls]), row.laid([one.ends for one in calls]))
    found = gaps(did, empty, latency, last[of], may)
    counting = {rank for (rank,) in run.con.execute(COUNTS_CACHE).fetchall()}
    edges = np.searchsorted(of, np.arange(len(row.ranks) + 1))
    held = np.array([
        held_ns(found, slice(begin, end)) if rank in counting else 0
        for rank, begin, end in zip(row.ranks, edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ], np.int64)[of]  # fmt: skip
    lost = found.ends - found.starts - run.get(reads).left_ns(
        run, did.ids, count, found.ends - found.starts, np.where(found.task > (last - count)[of], found.task, NONE)
    )  # fmt: skip
    pieces = _Apportioned(run, row, did, found, of, latency, held, lost).pieces()
    starts = np.concatenate(pieces.starts)
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    of_gap = np.searchsorted(found.starts, starts, side="right") - 1
    ids = np.append(did.ids, NONE)
    shift = row.origin[of[of_gap]]
    return (
        np.array(row.ranks, np.int64)[of[of_gap]], found.starts[of_gap] - shift, starts - shift,
        np.concatenate(pieces.ends)[order] - shift,
        np.concatenate(pieces.causes)[order], np.concatenate(pieces.culprits)[order], ids[found.task[of_gap]],
        (starts >= found.issued[of_gap]) & (starts < found.launched[of_gap]),
    )  # fmt: skip


class _Apportioned:
    """The gaps of some ranks on their way to pieces."""

    def __init__(
        self, run: Run, row: _Row, did: Tasks, found: Gaps, of: Ints, latency: Ints, held: Ints, lost: Ints
    ) -> None:
        self.run, self.row, self.did, self.gaps, self.of = run, row, did, found, of
        self.latency, self.held, self.lost = latency, held, lost  # of each gap
        self.costs, self.hosts = run.get(launch_costs), run.get(hosts)
        every, known, once = run.get(tasks), run.get(special), run.get(first_use)
        self.short = np.concatenate([self.costs.short_run(every[rank]) for rank in row.ranks])
        self.launches = np.array([every[rank].linked.any() for rank in row.ranks], np.bool_)
        self.special = _spans(row, [known.get(rank) for rank in row.ranks])
        self.once = _spans(row, [once.get(rank) for rank in row.ranks])
        called = [run.get(calling).get(rank, EMPTY) for rank in row.ranks]
        self.called = Intervals(row.laid([one.starts for one in called]), row.laid([one.ends for one in called]))
        still = [run.get(standing).get(rank, EMPTY) for rank in row.ranks]
        self.still = Intervals(row.laid([one.starts for one in still]), row.laid([one.ends for one in still]))
        read = run.get(reads)
        none = np.zeros(0, np.int64)
        ends = [read.ends.get(rank, none) for rank in row.ranks]
        self.read_ends, self.read_of = row.laid(ends), np.repeat(np.arange(len(ends)), list(map(len, ends)))
        self.read_calls = np.concatenate([read.calls.get(rank, none) for rank in row.ranks])

    def pieces(self) -> Pieces:
        found = Pieces([], [], [], [])
        gaps, threads = self.gaps, [self.hosts.threads[rank] for rank in self.row.ranks]
        issuing = [one.tracks(one.issuing) or sorted(one.of_track) for one in threads]
        queue = [one.tracks(one.queue) for one in threads]
        held = self._held()
        found.add(held, "profiler_overhead", np.full(len(held.starts), NONE))
        before = self._backlog() - held
        found.add(before, "backlog", np.full(len(before.starts), NONE))
        told = held | before
        for known, of_rank in ((True, issuing), (False, [a + b for a, b in zip(issuing, queue, strict=True)])):
            some = gaps.linked == known  # nobody knows whether the script or the queue had to come to the others
            self._host(found, between(gaps.starts[some], gaps.issued[some]) - told, of_rank, True)
        self._host(found, between(gaps.issued, gaps.launched) - told, queue, False)
        self._device(found, told)
        return found

    def _held(self) -> Intervals:
        """After each kernel, while the profiler reads its counters; a bit longer where nothing else held it up."""
        gaps = self.gaps
        if not self.held.any():
            return EMPTY
        after_kernel = np.isin(gaps.starts, self.did.ends[np.isin(self.did.kinds, (KERNEL, MEMSET))])
        queued = gaps.linked & (gaps.launched == gaps.starts)
        length = np.where(queued, self.held * 3 // 2, self.held) * (after_kernel & (gaps.task != NONE))
        return between(gaps.starts, np.minimum(gaps.ends, gaps.starts + length))

    def _host(self, found: Pieces, left: Intervals, of_rank: list[list[int]], reading: bool) -> None:
        """Apportions time before a launch by what a thread did; every rank has tracks of its own."""
        tracks = [track for some in of_rank for track in some]
        if len(self.once.starts):
            part = left & Intervals.union_of(self.once.starts, self.once.ends)
            found.add(part, "first_use", _culprits(self.once, part))
            left = left - part
        inside = EMPTY
        mine = np.isin(self.special.tracks, tracks)
        for cause in PATTERNS:
            of = self.special.causes == cause
            spans = self.special.some(of if cause in ANY_THREAD else of & mine)
            if not len(spans.starts):
                continue
            layer = Intervals.union_of(spans.starts, spans.ends)
            part = left & layer
            if cause == "sync_stall":
                part = part - self._queued_before(layer)
                inside = part
            found.add(part, cause, _culprits(spans, part))
            left = left - part
        if reading:
            part, calls = self._after_reads(left - self.still, inside)
            found.add(part, "sync_stall", calls)
            left = left - part
        of_gap = np.searchsorted(self.gaps.starts, left.starts, side="right") - 1
        certain = (self.launches & np.array([bool(some) for some in of_rank], np.bool_))[self.of[of_gap]]
        known = (self.gaps.linked[of_gap] | (self.gaps.task[of_gap] == NONE)) & certain
        rest = Intervals(left.starts[known], left.ends[known])
        older = ~known & self._older()[of_gap]
        for which, cause in ((~known & ~older, "unknown"), (older, "backlog")):
            found.add(Intervals(left.starts[which], left.ends[which]), cause, np.full(int(which.sum()), NONE))
        runs = self._in_runs()
        short = rest & runs
        found.add(short, "launch_overhead", self._sources(short))
        for late, cause in (((rest - runs) & self.called, "calling"), (rest - runs - self.called, "host_late")):
            found.add(late, cause, self._busiest(late, of_rank))

    def _after_reads(self, left: Intervals, inside: Intervals) -> tuple[Intervals, Ints]:
        """Of what is left of the gaps, what reads in the middle of steps cost, and the read before each piece.

        What the host spent in calls (`inside`) is counted already.
        """
        if not len(self.read_ends) or not len(left.starts):
            return EMPTY, EMPTY.starts
        gaps = self.gaps
        of = np.searchsorted(gaps.starts, left.starts, side="right") - 1
        spent = inside.within(gaps.starts, gaps.ends)
        length = left.ends - left.starts
        before = np.cumsum(length) - length
        before -= before[np.searchsorted(of, of)]  # pieces of the same gap that come first
        last = np.searchsorted(self.read_ends, left.starts, side="right") - 1
        own = (last >= 0) & (self.read_of[last] == self.of[of])
        taken = np.where(own, np.clip((self.lost - spent)[of] - before, 0, length), 0)
        keep = taken > 0
        return Intervals(left.starts[keep], left.starts[keep] + taken[keep]), self.read_calls[last[keep]]

    def _queued_before(self, layer: Intervals) -> Intervals:
        """Ends of gaps that no call of a layer made.

        Work of unknown launch that begins while the host still sits in the call was queued before it. A copy may be
        what the call itself does.
        """
        gaps = self.gaps
        copies = np.append(self.did.kinds == COPY, False)[gaps.task]
        at = np.searchsorted(layer.starts, gaps.ends, side="left") - 1
        inside = (at >= 0) & ~gaps.linked & (gaps.task != NONE) & ~copies
        inside[inside] = layer.ends[at[inside]] > gaps.ends[inside]
        return between(np.maximum(gaps.starts[inside], layer.starts[at[inside]]), gaps.ends[inside])

    def _in_runs(self) -> Intervals:
        """In runs of kernels shorter than a launch: what a launch usually costs, before each."""
        gaps = self.gaps
        inside = np.zeros(len(gaps.starts), bool)
        there = gaps.task != NONE
        inside[there] = self.short[gaps.task[there]]
        begin = np.maximum(gaps.starts, gaps.launched - self.costs.ordinary_ns)[inside]
        return between(begin, gaps.launched[inside])

    def _sources(self, part: Intervals) -> Ints:
        task = self.gaps.task[np.searchsorted(self.gaps.starts, part.starts, side="right") - 1]
        return np.append(self.did.source, NONE)[task]

    def _busiest(self, part: Intervals, tracks: list[list[int]]) -> Ints:
        """The innermost host span that fills at least half of each piece."""
        found = np.full(len(part.starts), NONE, np.int64)
        edges = np.searchsorted(part.starts, np.append(self.row.begin, np.iinfo(np.int64).max)).tolist()
        for place, (begin, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            if begin < end:
                spans, shift = self.hosts.spans(self.row.ranks[place]), self.row.origin[place]
                starts, ends = part.starts[begin:end] - shift, part.ends[begin:end] - shift
                inner = spans.latest(tracks[place], (starts + ends) // 2)
                found[begin:end] = np.append(spans.ids, NONE)[spans.covering(inner, starts, ends)]
        return found

    def _device(self, found: Pieces, told: Intervals) -> None:
        """Apportions time after a launch."""
        gaps = self.gaps
        left = between(gaps.launched, gaps.ends) - told
        wait_starts, wait_ends, of_gap = self._waits()
        waits = Intervals.union_of(wait_starts, wait_ends)
        part = left & waits
        found.add(part, "dependency", np.full(len(part.starts), NONE))
        left = left - waits
        node = np.append(self.did.node, False)[gaps.task]
        part = left & between(gaps.starts[node], gaps.ends[node])
        found.add(part, "dependency", np.full(len(part.starts), NONE))
        left = left - part
        usual = np.tile(LATENCIES * self.latency, 2)
        free = gaps.launched.copy()
        np.maximum.at(free, of_gap, np.minimum(wait_ends, gaps.ends[of_gap]))
        begins = np.concatenate((gaps.launched, free))
        slow = Intervals.union_of(begins, np.minimum(np.tile(gaps.ends, 2), begins + usual))
        launching = left & slow
        found.add(launching, "launch_overhead", self._sources(launching))
        rest = left - slow
        sources = self._sources(rest)
        once = np.isin(sources, self.once.ids) & (sources != NONE)  # its code is still on the way to the device
        found.add(Intervals(rest.starts[once], rest.ends[once]), "first_use", sources[once])
        found.add(Intervals(rest.starts[~once], rest.ends[~once]), "unknown", np.full(int((~once).sum()), NONE))

    def _backlog(self) -> Intervals:
        """Gaps that end long after a launch with the first task of their stream, on a device that did nothing before.

        It was busy with work from before the recording. So it was before that launch too, if that time is the shorter
        one. A host that had waited for the device tells against it. A host that is late may launch into a device that
        is slow once.
        """
        gaps, did = self.gaps, self.did
        first = np.zeros(len(did.starts) + 1, np.bool_)
        first[np.unique(did.tracks, return_index=True)[1]] = True  # tasks lie by rank and start
        length = gaps.ends - gaps.launched
        at = np.flatnonzero(first[gaps.task] & (gaps.task != NONE) & (length >= _BACKLOG_NS))
        idle_ = np.concatenate((np.zeros(1, np.int64), np.cumsum(gaps.ends - gaps.starts)))
        heads = np.searchsorted(self.of, self.of[at])  # the first gap of the rank
        busy = gaps.starts[at] - self.row.begin[self.of[at]] - (idle_[at] - idle_[heads])
        at = at[busy <= _BACKLOG_SHARE * length[at]]
        if not len(at):
            return EMPTY
        known, none = self.run.get(_emptied), np.zeros(0, np.int64)
        waited = np.sort(self.row.laid([known.get(rank, none) for rank in self.row.ranks]))
        last = np.append(-1, waited)[np.searchsorted(waited, gaps.launched[at], side="right")]
        ahead = gaps.launched[at] - gaps.starts[at] > gaps.ends[at] - gaps.launched[at]
        begin = np.where(ahead | (last > gaps.starts[at]), gaps.launched[at], gaps.starts[at])
        return between(begin, gaps.ends[at])

    def _older(self) -> NDArray[np.bool_]:
        """Which gaps open the window of a rank and end with a task from before the recording: most others are linked.

        What the device did before such a task is not known, as long as no host had waited until it was empty.
        """
        gaps, every = self.gaps, self.run.get(tasks)
        own = [every[rank] for rank in self.row.ranks]
        most = np.array([2 * one.linked.sum() > (~one.node).sum() for one in own], np.bool_)
        node = np.append(self.did.node, False)[gaps.task]
        found: NDArray[np.bool_] = (gaps.task != NONE) & ~gaps.linked & ~node & most[self.of]
        found &= gaps.starts == self.row.begin[self.of]
        for at in np.flatnonzero(found).tolist():
            rank, shift = self.row.ranks[self.of[at]], self.row.origin[self.of[at]]
            waited = self.run.get(_emptied).get(rank, np.zeros(0, np.int64)) + shift
            found[at] = not ((waited > gaps.starts[at]) & (waited <= gaps.ends[at])).any()
        return found

    def _waits(self) -> tuple[Ints, Ints, Ints]:
        """Waits for another stream on the stream of the task that ends a gap, ending within it: from, to, which gap."""
        waits = _spans(self.row, [self.costs.waits[rank] for rank in self.row.ranks])
        gaps = self.gaps
        at = np.searchsorted(gaps.starts, waits.ends, side="left") - 1  # the gap in which it ends
        inside = (at >= 0) & (gaps.task[at] != NONE) if len(gaps.starts) else np.zeros(len(at), bool)
        inside[inside] = self.did.tracks[gaps.task[at[inside]]] == waits.tracks[inside]
        return waits.starts[inside], waits.ends[inside], at[inside]


def _emptied(run: Run) -> dict[int, Ints]:
    """Per rank the ends of calls that return once the whole device has nothing left to do."""
    found = run.columns(
        "SELECT rank, ts_ns + dur_ns AS end_ns FROM span WHERE kind = 'runtime' "
        "AND regexp_matches(name, '(?:Device|Ctx|Context)Synchronize')"
    )
    ends, of = found["end_ns"].astype(np.int64), found["rank"]
    return {rank: ends[of == rank] for rank in np.unique(of).tolist()}


@dataclass(frozen=True)
class _Spans:
    """Spans of several ranks on one axis, by start."""

    starts: Ints
    ends: Ints
    ids: Ints
    tracks: Ints
    causes: NDArray[Any]

    def some(self, which: NDArray[np.bool_]) -> _Spans:
        return _Spans(*(column[which] for column in vars(self).values()))


def _spans(row: _Row, some: Sequence[Special | FirstUse | Waits | None]) -> _Spans:
    """Those of every rank; columns that they do not have are empty."""
    none, no_text = np.zeros(0, np.int64), np.zeros(0, np.str_)

    def of(name: str, empty: NDArray[Any]) -> list[NDArray[Any]]:
        return [empty if one is None else getattr(one, name, empty) for one in some]

    return _Spans(
        row.laid(of("starts", none)), row.laid(of("ends", none)), np.concatenate(of("ids", none)),
        np.concatenate(of("tracks", none)), np.concatenate(of("causes", no_text)),
    )  # fmt: skip


def _culprits(spans: _Spans, part: Intervals) -> Ints:
    """For each piece within the union of some spans, one that covers its middle: the last started that does."""
    starts, ends, ids = spans.starts, spans.ends, spans.ids
    if not len(part.starts):
        return part.starts
    middle = (part.starts + part.ends) // 2
    last = np.searchsorted(starts, middle, side="right") - 1
    reach = np.maximum.accumulate(ends)
    furthest = np.searchsorted(reach, reach[last], side="left")
    return ids[np.where(ends[last] > middle, last, furthest)]
