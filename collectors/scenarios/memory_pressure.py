"""The device's memory is used up: the allocator finds no block, waits for the device, gives back and asks again.

Planted as 63 GiB reserved of which 44 are allocated. Some operators of each step call aclrtSynchronizeDevice, aclrtFree
of several segments and aclrtMallocAlign32. On an NPU of 64 GiB that is a full device; on a device with more it is
memory in pieces. Text captures of Level0 have no calls of CANN: there the host is late. Without the record of the pools
the calls are all there is: memory is allocated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, inserted, insertion_points
from npulens.collectors.planting.fault import Capture, Fault, SimConfig
from npulens.collectors.simulator.items import Call, Close, Item, Open, Sync

CAUSE = "memory_pressure"
ALSO = ("memory_alloc", "sync_stall", "host_late")

FREE_NS, MALLOC_NS = 450_000, 900_000  # of a segment of some hundred MB, roughly
HELD, RESERVED = 44 << 30, 63 << 30


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, tries, behind = draw.choice((None, draw.randrange(config.ranks))), draw.choice((1, 2)), draw.randrange(3)
    segments = max(1, int(draw.uniform(0.05, 0.25) * busy_ns(config) / tries / (FREE_NS + MALLOC_NS)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank not in (None, at):
            return items
        new: dict[int, Sequence[Item]] = {}
        for spot in insertion_points(items)[behind : behind + tries]:
            shapes, dtypes = ("", "", ""), ("ScalarList", "Scalar", "")
            new[spot.index] = [
                Open("cpu_op", "aten::empty", 3_500, shapes, dtypes, spot.stack), Sync(spot.stack),
                *[Call("aclrtFree", FREE_NS)] * segments, *[Call("aclrtMallocAlign32", MALLOC_NS)] * segments,
                Close(1_200),
            ]  # fmt: skip
        return inserted(items, new)

    changes = {"held_bytes": HELD, "reserved_bytes": RESERVED, "memory": True}
    return Fault(CAUSE, ALSO, rank, edit=edit, seen=_seen, changes=changes)


def _seen(capture: Capture) -> str:
    if capture.format == "text" and capture.level == 0:
        return "host_late"
    return "memory_alloc" if "memory_record.csv" in capture.dropped else CAUSE
