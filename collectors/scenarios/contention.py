"""Kernels are slower while gradients travel beside them: both take bandwidth from one memory.

Planted in a job whose all-reduces are long, and hidden behind the backward pass. The kernels that run beside them take
1.3 to 1.7 times as long. It shows as the same kernel with two durations, one beside collectives and one without.
"""

from __future__ import annotations

import random
from dataclasses import replace

from npulens.collectors.planting.fault import Cost, Fault, SimConfig
from npulens.collectors.planting.truth import called, lateness
from npulens.collectors.simulator.config import Perturb
from npulens.collectors.simulator.job import Job, Kernel
from npulens.collectors.simulator.simulate import simulate

CAUSE = "contention"
ALSO = ("slow_tail", "comm_exposed")
RANKS = 2
LEVELS = (1, 2)
FORMATS = ("text", "db")

ORDER = 1  # where transfers lie depends on the other faults

TRAINED = 3  # one of so many parameters has a gradient: enough to be busy for half of a layer
BESIDE = 0.5  # a kernel runs beside a transfer if that takes so much of its time, on every rank and in every step
ROUNDS = 3  # a slower kernel moves those behind it


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """Long all-reduces, and as many steps as tell the two durations apart."""
    return replace(config, layers=3, trained=TRAINED, steps=6)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    factor = draw.uniform(1.3, 1.7)
    slow = frozenset[int]()
    for _ in range(ROUNDS):
        job = simulate(replace(config, faults=(*config.faults, Fault(CAUSE, perturb=_slower(slow, factor)))))
        slow, before = _beside(job), slow
        if slow == before:
            break
    return Fault(CAUSE, ALSO, perturb=_slower(slow, factor))


def _slower(slow: frozenset[int], factor: float) -> Perturb:
    def perturb(cost: Cost, ns: int) -> int:
        return int(ns * factor) if cost.what == "kernel" and cost.place in slow else ns

    return perturb


def _beside(job: Job) -> frozenset[int]:
    """Places of the kernels that run beside transfers, wherever they run."""
    waited = lateness(job)
    alone, every = {-1}, set[int]()
    for record in job.ranks:
        # Data moves from when the last member of a collective has come.
        collectives = record.of("comm_op")
        moving = [(op.ts_ns + max(0, waited[called(op), record.rank]), op.end_ns) for op in collectives]
        for span in record.of("kernel"):
            assert isinstance(span.detail, Kernel)
            shared = sum(max(0, min(end, span.end_ns) - max(begin, span.ts_ns)) for begin, end in moving)
            every.add(span.detail.place)
            if shared < BESIDE * span.dur_ns:
                alone.add(span.detail.place)
    return frozenset(every - alone)
