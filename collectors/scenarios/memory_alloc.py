"""The caching allocator finds no block that fits: it waits for the device, gives memory back and asks for new memory.

Planted as aclrtSynchronizeDevice, aclrtFree of several segments and aclrtMallocAlign32 inside an operator near the
beginning of a step. Or as new segments alone, which is what an allocator does that may not keep what it freed. The wait
for the device and the late host behind it show as well. Text captures of Level0 have no calls of CANN: there the host
is late.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, inserted, insertion_points
from npulens.collectors.planting.fault import Capture, Fault, SimConfig
from npulens.collectors.simulator.items import Call, Close, Item, Open, Sync

CAUSE = "memory_alloc"
ALSO = ("sync_stall", "host_late")

FREE_NS, MALLOC_NS = 450_000, 900_000  # of a segment of some hundred MB, roughly


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, retry, behind = draw.choice((None, draw.randrange(config.ranks))), draw.random() < 0.6, draw.randrange(4)
    calls = max(2, int(draw.uniform(0.04, 0.25) * busy_ns(config) / (FREE_NS + MALLOC_NS if retry else MALLOC_NS)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank not in (None, at):
            return items
        spot = insertion_points(items)[behind]
        new: list[Item] = [Open("cpu_op", "aten::empty", 3_500, ("", "", ""), ("ScalarList", "Scalar", ""), spot.stack)]
        if retry:
            new += [Sync(spot.stack), *[Call("aclrtFree", FREE_NS)] * calls]
        new += [*[Call("aclrtMallocAlign32", MALLOC_NS)] * calls, Close(1_200)]
        return inserted(items, {spot.index: new})

    return Fault(CAUSE, ALSO, rank, edit=edit, seen=_seen)


def _seen(capture: Capture) -> str:
    return "host_late" if capture.format == "text" and capture.level == 0 else CAUSE
