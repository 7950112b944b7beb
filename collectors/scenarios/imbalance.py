"""One rank has more to compute than the others, step after step: longer samples, or more experts.

Planted as more tokens on one rank: its kernels have larger shapes (from Level1 on) and take longer. The others finish
earlier and wait for it in the next collective, so it is late as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import launches
from npulens.collectors.planting.fault import Fault, SimConfig
from npulens.collectors.simulator.items import Close, Item, KernelSpec, Launch, Open, Tensors

CAUSE = "imbalance"
ALSO = ("late_rank",)
RANKS = 2


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, percent = draw.randrange(config.ranks), draw.randint(6, 35)
    tokens = config.tokens * (100 + percent) // 100

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        return grown(items, config.tokens, tokens) if at == rank else items

    return Fault(CAUSE, ALSO, rank, edit=edit)


def grown(items: Sequence[Item], before: int, after: int, *op_types: str) -> list[Item]:
    """The items with another number of tokens in what launches these types, all if none is named, and around it."""
    opened, around = list[int](), set[int]()
    for place, item in enumerate(items):
        if isinstance(item, Open):
            opened.append(place)
        elif isinstance(item, Close):
            opened.pop()
        elif isinstance(item, Launch) and (not op_types or launches(item, *op_types)):
            around.update((*opened, place))
    return [_grown(item, before, after) if place in around else item for place, item in enumerate(items)]


def _grown(item: Item, before: int, after: int) -> Item:
    if isinstance(item, Launch):
        return replace(item, kernels=tuple(larger(kernel, before, after) for kernel in item.kernels))
    if isinstance(item, Open) and item.shapes is not None:
        return replace(item, shapes=tuple(_sides(shape, before, after) for shape in item.shapes))
    return item


def larger(kernel: KernelSpec, before: int, after: int) -> KernelSpec:
    """The kernel for more tokens; one whose tensors have no token's side stays as it is."""
    sides = [_more(tensors, before, after) for tensors in (kernel.inputs, kernel.outputs)]
    if sides == [kernel.inputs, kernel.outputs]:
        return kernel
    return replace(kernel, inputs=sides[0], outputs=sides[1], base_ns=kernel.base_ns * after // before)


def _more(tensors: Tensors, before: int, after: int) -> Tensors:
    return tensors._replace(shapes=";".join(_sides(shape, before, after) for shape in tensors.shapes.split(";")))


def _sides(shape: str, before: int, after: int) -> str:
    return ",".join(str(after) if side == str(before) else side for side in shape.split(","))
