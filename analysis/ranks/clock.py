"""How the clocks of the captured ranks map to each other, measured from their collectives, with how sure that is.

Ranks of one host need not agree. On a real 8 x 910B host (text Level2 of the msinsight captures) two devices' stamps
lie 79 us apart. So nothing is assumed; everything is measured.

Certain are bounds by causality, in both directions as in NTP. A Notify_Wait for a peer cannot end before that peer's
Notify_Record began. Nobody leaves an all-reduce before the last has come. Between two ranks the offset lies between the
narrowest of them. Where the bounds are wide (no tasks were recorded), the ends of the same collectives say it better.
Members leave together, but for a few microseconds. The estimate is then their median, kept within the bounds. Its
uncertainty is how far they scatter plus what members are known to leave apart.

A clock that drifts so much that bounds contradict each other is told by a larger uncertainty.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.collectives import MEETING, Collectives, collectives
from npulens.analysis.ranks.comm_tasks import TELL, WAIT, CommTasks, comm_tasks
from npulens.analysis.ranks.exchanges import exchanges
from npulens.analysis.run import Run

#: How far apart members leave a collective. Four real captures have eight Level1 and Level2 collectives each. Their
#: ends lie at most 8.3 us from the middle of the bounds by causality.
APART_NS = 12_000
#: The same as a share of the collective: its last transfers vary by about as much (simulated and real: up to 1.5 %).
APART_SHARE = 0.02
#: Ends of collectives up to so many times the shortest are used: long ones wait or transfer much, and scatter more.
SHORT = 2.0
#: Groups up to this size are measured pair by pair; in larger ones everybody against the first.
ALL_PAIRS = 8
_FAR = 2**62


@dataclass(frozen=True)
class Offset:
    """The second rank's stamp plus `ns` is the first one's time, to within `uncertainty_ns`."""

    ns: int
    uncertainty_ns: int


@dataclass(frozen=True)
class Clock:
    """Offsets of all ranks to one rank's clock."""

    reference: int | None
    offsets: dict[int, Offset] = field(default_factory=dict)  # only ranks that could be told
    pairs: dict[tuple[int, int], Offset] = field(default_factory=dict)  # measured directly; lower rank first

    def offset_ns(self, rank: int) -> int:
        """What to add to a stamp of the rank to get the reference's time; 0 where it cannot be told."""
        return self.offsets[rank].ns if rank in self.offsets else 0

    def uncertainty_ns(self, rank: int) -> int | None:
        """How far off that may be; None: cannot tell."""
        return self.offsets[rank].uncertainty_ns if rank in self.offsets else None

    def between_ns(self, a: int, b: int) -> int | None:
        """How far off a difference between stamps of two ranks may be, after correction; None: cannot tell."""
        if a == b:
            return 0
        mine, other = self.uncertainty_ns(a), self.uncertainty_ns(b)
        if mine is None or other is None:
            return None
        direct = self.pairs.get((min(a, b), max(a, b)))
        if direct is None:
            return mine + other
        told = self.offset_ns(max(a, b)) - self.offset_ns(min(a, b))
        return min(mine + other, abs(told - direct.ns) + direct.uncertainty_ns)


def clock(run: Run) -> Clock:
    """The clocks of the run's ranks."""
    operators = run.get(collectives)
    pairs = _measured(operators, _told(operators, run.get(comm_tasks)), run.get(exchanges))
    reached = {rank: _nearest(rank, run.ranks, pairs) for rank in _candidates(run.ranks, pairs)}
    if not reached:
        return Clock(None)
    reference = max(reached, key=lambda rank: (len(reached[rank]), -rank))
    return Clock(reference, reached[reference], pairs)


def _candidates(ranks: tuple[int, ...], pairs: dict[tuple[int, int], Offset]) -> Iterator[int]:
    """The lowest rank of each set of ranks that can be compared."""
    parent = {rank: rank for rank in ranks}

    def root(rank: int) -> int:
        while parent[rank] != rank:
            rank = parent[rank]
        return rank

    for a, b in sorted(pairs):
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    yield from (rank for rank in ranks if parent[rank] == rank)


