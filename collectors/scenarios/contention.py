"""Kernels are slower while gradients travel beside them: both take bandwidth from one memory.

Planted in a job whose all-reduces are long, and hidden behind the backward pass: the kernels that run beside them take
1.3 to 1.7 times as long. It shows as the same kernel with two durations, one beside collectives and one without.
"""

from __future__ import annotations

import random
from dataclasses import replace

from collectors.backends._collective import LINK_BYTES_PER_NS
from collectors.backends._items import Collect, Launch
from collectors.backends._model import build_step
from collectors.scenarios._fault import Cost, Fault, SimConfig

CAUSE = "contention"
ALSO = ("slow_tail", "comm_exposed")
RANKS = 2
LEVELS = (1, 2)
FORMATS = ("text", "db")

TRAINED = 3  # one of so many parameters has a gradient: enough to be busy for half of a layer
COVERED = 0.9  # of what a bucket takes: kernels that surely run beside it


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """Long all-reduces, and as many steps as tell the two durations apart."""
    return replace(config, layers=3, trained=TRAINED, steps=6)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    factor, slow, left = draw.uniform(1.3, 1.7), set[int](), 0.0
    for place, item in enumerate(build_step(config)):
        if isinstance(item, Collect):
            left += COVERED * 2 * item.count * item.item_bytes / config.ranks / LINK_BYTES_PER_NS
        elif isinstance(item, Launch) and item.stream == "compute" and left > 0:
            slow.add(place)
            left -= sum(kernel.base_ns for kernel in item.kernels) * factor

    def perturb(cost: Cost, ns: int) -> int:
        return int(ns * factor) if cost.what == "kernel" and cost.place in slow else ns

    return Fault(CAUSE, ALSO, perturb=perturb)
