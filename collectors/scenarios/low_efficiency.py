"""Matrix products stay far below the roof of their device, though their pipes are busy.

Planted on all products of one shape, on one rank or on all. They take 2.6 to 6 times as long, as a poor tiling, padding
or an old library makes them. They compute a third to an eighth of what the cube or the tensor cores can. Shapes tell
it, which are recorded from Level1 on. The counters stay those of busy pipes, because they are busy with the wrong
things. A Kineto trace has no shapes of kernels, so one slow rank may look like one that has more to do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import Launch
from npulens.collectors.simulator.model import build_step

CAUSE = "low_efficiency"
ALSO = ("imbalance",)
LEVELS = (1, 2)

FACTORS = (2.6, 3.0, 4.0, 6.0)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    costs, busy = _products(config), busy_ns(config)
    choices = [
        (shape, factor) for shape, ns in costs.items() for factor in FACTORS
        if 0.03 * busy < ns * (factor - 1) < 0.7 * busy
    ]  # fmt: skip
    shape, factor = draw.choice(choices)
    rank = draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        return items if rank is not None and at != rank else [_slow(item) for item in items]

    def _slow(item: Item) -> Item:
        if not isinstance(item, Launch) or all(kernel.inputs.shapes != shape for kernel in item.kernels):
            return item
        slow = (
            replace(kernel, base_ns=int(kernel.base_ns * factor)) if kernel.op_type == "MatMulV2" else kernel
            for kernel in item.kernels
        )
        return replace(item, kernels=tuple(slow))

    return Fault(CAUSE, ALSO, rank, edit=edit, changes={"shapes": True})


def _products(config: SimConfig) -> dict[str, int]:
    """What the products of each shape cost in a healthy step."""
    found: dict[str, int] = {}
    for item in build_step(config):
        for kernel in item.kernels if isinstance(item, Launch) else ():
            if kernel.op_type == "MatMulV2":
                found[kernel.inputs.shapes] = found.get(kernel.inputs.shapes, 0) + kernel.base_ns
    return found
