"""Many tiny kernels one after another, each shorter than what it costs to launch it.

Planted as a moving average of the weights that walks over the parameters one by one instead of in one foreach call.
When a step begins it takes two operators per parameter, some us of Python each, 2 us of device time each. The device is
idle between any two of them. The host is late there by definition, and one kernel could do the work of many.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, operator
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.planting.host import frame
from npulens.collectors.simulator.items import KernelSpec
from npulens.collectors.simulator.kernels import tensors

CAUSE = "launch_overhead"
ALSO = ("host_late", "unfused")

HOST_NS = 24_000  # roughly what the host spends on one of the operators, Python and profiler included
STACK = "/workspace/train/"
PLACES = ("ema.py(41): update", "clip.py(28): scale_grads", "optim.py(66): decay")
OPERATORS = (("aten::mul_", "aclnnInplaceMuls", "Muls"), ("aten::add_", "aclnnInplaceAdd", "Axpy"))


def plant(draw: random.Random, config: SimConfig) -> Fault:
    name, rank = draw.choice(PLACES), draw.choice((None, None, draw.randrange(config.ranks)))
    count = int(draw.uniform(0.04, 0.12) * busy_ns(config) / (len(OPERATORS) * HOST_NS))
    sizes = [draw.choice((1_024, 4_096, 12_288)) for _ in range(7)]

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        return [items[0], *frame(config, name, 2_000, _walk(config, name, count, sizes)), *items[1:]]

    return Fault(CAUSE, ALSO, rank, edit=edit)


def _walk(config: SimConfig, name: str, count: int, sizes: Sequence[int]) -> list[Item]:
    items: list[Item] = []
    stack = (STACK + name,) if config.frames else ()
    for number in range(count):
        shape = (sizes[number % len(sizes)],)
        for op, api, op_type in OPERATORS:
            kernel = KernelSpec(
                f"{api}_{op_type}AiCore_{op_type}", op_type, "AI_VECTOR_CORE", 1_900, tensors(shape), tensors(shape)
            )
            items += frame(config, "torch/_tensor.py(38): wrapped", 5_000, operator(op, api, kernel, stack))
    return items
