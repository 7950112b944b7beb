"""Activations are reduced in many small all-reduces instead of one large one.

Planted in a job whose layers are split over two ranks (tensor parallel). Every other all-reduce becomes 8 to 16 of
them. Packets below 16 MB move 1.5 to 2.5 times slower, as they do on a real link. Over a network that is so below 1 MB,
and the pieces are as many as that takes. It shows in the tasks of the collectives, from Level1 on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.fault import Cost, Fault, SimConfig
from npulens.collectors.simulator.collective import LINK_BYTES_PER_NS
from npulens.collectors.simulator.items import Collect, Item
from npulens.collectors.simulator.kernels import BF16

CAUSE = "small_packets"
ALSO = ("comm_exposed", "late_rank", "launch_overhead")
RANKS = 2
LEVELS = (1, 2)
FORMATS = ("text", "db")

SMALL_BYTES = 16_000_000
SMALL_RDMA_BYTES = 1_000_000


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """Layers split over two ranks, with packets that are large enough."""
    least = -(-SMALL_BYTES * 6 // 5 * 2 // BF16 // config.hidden)
    return replace(config, ranks=2, tensor_parallel=2, steps=min(config.steps, 3), tokens=max(config.tokens, least))


def plant(draw: random.Random, config: SimConfig) -> Fault:
    least, factor = draw.randint(8, 16), draw.uniform(1.5, 2.5)
    small = SMALL_RDMA_BYTES if config.rdma else SMALL_BYTES

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        found: list[Item] = []
        number = 0
        for item in items:
            if isinstance(item, Collect):
                number += 1
                pieces = max(least, item.count * item.item_bytes // config.ranks // (small * 4 // 5) + 1)
                found += [replace(item, count=item.count // pieces, place=-1)] * pieces if number % 2 else [item]
            else:
                found.append(item)
        return found

    def perturb(cost: Cost, ns: int) -> int:
        return int(ns * factor) if cost.what == "link" and ns < small // LINK_BYTES_PER_NS else ns

    return Fault(CAUSE, ALSO, edit=edit, perturb=perturb)
