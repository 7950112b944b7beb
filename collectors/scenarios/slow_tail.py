"""The same kernel on the same shapes is sometimes several times slower.

Planted on one type of kernel, or on one of its shapes. Of each shape one kernel in five at most is 2 to 5 times as
long. It stands for a neighbour in the cache, memory that is shared or refreshed, a preempted core. It shows as outliers
among kernels of one name and shape; without shapes, of one name.
"""

from __future__ import annotations

import random

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Cost, Fault, SimConfig
from npulens.collectors.scenarios.unfused import WRITTEN_OUT
from npulens.collectors.simulator.items import KernelSpec, Launch
from npulens.collectors.simulator.model import build_step

CAUSE = "slow_tail"
ALSO = ("step_jitter", "imbalance")

OFTEN = 0.2  # of the kernels of a shape, so that their median stays what it was
LEAST = 0.04  # of the job's time

Groups = dict[tuple[str, str], dict[int, int]]


def plant(draw: random.Random, config: SimConfig) -> Fault:
    factor, rank = draw.uniform(2.0, 5.0), draw.choice((None, draw.randrange(config.ranks)))
    shapes, busy = _shapes(config), busy_ns(config) * config.steps
    most = {key: _slow(places, config) * max(places.values()) * (factor - 1) for key, places in shapes.items()}
    enough = [key for key, ns in most.items() if ns > LEAST * busy]
    only = draw.choice(enough) if enough and draw.random() < 0.5 else None
    kind = only[0] if only else max(most, key=lambda key: most[key])[0]
    candidates = [
        (step, place, ns)
        for key, places in shapes.items()
        if key == only or only is None and key[0] == kind
        for step, place, ns in _some(draw, places, config)
    ]
    draw.shuffle(candidates)
    wanted, slow = draw.uniform(LEAST, 0.25) * busy, set[tuple[int, int]]()
    for step, place, ns in candidates:
        if wanted > 0 or len(slow) < 2:
            slow.add((step, place))
            wanted -= ns * (factor - 1)

    def perturb(cost: Cost, ns: int) -> int:
        hit = cost.what == "kernel" and cost.name == kind and (cost.step, cost.place) in slow
        return int(ns * factor) if hit and rank in (None, cost.rank) else ns

    return Fault(CAUSE, ALSO, rank, perturb=perturb)


def _slow(places: dict[int, int], config: SimConfig) -> int:
    """How many of a shape's kernels may be slow."""
    return int(OFTEN * len(places) * config.steps)


def _some(draw: random.Random, places: dict[int, int], config: SimConfig) -> list[tuple[int, int, int]]:
    """(step, place, ns) of as many kernels of a shape as may be slow."""
    every = [(config.first_step + step, place, ns) for step in range(config.steps) for place, ns in places.items()]
    return draw.sample(every, _slow(places, config))


def _shapes(config: SimConfig) -> Groups:
    """What each kernel of a type and shape costs, by its place in the step.

    Without the types that another scenario may take away.
    """
    found: Groups = {}
    for place, item in enumerate(build_step(config)):
        kernels: tuple[KernelSpec, ...] = item.kernels if isinstance(item, Launch) else ()
        for kernel in kernels:
            if kernel.op_type not in WRITTEN_OUT:
                found.setdefault((kernel.op_type, kernel.inputs.shapes), {})[place] = kernel.base_ns
    return found
