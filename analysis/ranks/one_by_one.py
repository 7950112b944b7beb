"""Collectives that the host launches one by one, tensor after tensor, where one for all of them would do.

A stretch is a row of collectives of one kind and group, in one step of a rank. They lie in the order of their launches,
and each has its own. Between two of them the host launches next to nothing: a copy, a cast, a division of the tensor.
Anything else ends the stretch, since what follows may need the result of the collective before. So do matrix products,
work that nothing names, and a pause of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.kinds import Bools
from npulens.analysis.idle.issue import COLLECTIVE, COPY, KERNEL, MEMSET, Tasks, tasks
from npulens.analysis.idle.pieces import CODE, Idle, idle
from npulens.analysis.intervals import Intervals, Ints, among, combined
from npulens.analysis.ranks.collectives import Collectives, collectives
from npulens.analysis.run import Run

#: Collectives of which one can carry many tensors. An all-to-all sends what was sorted for it alone.
TOGETHER = frozenset({"allreduce", "reducescatter", "allgather", "broadcast", "reduce"})
#: So many other tasks at most between two of a stretch, and so much time: five times what a slow host takes for them.
BETWEEN, PAUSE_NS = 4, 2_000_000
#: What makes a tensor ready to be sent, or puts it back: without underscores and the number of a version.
_READIES = re.compile(
    r"clone|copy|contiguous|viewcopy|tensormove|identity|asstrided|to|tocopy|typeas|cast|half|float|bfloat16|"
    r"divs?|realdiv|muls?|adds?|subs?|zeros?|zeroslike|fill|cat|concatd?|slice|stridedslice|foreach\w+",
    re.I,
)
#: Idle time of these is none that the host's launches are known to make.
_NOT_OF_THE_HOST = ("unknown", "backlog", "dependency")


@dataclass(frozen=True)
class Stretches:
    """Stretches of one kind of collective and group, of all ranks, by rank and start."""

    kind: str
    rank: Ints
    count: Ints  # collectives
    launched: Ints  # when the host was through with the launch of the first
    until: Ints  # and of the last
    idle_ns: Ints  # of the device, from the first one's start to the last one's end, for reasons that are known
    between_ns: Ints  # the same time without the collectives
    known_ns: dict[int, int]  # by rank: all idle time for reasons that are known
    host_ns: Ints  # from each launch to the next
    row: Ints  # of each collective, in `collectives(run)`
    took_ns: Ints  # of each, on the device
    first: Bools  # which of them begin a stretch

    def by_rank(self, values: Ints) -> dict[int, int]:
        """The sum of a value of each stretch."""
        return {rank: int(values[self.rank == rank].sum()) for rank in np.unique(self.rank).tolist()}

    def windows(self, rank: int) -> Intervals:
        """What the host of a rank would not spend if the first collective carried all."""
        mine = self.rank == rank
        return Intervals.union_of(self.launched[mine], self.until[mine])


def one_by_one(run: Run, least: int) -> list[Stretches]:
    """By kind and group, of stretches with so many collectives at least; only of ranks whose idle time is known."""
    operators, pieces = run.get(collectives), run.get(idle)
    found: dict[tuple[int, int], list[_Stretch]] = {}
    for rank, did in run.get(tasks).items():
        if rank in pieces.ranks:
            for key, at in _of_rank(run, operators, did, least):
                found.setdefault(key, []).append(_Stretch(rank, did, at))
    return [_together(pieces, operators, operators.kinds[kind], mine) for (_, kind), mine in sorted(found.items())]


@dataclass(frozen=True)
class _Stretch:
    rank: int
    did: Tasks
    at: Ints  # its collectives among the tasks, in the order of their launches


def _of_rank(run: Run, operators: Collectives, did: Tasks, least: int) -> Iterator[tuple[tuple[int, int], Ints]]:
    """Team and kind of each stretch of a rank, and the places of its collectives among the rank's tasks."""
    order = np.flatnonzero(did.linked)
    order = order[np.argsort(did.source_start[order], kind="stable")]
    if min(len(order), len(operators)) < least:
        return
    row = operators.at(did.ids[order])
    _, source, times = np.unique(did.source[order], return_inverse=True, return_counts=True)
    mine = (row >= 0) & operators.of_kinds(TOGETHER)[row] & ~did.node[order] & (times[source.ravel()] == 1)
    ended = np.cumsum(~mine & ~_readies(run, did)[order])
    key = combined(operators.team[row], operators.kind[row])
    for one in np.unique(key[mine]).tolist():
        place = np.flatnonzero(mine & (key == one))
        launched = did.source_start[order[place]]
        breaks = np.diff(ended[place]) > 0
        breaks |= np.diff(place) > BETWEEN + 1
        breaks |= np.diff(launched) > PAUSE_NS
        breaks |= np.diff(operators.step[row[place]]) != 0
        for some in np.split(place, np.flatnonzero(breaks) + 1):
            if len(some) >= least:
                of = int(row[some[0]])
                yield (int(operators.team[of]), int(operators.kind[of])), order[some]


def _readies(run: Run, did: Tasks) -> Bools:
    """Which tasks only make a tensor ready, put it back, or send it: all that may lie between two collectives."""
    every = run.get(kernels)
    ready = np.sort(every.span_id[every.of(every.kinds.types.map(_says_so).flags())])
    found: Bools = np.isin(did.kinds, (COPY, MEMSET, COLLECTIVE)) | ((did.kinds == KERNEL) & among(did.ids, ready))
    return found & ~did.node


def _says_so(type_: str) -> bool:
    """Whether a kernel of that type does; aclnnInplaceDivs_RealDivAiCore_RealDiv is a RealDiv."""
    plain = type_.rsplit("AiCore_", 1)[-1].replace("_", "")
    return _READIES.fullmatch(re.sub(r"V?\d+$", "", plain)) is not None


def _together(pieces: Idle, operators: Collectives, kind: str, some: list[_Stretch]) -> Stretches:
    known = ~np.isin(pieces.cause, [CODE[cause] for cause in _NOT_OF_THE_HOST])
    lost = {one.rank: _idle(pieces, known, one.rank) for one in some}
    idle_ns, between, took, host, done = [], [], [], [], []
    for one in some:
        starts, ends, launched = one.did.starts[one.at], one.did.ends[one.at], one.did.source_start[one.at]
        begin, end = starts.min(keepdims=True), ends.max(keepdims=True)
        idle_ns.append(lost[one.rank].within(begin, end))
        between.append(end - begin - Intervals.union_of(starts, ends).total())
        took.append(ends - starts)
        host.append(np.diff(launched))
        done.append(one.did.source_end[one.at][[0, -1]])
    count = np.array([len(one.at) for one in some], np.int64)
    first = np.zeros(int(count.sum()), np.bool_)
    first[np.cumsum(count) - count] = True
    row, edges = operators.at(np.concatenate([one.did.ids[one.at] for one in some])), np.array(done, np.int64)
    return Stretches(
        kind, np.array([one.rank for one in some], np.int64), count, edges[:, 0], edges[:, 1],
        np.concatenate(idle_ns), np.concatenate(between), {rank: each.total() for rank, each in lost.items()},
        np.concatenate(host), row, np.concatenate(took), first,
    )  # fmt: skip


def _idle(pieces: Idle, known: Bools, rank: int) -> Intervals:
    """When the device of a rank idled for reasons that are known."""
    own = pieces.on(rank)
    return Intervals.union_of(pieces.start[own][known[own]], pieces.end[own][known[own]])
