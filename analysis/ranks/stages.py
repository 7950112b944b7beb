"""The stages of a pipeline: which rank is which, what each computes, and how long it sits in sends and receives.

The order comes from groups whose kind is `pp`, as the job lists them. Where none is listed, the exchanges tell. Ranks
that exchange with at most two neighbours and form no ring are a pipeline. The end that computes more before its first
exchange is the first stage: the others have no input yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.collectives import POINT_TO_POINT, Collectives, collectives
from npulens.analysis.ranks.comm_tasks import comm_tasks
from npulens.analysis.ranks.exchanges import exchanges
from npulens.analysis.ranks.waits import GUESSED, UNKNOWN, waits
from npulens.analysis.run import Run


@dataclass(frozen=True)
class Pipeline:
    """One chain of ranks."""

    ranks: tuple[int, ...]  # by stage, those that were not captured too
    computing_ns: dict[int, int]  # captured rank -> what its kernels take in the whole run
    waiting: dict[int, Intervals]  # captured rank with stamps -> in sends and receives, nothing computed
    after_ns: dict[int, int]  # rank -> from its last step's end to that of its pipeline's last rank; empty: not known
    micro_batches: int | None  # of a step; None: the exchanges do not tell

    def __len__(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True)
class Stage:
    """One stage of all pipelines of the same length."""

    number: int  # from 0
    ranks: tuple[int, ...]  # captured ones
    computing_ns: int  # of the rank that has least: what more another has is no matter of stages


def pipelines(run: Run) -> tuple[Pipeline, ...]:
    """Every pipeline of the job, that of the lowest rank first."""
    operators = run.get(collectives)
    chains, names = _listed(run)
    passed = operators.of_kinds(POINT_TO_POINT)
    own = passed & np.isin(operators.team, [team for team, name in enumerate(operators.teams) if name in names])
    rows = np.flatnonzero(own if own.any() else passed)
    computing = _computing(run)
    if not chains:
        chains = _seen(run, operators, rows[~np.isin(operators.team[rows], _other_kinds(run, operators))])
    return tuple(
        Pipeline(
            chain, {rank: computing[rank] for rank in chain if rank in computing},
            {rank: _waiting(run, operators, rows[operators.rank[rows] == rank])
             for rank in chain if rank in computing and rank in operators.rank[rows]},
            _after(run, operators, rows, chain), _micro_batches(run, operators, rows, chain),
        )
        for chain in sorted(chains)
    )  # fmt: skip


def stages(run: Run) -> tuple[Stage, ...]:
    """The stages of the job's pipelines in order, those with a captured rank; empty where lengths differ."""
    every = run.get(pipelines)
    if len({len(one) for one in every}) != 1:
        return ()
    found = []
    for number in range(len(every[0])):
        known = {one.ranks[number]: one.computing_ns[one.ranks[number]]
                 for one in every if one.ranks[number] in one.computing_ns}  # fmt: skip
        if known:
            found.append(Stage(number, tuple(sorted(known)), min(known.values())))
    return tuple(found)


def _listed(run: Run) -> tuple[list[tuple[int, ...]], set[str]]:
    """Chains that the job lists, whole or pair by pair, and the names of their groups."""
    rows = run.con.execute(
        "SELECT DISTINCT group_name, ranks FROM parallel_group "
        "WHERE regexp_matches(lower(kind), '^(pp|pipeline)') AND len(ranks) > 1 ORDER BY ALL"
    ).fetchall()
    after: dict[int, set[int]] = {}
    for _, ranks in rows:
        for one, other in zip(ranks, ranks[1:], strict=False):
            after.setdefault(one, set()).add(other)
    found = []
    for chain in _chains((one, other) for one, others in after.items() for other in others):
        found.append(chain if chain[1] in after.get(chain[0], ()) else chain[::-1])
    return found, {name for name, _ in rows}


def _other_kinds(run: Run, operators: Collectives) -> list[int]:
    """Groups that the job lists as something else than a pipeline: data parallel, ring attention."""
    named = {name for (name,) in run.con.execute(
        "SELECT group_name FROM parallel_group WHERE regexp_matches(lower(kind), '^(dp|tp|ep|cp|sp|mp|ring)([^a-z]|$)')"
    ).fetchall()}  # fmt: skip
    return [team for team, name in enumerate(operators.teams) if name in named]


