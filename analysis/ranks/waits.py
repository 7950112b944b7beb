"""Who waited for whom inside collectives, how long, and the gain if the last came with the second last.

Five ways to know, the best that a capture allows for each operator:

* PEERS: tasks that wait name their peer (Level1 and above);
* TASKS: the hardware's waits without their peer (Level0): how long, but not for whom;
* CLOCK: no tasks (Kineto), so starts of the same collective on several captured ranks, on one clock
  (analysis/ranks/clock.py). The difference must be larger than the clocks' uncertainty. The same of sends and receives
  between two captured ranks;
* SAID: no tasks, but the profiler's own sums of them (communication.json, CommAnalyzerTime);
* GUESSED: no tasks, and members were not captured. What an operator takes clearly longer than the fastest of its kind
  and size in this capture, it waited. Or else its transfer was slow.

Otherwise UNKNOWN: the wait is somewhere inside the operator and nobody can tell.

What several captured ranks saw of one collective is merged before anything follows from it. Each captured member comes
when it is ready, each other one when a captured rank's wait for it ends. The two latest of that list tell who is late,
and by how much, for every member alike. Who waited for somebody else before waited for the latest too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Intervals, Ints, combined
from npulens.analysis.ranks.clock import Clock, clock
from npulens.analysis.ranks.collectives import MEETING, POINT_TO_POINT, Collectives, collectives
from npulens.analysis.ranks.comm_tasks import TRANSFER, CommTasks, comm_tasks
from npulens.analysis.ranks.exchanges import exchanges
from npulens.analysis.run import Run

UNKNOWN, PEERS, TASKS, CLOCK, GUESSED, SAID = range(6)
#: A wait that ends this soon found its peer there already: the hardware's own steps take 20 to 800 ns (real captures).
HERE_NS = 1_000
#: More than any rank's number.
_RANKS = 1 << 31
#: How many neighbours a wait is followed along.
_CHAIN = 64
_FAR = 2**62
#: Parts that cover less of their operator than this do not show where it waited: the rest was not recorded. In real
#: captures they cover 0.83 to 0.99 of all operators of a rank, of a short one 0.18 at least.
HARDLY = 0.1
#: Without names, somebody waited clearly longer than the one it waited for if by this factor.
_CLEARLY = 20
#: A guess needs an operator to take this many times what it needs. Same operators of one real capture (8 x 910B) and of
#: simulated jobs vary by up to 1.3 with nobody late.
_SLOW = 1.5


@dataclass(frozen=True)
class Waits:
    """One row per operator, as in `collectives(run)`; times on the operator's own rank's clock."""

    how: Ints  # UNKNOWN, PEERS, TASKS, CLOCK, GUESSED or SAID
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
    how = np.zeros(count, np.int64)
    has = union_by(tasks.op, tasks.ts, tasks.end, count) > HARDLY * (operators.end - operators.ts)
    meeting = tasks.meeting & has[tasks.op]
    here = meeting & (tasks.end - tasks.ts > HERE_NS)
    named = np.zeros(count, np.bool_)
    named[tasks.op[meeting & (tasks.dst >= 0)]] = True
    how[has] = TASKS
    how[named] = PEERS
    op, ts, end = tasks.op[here], tasks.ts[here], tasks.end[here]
    peer, local = tasks.peer[here], tasks.dst[here]
    ready = operators.ts.copy()  # the rank itself comes when it begins to wait: first it copies its own part
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
    return _by_clock(run, operators, found, ready)


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


def _by_clock(run: Run, operators: Collectives, found: Waits, ready: Ints) -> Waits:
    """What the other captured ranks say: who a wait without a name was for, and waits that no task shows."""
    peers = _rows_of_peers(operators)
    named = _bare(operators, _followed(operators, found, peers))
    merged = _merged(run.get(clock), operators, named, ready, peers)
    return _guessed(run, operators, _said(run, operators, _exchanged(run, operators, merged)))


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


def _merged(time: Clock, operators: Collectives, found: Waits, ready: Ints, peers: tuple[Ints, Ints]) -> Waits:
    """The latest and the last but one of each collective that several captured ranks saw, on one clock."""
    took = _shared_rows(time, operators, found)
    if not len(took):
        return found
    shift = shifts(time, operators.rank)
    latest, seen, second = _arrived(operators, found, ready, peers, took, shift)
    at, rank = operators.instance[took], operators.rank[took]
    doubt = between(time, rank, seen[at, 1])
    told = doubt >= 0
    took, at, rank, doubt = took[told], at[told], rank[told], doubt[told]
    own_second = np.maximum(ready[took], second[at] - shift[took])
    last, who = latest[at] - shift[took], seen[at, 0]
    bare = found.how[took] == UNKNOWN
    waited = bare & (last - operators.ts[took] > doubt) & (who != rank)
    more = ~bare & (last > found.arrival_ns[took] + doubt) & (who != rank)
    same = ~bare & ~more & (who != rank) & (found.wait_ns[took] > 0)
    new = {name: getattr(found, name).copy() for name in (
        "how", "wait_ns", "arrival_ns", "second_ns", "peer", "peer_local", "uncertainty_ns")}  # fmt: skip
    new["how"][took[bare]], new["wait_ns"][took[bare]] = CLOCK, 0
    new["uncertainty_ns"][took[bare | more]] = doubt[bare | more]
    arrival = np.where(bare | more, np.minimum(last, operators.end[took]), found.arrival_ns[took])
    added = np.where(bare, arrival - operators.ts[took], arrival - np.maximum(found.arrival_ns[took], ready[took]))
    of = waited | more
    new["wait_ns"][took[of]] = np.where(bare, 0, found.wait_ns[took])[of] + added[of]
    of |= same
    clear = arrival - own_second > np.where(second[at] > latest[at] - doubt, doubt, 0)
    new["arrival_ns"][took[of]] = arrival[of]
    new["second_ns"][took[of]] = np.where(clear, np.minimum(own_second, arrival), arrival)[of]
    new["peer"][took[of]] = who[of]
    new["peer_local"][took[of & (who != found.peer[took])]] = -1
    return replace(found, **new)


def _shared_rows(time: Clock, operators: Collectives, found: Waits) -> Ints:
    """Operators of collectives that several ranks with comparable clocks took part in, every peer waited for known."""
    rows = (operators.instance >= 0) & operators.of_kinds(MEETING) & np.isin(found.how, (UNKNOWN, PEERS))
    known = np.array([rank for rank in np.unique(operators.rank).tolist() if time.uncertainty_ns(rank) is not None])
    rows &= np.isin(operators.rank, known)
    count = np.bincount(operators.instance[rows], minlength=int(operators.instance.max(initial=-1)) + 1)
    nameless = operators.instance[found.pairs.op[found.pairs.peer < 0]]
    count[nameless[nameless >= 0]] = 0
    return np.flatnonzero(rows)[count[operators.instance[rows]] > 1]


def _arrived(
    operators: Collectives, found: Waits, ready: Ints, peers: tuple[Ints, Ints], took: Ints, shift: Ints
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """Per collective: when the latest came, who that was and who saw it, and when the last but one came."""
    pairs = found.pairs
    inside = np.zeros(len(operators), np.bool_)
    inside[took] = True
    of = np.flatnonzero(inside[pairs.op] & (_row(peers, operators.instance[pairs.op], pairs.peer) < 0))
    op = pairs.op[of]
    instance = np.concatenate((operators.instance[took], operators.instance[op]))
    who = np.concatenate((operators.rank[took], pairs.peer[of]))
    saw = np.concatenate((operators.rank[took], operators.rank[op]))
    when = np.concatenate((ready[took] + shift[took], pairs.end[of] + shift[op]))
    # A rank that waits for the same peer several times has it there when the last of these waits ends. Of several ranks
    # the first to see it says when it came.
    order = np.lexsort((-when, saw, who, instance))
    instance, who, saw, when = (part[order] for part in (instance, who, saw, when))
    once = _first_of(instance, who, saw)
    order = np.lexsort((when[once], who[once], instance[once]))
    instance, who, saw, when = (part[once][order] for part in (instance, who, saw, when))
    once = _first_of(instance, who)
    order = np.lexsort((when[once], instance[once]))
    instance, who, saw, when = (part[once][order] for part in (instance, who, saw, when))
    numbers = int(operators.instance.max()) + 1
    last = np.flatnonzero(np.diff(instance, append=-1))
    latest, second, seen = np.zeros(numbers, np.int64), np.zeros(numbers, np.int64), np.zeros((numbers, 2), np.int64)
    latest[instance[last]], second[instance[last]] = when[last], when[last - 1]
    seen[instance[last], 0], seen[instance[last], 1] = who[last], saw[last]
    return latest, seen, second


def _first_of(*keys: Ints) -> NDArray[np.bool_]:
    """The first of each run of rows with equal keys."""
    first = np.zeros(len(keys[0]), np.bool_)
    first[:1] = True
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    return first


def shifts(time: Clock, rank: Ints) -> Ints:
    """What to add to each row's stamps to have the common clock."""
    ranks, which = np.unique(rank, return_inverse=True)
    return np.array([time.offset_ns(one) for one in ranks.tolist()], np.int64)[which]


