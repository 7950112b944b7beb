"""Operators of a CPU that take longer to call than to compute.

On a CPU an operator is called and computed by one thread, and both lie in its time. Calling finds the operator's code,
checks its arguments and makes its result. That costs the same for one row and for a thousand. So an operator with
little work is nearly all call. Its work is known from its shapes, and is counted at a rate that any core reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.device.kernels import Kernels, kernels
from npulens.analysis.device.kinds import Bools, Kind
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run
from npulens.analysis.work.operators import work_of

#: Operations, and bytes, of a core in a second: about a tenth of what one with vector units does from its caches.
MATRIX_PER_S, VECTOR_PER_S, BYTES_PER_S = 8e9, 1e9, 2e10
#: What takes longer is no call of 5 to 20 us (torch, with a profiler), whatever its shapes say. Nor is a longer pause.
SHORT_NS = 30_000
#: So many in a row are a run.
RUN = 8

_ON_CPU = "SELECT l.dst_span_id AS span_id FROM link l WHERE l.route = 'itself' ORDER BY 1"


@dataclass(frozen=True)
class SmallOperators:
    """The operators of runs, the first of each left out: what one call for all would make needless."""

    on_cpu: Ints  # every task of a CPU, ascending
    ids: Ints  # ascending
    rank: Ints
    ns: Ints  # how long each takes
    fixed_ns: Ints  # of that, beyond its work
    pauses: dict[int, Intervals]  # by rank: between the operators of a run
    untold_ns: dict[int, int]  # by rank: operators as short in runs, whose work is not known


def small_operators(run: Run) -> SmallOperators:
    """Of every rank whose device is the CPU."""
    on_cpu = run.columns(_ON_CPU)["span_id"].astype(np.int64)
    if not len(on_cpu):
        return SmallOperators(on_cpu, on_cpu, on_cpu, on_cpu, on_cpu, {}, {})
    every = run.get(kernels)
    mine = np.isin(every.span_id, on_cpu)
    work = np.array([_work_ns(kind) for kind in every.kinds] or [float("nan")])[every.kind]
    short = mine & (every.dur <= SHORT_NS)
    inside, follows = _in_runs(every, short & (2 * work <= every.dur))
    untold, _ = _in_runs(every, short & (np.isnan(work) | (2 * work <= every.dur)))
    untold &= np.isnan(work)
    rows = np.flatnonzero(inside)
    rows = rows[np.argsort(every.span_id[rows])]
    pauses = {}
    for rank in np.unique(every.rank[rows]).tolist():
        after = np.flatnonzero(follows & (every.rank == rank))
        pauses[rank] = Intervals.union_of(every.end[after - 1], every.ts[after])
    return SmallOperators(
        on_cpu, every.span_id[rows], every.rank[rows], every.dur[rows],
        every.dur[rows] - np.ceil(work[rows]).astype(np.int64), pauses,
        {rank: int(every.dur[untold & (every.rank == rank)].sum()) for rank in np.unique(every.rank[mine]).tolist()},
    )  # fmt: skip


def _work_ns(kind: Kind) -> float:
    """At most how long a core needs for an operator's work; not a number where the work is not known."""
    found = work_of(kind, None)
    if found.bytes is None or found.flops is None:
        return float("nan")
    operations = (found.matrix or 0) / MATRIX_PER_S + (found.vector or 0) / VECTOR_PER_S  # both are known
    return 1e9 * (operations + found.bytes / BYTES_PER_S)


def _in_runs(every: Kernels, short: Bools) -> tuple[Bools, Bools]:
    """Which rows belong to a run and are not its first; and which of them follow the row before after a pause."""
    inside = np.zeros(len(every), np.bool_)
    pause = every.ts[1:] - every.end[:-1]
    joined = short[1:] & short[:-1] & (every.track[1:] == every.track[:-1]) & (every.rank[1:] == every.rank[:-1])
    joined &= (pause >= 0) & (pause <= SHORT_NS)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], joined.view(np.int8), [0]))))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        inside[first + 1 : last + 1] = last - first + 1 >= RUN
    return inside, inside & np.concatenate(([False], pause > 0))
