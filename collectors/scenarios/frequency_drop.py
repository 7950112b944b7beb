"""The AI cores run below their rated clock: heat, a power limit, a setting.

Planted on whole steps: all of them, from one on, or one in the middle; on one rank or on all. Work on the cube is
slower by the ratio of the clocks. Work on vector cores is slower by 40 % of that, because memory keeps its pace. It
shows as samples of the counter "AI Core Freq" that leave the rated 1800 MHz and as kernels stretched alike. A Kineto
trace has no such counter.
"""

from __future__ import annotations

import random

from npulens.collectors.planting.fault import Cost, Fault, SimConfig
from npulens.collectors.simulator.config import RATED_MHZ

CAUSE = "frequency_drop"
ALSO = ("step_jitter", "imbalance")
FORMATS = ("text", "db")

MHZ = (900, 1000, 1200, 1300, 1400, 1500, 1600)
CUBE_TYPES = ("MatMulV2", "BatchMatMulV2", "FlashAttentionScore", "FlashAttentionScoreGrad")
VECTOR_SHARE = 0.4
LEAST = 0.035  # of the job's time


def plant(draw: random.Random, config: SimConfig) -> Fault:
    steps = range(config.first_step, config.first_step + config.steps)
    begin = draw.randrange(config.steps)
    low = draw.choice((steps, steps[begin:], steps[begin : begin + 1]))
    mhz = draw.choice([mhz for mhz in MHZ if (RATED_MHZ / mhz - 1) * len(low) / len(steps) > LEAST])
    rank = draw.choice((None, draw.randrange(config.ranks)))
    ranks = range(config.ranks) if rank is None else (rank,)

    def perturb(cost: Cost, ns: int) -> int:
        if cost.what != "kernel" or cost.rank not in ranks or cost.step not in low or cost.name == "DSAGenBitMask":
            return ns
        more = RATED_MHZ / mhz - 1
        return int(ns * (1 + more * (1 if cost.name in CUBE_TYPES else VECTOR_SHARE)))

    clocks = tuple((one, low[0], low[-1], mhz) for one in ranks)
    return Fault(CAUSE, ALSO, rank, perturb=perturb, changes={"clocks": clocks})
