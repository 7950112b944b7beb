"""The length of the input differs from step to step, so that operators meet ever new shapes and are compiled for them.

Planted as another first dimension of the inputs and outputs of some operators in each step. Before each stands
aclopCompileAndExecute with opCompile inside, from the second step on. Captures of Level0 have no shapes: there
operators are compiled (database), or the host is late (text).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns
from npulens.collectors.planting.fault import Capture, Fault, Item, SimConfig
from npulens.collectors.simulator.items import KernelSpec, Launch, Tensors

CAUSE = "shape_churn"
ALSO = ("compile", "host_late", "step_jitter")
FORMATS = ("text", "db")


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """With two steps nobody knows which shape is the odd one."""
    return replace(config, steps=max(config.steps, 4))


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, operators = draw.choice((None, None, draw.randrange(config.ranks))), draw.choice((1, 2, 4))
    ns = int(draw.uniform(0.06, 0.3) * busy_ns(config) * config.steps / (operators * (config.steps - 1)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        number = step - config.first_step
        if rank not in (None, at) or number == 0:
            return items
        own = (index for index, item in enumerate(items) if isinstance(item, Launch) and item.place >= 0)
        chosen = list(own)[:operators]
        return [
            replace(item, compile_ns=ns, kernels=tuple(_longer(kernel, 16 * number) for kernel in item.kernels))
            if index in chosen and isinstance(item, Launch) else item
            for index, item in enumerate(items)
        ]  # fmt: skip

    return Fault(CAUSE, ALSO, rank, edit=edit, seen=_seen)


def _longer(kernel: KernelSpec, by: int) -> KernelSpec:
    """The kernel with more rows; what it takes stays, so that the plan is all that costs."""
    return replace(kernel, inputs=_grown(kernel.inputs, by), outputs=_grown(kernel.outputs, by))


def _grown(tensors: Tensors, by: int) -> Tensors:
    shapes = []
    for shape in tensors.shapes.split(";"):
        first, _, rest = shape.partition(",")
        shapes.append(f"{int(first) + by},{rest}" if first.isdigit() and rest else shape)
    return tensors._replace(shapes=";".join(shapes))


def _seen(capture: Capture) -> str:
    if capture.level == 0:
        return "host_late" if capture.format == "text" else "compile"
    return CAUSE