def _nearest(reference: int, ranks: tuple[int, ...], pairs: dict[tuple[int, int], Offset]) -> dict[int, Offset]:
    """Offsets to the reference, each along the path whose uncertainties add up to least."""
    beside: dict[int, list[tuple[int, Offset]]] = {rank: [] for rank in ranks}
    for (a, b), offset in pairs.items():
        beside[a].append((b, offset))
        beside[b].append((a, Offset(-offset.ns, offset.uncertainty_ns)))
    found: dict[int, Offset] = {}
    queue = [(0, reference, 0)]
    while queue:
        unsure, rank, ns = heapq.heappop(queue)
        if rank in found:
            continue
        found[rank] = Offset(ns, unsure)
        for other, step in beside[rank]:
            heapq.heappush(queue, (unsure + step.uncertainty_ns, other, ns + step.ns))
    return found


def _measured(
    operators: Collectives, told: dict[tuple[int, int], int], exchanged: Ints
) -> dict[tuple[int, int], Offset]:  # fmt: skip
    """The offset of every pair of ranks that share collectives or tasks, or else sends and receives."""
    shared: dict[tuple[int, int], list[tuple[Ints, Ints]]] = {pair: [] for pair in told if pair[0] < pair[1]}
    for (a, b), rows in _shared(operators):
        shared.setdefault((a, b), []).append(rows)
    for (a, b), rows in _exchanged(operators, exchanged):
        shared.setdefault((a, b), [rows])
    found = {}
    for (a, b), several in sorted(shared.items()):
        low, high = -told.get((a, b), _FAR), told.get((b, a), _FAR)
        first = np.concatenate([mine for mine, _ in several] or [np.zeros(0, np.int64)])
        second = np.concatenate([other for _, other in several] or [np.zeros(0, np.int64)])
        if (offset := _offset(operators, first, second, low, high)) is not None:
            found[a, b] = offset
    return found


def _shared(operators: Collectives) -> Iterator[tuple[tuple[int, int], tuple[Ints, Ints]]]:
    """Rows of the collectives that two ranks both took part in and that nobody leaves early."""
    rows = np.flatnonzero((operators.instance >= 0) & operators.of_kinds(MEETING))
    rows = rows[np.lexsort((operators.instance[rows], operators.rank[rows], operators.team[rows]))]
    team, rank = operators.team[rows], operators.rank[rows]
    edges = np.flatnonzero((team[1:] != team[:-1]) | (rank[1:] != rank[:-1])) + 1
    blocks: dict[int, dict[int, Ints]] = {}
    for block in np.split(rows, edges) if len(rows) else ():
        blocks.setdefault(int(operators.team[block[0]]), {})[int(operators.rank[block[0]])] = block
    for ranks in blocks.values():
        every = sorted(ranks)
        pairs = combinations(every, 2) if len(every) <= ALL_PAIRS else ((every[0], other) for other in every[1:])
        for a, b in pairs:
            _, mine, other = np.intersect1d(
                operators.instance[ranks[a]], operators.instance[ranks[b]], assume_unique=True, return_indices=True
            )
            if len(mine):
                yield (a, b), (ranks[a][mine], ranks[b][other])


def _exchanged(operators: Collectives, number: Ints) -> Iterator[tuple[tuple[int, int], tuple[Ints, Ints]]]:
    """Rows of the sends and receives between two ranks: neither side is done before the other has come."""
    rows = np.flatnonzero(number >= 0)
    rows = rows[np.lexsort((operators.rank[rows], number[rows]))]
    first = np.flatnonzero(np.diff(number[rows]) == 0)
    one, other = rows[first], rows[first + 1]
    pair = np.stack((operators.rank[one], operators.rank[other]))
    for a, b in np.unique(pair, axis=1).T.tolist():
        mine = (pair[0] == a) & (pair[1] == b)
        yield (a, b), (one[mine], other[mine])


