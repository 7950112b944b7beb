"""One rank has more to compute than the others, step after step: longer samples, or more experts.

Planted as more tokens on one rank: its kernels have larger shapes (from Level1 on) and take longer. The others finish
earlier and wait for it in the next collective, so it is late as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from collectors.backends._items import Item, KernelSpec, Launch
from collectors.backends._job import Tensors
from collectors.scenarios._fault import Fault, SimConfig

CAUSE = "imbalance"
ALSO = ("late_rank",)
RANKS = 2


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, percent = draw.randrange(config.ranks), draw.randint(6, 35)
    tokens = config.tokens * (100 + percent) // 100

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if at != rank:
            return items
        return [
            replace(item, kernels=tuple(larger(kernel, config.tokens, tokens) for kernel in item.kernels))
            if isinstance(item, Launch)
            else item
            for item in items
        ]

    return Fault(CAUSE, ALSO, rank, edit=edit)


def larger(kernel: KernelSpec, before: int, after: int) -> KernelSpec:
    """The kernel for more tokens; one whose tensors have no token's side stays as it is."""
    sides = [_more(tensors, before, after) for tensors in (kernel.inputs, kernel.outputs)]
    if sides == [kernel.inputs, kernel.outputs]:
        return kernel
    return replace(kernel, inputs=sides[0], outputs=sides[1], base_ns=kernel.base_ns * after // before)


def _more(tensors: Tensors, before: int, after: int) -> Tensors:
    shapes = [
        ",".join(str(after) if side == str(before) else side for side in shape.split(","))
        for shape in tensors.shapes.split(";")
    ]
    return tensors._replace(shapes=";".join(shapes))
