"""The step waits for its input: the workers have not prepared the next batch when it is asked for.

Planted as a longer stay in enumerate(DataLoader)#..., in every step or in every second or third one. Those stand for a
worker that is slower than the others. The device is idle meanwhile, because the loss of the step before was read.
"""

from __future__ import annotations

import random

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Cost, Fault, SimConfig

CAUSE = "dataloader"
ALSO = ()


def plant(draw: random.Random, config: SimConfig) -> Fault:
    every, rank = draw.choice((1, 1, 2)), draw.choice((None, draw.randrange(config.ranks)))
    ns = int(draw.uniform(0.04, 0.35) * busy_ns(config)) * every

    def perturb(cost: Cost, spent: int) -> int:
        here = cost.what == "dataloader" and rank in (None, cost.rank) and (cost.step - config.first_step) % every == 0
        return spent + ns if here else spent

    return Fault(CAUSE, ALSO, rank, perturb=perturb)
