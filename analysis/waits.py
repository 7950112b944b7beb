"""Who waited for whom inside collectives, how long, and what it would give back if the last came with the second last.

Four ways to know, the best that a capture allows for each operator:

* PEERS: tasks that wait name their peer (Level1 and above);
* TASKS: the hardware's waits without their peer (Level0): how long, but not for whom;
* CLOCK: no tasks (Kineto): starts of the same collective on several captured ranks, on one clock
  (analysis/clock.py), where the difference is larger than the clocks' uncertainty;
* GUESSED: no tasks, and members were not captured: what an operator takes clearly longer than
  the fastest of its kind and size in this capture, it waited, or else its transfer was slow.

Otherwise UNKNOWN: the wait is somewhere inside the operator and nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.clock import Clock, clock
from analysis.collectives import MEETING, Collectives, collectives
from analysis.comm_tasks import TRANSFER, CommTasks, comm_tasks
from analysis.intervals import Intervals, Ints
from analysis.run import Run

UNKNOWN, PEERS, TASKS, CLOCK, GUESSED = 0, 1, 2, 3, 4
#: A wait that ends this soon found its peer there already: the hardware's own steps take 20 to 800 ns (real captures).
HERE_NS = 1_000
#: More than any rank's number.
_RANKS = 1 << 31
#: How many neighbours a wait is followed along.
_CHAIN = 64
_FAR = 2**62
#: Without names, somebody waited clearly longer than the one it waited for if by this factor.
_CLEARLY = 20
#: A guess needs an operator to take this many times what it needs. Same operators of one real capture (8 x 910B) and of
#: the simulated jobs vary by up to 1.3 without anybody being late.
_SLOW = 1.5


@dataclass(frozen=True)
class Waits:
    """One row per operator, as in `collectives(run)`; times on the operator's own rank's clock."""

    how: Ints  # UNKNOWN, PEERS, TASKS, CLOCK or GUESSED
    wait_ns: Ints  # for peers to come: the union of its waits; -1: unknown
    arrival_ns: Ints  # when the last peer came; when the rank was ready itself, if nobody was waited for
    second_ns: Ints  # when the last but one came, the rank itself included
    peer: Ints  # global rank that came last; -1: nobody, or unknown
    peer_local: Ints  # the same within the group
    transfer_ns: Ints  # union of its transfers; -1: not recorded
    uncertainty_ns: Ints  # of arrival and second: 0 where the rank's own tasks say it
    pairs: Pairs

    @cached_property
    def gain_ns(self) -> Ints:
        """What the operator would be shorter if its last peer came with the last but one."""
        return np.where(self.how == UNKNOWN, 0, np.minimum(self.arrival_ns - self.second_ns, self.wait_ns))


@dataclass(frozen=True)
class Pairs:
    """One row per operator and peer that it waited for, where tasks name the peer."""

    op: Ints
    peer: Ints  # global; -1: only `local` is known
    local: Ints
    ts: Ints
    end: Ints


@dataclass(frozen=True)
class Arrivals:
    """When the last peer of each operator came, for those where the capture tells."""

    op_span_id: Ints
    arrival_ns: Ints  # on the clock of the operator's own rank
    wait_ns: Ints
    peer: Ints  # global rank; -1: unknown


def arrivals(run: Run) -> Arrivals:
    """What the replay needs of peers that were not captured."""
    operators, found = run.get(collectives), run.get(waits)
    known = found.how != UNKNOWN
    return Arrivals(
        operators.span_id[known], found.arrival_ns[known], found.wait_ns[known], found.peer[known]
    )  # fmt: skip


def waits(run: Run) -> Waits:
    """The waits of every collective operator."""
    operators, tasks = run.get(collectives), run.get(comm_tasks)
    count = len(operators)
    how, has = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    has[tasks.op] = True
    here = tasks.meeting & (tasks.end - tasks.ts > HERE_NS)
    named = np.zeros(count, np.bool_)
    named[tasks.op[tasks.meeting & (tasks.dst >= 0)]] = True
    how[has] = TASKS
    how[named] = PEERS
    op, ts, end = tasks.op[here], tasks.ts[here], tasks.end[here]
    peer, local = tasks.peer[here], tasks.dst[here]
    ready = operators.ts.copy()  # the rank itself comes when it begins to wait: first it copies its own part
    meeting = tasks.meeting
    ready[tasks.op[meeting][::-1]] = tasks.ts[meeting][::-1]
    last, second = _last_two(ready, op, end, np.where(local >= 0, local, -1 - np.arange(len(op))))
    came = last >= 0
    found = Waits(
        how,
        np.where(has, union_by(op, ts, end, count), -1),
        np.where(came, end[last] if len(end) else 0, ready),
        second,
        np.where(came & named, peer[last] if len(end) else -1, -1),
        np.where(came & named, local[last] if len(end) else -1, -1),
        _transfers(tasks, count),
        np.zeros(count, np.int64),
        Pairs(op, peer, local, ts, end),
    )
    return _by_clock(run, operators, found)


def _last_two(ready: Ints, op: Ints, end: Ints, who: Ints) -> tuple[Ints, Ints]:
    """Row of the wait that ended last per operator (-1: none); when the last for another peer ended, or `ready`."""
    last, second = np.full(len(ready), -1, np.int64), ready.copy()
    order = np.lexsort((end, op))
    last[op[order]] = order  # the latest end is written last
    if len(op):
        others = who != who[last[op]]
        np.maximum.at(second, op[others], end[others])
    return last, second


def union_by(group: Ints, ts: Ints, end: Ints, groups: int) -> Ints:
    """Length of the union of intervals, group by group."""
    order = np.lexsort((ts, group))
    g, starts, ends = group[order], ts[order], end[order]
    if not len(g):
        return np.zeros(groups, np.int64)
    first = starts[np.searchsorted(g, g)]
    starts, ends = starts - first, ends - first
    apart = int(ends.max()) + 1  # groups laid out one behind the other, so that none touches another
    union = Intervals.union_of(starts + g * apart, ends + g * apart)
    begins = np.arange(groups, dtype=np.int64) * apart
    return union.within(begins, begins + apart)


def _transfers(tasks: CommTasks, count: int) -> Ints:
    """Time in which an operator moves data; waits are no transfer."""
    moving = tasks.what == TRANSFER
    has = np.zeros(count, np.bool_)
    has[tasks.op] = True
    return np.where(has, union_by(tasks.op[moving], tasks.ts[moving], tasks.end[moving], count), -1)


def _by_clock(run: Run, operators: Collectives, found: Waits) -> Waits:
    """What the other captured ranks say: who a wait without a name was for, and waits that no task shows."""
    peers = _rows_of_peers(operators)
    named = _followed(operators, found, peers)
    named = _bare(operators, named)
    return _guessed(run, operators, _from_starts(run.get(clock), operators, named))


def _rows_of_peers(operators: Collectives) -> tuple[Ints, Ints]:
    """Sorted (instance, rank) keys of matched operators and their rows."""
    rows = np.flatnonzero(operators.instance >= 0)
    key = operators.instance[rows] * _RANKS + operators.rank[rows]
    order = np.argsort(key)
    return key[order], rows[order]


def _row(peers: tuple[Ints, Ints], instance: Ints, rank: Ints) -> Ints:
    """Row of a rank's part in a collective; -1: not captured or not matched."""
    key, rows = peers
    if not len(key):
        return np.full(len(instance), -1, np.int64)
    wanted = instance * _RANKS + rank
    at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.where((key[at] == wanted) & (instance >= 0) & (rank >= 0), rows[at], -1)


