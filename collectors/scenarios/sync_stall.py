"""The host reads a value from the device in the middle of the step and goes on only when the device has come there.

Planted as ``.item()`` inside the layers of the forward pass (routing, a check for overflow, a length that decides
about a branch), each followed by a little Python that needs the value: aten::item, aten::_local_scalar_dense, a copy
to the host and aclrtSynchronizeStreamWithTimeout. Each costs the host its lead, so that the device is idle until new
work arrives. The Python behind it would be hidden without the wait, so it may be called late as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from collectors.backends._items import Close, CopyData, Open
from collectors.scenarios._edit import busy_ns, inserted, spots
from collectors.scenarios._fault import Fault, Item, SimConfig
from collectors.scenarios._host import frame

CAUSE = "sync_stall"
ALSO = ("host_late",)

PLACES = ("moe.py(118): route", "scaler.py(73): found_inf", "model.py(61): trim_padding")


def plant(draw: random.Random, config: SimConfig) -> Fault:
    share, name, wanted = draw.uniform(0.04, 0.2), draw.choice(PLACES), draw.randint(3, 6)
    rank = draw.choice((None, draw.randrange(config.ranks)))
    ns = int(share * busy_ns(config) / (wanted * config.layers))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        places = spots(items)
        chosen = places[:: max(1, len(places) // (wanted * config.layers))][: wanted * config.layers]
        return inserted(items, {spot.index: frame(config, name, ns, read(spot.stack)) for spot in chosen})

    return Fault(CAUSE, ALSO, rank, edit=edit)


def read(stack: tuple[str, ...]) -> list[Item]:
    """``.item()`` of a number."""
    operators: list[Item] = [
        Open("cpu_op", name, 3_500, ("",), ("float",), stack) for name in ("aten::item", "aten::_local_scalar_dense")
    ]
    return [*operators, CopyData("d2h", 4, stack, blocking=True), Close(1_200), Close(1_200)]
