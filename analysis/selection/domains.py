"""How a job is split over its ranks - tensor, pipeline, data, expert parallel - and what each way costs.

The groups are those that the job or the profiler listed. Nothing is guessed: a job whose groups have no kind has no
grid. Times are of what is selected. A domain is all groups of one kind. Some communication in it runs beside
computing. The rest is waiting for peers, where the capture tells, or transferring. In a bubble
a stage has nothing to do. Its device is idle, or it only waits in a group of the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Intervals
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.comm_tasks import TRANSFER, WAIT, CommTasks, comm_tasks
from npulens.analysis.ranks.waits import UNKNOWN, waits
from npulens.analysis.run import Run
from npulens.analysis.selection import within
from npulens.analysis.selection.within import Part

#: Kinds that place a rank in a row and in a column of the grid, the fastest last.
ROWS, COLUMNS = ("pp",), ("dp", "ep", "cp", "tp")


@dataclass(frozen=True)
class Domain:
    """What a rank does in all groups of one kind; None: not recorded."""

    kind: str
    busy_ns: int
    exposed_ns: int | None
    waiting_ns: int | None  # of exposed_ns; None: no operator's wait is known


@dataclass(frozen=True)
class Place:
    """One rank of the job: where it stands, and what its device does."""

    rank: int
    row: int
    column: int
    at: tuple[tuple[str, int], ...]  # kind, its place in its group of that kind
    captured: bool
    dur_ns: int | None
    computing_ns: int | None
    idle_ns: int | None
    domains: tuple[Domain, ...]

    @property
    def bubble_ns(self) -> int | None:
        """Idle time, and waiting in the pipeline as far as it is known."""
        waiting = sum(one.waiting_ns or 0 for one in self.domains if one.kind in ROWS)
        return None if self.idle_ns is None else self.idle_ns + waiting


@dataclass(frozen=True)
class Strategy:
    sizes: tuple[tuple[str, int, int], ...]  # kind, groups, ranks of the largest
    places: tuple[Place, ...]  # empty: no group has a kind
    untold: tuple[str, ...]  # groups without a kind
    sources: tuple[str, ...]

    @property
    def repeated(self) -> int:
        """How often the sizes multiplied are all ranks, where every rank is in a group of each kind; else 1."""
        axes = {kind: (groups, size) for kind, groups, size in self.sizes if kind in (*ROWS, *COLUMNS)}
        if any(groups * size != len(self.places) for groups, size in axes.values()):
            return 1
        block = prod(size for kind, (_, size) in axes.items() if not (kind == "ep" and "dp" in axes))
        return len(self.places) // block if len(self.places) % block == 0 else 1


_Times = tuple[int | None, int | None, int | None, tuple[Domain, ...]]


def strategy(con: duckdb.DuckDBPyConnection, part: Part | None) -> Strategy:
    """The grid of the job, with times of a part of the run. It is asked of the whole run."""
    rows = con.execute(
        "SELECT group_name, lower(kind), rank, position, source FROM group_member ORDER BY group_name, position, rank"
    ).fetchall()
    groups: dict[str, list[int]] = {}
    kinds: dict[str, str] = {}
    places: dict[tuple[int, str], int] = {}
    sources = set()
    for name, kind, rank, position, source in rows:
        mine = groups.setdefault(name, [])
        if kind:
            kinds[name] = kind
            places[rank, kind] = len(mine) if position is None else int(position)
            sources.add(source)
        mine.append(rank)
    told = {kind: [name for name in kinds if kinds[name] == kind] for kind in sorted(set(kinds.values()))}
    sizes = tuple((kind, len(names), max(len(groups[name]) for name in names)) for kind, names in told.items())
    axes = [kind for kind in (*ROWS, *COLUMNS) if kind in told]
    untold = tuple(sorted(set(groups) - set(kinds)))
    if not axes:
        return Strategy(sizes, (), untold, tuple(sorted(sources)))
    every = sorted({rank for rank, _ in places} | set(Run.of(con).ranks))
    grid = _grid(every, places, axes)
    times = _times(con, part, kinds)
    return Strategy(
        sizes, tuple(_place(rank, grid[rank], places, told, times.get(rank)) for rank in every), untold,
        tuple(sorted(sources)),
    )  # fmt: skip


def _place(
    rank: int, at: tuple[int, int], places: Mapping[tuple[int, str], int], kinds: Iterable[str], times: _Times | None
) -> Place:
    own = tuple((kind, places[rank, kind]) for kind in kinds if (rank, kind) in places)
    if times is None:
        return Place(rank, *at, own, False, None, None, None, ())
    dur, computing, idle, mine = times
    return Place(rank, *at, own, True, dur, computing, idle, mine)


def _grid(
    ranks: Sequence[int], places: Mapping[tuple[int, str], int], axes: Sequence[str]
) -> dict[int, tuple[int, int]]:
    """Row and column of each rank. Those whose place no group tells are in a row of their own, the last.

    Expert parallel ranks lie within data parallel ones, so `ep` is an axis only where there is no `dp`.
    """
    across = [kind for kind in COLUMNS if kind in axes and not (kind == "ep" and "dp" in axes)]
    keys: dict[int, tuple[int, tuple[int, ...]]] = {}
    taken: dict[tuple[int, tuple[int, ...]], int] = {}
    last = 1 + max((at for (_, kind), at in places.items() if kind in ROWS), default=0)
    for rank in ranks:
        told = any((rank, kind) in places for kind in axes)
        row = next((places[rank, kind] for kind in ROWS if (rank, kind) in places), 0 if told else last)
        column = tuple(places.get((rank, kind), 0) for kind in across)
        again = taken[row, column] = taken.get((row, column), -1) + 1
        keys[rank] = row, (*column, again)
    columns = {key: number for number, key in enumerate(sorted({key for _, key in keys.values()}))}
    return {rank: (row, columns[key]) for rank, (row, key) in keys.items()}


def _times(con: duckdb.DuckDBPyConnection, part: Part | None, kinds: Mapping[str, str]) -> dict[int, _Times]:
    run = Run.of(con)
    operators, tasks, found = run.get(collectives), run.get(comm_tasks), run.get(waits)
    known = (found.how != UNKNOWN) & (found.wait_ns >= 0)
    held = np.isin(np.arange(len(operators)), tasks.op)  # their tasks say when they wait
    task_rank = operators.rank[tasks.op]
    start = np.maximum(operators.ts, found.arrival_ns - np.maximum(found.wait_ns, 0))
    stop = np.minimum(operators.end, found.arrival_ns)
    kind_of = np.array([kinds.get(team, "") for team in operators.teams] or [""], dtype=object)
    kind = kind_of[operators.team] if len(operators) else np.zeros(0, dtype=object)
    times: dict[int, _Times] = {}
    for rank, (begin, end) in within.panes(con, part or Part()).items():
        pane = Intervals(np.array([begin]), np.array([end]))
        did = run.activity(rank)
        computing = did.computing
        mine, inside = operators.rank == rank, task_rank == rank
        moving = _when(tasks, inside & (tasks.what == TRANSFER))
        domains = []
        for name in sorted(set(kind[mine].tolist())):
            rows = mine & (kind == name)
            busy = Intervals.union_of(operators.ts[rows], operators.end[rows]) & pane
            bare = None if computing is None else busy - computing
            told = rows & known & ~held
            waiting = Intervals.union_of(start[told], stop[told]) | _when(
                tasks, inside & (tasks.what == WAIT) & rows[tasks.op]
            )
            domains.append(Domain(
                name, busy.total(), None if bare is None else bare.total(),
                None if bare is None or not (rows & (known | held)).any() else (bare & (waiting - moving)).total(),
            ))  # fmt: skip
        idle = did.work().gaps(begin, end).total() if did.complete else None
        times[rank] = end - begin, None if computing is None else (computing & pane).total(), idle, tuple(domains)
    return times


def _when(tasks: CommTasks, chosen: NDArray[np.bool_]) -> Intervals:
    return Intervals.union_of(tasks.ts[chosen], tasks.end[chosen])


def mean(places: Sequence[Place]) -> dict[str, tuple[int, int | None, int | None]]:
    """Per domain the mean over captured ranks that have it: busy beside computing or not, exposed, waiting."""
    found: dict[str, list[Domain]] = {}
    for place in places:
        for domain in place.domains:
            found.setdefault(domain.kind, []).append(domain)
    return {
        kind: (
            sum(one.busy_ns for one in some) // len(some),
            _mean([one.exposed_ns for one in some]), _mean([one.waiting_ns for one in some]),
        )
        for kind, some in found.items()
    }  # fmt: skip


def _mean(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) // len(known) if known else None
