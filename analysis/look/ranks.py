"""Ranks beside each other: the grid of ranks and steps, how each rank stands, their clocks, and one step as a picture.

The grid compares lengths only, so it needs no common clock. The picture of one step does; how far it can be trusted is
what the clock page of it says (analysis/ranks/clock.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.kept import ready
from npulens.analysis.look import rank_sums
from npulens.analysis.ranks.comm_tasks import TRANSFER, WAIT
from npulens.analysis.run import Run

#: What the grid can show, and the column it comes from.
METRICS: Mapping[str, str] = {
    "dur": "dur_ns", "exposed": "communication_not_overlapped_ns", "waiting": "only_waiting_ns", "idle": "idle_ns",
    "computing": "computing_ns", "start": "work_start_ns",
}  # fmt: skip
_MOST_COLUMNS = 400

_GRID = """
SELECT rank, step, ts_ns AS start_ns, dur_ns, communication_not_overlapped_ns, only_waiting_ns, idle_ns, computing_ns,
    work_ts_ns - ts_ns AS work_start_ns
FROM device_time
WHERE (step IS NOT NULL OR rank NOT IN (SELECT rank FROM step)) AND dur_ns IS NOT NULL
ORDER BY rank, ts_ns
"""


@dataclass(frozen=True)
class Grid:
    """Ranks down, steps across, one number a cell; NaN: not recorded."""

    ranks: tuple[int, ...]
    steps: tuple[str, ...]  # empty text: the whole capture, where no steps were recorded
    ns: NDArray[np.float64]
    each: int  # steps a column, as a mean

    def deviation(self) -> NDArray[np.float64]:
        """How far each cell lies from the median of its step's ranks."""
        known = (column[~np.isnan(column)] for column in self.ns.T)
        middle = np.array([np.median(some) if len(some) else np.nan for some in known])
        return np.asarray(self.ns - middle[np.newaxis, :] if len(middle) else self.ns)


@dataclass(frozen=True)
class Stand:
    """How one rank stands among the captured ranks; medians over its steps, None where not recorded."""

    rank: int
    steps: int
    median_ns: Mapping[str, int | None]  # by name of METRICS
    apart_ns: Mapping[str, int | None]  # median over steps of its distance from the median rank of the same step
    last: int  # collectives to which it came last, counted on every rank that waited
    waited_ns: int  # by the rank that waited most for it, in the whole run
    kernels_ns: int  # its kernels together, less those of the median rank
    kernel: str  # the one that differs most
    kernel_ns: int


@dataclass(frozen=True)
class Missed:
    """The rank that was not captured and that the others waited for longest."""

    rank: int
    wait_ns: int


@dataclass(frozen=True)
class Clocked:
    """One rank's clock against the reference's; None: could not be compared."""

    rank: int
    offset_ns: int | None
    uncertainty_ns: int | None


@dataclass(frozen=True)
class Compared:
    """Ranks beside each other."""

    grids: Mapping[str, Grid]
    stands: tuple[Stand, ...]
    missed: Missed | None
    reference: int | None  # whose clock the others are compared with
    clocks: tuple[Clocked, ...]
    staged: bool  # the job has a pipeline: a pp group, or sends and receives


@dataclass(frozen=True)
class Lane:
    """One rank in one step: shares of equal slices of a window that all ranks share, and totals of its own step."""

    rank: int
    begin_ns: int  # on the rank's own clock
    dur_ns: int
    slice_ns: float
    computing: tuple[float, ...]
    waiting: tuple[float, ...]
    moving: tuple[float, ...]
    told: bool  # waits and transfers were recorded; else all communication is in `moving`
    computing_ns: int
    waiting_ns: int
    moving_ns: int
    idle_ns: int


