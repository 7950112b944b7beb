"""For whom collectives wait, over a whole run; and of a late peer that was captured, why it is late.

A late peer that was captured is compared with those that waited most for it, the median of them. All take equally
long, and what the ones wait, the other computes or idles longer: no clocks are compared in that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.finding import Change, Evidence
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.ranks.collectives import POINT_TO_POINT, Collectives, collectives
from npulens.analysis.ranks.stages import draining, mutual
from npulens.analysis.ranks.waits import CLOCK, GUESSED, PEERS, TASKS, Waits, complete, waits
from npulens.analysis.run import Run
from npulens.analysis.say import duration

#: Windows shown of each kind, and waiting ranks that a late one is compared with.
_SHOWN, _COMPARED = 10, 32
#: A wait that nobody can name is of this peer.
NOBODY = (-1, -1, -1)


@dataclass(frozen=True)
class Late:
    """A peer that others waited for: operators whose last member it was."""

    rank: int | None  # global; None: not known
    local: int | None  # its rank within `team`, where the global one is not known
    team: str | None
    rows: Ints  # of `collectives(run)`, each on a rank that waited
    waited: dict[int, Intervals]  # rank -> when it waited for this peer
    gained: dict[int, Intervals]  # the end of those waits: what the next latest peer does not explain
    clocked: bool  # known only from starts on several clocks
    unsure_ns: int
    guessed: bool  # from how long operators took, without any task or start to show it

    @property
    def wait_ns(self) -> int:
        """Of the rank that waited most, in the whole run."""
        return max((found.total() for found in self.waited.values()), default=0)

    def bare_ns(self, run: Run) -> int:
        """The same without what it computed meanwhile."""
        bare = (found - run.activity(rank).surely_computing for rank, found in self.waited.items())
        return max((found.total() for found in bare), default=0)

    @property
    def gain_ns(self) -> int:
        return max((found.total() for found in self.gained.values()), default=0)

    def text(self, run: Run, more: Excess | None) -> str:
        """Which sentences say it."""
        if self.rank is None:
            return "guessed" if self.guessed else "unnamed" if self.local is None else "local"
        if self.rank not in run.ranks:
            return "uncaptured"
        if run.activity(self.rank).computing is None:
            return "dark"
        half = self.bare_ns(run) // 2
        if more is not None and more.idle_ns > max(half, more.busy_ns):
            return "idle"
        if more is not None and more.busy_ns > half:
            return "busy"
        return "clocked" if self.clocked else "captured"


@dataclass(frozen=True)
class Excess:
    """What a late rank did longer than those that waited for it: than the median of them."""

    idle_ns: int
    busy_ns: int
    evidence: tuple[Evidence, ...]


def late_peers(run: Run) -> tuple[Late, ...]:
    """Every peer that somebody waited for, the one that cost most first."""
    operators, found = run.get(collectives), run.get(waits)
    gain = found.gain_ns
    rows = np.flatnonzero((gain > 0) & _meets(run) & ~run.get(draining))
    who: dict[tuple[int, int, int], list[int]] = {}
    for row in rows.tolist():
        peer, local = int(found.peer[row]), int(found.peer_local[row])
        key = (peer, -1, -1) if peer >= 0 else (-1, int(operators.team[row]), local) if local >= 0 else NOBODY
        who.setdefault(key, []).append(row)
    every = (_late(key, np.array(mine, np.int64), operators, found) for key, mine in who.items())
    return tuple(sorted(every, key=lambda late: -late.gain_ns))


def _late(key: tuple[int, int, int], rows: Ints, operators: Collectives, found: Waits) -> Late:
    rank, team, local = key
    waited, gained = {}, {}
    for waiting in np.unique(operators.rank[rows]).tolist():
        mine = rows[operators.rank[rows] == waiting]
        ends = found.arrival_ns[mine]
        waited[waiting] = Intervals.union_of(ends - found.wait_ns[mine], ends)
        gained[waiting] = Intervals.union_of(ends - found.gain_ns[mine], ends)
    clocked = bool((found.how[rows] == CLOCK).any())
    return Late(
        rank if rank >= 0 else None, local if local >= 0 else None, operators.teams[team] if team >= 0 else None,
        rows, waited, gained, clocked, int(found.uncertainty_ns[rows].max(initial=0)),
        bool((found.how[rows] == GUESSED).any()),
    )  # fmt: skip


def _meets(run: Run) -> NDArray[np.bool_]:
    """Operators that several ranks meet in: collectives, and exchanges that are like one."""
    return ~run.get(collectives).of_kinds(POINT_TO_POINT) | run.get(mutual)


def told(run: Run) -> NDArray[np.bool_]:
    """Of the operators that several ranks meet in, those whose waits the capture shows for everybody."""
    operators, found = run.get(collectives), run.get(waits)
    measured = (found.how == PEERS) | (found.how == TASKS) | (found.how == CLOCK) & complete(run, operators)
    return np.asarray(measured[_meets(run)])


def told_share(run: Run) -> float:
    """The share of the time in collectives that `told` speaks of."""
    operators, known = run.get(collectives), run.get(told)
    length = (operators.end - operators.ts)[_meets(run)]
    return float(length[known].sum() / length.sum()) if length.sum() else float(known.all())


def bare(late: Late, run: Run, words: str) -> str:
    """Says how much of the wait is bare, where that is clearly less than all of it."""
    ns = late.bare_ns(run)
    return words.format(duration(ns / run.step_count)) if ns < 0.9 * late.wait_ns else ""


def waited_less(run: Run, late: Late) -> Change:
    """The late peer comes with the last but one.

    Where it was captured, that takes a piece out of its whole timeline, whatever it did then. The others follow it by
    themselves.
    """
    operators, found = run.get(collectives), run.get(waits)
    came = comings(operators, found, late)
    absent = late.rows[~np.isin(operators.instance[late.rows], operators.instance[came.rows])]
    lost = Intervals.union_of(operators.ts[came.rows] - came.late_ns, operators.ts[came.rows])
    cut = {} if late.rank is None or not len(came.rows) else {late.rank: lost}
    return Change(peers=operators.span_id[absent], peer_ns=found.gain_ns[absent], cut=cut)


def most_ns(run: Run, late: Late) -> int:
    """What a late peer can give back at most: a wait costs nothing beside which every rank that waits computes.

    A rank that waits for nothing more at the end may end before the run does. Where ranks were not captured, nobody
    knows what they compute meanwhile.
    """
    if run.missing_ranks != ():
        return late.gain_ns
    operators, found, rows = run.get(collectives), run.get(waits), late.rows
    bare, longest = found.gain_ns[rows].copy(), 0
    for rank in late.gained:
        mine, window = operators.rank[rows] == rank, run.window(rank)
        ends = found.arrival_ns[rows[mine]]
        bare[mine] -= run.activity(rank).surely_computing.within(ends - bare[mine], ends)
        longest = max(longest, window[1] - window[0] if window else run.wall_ns)
    instance = np.where(operators.instance[rows] >= 0, operators.instance[rows], -1 - rows)
    _, which = np.unique(instance, return_inverse=True)
    most = np.zeros(len(rows), np.int64)
    np.maximum.at(most, which, bare)
    return min(late.gain_ns, int(most.sum()) + max(0, run.wall_ns - longest))


@dataclass(frozen=True)
class Comings:
    """A captured late rank's own operators in the collectives that it was late for, and by how much."""

    rows: Ints
    late_ns: Ints


