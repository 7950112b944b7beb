"""A setting makes every launch wait: ASCEND_LAUNCH_BLOCKING=1 was left in the environment after a search for an error.

Planted as the variable in the profiler's metadata and as a wait for the device after each launch on the compute stream.
The variable switches the task queue off, so there is none. A Kineto trace names no variables. Text captures of Level0
hold no calls of CANN: there the variable and a late host are all there is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.fault import Fault, SimConfig
from npulens.collectors.simulator.items import Item, Launch, Sync

CAUSE = "environment"
ALSO = ("sync_stall", "host_late", "launch_overhead")
FORMATS = ("text", "db")


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """Short kernels, so that the waits are a share of the step that is worth finding."""
    return replace(config, hidden=4096, layers=3, tokens=draw.choice((3072, 4096)))


def plant(draw: random.Random, config: SimConfig) -> Fault:
    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        found: list[Item] = []
        for item in items:
            found.append(item)
            if isinstance(item, Launch) and item.stream == "compute" and item.place >= 0:
                found.append(Sync(item.stack))
        return found

    changes = {"environment": (("ASCEND_LAUNCH_BLOCKING", "1"),), "task_queue": False}
    return Fault(CAUSE, ALSO, None, edit=edit, changes=changes)