def between(time: Clock, one: Ints, other: Ints) -> Ints:
    """How far off differences between two ranks' stamps may be, row by row; -1: cannot be told."""
    pairs, which = np.unique(one * _RANKS + other, return_inverse=True)
    doubts = (time.between_ns(pair // _RANKS, pair % _RANKS) for pair in pairs.tolist())
    return np.array([-1 if doubt is None else doubt for doubt in doubts], np.int64)[which]


def _exchanged(run: Run, operators: Collectives, found: Waits) -> Waits:
    """Sends and receives between two captured ranks: who came first waited for the other."""
    number = run.get(exchanges)
    rows = np.flatnonzero((number >= 0) & (found.how == UNKNOWN))
    rows = rows[np.argsort(number[rows], kind="stable")]
    first = np.flatnonzero(np.diff(number[rows]) == 0)
    one, other = rows[first], rows[first + 1]
    one, other = np.concatenate((one, other)), np.concatenate((other, one))
    time = run.get(clock)
    doubt = between(time, operators.rank[one], operators.rank[other])
    one, other, doubt = one[doubt >= 0], other[doubt >= 0], doubt[doubt >= 0]
    shift = shifts(time, operators.rank) if len(one) else operators.ts
    came = operators.ts[other] + shift[other] - shift[one]
    wait = np.minimum(came, operators.end[one]) - operators.ts[one]
    wait = np.where(came - operators.ts[one] > doubt, wait, 0)
    new = {name: getattr(found, name).copy() for name in ("how", "wait_ns", "arrival_ns", "peer", "uncertainty_ns")}
    new["how"][one], new["wait_ns"][one], new["uncertainty_ns"][one] = CLOCK, wait, doubt
    new["arrival_ns"][one] = operators.ts[one] + wait
    new["peer"][one] = np.where(wait > 0, operators.rank[other], -1)
    return replace(found, **new)


_SUMS = "SELECT span_id, wait_ns FROM comm WHERE wait_ns IS NOT NULL AND op_span_id = span_id"


def _said(run: Run, operators: Collectives, found: Waits) -> Waits:
    """Sends and receives whose waits only the profiler's own sums tell.

    In a sum of a collective, waits for peers to come cannot be told from waits for their parts.
    """
    rows = run.columns(_SUMS)
    at = operators.at(np.asarray(rows["span_id"]).astype(np.int64))
    mine = at >= 0
    at, wait = at[mine], np.asarray(rows["wait_ns"]).astype(np.int64)[mine]
    bare = operators.of_kinds(POINT_TO_POINT)[at] & (found.how[at] == UNKNOWN)
    at, wait = at[bare], np.clip(wait[bare], 0, (operators.end - operators.ts)[at[bare]])
    how, waited, arrival = found.how.copy(), found.wait_ns.copy(), found.arrival_ns.copy()
    how[at], waited[at], arrival[at] = SAID, wait, operators.ts[at] + wait
    return replace(found, how=how, wait_ns=waited, arrival_ns=arrival)


def complete(run: Run, operators: Collectives) -> NDArray[np.bool_]:
    """Of each operator, whether all members of its group were captured."""
    every = run.missing_ranks == () and run.least_world <= len(run.ranks)
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
    _, same = np.unique(combined(sort.ravel().astype(np.int64), operators.bytes), return_inverse=True)
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
    both = complete(run, operators) | operators.of_kinds(POINT_TO_POINT)
    bare = (found.how == UNKNOWN) | (found.how == CLOCK) & ~both
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
