"""Layers are split unevenly over the stages of a pipeline: the stage that has most sets the pace of all.

Planted as one layer moved from one stage to another, in a pipeline that is there without it as well. It shows as more
kernels on the ranks of that stage. The others show hcom_send, hcom_receive and hcom_batchSendRecv that wait for it. The
pipeline fills and empties in any case, so a bubble is there too.
"""

from __future__ import annotations

import random
from dataclasses import replace

from npulens.collectors.planting.fault import Fault, SimConfig
from npulens.collectors.scenarios.pipeline_bubble import bubbles

CAUSE = "stage_balance"
ALSO = ("pipeline_bubble", "comm_exposed", "late_rank")
RANKS = 2
ORDER = -1  # other faults are planted in the script of a stage

MICRO = {2: (6, 8), 4: (12, 16)}
LAYERS = 2  # of each stage, if they were split evenly


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """A pipeline whose layers and tokens can be divided among stages and micro batches."""
    ranks = 2 if config.ranks < 4 else 4
    stages = draw.choice([number for number in (2, 4) if ranks % number == 0])
    return replace(
        config, ranks=ranks, pipeline=stages, micro_batches=draw.choice(MICRO[stages]), layers=LAYERS * stages,
        hidden=5120, tokens=draw.choice((3_072, 4_608)) * 2 // ranks, steps=min(config.steps, 3),
    )  # fmt: skip


def plant(draw: random.Random, config: SimConfig) -> Fault:
    heavy, light = draw.sample(range(config.pipeline), 2)
    layers = tuple(LAYERS + (stage == heavy) - (stage == light) for stage in range(config.pipeline))
    return Fault(CAUSE, ALSO, changes={"stage_layers": layers}, find=bubbles)
