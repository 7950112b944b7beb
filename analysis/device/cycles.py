"""How many cores took part in a kernel, by the cycles that they counted: for captures without block counts (Level0).

The profiler adds the cycles of all cores up (aic_total_cycles of the matrix cores, aiv_total_cycles of the vector
cores). One core that works for the whole kernel counts time x clock. So cycles / (time x clock) cores worked, on
average. msprof takes the same for its cube_utilization(%).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.device.abilities import Device, device
from npulens.analysis.device.kernels import Floats, kernels
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: A task's time holds its start and its end, in which no core works yet or any more.
AROUND_NS = 5_000
#: Which cycles a kernel of a core counts; a core that is not known counts on the only side that did.
_SIDES = {"AI_CORE": "aic", "AI_VECTOR_CORE": "aiv"}


@dataclass(frozen=True)
class Working:
    """Per kernel: how many cores worked on average, and how many there are; 0 where that cannot be told."""

    count: Floats
    cores: Ints


def working(run: Run) -> Working:
    """Of kernels on one kind of core; those on both say nothing of how many blocks they had."""
    every = run.get(kernels)
    count, cores = np.zeros(len(every)), np.zeros(len(every), np.int64)
    rows = run.columns(
        "SELECT span_id, coalesce(max(value) FILTER (metric = 'aic_total_cycles'), 0)::DOUBLE AS aic, "
        "coalesce(max(value) FILTER (metric = 'aiv_total_cycles'), 0)::DOUBLE AS aiv "
        "FROM pmu WHERE metric IN ('aic_total_cycles', 'aiv_total_cycles') GROUP BY span_id"
    )
    if not len(rows["span_id"]) or not len(every):
        return Working(count, cores)
    order = np.argsort(every.span_id, kind="stable")
    found = np.minimum(np.searchsorted(every.span_id[order], rows["span_id"]), len(every) - 1)
    at = order[found]
    same = every.span_id[at] == rows["span_id"]
    sides = {"aic": np.zeros(len(every)), "aiv": np.zeros(len(every))}
    for side, cycles in sides.items():
        cycles[at[same]] = rows[side][same]
    side_of = every.kinds.column("core").map(_SIDES.get)
    named = every.kinds.column("core").map(lambda core: core in (None, "", "N/A"))
    for side, other in (("aic", "aiv"), ("aiv", "aic")):
        mine = every.of(side_of.equal(side)) | every.of(named.flags()) & (sides[other] == 0)
        for rank in run.ranks:
            most, clock = _of(device(run, rank), side)
            here = mine & (every.rank == rank) & (sides[side] > 0) & (every.dur > AROUND_NS)
            if most and clock:
                full = (every.dur[here] - AROUND_NS) * clock / 1000
                count[here], cores[here] = np.minimum(sides[side][here] / full, most), most
    return Working(count, cores)


def _of(known: Device | None, side: str) -> tuple[int | None, float | None]:
    """The cores of a side and their clock."""
    if known is None:
        return None, None
    return known.vector_cores if side == "aiv" else known.cube_cores, known.clock_mhz