def _offset(operators: Collectives, a: Ints, b: Ints, low: int, high: int) -> Offset | None:
    """The offset of b's clock to a's from the same collectives on both, and from the bounds of their tasks."""
    if len(a):
        low = max(low, int((operators.ts[a] - operators.end[b]).max()))
        high = min(high, int((operators.end[a] - operators.ts[b]).min()))
    middle, half = (low + high) // 2, (abs(high - low) + 1) // 2
    contradiction = max(low - high, 0)
    if not len(a):
        return None if abs(low) >= _FAR or abs(high) >= _FAR else Offset(middle, half + contradiction)
    bare = np.minimum(operators.end[a] - operators.ts[a], operators.end[b] - operators.ts[b])
    short = bare <= SHORT * bare.min()
    apart, bare = (operators.end[a] - operators.end[b])[short], bare[short]
    ends = int(np.median(apart))
    scatter = int(np.quantile(np.abs(apart - ends), 0.9))
    unsure = max(APART_NS, round(APART_SHARE * float(np.median(bare)))) + scatter + contradiction
    if not contradiction and half <= unsure:
        return Offset(middle, half)
    if contradiction:
        return Offset(ends, unsure)
    kept = min(max(ends, low), high)
    return Offset(kept, min(unsure + abs(kept - ends), max(kept - low, high - kept)))


def _told(operators: Collectives, tasks: CommTasks) -> dict[tuple[int, int], int]:
    """(p, r) -> the most that offset(p) - offset(r) can be: no wait of r for p ended before p's record began.

    The k-th wait belongs to the k-th record of the same direction in the same collective. There must be as many of
    both.
    """
    instance = operators.instance[tasks.op] if len(tasks) else np.zeros(0, np.int64)
    usable = (instance >= 0) & (tasks.src >= 0) & (tasks.dst >= 0)
    wait, tell = np.flatnonzero(usable & (tasks.what == WAIT)), np.flatnonzero(usable & (tasks.what == TELL))
    if not len(wait) or not len(tell):
        return {}
    size = int(max(tasks.src[usable].max(), tasks.dst[usable].max())) + 1
    waited = (instance[wait] * size + tasks.dst[wait]) * size + tasks.src[wait]
    said = (instance[tell] * size + tasks.src[tell]) * size + tasks.dst[tell]
    waited_k, waits_of = _places(waited)
    said_k, tells_of = _places(said)
    _, mine, other = np.intersect1d(
        waited * (_most(waits_of, tells_of)) + waited_k, said * (_most(waits_of, tells_of)) + said_k,
        assume_unique=True, return_indices=True,
    )  # fmt: skip
    even = waits_of[mine] == tells_of[other]
    wait, tell = wait[mine[even]], tell[other[even]]
    r, p = operators.rank[tasks.op[wait]], operators.rank[tasks.op[tell]]
    most = tasks.end[wait] - tasks.ts[tell]
    pair, which = np.unique(p * (1 << 32) + r, return_inverse=True)
    least = np.full(len(pair), _FAR)
    np.minimum.at(least, which, most)
    return {
        (int(code >> 32), int(code & 0xFFFFFFFF)): int(ns)
        for code, ns in zip(pair, least, strict=True) if code >> 32 != code & 0xFFFFFFFF
    }  # fmt: skip


def _places(key: Ints) -> tuple[Ints, Ints]:
    """Place of each row among those of its key (rows come by time), and how many those are."""
    order = np.argsort(key, kind="stable")
    _, first, which, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    begins = np.concatenate((np.zeros(1, np.int64), np.cumsum(count)[:-1]))
    place = np.empty(len(key), np.int64)
    place[order] = np.arange(len(key)) - begins[which[order]]
    return place, count[which].astype(np.int64)


def _most(a: Ints, b: Ints) -> int:
    return int(max(a.max(), b.max())) + 1
