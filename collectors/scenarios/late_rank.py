"""A collective waits for a peer that comes late, in every step.

Planted on one rank in one of three ways: its Python is slow, its input is late, or its kernels are. Where that rank was
captured, the reason shows there under its own name too. In half of the cases it was not captured. Then all there is to
see are the waits of the others, and, from Level1 on, for whom they wait. Level0 and Kineto traces show long collectives
and nothing more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Cost, Fault, Item, SimConfig
from npulens.collectors.planting.host import frame

CAUSE = "late_rank"
ALSO = ()
RANKS = 2

WAYS = {"python": "host_late", "dataloader": "dataloader", "kernel": "imbalance"}


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, captured, way = draw.randrange(config.ranks), draw.random() < 0.5, draw.choice(list(WAYS))
    share = draw.uniform(0.05, 0.3)
    ns = int(share * busy_ns(config))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        return [items[0], *frame(config, "checks.py(90): scan", ns), *items[1:]] if at == rank else items

    def perturb(cost: Cost, spent: int) -> int:
        if cost.rank != rank or cost.what != way:
            return spent
        return spent + ns if way == "dataloader" else int(spent * (1 + share))

    if way == "python":
        return Fault(CAUSE, ALSO, rank, captured, own=WAYS[way], edit=edit)
    return Fault(CAUSE, ALSO, rank, captured, own=WAYS[way], perturb=perturb)
