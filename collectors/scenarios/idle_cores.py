"""A kernel is split over a few cores only, and the others idle.

Planted on one type of kernel, as a shape does it whose tiled axis is too short. It gets 1 to 8 blocks where the device
has 24 cube or 48 vector cores, and takes accordingly longer. A core alone gets more of the memory's bandwidth than its
share. So the stretch is 60 to 100 % of the ratio of cores. It shows in the block number; Level0 does not tell it, and a
Kineto trace of another device has grids instead.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns, kernels_ns, launches
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import Launch
from npulens.collectors.simulator.pmu import block_num

CAUSE = "idle_cores"
ALSO = ()
FORMATS = ("text", "db")
LEVELS = (1, 2)

KINDS = ("ReduceSum", "Gelu", "GeluGrad", "AddLayerNorm", "AddLayerNormGrad", "SwiGluGrad", "FlashAttentionScore")
CORES = {"ReduceSum": "MIX_AIV", "FlashAttentionScore": "MIX_AIC"}


def plant(draw: random.Random, config: SimConfig) -> Fault:
    costs, busy = kernels_ns(config), busy_ns(config)
    choices = []
    for kind in (kind for kind in KINDS if kind in costs):
        cores = block_num(CORES.get(kind, "AI_VECTOR_CORE"))[0]
        for blocks in (1, 2, 3, 4, 6, 8):
            for efficiency in (0.6, 0.7, 0.8, 0.9, 1.0):
                factor = max(1.2, cores / blocks * efficiency)
                if 0.03 * busy < costs[kind] * (factor - 1) < 0.4 * busy:
                    choices.append((kind, blocks, factor))
    kind, blocks, factor = draw.choice(choices)
    rank = draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        return items if rank is not None and at != rank else [_on_few_cores(item) for item in items]

    def _on_few_cores(item: Item) -> Item:
        if not (isinstance(item, Launch) and launches(item, kind)):
            return item
        slow = (replace(kernel, blocks=blocks, base_ns=int(kernel.base_ns * factor)) for kernel in item.kernels)
        return replace(item, kernels=tuple(slow))

    return Fault(CAUSE, ALSO, rank, edit=edit)
