"""Collective operators of all ranks, and which of them are the same collective seen by different ranks.

Profilers number collectives from the start of each rank's own capture. So neither a name nor an order proves that two
ranks mean the same one. Here they are matched per group and step. In that step the ranks must have run the same
sequence of operators (kind and bytes), and as many of them. The step is that of the host call that launched the
operator. A queue lets the device lag behind the host, and on each rank by another time.

Where that leaves something out, operators are matched from the end. Captures stop together, so the n-th from the end is
the same on every rank, give or take a few. Members leave a collective together, so only the right shift lets their ends
agree; that proves it, whatever sizes and steps say.

A send and a receive are a pair of their own (`exchanges`): no two receives are the same operator, however alike.

Where no group is named, a stream stands for one. Ranks number their streams each for themselves. So one number is one
group only for ranks that ran an operator of the same name on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: Nobody leaves one of these before the last member has come.
MEETING = frozenset({"allreduce", "allgather", "reducescatter", "alltoall", "alltoallv", "alltoallvc", "barrier"})
#: Between neighbours, not the whole group: the traffic of pipelines. NCCL's "sendrecv" alone may be anything.
POINT_TO_POINT = frozenset({"send", "receive", "recv", "isend", "irecv", "batchsendrecv"})
#: Of these one rank's operator has its other side on one other rank, under another name.
ONE_WAY = POINT_TO_POINT - {"batchsendrecv"}
#: Of these every rank may move a different number of bytes.
UNEVEN = POINT_TO_POINT | {"alltoall", "alltoallv", "alltoallvc", "allgatherv", "reducescatterv", "sendrecv"}
#: Operators whose kind the profiler does not tell: they agree with any.
UNNAMED = frozenset({"", "sendrecv"})
#: Captures of one job stop within so many collectives of each other.
SHIFTS = 4
#: Ends that scatter by less prove a match: members leave within 12 us of each other (analysis/ranks/clock.py). Another
#: shift compares different collectives, whose distances vary by the work in between.
PROVED_NS = 100_000
#: So many pairs at least tell one shift from another, and this share of the shorter sequence has to be matched.
_ENOUGH, _MOST_SHARE = 3, 0.8
#: Another shift must scatter so many times more; in a job without any variation none does, and nothing is proved.
_CLEARLY = 2

OPERATORS = """
WITH op AS (
    SELECT s.span_id, s.rank, s.ts_ns, s.dur_ns, s.name, s.step, c.collective, c.group_name, c.bytes, c.stream,
        coalesce(c.dst_rank, c.src_rank) AS peer
    FROM span s LEFT JOIN comm c USING (span_id)
    WHERE s.kind = 'comm_op' OR s.kind = 'kernel' AND c.op_span_id = s.span_id  -- it computes as well
), launched AS (
    SELECT l.dst_span_id AS span_id, min(h.step) AS step, min(lower(p.name)) FILTER (p.name LIKE 'nccl:%') AS called
    FROM link l JOIN op ON op.span_id = l.dst_span_id JOIN span h ON h.span_id = l.src_span_id
    LEFT JOIN span p ON p.span_id = h.parent_id GROUP BY 1
)
SELECT op.span_id, rank, ts_ns, dur_ns, name, coalesce(l.step, op.step, -1) AS step,
    -- NCCL runs an all-to-all, and old versions everything, in a kernel called SendRecv; PyTorch's operator around the
    -- launch knows better. A batch of sends and receives is 'coalesced' to it.
    CASE WHEN collective ILIKE 'coalesced' AND name ILIKE '%sendrecv%' THEN 'batchsendrecv'
        WHEN collective = 'sendrecv' THEN CASE
            WHEN called LIKE '%all_to_all%' OR called LIKE '%alltoall%' THEN 'alltoall'
            WHEN called LIKE '%all_reduce%' OR called LIKE '%allreduce%' THEN 'allreduce'
            WHEN called LIKE '%all_gather%' OR called LIKE '%allgather%' THEN 'allgather'
            WHEN called LIKE '%reduce_scatter%' THEN 'reducescatter' WHEN called LIKE '%coalesced%' THEN 'batchsendrecv'
            WHEN called LIKE 'nccl:recv%' THEN 'receive' WHEN called LIKE 'nccl:send%' THEN 'send' ELSE 'sendrecv' END
        ELSE lower(coalesce(collective, '')) END AS collective,
    coalesce(bytes, -1) AS bytes, coalesce(group_name, 'stream ' || stream, '') AS team, coalesce(peer, -1) AS peer,
    group_name IS NULL AND stream IS NOT NULL AS numbered