def _followed(operators: Collectives, found: Waits, peers: tuple[Ints, Ints]) -> Waits:
    """In rings a neighbour is late because it waits itself: the peer becomes the one at the end of the chain."""
    peer, local = found.peer.copy(), found.peer_local.copy()
    for _ in range(_CHAIN):
        row = _row(peers, operators.instance, peer)
        passed = (row >= 0) & (found.wait_ns[row] * 2 > found.wait_ns) & (peer[row] >= 0)
        passed &= peer[row] != operators.rank
        if not passed.any():
            break
        peer, local = np.where(passed, peer[row], peer), np.where(passed, local[row], local)
    return replace(found, peer=peer, peer_local=local)


def _meetings(operators: Collectives, found: Waits, how: int) -> Iterator[Ints]:
    """Rows of each matched collective that several captured ranks took part in and that is known in this way."""
    rows = np.flatnonzero((operators.instance >= 0) & operators.of_kinds(MEETING) & (found.how == how))
    rows = rows[np.argsort(operators.instance[rows], kind="stable")]
    edges = np.flatnonzero(np.diff(operators.instance[rows])) + 1
    yield from (part for part in np.split(rows, edges) if len(part) > 1)


def _bare(operators: Collectives, found: Waits) -> Waits:
    """Waits without a peer's name: they were for the captured rank that did not wait itself, if there is one."""
    peer = found.peer.copy()
    for rows in _meetings(operators, found, TASKS):
        gain = found.wait_ns[rows]
        least = int(np.argmin(gain))
        waited = gain > np.maximum(int(gain[least]) * _CLEARLY, HERE_NS)
        peer[rows[waited]] = operators.rank[rows[least]]
    return replace(found, peer=peer)


