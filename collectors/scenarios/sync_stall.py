"""The host reads a value from the device in the middle of the step and goes on only when the device has come there.

Planted as ``.item()`` inside the layers of the forward pass (routing, a check for overflow, a length that decides about
a branch). There are a few, each followed by Python that needs the value. Or there are many, whose operators cost the
host 35 us each. It shows as aten::item, aten::_local_scalar_dense, a copy to the host and
aclrtSynchronizeStreamWithTimeout. Each costs the host its lead, so that the device is idle until new work arrives. The
Python behind it would be hidden without the wait, so it may be called late as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, inserted, insertion_points, operator
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.planting.host import frame
from npulens.collectors.simulator.items import Close, CopyData, KernelSpec, Open
from npulens.collectors.simulator.kernels import tensors

CAUSE = "sync_stall"
ALSO = ("host_late",)

PLACES = ("moe.py(118): route", "scaler.py(73): found_inf", "model.py(61): trim_padding")
ITEM_NS = 35_000  # what a read costs the host where it is the whole of the trouble
READ_NS = 95_000  # roughly what one such read costs the device


def plant(draw: random.Random, config: SimConfig) -> Fault:
    share, name, wanted = draw.uniform(0.04, 0.2), draw.choice(PLACES), draw.randint(3, 6)
    rank = draw.choice((None, draw.randrange(config.ranks)))
    spent = share * busy_ns(config) / (wanted * config.layers)
    ns, reads = int(spent), max(1, round(spent / READ_NS))
    many = draw.random() < 0.5
    behind = [draw.randrange(5_000, 25_000) for _ in range(7)]

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        places = insertion_points(items)
        chosen = places[:: max(1, len(places) // (wanted * config.layers))][: wanted * config.layers]
        if not many:
            return inserted(items, {spot.index: frame(config, name, ns, read(spot.stack)) for spot in chosen})
        return inserted(items, {spot.index: _loop(config, name, spot.stack, reads, behind) for spot in chosen})

    return Fault(CAUSE, ALSO, rank, edit=edit)


def _loop(config: SimConfig, name: str, stack: tuple[str, ...], reads: int, behind: Sequence[int]) -> list[Item]:
    """A small kernel, its result, a little Python; so many times."""
    api, kind, shape = "aclnnGtScalar", "Greater", (64,)
    spec = KernelSpec(f"{api}_{kind}AiCore_{kind}", kind, "AI_VECTOR_CORE", 1_900, tensors(shape), tensors(shape))
    items: list[Item] = []
    for number in range(reads):
        both = [*operator("aten::gt", api, spec, stack), *read(stack, ITEM_NS)]
        items += frame(config, name, behind[number % len(behind)], both)
    return items


def read(stack: tuple[str, ...], host_ns: int = 3_500) -> list[Item]:
    """``.item()`` of a number; ``host_ns`` is the operator's own time before the copy."""
    operators: list[Item] = [
        Open("cpu_op", "aten::item", host_ns, ("",), ("float",), stack),
        Open("cpu_op", "aten::_local_scalar_dense", 3_500, ("",), ("float",), stack),
    ]
    return [*operators, CopyData("d2h", 4, stack, blocking=True), Close(1_200), Close(1_200)]
