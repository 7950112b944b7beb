"""An operator is used for the first time in the process: a library is loaded, or an algorithm is picked.

Planted as a call of CANN in the first launching operator of the job's first step. Its later runs do not make it. The
capture begins with that step. Text captures of Level0 have no calls of CANN: there the operator itself is slow once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns, inserted
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import Call, Launch

CAUSE = "first_use"
ALSO = ("step_jitter",)

CALLS = ("aclrtBinaryLoadFromFile", "aclnnInit", "aclrtSetDevice")


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    return replace(config, first_step=1)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    api, rank = draw.choice(CALLS), draw.choice((None, draw.randrange(config.ranks)))
    ns = int(max(3_000_000, draw.uniform(0.2, 1.5) * busy_ns(config)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank not in (None, at) or step != config.first_step:
            return items
        launch = next(n for n, item in enumerate(items) if isinstance(item, Launch) and item.place >= 0)
        return inserted(items, {launch: [Call(api, ns)]})

    return Fault(CAUSE, ALSO, rank, edit=edit)
