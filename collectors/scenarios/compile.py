"""Operators are compiled while the job runs, because their shapes are new.

Planted as aclopCompileAndExecute with opCompile inside, in the thread that launches, for some operators of the first
layer. It is in every step (shapes that never repeat) or in the first ones only (warm-up that was not over). Text
captures of Level0 have no calls of CANN: there the host is late.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Capture, Fault, Item, SimConfig
from npulens.collectors.simulator.items import Launch

CAUSE = "compile"
ALSO = ()
FORMATS = ("text", "db")


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, first = draw.choice((None, None, draw.randrange(config.ranks))), draw.random() < 0.3
    operators, steps = draw.choice((1, 2, 4)), 1 if first else config.steps
    ns = int(draw.uniform(0.05, 0.3) * busy_ns(config) * config.steps / (operators * steps))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank not in (None, at) or step - config.first_step >= steps:
            return items
        own = (index for index, item in enumerate(items) if isinstance(item, Launch) and item.place >= 0)
        launches = list(own)[:operators]
        return [
            replace(item, compile_ns=ns) if index in launches and isinstance(item, Launch) else item
            for index, item in enumerate(items)
        ]

    return Fault(CAUSE, (*ALSO, "step_jitter") if first else ALSO, rank, edit=edit, seen=_seen)


def _seen(capture: Capture) -> str:
    return "host_late" if capture.format == "text" and capture.level == 0 else CAUSE
