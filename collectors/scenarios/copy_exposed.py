"""A copy between host and device stands in the way of compute instead of running beside it.

Planted in three ways. One is a big input that is copied when the step begins, at times from pageable memory, so that
the host waits. Another is activations that are offloaded in each layer on the stream that computes. The third is
weights that are fetched there right before they are used. It shows as copies on the compute stream with nothing beside
them. How many bytes they move is told from Level2 on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, inserted, insertion_points
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import Close, CopyData, Open
from npulens.collectors.simulator.rank_sim import COPY_BYTES_PER_NS

CAUSE = "copy_exposed"
ALSO = ()


def plant(draw: random.Random, config: SimConfig) -> Fault:
    way = draw.choice(("input", "offload", "fetch"))
    rank = draw.choice((None, draw.randrange(config.ranks)))
    direction = "d2h" if way == "offload" else "h2d"
    count = 1 if way == "input" else config.layers
    ns = draw.uniform(0.03, 0.3) * busy_ns(config) / count
    size, blocking = int(ns * COPY_BYTES_PER_NS[direction]) // 512 * 512, way == "input" and draw.random() < 0.5

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        if way == "input":
            last = max(at for at, item in enumerate(items) if isinstance(item, CopyData) and item.direction == "h2d")
            opened = next(item for item in items[last::-1] if isinstance(item, Open))
            return inserted(items, {last + 1: [CopyData("h2d", size, opened.stack, blocking)]})
        every = insertion_points(items)
        chosen = [every[(number + 1) * len(every) // (count + 1)] for number in range(count)]
        return inserted(items, {spot.index: _copy(direction, size, spot.stack) for spot in chosen})

    return Fault(CAUSE, (*ALSO, "sync_stall") if blocking else ALSO, rank, edit=edit)


def _copy(direction: str, size: int, stack: tuple[str, ...]) -> list[Item]:
    sizes, types = (str(size // 2), ""), ("c10::BFloat16", "Scalar")
    return [Open("cpu_op", "aten::copy_", 3_500, sizes, types, stack), CopyData(direction, size, stack), Close(1_200)]
