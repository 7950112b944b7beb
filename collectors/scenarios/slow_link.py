"""One link between two ranks is several times slower than the others.

Planted in a job whose layers are split over four ranks (tensor parallel), so that every layer waits for its
all-reduces. Transfers over one link, both ways, take 2 to 5 times as long. It shows in the tasks of the collectives,
from Level1 on.
"""

from __future__ import annotations

import random
from dataclasses import replace

from npulens.collectors.planting.fault import Cost, Fault, SimConfig

CAUSE = "slow_link"
ALSO = ("comm_exposed", "late_rank")
RANKS = 4
LEVELS = (1, 2)
FORMATS = ("text", "db")


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """Layers split over the ranks; their all-reduces are not hidden."""
    return replace(config, ranks=4, tensor_parallel=4, steps=min(config.steps, 3))


def plant(draw: random.Random, config: SimConfig) -> Fault:
    one, other = draw.sample(range(config.ranks), 2)
    names, factor = {f"{one}-{other}", f"{other}-{one}"}, draw.uniform(2.0, 5.0)

    def perturb(cost: Cost, ns: int) -> int:
        return int(ns * factor) if cost.what == "link" and cost.name in names else ns

    return Fault(CAUSE, ALSO, one, perturb=perturb)