def _from_starts(time: Clock, operators: Collectives, found: Waits) -> Waits:
    """No tasks at all: a rank waits from its own start to that of the last captured one, on one clock."""
    how, peer, wait = found.how.copy(), found.peer.copy(), found.wait_ns.copy()
    arrival, second, unsure = found.arrival_ns.copy(), found.second_ns.copy(), found.uncertainty_ns.copy()
    for rows in _meetings(operators, found, UNKNOWN):
        ranks = operators.rank[rows].tolist()
        offset = np.array([time.offset_ns(rank) for rank in ranks])
        came = operators.ts[rows] + offset
        last = int(np.argmax(came))
        between = [time.between_ns(rank, ranks[last]) for rank in ranks]
        for index, row in enumerate(rows):
            doubt = between[index]
            if doubt is None:
                continue
            how[row], wait[row], unsure[row] = CLOCK, 0, doubt
            late = int(came[last] - came[index])
            if late <= doubt:
                continue
            others = [int(came[other]) for other, apart in enumerate(between) if other != last and apart is not None]
            wait[row] = min(late, int(operators.end[row] - operators.ts[row]))
            arrival[row] = operators.ts[row] + wait[row]
            before = int(came[last]) - max(others)
            second[row] = max(operators.ts[row], arrival[row] - (before if before > doubt else 0))
            peer[row] = ranks[last]
    return replace(found, how=how, peer=peer, wait_ns=wait, arrival_ns=arrival, second_ns=second, uncertainty_ns=unsure)


def complete(run: Run, operators: Collectives) -> NDArray[np.bool_]:
    """Of each operator, whether all members of its group were captured."""
    every = run.missing_ranks == () and (run.world_size or 0) <= len(run.ranks)
    captured = set(run.ranks)
    teams = [
        set(operators.members[team]) <= captured if team in operators.members else every
        for team in range(len(operators.teams))
    ]
    return np.array(teams, np.bool_)[operators.team] if teams else np.zeros(0, np.bool_)


def needed_ns(operators: Collectives, lasted: Ints) -> Ints:
    """What each operator would take without any waiting: as its group's fastest of that kind and size, or by byte.

    `lasted`: how long each took from the moment on when everybody who is known had come.
    """
    count = len(operators)
    if not count:
        return np.zeros(0, np.int64)
    _, sort = np.unique(operators.team * (int(operators.kind.max()) + 1) + operators.kind, return_inverse=True)
    _, same = np.unique(np.stack((sort, operators.bytes)), axis=1, return_inverse=True)
    alike, any_size = np.full(count, _FAR), np.full(count, _FAR)
    np.minimum.at(alike, same, lasted)
    np.minimum.at(any_size, sort, lasted)
    pace = np.full(count, np.inf)
    sized = operators.bytes > 0
    np.minimum.at(pace, sort[sized], lasted[sized] / operators.bytes[sized])
    by_byte = np.where(sized, np.where(sized, pace[sort], 0.0) * operators.bytes, _FAR).astype(np.int64)
    return np.asarray(np.minimum(alike[same], np.maximum(by_byte, any_size[sort])))


def _guessed(run: Run, operators: Collectives, found: Waits) -> Waits:
    """Operators whose last member may not have been captured: what they take longer than they need."""
    bare = (found.how == UNKNOWN) | (found.how == CLOCK) & ~complete(run, operators)
    lasted = operators.end - np.where(found.how == UNKNOWN, operators.ts, found.arrival_ns)
    needed = needed_ns(operators, np.maximum(lasted, 0))
    slow = bare & (operators.bytes >= 0) & (lasted > _SLOW * needed) & (lasted - needed > HERE_NS)
    arrival = np.where(slow, operators.end - needed, found.arrival_ns)
    clocked = found.how == CLOCK
    return replace(
        found,
        how=np.where(slow, GUESSED, found.how),
        peer=np.where(slow, -1, found.peer),
        wait_ns=np.where(slow, arrival - operators.ts, found.wait_ns),
        second_ns=np.where(slow, np.where(clocked, found.arrival_ns, operators.ts), found.second_ns),
        arrival_ns=arrival,
    )