def mutual(run: Run) -> NDArray[np.bool_]:
    """Exchanges in both directions at once between two ranks of one listed group that is no pipeline's.

    The ranks do the same work, and each waits for the other as in a collective.
    """
    operators = run.get(collectives)
    two = [team for team in _other_kinds(run, operators) if len(operators.members.get(team, ())) == 2]
    return np.asarray(np.isin(operators.team, two) & operators.of_kinds(frozenset({"batchsendrecv"})))


def _chains(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Ranks that hang together in a line; what branches or closes a ring is none."""
    near: dict[int, set[int]] = {}
    for one, other in pairs:
        if one != other:
            near.setdefault(one, set()).add(other)
            near.setdefault(other, set()).add(one)
    found, seen = [], set[int]()
    for end in sorted(rank for rank, others in near.items() if len(others) == 1):
        chain, before = [end], -1
        while end not in seen:
            onward = [other for other in near[chain[-1]] if other != before]
            if len(onward) != 1:
                break
            before = chain[-1]
            chain.append(onward[0])
        if end not in seen and not (near[chain[-1]] - {before}):
            found.append(tuple(chain))
        seen |= set(chain)
    return found


def _seen(run: Run, operators: Collectives, rows: Ints) -> list[tuple[int, ...]]:
    """Chains of ranks that were seen to exchange something."""
    pairs = {(int(operators.rank[row]), int(operators.peer[row])) for row in rows.tolist() if operators.peer[row] >= 0}
    tasks = run.get(comm_tasks)
    told = np.isin(tasks.op, rows) & (tasks.peer >= 0)
    pairs |= set(zip(operators.rank[tasks.op[told]].tolist(), tasks.peer[told].tolist(), strict=True))
    for team in np.unique(operators.team[rows]).tolist():
        members = operators.members.get(team, ())
        if len(members) == 2:
            pairs.add((members[0], members[1]))
    chains = _chains(pairs)
    return [chain if _head(run, operators, rows, chain) else chain[::-1] for chain in chains]


def _head(run: Run, operators: Collectives, rows: Ints, chain: tuple[int, ...]) -> bool:
    """Whether the chain begins with its first stage."""
    before = []
    for rank in (chain[0], chain[-1]):
        mine, window = rows[operators.rank[rows] == rank], run.window(rank) if rank in run.ranks else None
        if not len(mine) or window is None:
            return True
        computing = run.activity(rank).computing or EMPTY
        before.append(int(computing.within(np.array(window[:1]), operators.end[mine].min(keepdims=True))[0]))
    return before[0] >= before[1]


def _computing(run: Run) -> dict[int, int]:
    """What each rank computes in the run; of a rank without stamps what the profiler summed up."""
    found = dict(
        run.con.execute(
            "SELECT rank, sum(computing_ns)::BIGINT FROM profiler_step WHERE computing_ns > 0 GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    )
    for rank in run.ranks:
        window, computing = run.window(rank), run.activity(rank).computing
        if window is not None and computing is not None and len(computing.starts):
            found[rank] = int(computing.within(np.array(window[:1]), np.array(window[1:]))[0])
    return found


def _waiting(run: Run, operators: Collectives, rows: Ints) -> Intervals:
    whole = Intervals.union_of(operators.ts[rows], operators.end[rows])
    return whole - (run.activity(int(operators.rank[rows[0]])).computing or EMPTY)


def _after(run: Run, operators: Collectives, rows: Ints, chain: tuple[int, ...]) -> dict[int, int]:
    """How much longer the last rank of a pipeline needs than each, once each has done its last step.

    In every other step that is a wait in the next step's first exchange. Behind the last step none was captured. Empty
    where a rank was not captured, or an exchange has no other side: then the ranks may end in different steps.
    """
    windows = {rank: window for rank in chain if rank in run.ranks and (window := run.window(rank)) is not None}
    mine = rows[np.isin(operators.rank[rows], chain)]
    if len(windows) < len(chain) or len({len(run.steps[rank]) for rank in chain}) > 1:
        return {}
    if not len(mine) or (run.get(exchanges)[mine] < 0).any():
        return {}
    time = run.get(clock)
    done = {rank: end + time.offset_ns(rank) for rank, (_, end) in windows.items()}
    last = max(chain, key=lambda rank: done[rank])
    found = {}
    for rank in chain:
        apart, unsure = done[last] - done[rank], time.between_ns(rank, last)
        found[rank] = apart if unsure is not None and apart > unsure else 0
    return found


def _micro_batches(run: Run, operators: Collectives, rows: Ints, chain: tuple[int, ...]) -> int | None:
    """What the first and the last stage's exchanges say, where they agree.

    In a plain schedule the first stage sends each micro batch once, the last receives each once. Where all are batches
    of both, the first has p - 1 more than micro batches, filling and draining. The last has one more.
    """
    said = set()
    for rank, more, block in ((chain[0], len(chain) - 1, "s+b+r+"), (chain[-1], 1, "r+b+s+")):
        mine = rows[operators.rank[rows] == rank]
        kinds = operators.kind[mine]
        if not len(kinds):
            continue
        fillings = len(run.steps.get(rank, ())) or _fillings(operators, mine, block)
        if fillings is None:
            return None
        count = {name: int((kinds == code).sum()) for code, name in enumerate(operators.kinds)}
        sends, receives = (sum(count.get(name, 0) for name in names) for names in (_SENDS, _RECEIVES))
        both = count.get("batchsendrecv", 0)
        number = both + max(sends, receives) if sends or receives else both - more * fillings
        said.add(divmod(number, fillings))
    whole, rest = said.pop() if len(said) == 1 else (0, 0)
    return whole if whole >= 1 and not rest else None


def _fillings(operators: Collectives, rows: Ints, block: str) -> int | None:
    """How often a pipeline was filled that marks no steps: by the exchanges of its first or last stage.

    The first begins with sends alone and ends with receives alone, the last the other way round. None where they are
    not the same block again and again.
    """
    letters = {**dict.fromkeys(_SENDS, "s"), **dict.fromkeys(_RECEIVES, "r"), "batchsendrecv": "b"}
    order = rows[np.argsort(operators.ts[rows], kind="stable")]
    said = "".join(letters.get(operators.kinds[kind], "?") for kind in operators.kind[order].tolist())
    blocks = re.findall(block, said)
    return len(blocks) if len(set(blocks)) == 1 and "".join(blocks) == said else None


#: Stages that differ by less of the mean are an even split of layers.
EVEN = 0.05
#: Filling and draining makes every stage wait; in simulated schedules the one that waits least has 0.45 of the most.
_ONE_SIDED = 0.2


@dataclass(frozen=True)
class Uneven:
    """The slowest stage against the mean of all, in the whole run."""

    slow: Stage
    mean_ns: int
    excess_ns: int  # what it computes more
    stages: int  # of each pipeline
    micro_batches: int | None  # of a step, where all pipelines agree
    waits_ns: int | None  # what it waits for the others, filling and draining; None: not known

    @property
    def filling_ns(self) -> int | None:
        """What filling and draining takes with equal stages."""
        return None if self.micro_batches is None else (self.stages - 1) * self.mean_ns // self.micro_batches

    @property
    def equal_ns(self) -> int:
        """What equal stages give back: the slow one computes less, but waits until the pipeline is full."""
        if self.filling_ns is None or self.micro_batches is None:
            return self.excess_ns
        if self.waits_ns is None:
            return self.excess_ns * (self.micro_batches - 1) // self.micro_batches
        return min(self.excess_ns, max(0, self.excess_ns + self.waits_ns - self.filling_ns))


def uneven(run: Run) -> Uneven | None:
    """How far the slowest stage is from the mean; None: no two stages were captured."""
    known, every = run.get(stages), run.get(pipelines)
    if len(known) < 2:
        return None
    mean = sum(stage.computing_ns for stage in known) // len(known)
    slow = max(known, key=lambda stage: stage.computing_ns)
    micro = {one.micro_batches for one in every}
    return Uneven(
        slow, mean, slow.computing_ns - mean, len(every[0]), micro.pop() if len(micro) == 1 else None,
        min((ns for rank in slow.ranks if (ns := _waited(run, rank)) is not None), default=None),
    )  # fmt: skip


def _waited(run: Run, rank: int) -> int | None:
    """What a rank waits for the other stages of its pipeline; None: that is not known of all its sends and receives."""
    operators, found = run.get(collectives), run.get(waits)
    mine = operators.rank == rank
    passed, drained = mine & operators.of_kinds(POINT_TO_POINT), mine & run.get(draining)
    if not passed.any() or np.isin(found.how[passed | drained], (UNKNOWN, GUESSED)).any():
        return None
    rows = np.flatnonzero(passed | drained)
    ends = found.arrival_ns[rows]
    waited = Intervals.union_of(ends - np.maximum(found.wait_ns[rows], 0), ends)
    after = sum(one.after_ns.get(rank, 0) for one in run.get(pipelines))
    return (waited - (run.activity(rank).computing or EMPTY)).total() + after


def _drained(run: Run, rank: int) -> Intervals | None:
    """When a rank waits for stages that are still draining, with nothing computed; None: not known of all of it."""
    operators, found = run.get(collectives), run.get(waits)
    rows = np.flatnonzero(run.get(draining))
    rows = rows[operators.rank[rows] == rank]
    if np.isin(found.how[rows], (UNKNOWN, GUESSED)).any():
        return None
    ends = found.arrival_ns[rows]
    waited = Intervals.union_of(ends - np.maximum(found.wait_ns[rows], 0), ends)
    return waited - (run.activity(rank).computing or EMPTY)


def bubble_ns(run: Run) -> int | None:
    """How much shorter a schedule without bubbles is.

    With equal stages that is what the rank waits for the others that waits least: what else it does stays. With unequal
    ones it is the mean, without what unequal stages add to that. It is the mean as well where nothing tells what is
    waited after a rank's last exchange. None where a rank of a pipeline was not captured. None too where that is not
    told and a rank of equal work hardly waits. Then the others wait for that rank and not for the schedule.
    """
    every, unequal = run.get(pipelines), run.get(uneven)
    drained = {rank: _drained(run, rank) for one in every for rank in one.waiting}
    waits = [
        (one.waiting[rank] | (drained[rank] or EMPTY)).total() + one.after_ns.get(rank, 0)
        for one in every for rank in one.ranks if rank in one.waiting
    ]  # fmt: skip
    if not waits or len(waits) < sum(len(one) for one in every):
        return None
    told = all(one.after_ns for one in every) and None not in drained.values()
    apart = unequal is not None and unequal.excess_ns > EVEN * unequal.mean_ns
    if not apart and told:
        return min(waits)
    if not apart and min(waits) < _ONE_SIDED * max(waits):
        return None
    return max(0, sum(waits) // len(waits) - (unequal.equal_ns if unequal is not None and apart else 0))


_SENDS, _RECEIVES = ("send", "isend"), ("receive", "recv", "irecv")


def draining(run: Run) -> NDArray[np.bool_]:
    """Operators in which a rank first meets another stage after its last exchange of a step.

    There the early stages are still draining the pipeline: the schedule makes the others wait, nobody is late. Where no
    step is marked, each first one after an exchange is one.
    """
    operators = run.get(collectives)
    found = np.zeros(len(operators), np.bool_)
    stage = {rank: number for one in run.get(pipelines) for number, rank in enumerate(one.ranks)}
    seen = {team: np.unique(operators.rank[operators.team == team]).tolist() for team in range(len(operators.teams))}
    seen |= operators.members
    wide = [team for team, ranks in seen.items() if len({stage.get(rank) for rank in ranks} - {None}) > 1]
    passed = operators.of_kinds(POINT_TO_POINT)
    meets = np.isin(operators.team, wide) & ~passed
    if not meets.any() or not passed.any():
        return found
    order = np.lexsort((np.arange(len(operators)), operators.step, operators.rank))
    rank, step = operators.rank[order], operators.step[order]
    if not run.stepped:
        either = np.flatnonzero((passed | meets)[order])
        behind = meets[order[either[1:]]] & passed[order[either[:-1]]] & (rank[either[1:]] == rank[either[:-1]])
        found[order[either[1:][behind]]] = True
        return found
    first = np.concatenate(([True], (rank[1:] != rank[:-1]) | (step[1:] != step[:-1])))
    block, place = np.cumsum(first) - 1, np.arange(len(order))
    last = np.maximum.reduceat(np.where(passed[order], place, -1), np.flatnonzero(first))[block]
    behind = np.flatnonzero(meets[order] & (last >= 0) & (place > last))
    found[order[behind[np.unique(block[behind], return_index=True)[1]]]] = True
    return found