def table(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """rank, step and every metric in ns; one row a rank where no steps were recorded."""
    rows = con.execute(_GRID).df()
    return rows if len(rows) else rank_sums.table(con)


def grids(con: duckdb.DuckDBPyConnection) -> Mapping[str, Grid]:
    """The grid of every metric that was recorded at all."""
    rows = table(con)
    found = {}
    for name, column in METRICS.items():
        if rows[column].notna().any():
            found[name] = _grid(rows, column)
    return found


def _grid(rows: pd.DataFrame, column: str) -> Grid:
    steps = rows["step"].astype("Int64").fillna(-1)
    wide = rows.assign(step=steps).drop_duplicates(["rank", "step"]).pivot(index="rank", columns="step", values=column)
    ns = wide.to_numpy(dtype=float, na_value=np.nan)
    each = max(1, -(-ns.shape[1] // _MOST_COLUMNS))
    names = [int(step) for step in wide.columns]
    if each > 1:
        parts = [ns[:, at : at + each] for at in range(0, ns.shape[1], each)]
        ns = np.stack([_mean(part) for part in parts], axis=1)
    labels = tuple(
        "" if names[at] < 0 else str(names[at]) if each == 1 else f"{names[at]}–{names[min(at + each, len(names)) - 1]}"
        for at in range(0, len(names), each)
    )
    return Grid(tuple(int(rank) for rank in wide.index), labels, ns, each)


def _mean(part: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(part)
    count = known.sum(axis=1)
    return np.where(count > 0, np.where(known, part, 0).sum(axis=1) / np.maximum(count, 1), np.nan)


def across(con: duckdb.DuckDBPyConnection) -> Compared:
    """Ranks times steps and nothing else: what is there at once, however many ranks there are."""
    every = grids(con)
    return Compared(every, _standing(every, {}, {}), None, None, (), False)


def compared(con: duckdb.DuckDBPyConnection) -> Compared:
    """The same with who waits for whom, whose kernels take longer and whose clock is how far off."""
    every = grids(con)
    ready(con, ("late_peer", "rank_stand"))
    late = con.execute("SELECT rank, captured, operators, wait_ns FROM late_peer ORDER BY place").fetchall()
    missed = next((Missed(rank, wait) for rank, held, _, wait in late[:1] if rank is not None and not held), None)
    rows = con.execute(
        "SELECT rank, offset_ns, uncertainty_ns, reference, paired, kernels_ns, kernel, kernel_ns FROM rank_stand "
        "ORDER BY rank"
    ).fetchall()
    ((listed,),) = con.execute("SELECT count(*) FROM parallel_group WHERE lower(kind) = 'pp'").fetchall()
    stands = _standing(
        every, {rank: (count, wait) for rank, _, count, wait in late if rank is not None},
        {row[0]: row[5:] for row in rows},
    )  # fmt: skip
    return Compared(
        every, stands, missed, next((row[0] for row in rows if row[3]), None), tuple(Clocked(*row[:3]) for row in rows),
        bool(listed) or any(row[4] for row in rows),
    )  # fmt: skip


def _standing(
    every: Mapping[str, Grid], late: Mapping[int, tuple[int, int]], more: Mapping[int, tuple[int, str, int]]
) -> tuple[Stand, ...]:
    """Every rank; the one that others waited longest for first, then the one that computes most.

    `late`: how many collectives it came last to, and how long the rank that waited most waited.
    """
    if "dur" not in every:
        return ()
    medians = {name: dict(zip(grid.ranks, map(_middle, grid.ns), strict=True)) for name, grid in every.items()}
    apart = {name: dict(zip(grid.ranks, map(_middle, grid.deviation()), strict=True)) for name, grid in every.items()}
    found = [
        Stand(
            rank, int((~np.isnan(lengths)).sum()), {name: held.get(rank) for name, held in medians.items()},
            {name: held.get(rank) for name, held in apart.items()}, late.get(rank, (0, 0))[0],
            late.get(rank, (0, 0))[1], *more.get(rank, (0, "", 0)),
        )
        for rank, lengths in zip(every["dur"].ranks, every["dur"].ns, strict=True)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-one.waited_ns, -(one.apart_ns.get("computing") or 0), one.rank)))


def _middle(values: NDArray[np.float64]) -> int | None:
    known = values[~np.isnan(values)]
    return round(float(np.median(known))) if len(known) else None


def pipeline(con: duckdb.DuckDBPyConnection, step: int | None, slices: int) -> tuple[Lane, ...]:
    """Every rank in one step (None: the whole capture), on one clock, cut into slices."""
    run, spans = Run.of(con), dict[int, tuple[int, int]]()
    for rank in run.ranks:
        window = next(((one.ts_ns, one.end_ns) for one in run.steps[rank] if one.step == step), None)
        if step is None:
            window = run.window(rank)
        if window is not None and run.activity(rank).computing is not None:
            spans[rank] = window
    if not spans:
        return ()
    ready(con, ("rank_stand", "comm_state"))
    shift: dict[int, int] = dict(con.execute("SELECT rank, coalesce(offset_ns, 0) FROM rank_stand").fetchall())
    begin = min(span[0] + shift[rank] for rank, span in spans.items())
    end = max(span[1] + shift[rank] for rank, span in spans.items())
    edges = begin + (end - begin) * np.arange(slices + 1, dtype=np.int64) // slices
    tasks = _tasks_by_rank(run)
    return tuple(_lane(run, rank, span, edges - shift[rank], tasks.get(rank)) for rank, span in spans.items())


def _tasks_by_rank(run: Run) -> dict[int, tuple[Intervals, Intervals]]:
    """When each rank's operators wait and when they move data, where their tasks were recorded."""
    rows = run.columns("SELECT rank, what, ts_ns, end_ns FROM comm_state")

    order = np.argsort(rows["rank"], kind="stable")
    rows = {name: values[order] for name, values in rows.items()}

    def of(rank: int, what: int) -> Intervals:
        mine = slice(*np.searchsorted(rows["rank"], [rank, rank + 1]))
        these = rows["what"][mine] == what
        return Intervals.union_of(rows["ts_ns"][mine][these], rows["end_ns"][mine][these])

    told = run.con.execute("SELECT rank FROM rank_stand WHERE tasks > 0 ORDER BY rank").fetchall()
    return {rank: (of(rank, WAIT), of(rank, TRANSFER)) for (rank,) in told}


def _lane(run: Run, rank: int, span: tuple[int, int], edges: Ints, tasks: tuple[Intervals, Intervals] | None) -> Lane:
    did = run.activity(rank)
    computing, exposed = did.computing or EMPTY, (did.communication or EMPTY) - (did.computing or EMPTY)
    waiting = EMPTY if tasks is None else (exposed & tasks[0]) - tasks[1]
    moving = exposed - waiting
    begin, end = np.array([span[0]]), np.array([span[1]])

    def shares(part: Intervals) -> tuple[float, ...]:
        inside = part.within(edges[:-1], edges[1:]) / np.maximum(edges[1:] - edges[:-1], 1)
        return tuple(np.round(inside, 3).tolist())

    def total(part: Intervals) -> int:
        return int(part.within(begin, end)[0])

    dur = span[1] - span[0]
    return Lane(
        rank, int(edges[0]), dur, float(edges[-1] - edges[0]) / (len(edges) - 1), shares(computing), shares(waiting),
        shares(moving), tasks is not None, total(computing), total(waiting), total(moving),
        dur - total(did.work()),
    )  # fmt: skip
