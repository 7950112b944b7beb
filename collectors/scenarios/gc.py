"""Python collects garbage while the device waits: a full collection walks over millions of objects.

Planted near the beginning of a step, where the host has little lead, in every step or in some. torch_npu records
collections only with gc_detect_threshold (ms). They are GC in the lane Python GC, in a table GC_RECORD, or a function
Python GC in a Kineto trace. Without that the same time is there and nobody says what it was: the host is late.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, inserted
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import Garbage, Launch

CAUSE = "gc"
ALSO = ()


def plant(draw: random.Random, config: SimConfig) -> Fault:
    recorded, rank = draw.random() < 0.7, draw.choice((None, draw.randrange(config.ranks)))
    every, behind = draw.choice((1, 2)), draw.randrange(3)
    ns = int(draw.uniform(0.04, 0.3) * busy_ns(config)) * every

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank not in (None, at) or (step - config.first_step) % every:
            return items
        launches = [index for index, item in enumerate(items) if isinstance(item, Launch) and item.place >= 0]
        return inserted(items, {launches[behind] + 1: [Garbage(ns)]})

    seen = None if recorded else lambda capture: "host_late"
    also = () if recorded else ("step_jitter",)
    return Fault(
        CAUSE, (*ALSO, *also), rank, edit=edit, seen=seen, changes={"gc_threshold_ms": 1.0} if recorded else {}
    )
