"""An operator has no kernel for the AI cores and runs on the AI CPU, orders of magnitude slower.

Planted as an operator with 64-bit or data-dependent semantics in the forward pass (nonzero, unique, a sum in double
precision, ...). It shows as a kernel whose core is AI_CPU and whose name says AiCpu, with one block and no counters. It
takes 100 us to some ms while the AI cores idle. Level0 does not say on which core a kernel ran, and no other device has
an AI CPU.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, inserted, insertion_points, operator
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import KernelSpec
from npulens.collectors.simulator.kernels import tensors

CAUSE = "aicpu"
ALSO = ()
FORMATS = ("text", "db")
LEVELS = (1, 2)

#: operator, CANN call, type, data type of its input
OPERATORS = (
    ("aten::nonzero", "aclnnNonzeroV2", "NonZero", "INT64"),
    ("aten::_unique2", "aclnnUnique2", "UniqueWithCountsAndSorting", "INT64"),
    ("aten::sort", "aclnnSort", "Sort", "INT64"),
    ("aten::sum", "aclnnReduceSum", "ReduceSum", "DOUBLE"),
    ("aten::mul", "aclnnMul", "Mul", "COMPLEX64"),
    ("aten::_to_copy", "aclnnCast", "Cast", "DOUBLE"),
    ("aten::masked_select", "aclnnMaskedSelect", "MaskedSelect", "BOOL"),
)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    op, api, kind, dtype = draw.choice(OPERATORS)
    total = int(draw.uniform(0.03, 0.35) * busy_ns(config))
    count, seed = draw.randint(1, 2 * config.layers), draw.random()
    inputs = tensors((draw.randrange(256, 4096), config.tokens // 8), dtype=dtype, layout="FORMAT_ND")
    kernel = KernelSpec(f"{api}_{kind}AiCpu_{kind}", kind, "AI_CPU", total // count, inputs, inputs)
    rank = draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        every = insertion_points(items)
        chosen = random.Random(seed).sample(every, min(count, len(every)))  # a stage of a pipeline has fewer
        return inserted(items, {spot.index: operator(op, api, kernel, spot.stack) for spot in chosen})

    return Fault(CAUSE, ALSO, rank, edit=edit)