FROM op LEFT JOIN launched l USING (span_id) ORDER BY rank, ts_ns, op.span_id
"""


@dataclass(frozen=True)
class Collectives:
    """One row per operator, by rank and start. `team` and `kind` index `teams` and `kinds`."""

    span_id: Ints
    rank: Ints
    ts: Ints
    end: Ints
    step: Ints  # of the host call that launched it; -1: in none
    bytes: Ints  # -1: not recorded
    team: Ints
    kind: Ints
    peer: Ints  # of a send or receive, where the profiler names it; -1: not
    name: NDArray[Any]
    instance: Ints  # operators of one collective share a number; -1: could not be matched
    teams: tuple[str, ...]
    kinds: tuple[str, ...]
    members: dict[int, tuple[int, ...]]  # team -> its global ranks, where recorded

    def __len__(self) -> int:
        return len(self.span_id)

    def of_kinds(self, kinds: frozenset[str]) -> NDArray[np.bool_]:
        """Which operators are of these kinds."""
        return np.isin(self.kind, _places_of(self.kinds, kinds))

    def at(self, span_ids: Ints) -> Ints:
        """Row of each operator; -1 where it is none."""
        if not len(self.span_id):
            return np.full(len(span_ids), -1, np.int64)
        order = np.argsort(self.span_id, kind="stable")
        found = np.minimum(np.searchsorted(self.span_id[order], span_ids), len(order) - 1)
        return np.where(self.span_id[order][found] == span_ids, order[found], -1).astype(np.int64)


def collectives(run: Run) -> Collectives:
    """The run's collective operators."""
    rows = run.columns(OPERATORS)
    rank, step, size = _ints(rows["rank"]), _ints(rows["step"]), _ints(rows["bytes"])
    kinds, kind = _codes(rows["collective"])
    teams, team, members = _teams(run, _streams(rows, rank), rank)
    ts = _ints(rows["ts_ns"])
    uneven = np.isin(kind, _places_of(kinds, UNEVEN))
    end = ts + _ints(rows["dur_ns"])
    instance = matched(rank, team, step, kind, np.where(uneven, 0, size), run.stepped)
    instance = left_together(rank, team, end, instance, np.asarray(rows["numbered"]).astype(np.bool_))
    instance = from_the_end(rank, team, np.where(np.isin(kind, _places_of(kinds, UNNAMED)), -1, kind), end, instance,
                            ~np.isin(kind, _places_of(kinds, POINT_TO_POINT)))  # fmt: skip
    instance = np.where(np.isin(kind, _places_of(kinds, ONE_WAY)), -1, instance)
    return Collectives(
        _ints(rows["span_id"]), rank, ts, end, step, size, team, kind, _ints(rows["peer"]),
        rows["name"], instance, teams, kinds, members,
    )  # fmt: skip


def _places_of(kinds: tuple[str, ...], some: frozenset[str]) -> list[int]:
    return [code for code, kind in enumerate(kinds) if kind in some]


def _ints(values: Any) -> Ints:
    return np.asarray(values).astype(np.int64)


def _codes(names: NDArray[Any]) -> tuple[tuple[str, ...], Ints]:
    if not len(names):
        return (), np.zeros(0, np.int64)
    known, codes = np.unique(names.astype(str), return_inverse=True)
    return tuple(str(name) for name in known), codes.astype(np.int64)


def _streams(rows: Mapping[str, NDArray[Any]], rank: Ints) -> NDArray[Any]:
    """Names of groups; a stream that stands for one carries its lowest rank where not all ranks mean the same by it.

    The number of an operator in its graph is in MindSpore's names: stages of a pipeline have none in common.
    """
    names, at = rows["team"].astype(object), np.flatnonzero(np.asarray(rows["numbered"]).astype(np.bool_))
    ranks, who = np.unique(rank[at], return_inverse=True)
    if len(ranks) < 2:
        return np.asarray(names)
    streams, stream = np.unique(names[at].astype(str), return_inverse=True)
    known, said = np.unique(rows["name"][at].astype(str), return_inverse=True)
    for of, by_rank in _ran(np.unique((stream * len(ranks) + who) * len(known) + said), len(ranks), len(known)).items():
        sharing: list[list[int]] = []
        for one in by_rank:
            near = [others for others in sharing if any(by_rank[one] & by_rank[other] for other in others)]
            sharing = [others for others in sharing if others not in near] + [sum(near, [one])]
        for others in sharing if len(sharing) > 1 else ():
            names[at[(stream == of) & np.isin(who, others)]] = f"{streams[of]} of rank {ranks[min(others)]}"
    return np.asarray(names)