def comings(operators: Collectives, found: Waits, late: Late) -> Comings:
    """The collectives to which a captured rank came last; none where it was not captured or could not be matched."""
    rows = late.rows[operators.instance[late.rows] >= 0]
    worst = np.zeros(int(operators.instance.max(initial=-1)) + 1, np.int64)
    np.maximum.at(worst, operators.instance[rows], found.gain_ns[rows])
    own = -1 if late.rank is None else late.rank
    mine = np.flatnonzero((operators.rank == own) & (operators.instance >= 0))
    mine = mine[worst[operators.instance[mine]] > 0]
    return Comings(mine, worst[operators.instance[mine]])


def witnessed(run: Run, late: Late, most: int) -> tuple[Evidence, ...]:
    """Where the others waited, the longest first."""
    operators, found = run.get(collectives), run.get(waits)
    rows = late.rows[np.argsort(-found.gain_ns[late.rows], kind="stable")][:most]
    return tuple(
        Evidence(
            int(operators.rank[row]), int(found.arrival_ns[row] - found.wait_ns[row]), int(found.wait_ns[row]),
            int(operators.span_id[row]), str(operators.name[row]),
        )
        for row in rows.tolist()
    )  # fmt: skip


def said(ranks: Sequence[int]) -> str:
    """Rank 0 waits; Ranks 0 and 1 wait up to; 64 ranks wait up to. What follows is the longest wait."""
    if len(ranks) == 1:
        return f"Rank {ranks[0]} waits"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks wait up to"
    return f"Ranks {', '.join(str(rank) for rank in ranks[:-1])} and {ranks[-1]} wait up to"


