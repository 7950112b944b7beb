"""Matrix products run in full precision where HF32 or bf16 would do.

Planted on some matrix products of every step. Their tensors become FLOAT without HF32. They take twice as long, as half
the rate of the cube and twice the bytes give. Types are recorded from Level1 on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import KernelSpec, Launch, Tensors

CAUSE = "full_precision"
ALSO = ()
FORMATS = ("text", "db")
LEVELS = (1, 2)

MATRIX = ("MatMulV2", "BatchMatMulV2")


def plant(draw: random.Random, config: SimConfig) -> Fault:
    share, rank = draw.choice((0.25, 0.5, 1.0)), draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank not in (None, at):
            return items
        matrix = [index for index, item in enumerate(items) if isinstance(item, Launch) and _products(item)]
        chosen = set(matrix[: max(1, round(share * len(matrix)))])
        return [
            replace(item, kernels=tuple(map(_slow, item.kernels)))
            if index in chosen and isinstance(item, Launch) else item
            for index, item in enumerate(items)
        ]  # fmt: skip

    return Fault(CAUSE, ALSO, rank, edit=edit)


def _products(item: Launch) -> bool:
    return all(kernel.op_type in MATRIX for kernel in item.kernels)


def _slow(kernel: KernelSpec) -> KernelSpec:
    return replace(
        kernel, base_ns=2 * kernel.base_ns, inputs=_float(kernel.inputs), outputs=_float(kernel.outputs), hf32="NO"
    )


def _float(tensors: Tensors) -> Tensors:
    return tensors._replace(dtypes=tensors.dtypes.replace("DT_BF16", "FLOAT"))
