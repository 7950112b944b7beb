"""What an ordinary launch of the job costs: time on the host, and time on its way to the device.

The fastest rank decides for all ranks. Otherwise a rank with a slow host would pass as ordinary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.kernels import kernels
from npulens.analysis.idle.host_names import span_kinds
from npulens.analysis.idle.issue import ENOUGH, KERNEL, MEMSET, USUAL_LATENCY_NS, Tasks, launches, tasks
from npulens.analysis.idle.small_operators import SmallOperators, small_operators
from npulens.analysis.intervals import Ints, distinct
from npulens.analysis.run import Run

#: From one launch to the next where a job shows too few: orders of magnitude of the real captures.
FAST_NS, ORDINARY_NS, LONG_NS = 10_000, 30_000, 200_000
#: No launch that is this slow is fast, whatever the job: kernels longer than it are not short.
FASTEST_NS = 30_000
#: So many short kernels in a row are a run.
RUN = 8


@dataclass(frozen=True)
class Waits:
    """Event waits of one rank by start."""

    starts: Ints
    ends: Ints
    tracks: Ints


@dataclass(frozen=True)
class LaunchCosts:
    """Usual times of launches in this run, in ns."""

    latency_ns: dict[int, int]  # by rank: from the launch to the start on an idle device
    fast_ns: int  # a quarter of the launches follow the one before within this
    ordinary_ns: int  # half of them
    long_ns: int  # all but a twentieth
    waits: dict[int, Waits]
    small: SmallOperators  # on a CPU no task is launched apart from its work: there these are the runs
    _runs: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def short_run(self, did: Tasks) -> NDArray[np.bool_]:
        """Which tasks belong to a run of kernels shorter than the fastest launches, the first of each left out.

        Nodes of a graph are launched by nobody, so that none is shorter than its launch.
        """
        key = id(did)
        if key not in self._runs:
            short = (did.ends - did.starts < self.fast_ns) & np.isin(did.kinds, (KERNEL, MEMSET))
            short &= did.linked & ~did.node & ~np.isin(did.ids, self.small.on_cpu)
            edges = np.flatnonzero(np.diff(np.concatenate(([0], short.view(np.int8), [0]))))
            first, last = edges[::2], edges[1::2]
            inside = np.isin(did.ids, self.small.ids)
            for a, b in zip(first, last, strict=True):
                inside[a + 1 : b] = b - a >= RUN
            self._runs[key] = inside
        return self._runs[key]


def kernel_calls(run: Run) -> dict[str, Any]:
    """The launches of kernels, as `launches` has them, and the row of each in `kernels`; what clears memory is none."""
    found, every = run.get(launches), run.get(kernels)
    order = np.argsort(every.span_id, kind="stable")
    if not len(order):
        return {name: values[:0] for name, values in (*found.items(), ("row", order))}
    row = order[np.minimum(np.searchsorted(every.span_id, found["task"], sorter=order), len(order) - 1)]
    mine = (every.span_id[row] == found["task"]) & every.of(~every.kinds.memset)[row]
    return {name: values[mine] for name, values in (*found.items(), ("row", row))}


def launch_costs(run: Run) -> LaunchCosts:
    """The usual times, measured over all ranks."""
    every = run.get(tasks)
    quantiles = [found for did in every.values() if (found := _intervals(did)) is not None]
    fast, ordinary, long = np.min(quantiles, axis=0) if quantiles else (FAST_NS, ORDINARY_NS, LONG_NS)
    sql = "SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns, track FROM span WHERE kind = 'wait' ORDER BY rank, ts_ns"
    none = dict.fromkeys(("rank", "ts_ns", "end_ns", "track"), np.zeros(0, np.int64))
    rows = run.columns(sql) if "wait" in run.get(span_kinds) else none
    waits: dict[int, Waits] = {}
    for rank in run.ranks:
        a, b = np.searchsorted(rows["rank"], (rank, rank + 1))
        waits[rank] = Waits(rows["ts_ns"][a:b], rows["end_ns"][a:b], rows["track"][a:b])
    latency = {rank: _latency(run, rank, did) for rank, did in every.items()}
    return LaunchCosts(latency, min(int(fast), FASTEST_NS), int(ordinary), int(long), waits, run.get(small_operators))


def _intervals(did: Tasks) -> NDArray[np.float64] | None:
    """Quantiles of the time from one launch to the next."""
    between: Ints = np.diff(distinct(did.issued[did.linked])).astype(np.int64)
    return np.quantile(between, (0.25, 0.5, 0.95)) if len(between) >= ENOUGH else None


def _latency(run: Run, rank: int, did: Tasks) -> int:
    """The median from launch to start of the tasks that were launched while the device idled."""
    if not len(did.starts):
        return USUAL_LATENCY_NS
    reach = np.maximum.accumulate(did.ends)
    alone = did.linked.copy()
    alone[1:] &= did.source_start[1:] >= reach[:-1]
    latency = (did.starts - did.source_start)[alone]
    latency = latency[latency > 0]
    return int(np.median(latency)) if len(latency) >= ENOUGH else USUAL_LATENCY_NS
