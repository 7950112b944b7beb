"""For whom collectives wait, over a whole run; and of a late peer that was captured, why it is late.

A late peer that was captured is compared with the rank that waited most for it. Both take equally
long, and what the one waits, the other computes or idles longer: no clocks are compared in that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.collectives import POINT_TO_POINT, Collectives, collectives
from analysis.finding import Change, Evidence
from analysis.intervals import EMPTY, Intervals, Ints
from analysis.run import Run
from analysis.say import duration
from analysis.stages import draining
from analysis.waits import CLOCK, GUESSED, PEERS, TASKS, Waits, complete, waits

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
        bare = (found - (run.activity(rank).computing or EMPTY) for rank, found in self.waited.items())
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
        half = self.bare_ns(run) // 2
        if more is not None and more.idle_ns > max(half, more.busy_ns):
            return "idle"
        if more is not None and more.busy_ns > half:
            return "busy"
        return "clocked" if self.clocked else "captured"


@dataclass(frozen=True)
class Excess:
    """What a late rank did longer than the rank that waited for it."""

    idle_ns: int
    busy_ns: int
    change: Change
    evidence: tuple[Evidence, ...]


def late_peers(run: Run) -> tuple[Late, ...]:
    """Every peer that somebody waited for, the one that cost most first."""
    operators, found = run.get(collectives), run.get(waits)
    gain = found.gain_ns
    rows = np.flatnonzero((gain > 0) & ~operators.of_kinds(POINT_TO_POINT) & ~run.get(draining))
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


def told(run: Run) -> NDArray[np.bool_]:
    """Of the operators that several ranks meet in, those whose waits the capture shows for everybody."""
    operators, found = run.get(collectives), run.get(waits)
    measured = (found.how == PEERS) | (found.how == TASKS) | (found.how == CLOCK) & complete(run, operators)
    return np.asarray(measured[~operators.of_kinds(POINT_TO_POINT)])


def bare(late: Late, run: Run, words: str) -> str:
    """Says how much of the wait is bare, where that is clearly less than all of it."""
    ns = late.bare_ns(run)
    return words.format(duration(ns / run.step_count)) if ns < 0.9 * late.wait_ns else ""


def waited_less(run: Run, late: Late) -> Change:
    """The late peer comes with the last but one."""
    return Change(peers=run.get(collectives).span_id[late.rows], peer_ns=run.get(waits).gain_ns[late.rows])


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
    """Rank 0 waits; Ranks 0 and 1 wait; Ranks 0, 1 and 2 wait; 64 ranks wait."""
    if len(ranks) == 1:
        return f"Rank {ranks[0]} waits"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks wait"
    return f"Ranks {', '.join(str(rank) for rank in ranks[:-1])} and {ranks[-1]} wait"


def excess(run: Run, late: Late) -> Excess | None:
    """What a captured late peer did longer than the rank that waited most for it; None: nothing to compare."""
    operators, found = run.get(collectives), run.get(waits)
    if late.rank not in run.ranks or late.rank is None:
        return None
    waiting = max(late.gained, key=lambda rank: late.gained[rank].total())
    window, other = run.window(late.rank), run.window(waiting)
    if window is None or other is None:
        return None
    own, theirs = (Intervals.union_of(np.array([begin]), np.array([end])) for begin, end in (window, other))
    busy, idle = _busy(run, late.rank) & own, own - run.activity(late.rank).work()
    idle_more = idle.total() - (theirs - run.activity(waiting).work()).total()
    busy_more = busy.total() - (_busy(run, waiting) & theirs).total()
    gaps = _largest(idle & _ahead(operators, late), max(0, min(idle_more, late.gain_ns)))
    change = Change({late.rank: gaps} if gaps.total() else {})
    if busy_more > 0:
        change |= longer(run, late.rank, own, waiting, theirs)
    evidence = [Evidence(late.rank, start, end - start) for start, end in _longest(gaps)]
    evidence += [
        Evidence(late.rank, at - ns, ns, int(operators.span_id[row]), str(operators.name[row]))
        for at, ns, row in _before(operators, found, late.rank, late.rows)
    ]
    return Excess(idle_more, busy_more, change, tuple(evidence))


def _busy(run: Run, rank: int) -> Intervals:
    """When the rank's device computed or copied."""
    did = run.activity(rank)
    return (did.computing or EMPTY) | (did.copy or EMPTY)


def _ahead(operators: Collectives, late: Late) -> Intervals:
    """The stretches before the late rank came: since the collective before, or since the beginning."""
    mine = np.flatnonzero(operators.rank == late.rank)
    came = np.isin(operators.instance[mine], operators.instance[late.rows]) & (operators.instance[mine] >= 0)
    reach = np.maximum.accumulate(operators.end[mine]) if len(mine) else operators.end[mine]
    since = np.concatenate((np.full(1, np.iinfo(np.int64).min // 2), reach[:-1])) if len(mine) else reach
    return Intervals.union_of(since[came], operators.ts[mine][came])


def _before(operators: Collectives, found: Waits, late: int, rows: Ints) -> list[tuple[int, int, int]]:
    """(when it came, by how much too late, its operator) of the late rank, the latest first, on its own clock."""
    worst: dict[int, int] = {}
    for row in rows.tolist():
        number = int(operators.instance[row])
        worst[number] = max(worst.get(number, 0), int(found.gain_ns[row]))
    mine = np.flatnonzero((operators.rank == late) & np.isin(operators.instance, [n for n in worst if n >= 0]))
    came = [(int(operators.ts[row]), worst[int(operators.instance[row])], int(row)) for row in mine]
    return sorted(came, key=lambda one: -one[1])[:10]


def _longest(some: Intervals, most: int = 10) -> Iterator[tuple[int, int]]:
    for index in np.argsort(some.starts - some.ends)[:most]:
        yield int(some.starts[index]), int(some.ends[index])


def _largest(some: Intervals, total: int) -> Intervals:
    """The longest of some intervals, as many as make up a total; of the last only what is missing."""
    order = np.argsort(some.starts - some.ends)
    long = (some.ends - some.starts)[order]
    kept = np.clip(total - (np.cumsum(long) - long), 0, long)
    return Intervals.union_of(some.starts[order], some.starts[order] + kept) if len(order) else EMPTY


def longer(run: Run, late: int, own: Intervals, waiting: int, other: Intervals) -> Change:
    """Device tasks of the late rank, shortened to what those of their name took on the other rank."""
    query = "SELECT span_id, name, ts_ns, dur_ns FROM span WHERE rank = ? AND kind IN ('kernel', 'memset', 'memcpy')"

    def of(rank: int, where: Intervals) -> tuple[Ints, NDArray[np.str_], Ints]:
        rows = run.columns(query, [rank])
        ts, ns = np.asarray(rows["ts_ns"]).astype(np.int64), np.asarray(rows["dur_ns"]).astype(np.int64)
        inside = where.within(ts, ts + 1) > 0
        return np.asarray(rows["span_id"])[inside].astype(np.int64), rows["name"][inside].astype(str), ns[inside]

    ids, names, ns = of(late, own)
    _, their_names, their_ns = of(waiting, other)
    known, codes = np.unique(np.concatenate((names, their_names)), return_inverse=True)
    mine = np.bincount(codes[: len(ns)], ns, len(known))
    theirs = np.bincount(codes[len(ns) :], their_ns, len(known))
    share = np.clip(1 - theirs / np.maximum(mine, 1), 0, 1)
    less = (ns * share[codes[: len(ns)]]).astype(np.int64)
    return Change(tasks=ids[less > 0], task_ns=less[less > 0])