def _ran(keys: Ints, ranks: int, names: int) -> dict[int, dict[int, set[int]]]:
    """Stream -> rank -> names of what it ran there."""
    found: dict[int, dict[int, set[int]]] = {}
    for key in keys.tolist():
        place, name = divmod(key, names)
        found.setdefault(place // ranks, {}).setdefault(place % ranks, set()).add(name)
    return found


def _teams(run: Run, names: NDArray[Any], rank: Ints) -> tuple[tuple[str, ...], Ints, dict[int, tuple[int, ...]]]:
    """Groups; two groups of one name (numbered anew on other ranks) are two where their recorded members differ.

    Numbers are names that a rank gave: the same members under another number elsewhere are one group.
    """
    listed: dict[tuple[str, int], tuple[int, ...]] = {
        (name, reporter): tuple(ranks)
        for name, reporter, ranks in run.con.execute(
            "SELECT group_name, rank, ranks FROM parallel_group WHERE ranks IS NOT NULL ORDER BY ALL"
        ).fetchall()
        if None not in ranks
    }
    lists: dict[str, set[tuple[int, ...]]] = {}
    for (name, _), ranks in listed.items():
        lists.setdefault(name, set()).add(ranks)
    codes: dict[tuple[str, tuple[int, ...] | None], int] = {}
    team = np.zeros(len(names), np.int64)
    known, inverse = np.unique(np.asarray(names).astype(str), return_inverse=True) if len(names) else ((), team)
    pairs, which = np.unique(np.asarray(inverse).astype(np.int64) * (1 << 32) + rank, return_inverse=True)
    chosen = np.zeros(len(pairs), np.int64)
    for index, pair in enumerate(pairs.tolist()):
        name, reporter = str(known[pair >> 32]), pair & 0xFFFFFFFF
        several = lists.get(name, set())
        own = next(iter(several)) if len(several) == 1 else listed.get((name, reporter))
        chosen[index] = codes.setdefault((name, own), len(codes))
    same = _renumbered(codes, chosen, pairs & 0xFFFFFFFF)
    groups = [group for group, code in codes.items() if same[code] == code]
    place = {codes[group]: number for number, group in enumerate(groups)}
    chosen = np.array([place[same[code]] for code in chosen.tolist()], np.int64)
    team = chosen[which] if len(names) else team
    members = {number: own for number, (_, own) in enumerate(groups) if own is not None}
    return tuple(name for name, _ in groups), team, members


def _renumbered(codes: dict[tuple[str, tuple[int, ...] | None], int], chosen: Ints, rank: Ints) -> list[int]:
    """Per group the first one that it is under another number; itself where a rank knows two with the same members."""
    same = list(range(len(codes)))
    alike: dict[tuple[int, ...], list[int]] = {}
    for (name, own), code in codes.items():
        if own is not None and name.isdecimal():
            alike.setdefault(own, []).append(code)
    for several in alike.values():
        users = rank[np.isin(chosen, several)]
        if len(set(users.tolist())) == len(users):
            for code in several:
                same[code] = several[0]
    return same


def matched(rank: Ints, team: Ints, step: Ints, kind: Ints, size: Ints, stepped: bool) -> Ints:
    """The collective each operator is a part of; rows come by rank and start.

    A block is what one rank ran of one group in one step. Blocks of the most common sequence are matched place by
    place; a rank whose block differs stays out. Operators in no step are matched only in runs that have no steps at
    all. Before the first step nobody knows what was missed.
    """
    count = len(rank)
    instance = np.full(count, -1, np.int64)
    if not count:
        return instance
    order = np.lexsort((np.arange(count), rank, step, team))
    r, t, s = rank[order], team[order], step[order]
    first = np.concatenate(([True], (r[1:] != r[:-1]) | (t[1:] != t[:-1]) | (s[1:] != s[:-1])))
    starts = np.flatnonzero(first)
    block = np.cumsum(first) - 1
    place = np.arange(count) - starts[block]
    said = _mixed(_mixed(kind[order].astype(np.uint64)) + size[order].astype(np.uint64))
    signature = np.add.reduceat(_mixed(said + place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)), starts)
    length = np.diff(np.concatenate((starts, [count])))
    blocks: dict[tuple[int, int], list[int]] = {}
    for index, begin in enumerate(starts):
        if s[begin] >= 0 or not stepped:
            blocks.setdefault((int(t[begin]), int(s[begin])), []).append(index)
    number = 0
    for several in blocks.values():
        seen = Counter((int(length[b]), int(signature[b])) for b in several)
        most = max(seen, key=lambda key: (seen[key], key[0]))
        for index in several:
            if (int(length[index]), int(signature[index])) == most:
                where = order[starts[index] : starts[index] + length[index]]
                instance[where] = number + np.arange(length[index])
        number += most[0]
    return instance


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number (splitmix64), so that sums of them tell sequences apart."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def left_together(rank: Ints, team: Ints, end: Ints, instance: Ints, numbered: NDArray[np.bool_]) -> Ints:
    """The instances, without those of ranks whose ends deny them where only a number of a stream names the group.

    Every replica of a job runs the same sequence of operators on streams of the same numbers.
    """
    found = instance.copy()
    rows = np.flatnonzero(numbered & (instance >= 0))
    for one in np.unique(team[rows]).tolist():
        mine = rows[team[rows] == one]
        first, *others = np.split(mine, np.flatnonzero(np.diff(rank[mine])) + 1)  # rows come by rank
        for theirs in others:
            _, a, b = np.intersect1d(instance[first], instance[theirs], return_indices=True)
            apart = end[first[a]] - end[theirs[b]]
            if len(a) >= _ENOUGH and np.median(np.abs(apart - np.median(apart))) >= PROVED_NS:
                found[theirs] = -1
    return found


