"""Packets between two hosts are lost, and sent again when their time-out is over.

Planted in a job whose ranks reach each other by RDMA. In the last all-reduce of each step, what one rank reads from
another takes at least 30 times as long. It shows in the tasks of the collective, from Level1 on.
"""

from __future__ import annotations

import random
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Cost, Fault, SimConfig
from npulens.collectors.simulator.collective import LINK_BYTES_PER_NS
from npulens.collectors.simulator.items import Collect
from npulens.collectors.simulator.model import build_step

CAUSE = "retransmission"
ALSO = ("comm_exposed", "late_rank")
RANKS = 2
LEVELS = (1, 2)
FORMATS = ("text", "db")

LEAST_TIMES = 30  # as long as without a loss


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """Ranks on hosts of their own."""
    return replace(config, rdma=True)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    source, reader = draw.sample(range(config.ranks), 2)
    place, last = [(place, item) for place, item in enumerate(build_step(config)) if isinstance(item, Collect)][-1]
    usual = last.count * last.item_bytes // config.ranks // LINK_BYTES_PER_NS
    more = max(int(draw.uniform(0.02, 0.1) * busy_ns(config)), LEAST_TIMES * usual)

    def perturb(cost: Cost, ns: int) -> int:
        hit = cost.what == "link" and cost.name == f"{source}-{reader}" and cost.place == place
        return ns + more if hit else ns

    return Fault(CAUSE, ALSO, reader, perturb=perturb)
