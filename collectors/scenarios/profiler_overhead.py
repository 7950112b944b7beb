"""The profiler itself takes the time: reading the counters of the L2 cache holds up every kernel.

Planted as what the real captures with l2_cache=True show. Behind each kernel the device is idle for 88 us although the
next one was launched long before. It does not matter which kernel it is and how long it took. profiler_info says
``_l2_cache: true``. No host span explains these gaps, and all of them have nearly the same length.
"""

from __future__ import annotations

import random

from npulens.collectors.planting.fault import Cost, Fault, SimConfig

CAUSE = "profiler_overhead"
ALSO = ()
FORMATS = ("text", "db")

READ_NS = 88_000  # the median gap between kernels that were queued, in the real captures with l2_cache=True


def plant(draw: random.Random, config: SimConfig) -> Fault:
    ns = int(READ_NS * draw.uniform(0.9, 1.6))

    def perturb(cost: Cost, spent: int) -> int:
        if cost.what != "pause" or not cost.name:
            return spent
        return spent + ns + (cost.place * 7_919 + cost.step * 104_729) % 2_000

    return Fault(CAUSE, ALSO, perturb=perturb, changes={"l2_cache": True})