def from_the_end(
    rank: Ints, team: Ints, kind: Ints, end: Ints, instance: Ints, meeting: NDArray[np.bool_]
) -> Ints:  # fmt: skip
    """The instances, with groups that were not matched completely matched from their ends where that matches more.

    `kind` is -1 where it is not known; only rows of `meeting` take part.
    """
    found, number = instance.copy(), int(instance.max(initial=-1)) + 1
    for one in np.unique(team[meeting]).tolist():
        rows = np.flatnonzero((team == one) & meeting)
        ranks = np.unique(rank[rows])
        if len(ranks) < 2 or _complete(instance[rows], len(ranks)):
            continue
        by_rank = {int(r): rows[rank[rows] == r] for r in ranks}
        first = max(by_rank, key=lambda r: (len(by_rank[r]), -r))
        mine = np.full(len(found), -1, np.int64)
        mine[by_rank[first]] = number + np.arange(len(by_rank[first]))
        for other, theirs in by_rank.items():
            if other != first and (shift := _shift(kind, end, by_rank[first], theirs)) is not None:
                ours, same = _paired(by_rank[first], theirs, shift)
                mine[same] = mine[ours]
        if _shared(mine[rows]) > _shared(instance[rows]):
            found[rows] = mine[rows]
            number += len(by_rank[first])
    return found


def _complete(instance: Ints, ranks: int) -> bool:
    """Whether every operator of a group is matched with one of every rank."""
    known, count = np.unique(instance, return_counts=True)
    return bool((known >= 0).all() and (count == ranks).all())


def _shared(instance: Ints) -> int:
    """How many operators have a partner on another rank."""
    _, which, count = np.unique(instance, return_inverse=True, return_counts=True)
    return int(((count[which] > 1) & (instance >= 0)).sum())


def _paired(ours: Ints, theirs: Ints, shift: int) -> tuple[Ints, Ints]:
    """Rows of two ranks, paired from their ends; with a positive shift the first rank's last ones have no partner."""
    ours, theirs = ours[: len(ours) - max(shift, 0)], theirs[: len(theirs) - max(-shift, 0)]
    count = min(len(ours), len(theirs))
    return ours[len(ours) - count :], theirs[len(theirs) - count :]


def _shift(kind: Ints, end: Ints, ours: Ints, theirs: Ints) -> int | None:
    """By how many operators two ranks stopped apart; None: the ends prove none."""
    scatter = {}
    for shift in sorted(range(-SHIFTS, SHIFTS + 1), key=abs):
        a, b = _paired(ours, theirs, shift)
        if len(a) < max(_ENOUGH, _MOST_SHARE * min(len(ours), len(theirs))):
            continue
        if ((kind[a] != kind[b]) & (kind[a] >= 0) & (kind[b] >= 0)).any():
            continue
        apart = end[a] - end[b]
        scatter[shift] = float(np.median(np.abs(apart - np.median(apart))))
    best = min(scatter, key=lambda shift: scatter[shift], default=None)
    if best is None or scatter[best] >= PROVED_NS:
        return None
    return best if all(ns > _CLEARLY * scatter[best] for shift, ns in scatter.items() if shift != best) else None