def excess(run: Run, late: Late) -> Excess | None:
    """What a captured late peer did longer than those that waited most for it; None: nothing to compare.

    Where nothing says what a device computed, it may have computed in what looks idle.
    """
    operators, found = run.get(collectives), run.get(waits)
    if late.rank not in run.ranks or late.rank is None:
        return None
    window = run.window(late.rank)
    most = sorted(late.gained, key=lambda rank: (-late.gained[rank].total(), rank))[:_COMPARED]
    if any(run.activity(rank).computing is None for rank in (late.rank, *most)):
        return None
    others = [(rank, theirs) for rank in most if (theirs := run.window(rank)) is not None]
    if window is None or not others:
        return None
    own = _as_one(window)
    busy, idle = _busy(run, late.rank) & own, own - run.activity(late.rank).work()
    idle_more, busy_more = idle.total(), busy.total()
    idle_more -= int(np.median([(_as_one(one) - run.activity(rank).work()).total() for rank, one in others]))
    busy_more -= int(np.median([(_busy(run, rank) & _as_one(one)).total() for rank, one in others]))
    gaps = _largest(idle & _ahead(operators, late), max(0, min(idle_more, late.gain_ns)))
    evidence = [Evidence(late.rank, start, end - start) for start, end in _longest(gaps)]
    came = comings(operators, found, late)
    worst = np.argsort(-came.late_ns, kind="stable")[:_SHOWN]
    evidence += [
        Evidence(late.rank, int(operators.ts[row]) - ns, ns, int(operators.span_id[row]), str(operators.name[row]))
        for row, ns in zip(came.rows[worst].tolist(), came.late_ns[worst].tolist(), strict=True)
    ]
    return Excess(idle_more, busy_more, tuple(evidence))


def _as_one(window: tuple[int, int]) -> Intervals:
    begin, end = window
    return Intervals.union_of(np.array([begin]), np.array([end]))


def _busy(run: Run, rank: int) -> Intervals:
    """When the rank's device computed or copied."""
    did = run.activity(rank)
    return did.surely_computing | (did.copy or EMPTY)


def _ahead(operators: Collectives, late: Late) -> Intervals:
    """The stretches before the late rank came: since the collective before, or since the beginning."""
    mine = np.flatnonzero(operators.rank == late.rank)
    came = np.isin(operators.instance[mine], operators.instance[late.rows]) & (operators.instance[mine] >= 0)
    reach = np.maximum.accumulate(operators.end[mine]) if len(mine) else operators.end[mine]
    since = np.concatenate((np.full(1, np.iinfo(np.int64).min // 2), reach[:-1])) if len(mine) else reach
    return Intervals.union_of(since[came], operators.ts[mine][came])


def _longest(some: Intervals, most: int = _SHOWN) -> Iterator[tuple[int, int]]:
    for index in np.argsort(some.starts - some.ends)[:most]:
        yield int(some.starts[index]), int(some.ends[index])


def _largest(some: Intervals, total: int) -> Intervals:
    """The longest of some intervals, as many as make up a total; of the last only what is missing."""
    order = np.argsort(some.starts - some.ends)
    long = (some.ends - some.starts)[order]
    kept = np.clip(total - (np.cumsum(long) - long), 0, long)
    return Intervals.union_of(some.starts[order], some.starts[order] + kept) if len(order) else EMPTY
