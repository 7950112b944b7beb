"""Data is only converted: between layouts (ND, NZ, 5HD) or between types (float and bfloat16), and back.

Planted as conversions before matrix products (npu_format_cast to FRACTAL_NZ and back), or as copies that make a
transposed tensor contiguous. Or it is casts around the products (a model whose inputs stay in float). They show as
kernels of type TransData, Cast or Transpose whose output is the input in other clothes. Their cost is their memory
traffic. Level0 does not say what type a kernel is; kernels elsewhere than on Ascend have names of their own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

from npulens.collectors.planting.edit import busy_ns, inserted, insertion_points, operator
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.course import numbered
from npulens.collectors.simulator.items import KernelSpec
from npulens.collectors.simulator.kernels import tensors, traffic_ns
from npulens.collectors.simulator.model import build_step

CAUSE = "layout_conversion"
ALSO = ()
FORMATS = ("text", "db")
LEVELS = (1, 2)

Conversion = tuple[str, str, KernelSpec]  # operator, CANN call, kernel


def plant(draw: random.Random, config: SimConfig) -> Fault:
    width = draw.choice((1, 2, 4)) * config.hidden
    shape = (draw.choice((1, 2)) * config.tokens, width)
    pair = draw.choice((_formats, _types, _transposes))(shape)
    per_pair = sum(kernel.base_ns for _, _, kernel in pair)
    most = len(insertion_points(numbered(config, build_step(config)))) - 1
    count = min(most, max(2, round(draw.uniform(0.03, 0.3) * busy_ns(config) / per_pair)))
    seed, rank = draw.random(), draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        every = insertion_points(items)
        new: dict[int, list[Item]] = {}
        places = range(len(every) - 1)  # a stage of a pipeline has fewer than the whole model
        for number in random.Random(seed).sample(places, min(count, len(places))):
            for spot, (op, api, kernel) in zip(every[number:], pair, strict=False):  # an operator lies between the two
                new.setdefault(spot.index, []).extend(operator(op, api, kernel, spot.stack))
        return inserted(items, new)

    return Fault(CAUSE, ALSO, rank, edit=edit)


def _formats(shape: tuple[int, int]) -> list[Conversion]:
    """To the layout that the cube likes, and back."""
    fractal = (shape[1] // 16, shape[0] // 16, 16, 16)
    plain, tiled = tensors(shape), tensors(fractal, layout="FRACTAL_NZ")
    name, ns = "aclnnNpuFormatCast_TransData_TransData", traffic_ns(2 * prod(shape))
    return [
        ("npu::npu_format_cast", "aclnnNpuFormatCast", KernelSpec(name, "TransData", "AI_VECTOR_CORE", ns, *side))
        for side in ((plain, tiled), (tiled, plain))
    ]


def _types(shape: tuple[int, int]) -> list[Conversion]:
    """To float, which is twice as long, and back."""
    low, high = tensors(shape), tensors(shape, dtype="FLOAT")
    ns = traffic_ns(3 * prod(shape))
    return [
        ("aten::_to_copy", "aclnnCast", KernelSpec("aclnnCast_CastAiCore_Cast", "Cast", "AI_VECTOR_CORE", ns, *side))
        for side in ((low, high), (high, low))
    ]


def _transposes(shape: tuple[int, int]) -> list[Conversion]:
    """Strided reads are half as fast as others."""
    side = (tensors(shape), tensors(shape[::-1]))
    name, ns = "aclnnInplaceCopy_TransposeAiCore_Transpose", traffic_ns(3 * prod(shape))
    return [("aten::contiguous", "aclnnInplaceCopy", KernelSpec(name, "Transpose", "AI_VECTOR_CORE", ns, *side))]
