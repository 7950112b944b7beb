"""One step takes longer than the others and nothing that was recorded says why.

Planted as a device that stands still for a while although the next kernel has been launched. The machine was
interrupted, or a neighbour used it. It happens in one step, at one to three places, on all ranks or on one.
"""

from __future__ import annotations

import random
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Cost, Fault, SimConfig
from npulens.collectors.simulator.items import Launch
from npulens.collectors.simulator.pipeline import build

CAUSE = "step_jitter"
ALSO = ()


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """With two steps nobody knows which one is the slow one."""
    return replace(config, steps=max(config.steps, 5))


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank = draw.choice((None, draw.randrange(config.ranks)))
    step = config.first_step + draw.randrange(1, config.steps)
    launches = [
        place
        for place, item in enumerate(build(config))
        if isinstance(item, Launch) and item.stream == "compute" and len(item.kernels) == 1
    ]
    places = draw.sample(launches[len(launches) // 4 :], draw.randint(1, 3))
    ns = int(draw.uniform(0.2, 0.8) * busy_ns(config) / len(places))

    def perturb(cost: Cost, spent: int) -> int:
        here = cost.what == "pause" and cost.name and rank in (None, cost.rank)
        return spent + ns if here and cost.step == step and cost.place in places else spent

    return Fault(CAUSE, ALSO, rank, perturb=perturb)
