"""Gradients travel when nothing is left to compute beside them.

Planted in three ways. The buckets are all reduced behind the backward pass instead of during it. Or each bucket is
waited for before the backward pass goes on. Or there is so much to reduce, over links so slow, that the backward pass
is over before the transfers are. It shows as collectives without compute beside them that transfer all the time: nobody
comes late.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.collective import LINK_BYTES_PER_NS
from npulens.collectors.simulator.items import Collect, Open, Signal, Switch
from npulens.collectors.simulator.kernels import BF16

CAUSE = "comm_exposed"
ALSO = ()
RANKS = 2

BACKWARD_SHARE = 0.66  # of the step's work: two products for each of the forward pass


def plant(draw: random.Random, config: SimConfig) -> Fault:
    way = draw.choice(("late", "waited for", "too much"))
    ns = draw.uniform(0.04, 0.3) * busy_ns(config)
    if way == "too much":
        ns += BACKWARD_SHARE * busy_ns(config)
    buckets = -(-config.layers // config.bucket_layers)
    members = config.ranks // config.tensor_parallel
    count = int(ns / buckets * LINK_BYTES_PER_NS / 2 / BF16) * members  # two transfers of a part each

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        made = [_bigger(item, count) for item in items]
        return _behind(made) if way == "late" else _one_by_one(made) if way == "waited for" else made

    return Fault(CAUSE, ALSO, edit=edit)


def _bigger(item: Item, count: int) -> Item:
    if isinstance(item, Collect) and item.kind == "dp":
        return replace(item, count=count)
    if isinstance(item, Open) and item.call is not None and item.call.group == "dp":
        return replace(item, call=item.call._replace(elements=count))
    if isinstance(item, Open) and item.name == "c10d::allreduce_" and item.shapes is not None:
        return replace(item, shapes=(str(count),))
    return item


def _one_by_one(items: Sequence[Item]) -> list[Item]:
    """The stream that computes waits for each bucket at once."""
    found: list[Item] = []
    for item in items:
        found.append(item)
        if isinstance(item, Collect) and item.kind == "dp":
            found.append(Signal("dp", "compute", item.stack))
    return found


def _behind(items: Sequence[Item]) -> list[Item]:
    """All buckets when the backward pass is over: each from the signal before it to the end of its operator."""
    found: list[Item] = []
    held: list[Item] = []
    index = 0
    while index < len(items):
        item = items[index]
        if isinstance(item, Signal) and (item.source, item.target) == ("compute", "dp"):
            end = index + 1
            while not isinstance(items[end], Collect):
                end += 1
            end += 3  # the operator and what wraps it close
            held += items[index:end]
            index = end
            continue
        if isinstance(item, Switch) and item.thread == "main":
            found += held
            held = []
        found.append(item)
        index += 1
    return found
