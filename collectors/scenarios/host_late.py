"""The host issues its work too late: Python runs for a while in every step and the device has nothing left to do.

Planted as a function of the training script that takes its time (building a mask, logging, lengths of the next batch).
It runs when a step begins, where the host has no lead. It shows as a gap of the device under a Python frame. Where the
capture was taken without stacks, it lies under no span at all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.planting.host import frame

CAUSE = "host_late"
ALSO = ()

PLACES = ("main.py(331): build_mask", "metrics.py(57): update", "schedule.py(24): next_lengths")


def plant(draw: random.Random, config: SimConfig) -> Fault:
    ns, name = int(draw.uniform(0.04, 0.3) * busy_ns(config)), draw.choice(PLACES)
    rank = draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        return [items[0], *frame(config, name, ns), *items[1:]]

    return Fault(CAUSE, ALSO, rank, edit=edit)
