"""A matrix product, bias, layer normalisation and GELU: the end of many a transformer's projection.

Unfused it is three kernels, and the product travels to memory and back twice more than it must. ``epilogue`` keeps the
product of the vendor's library and does bias, normalisation and GELU in one kernel of Triton's. ``triton`` does all of
it in one, which needs whole rows of the product on the chip. GELU is the one with tanh, as NPUs compute it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors import kernels
from npulens.collectors.workloads._parts import Numbers, compiled, item_bytes, without_gradients
from npulens.collectors.workloads.workload import Case

SHOWS = ("unfused",)
#: The classes that need different kernels: nothing to share out, narrow rows, and the layer of a vision transformer.
#: That has 197 tokens of 32 images, 1280 wide.
SHAPES = {
    "small": {"rows": 64, "inner": 64, "width": 64},
    "tall": {"rows": 4096, "inner": 1280, "width": 64},
    "vit": {"rows": 6304, "inner": 1280, "width": 1280},
}
DTYPES = ("float32", "float16", "bfloat16")
VARIANTS = ("reference", "unfused", "compiled", "epilogue", "triton")
BATCH = "rows"
EPSILON = 1e-5  # torch.nn.LayerNorm's


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The layer, ready to run."""
    numbers = Numbers(seed, dtype, device)
    rows, inner, width = shape["rows"], shape["inner"], shape["width"]
    x, weight = numbers.normal(rows, inner), numbers.normal(inner, width, scale=inner**-0.5)
    bias, shift = numbers.normal(width, scale=0.1), numbers.normal(width, scale=0.1)
    gain = numbers.between(0.5, 1.5, width)
    layer = _layer(variant, device)
    step = without_gradients(lambda: layer(x, weight, bias, gain, shift))
    return Case(step, *_counted(variant, rows, inner, width, item_bytes(dtype)))


def _layer(variant: str, device: str) -> Callable[[Any, Any, Any, Any, Any], Any]:
    import torch
    from torch.nn import functional

    def reference(x: Any, weight: Any, bias: Any, gain: Any, shift: Any) -> Any:
        y = x @ weight + bias
        away = y - y.mean(1, keepdim=True)
        z = away / (away.square().mean(1, keepdim=True) + EPSILON).sqrt() * gain + shift
        return 0.5 * z * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3)))

    def unfused(x: Any, weight: Any, bias: Any, gain: Any, shift: Any) -> Any:
        y = functional.layer_norm(torch.addmm(bias, x, weight), bias.shape, gain, shift, EPSILON)
        return functional.gelu(y, approximate="tanh")

    if variant == "reference":
        return reference
    if variant == "unfused":
        return unfused
    if variant == "compiled":
        return compiled(unfused, device)
    if variant == "epilogue":
        joined = kernels.load("layernorm_gelu", device)
        return lambda x, weight, *rest: joined.epilogue(x @ weight, *rest, EPSILON)
    if variant == "triton":
        joined = kernels.load("layernorm_gelu", device)
        return lambda *given: joined.whole(*given, EPSILON)
    raise ValueError(f"matmul_layernorm_gelu has no variant {variant!r}")


def _counted(variant: str, rows: int, inner: int, width: int, size: int) -> tuple[int, int, int | None]:
    """Floating-point operations, bytes and kernels of one step."""
    out = rows * width
    # Each output: the bias 1; mean 1, distance 1, its square and sum 2, scaling 1, gain and shift 2. GELU is 9, its
    # tanh counted as one.
    flops = out * (2 * inner + 1 + 7 + 9)
    passes, launches = {
        "reference": (33, None), "unfused": (5, 3), "compiled": (1, None), "epilogue": (3, 2), "triton": (1, 1)
    }[variant]  # fmt: skip
    return flops, (rows * inner + inner * width + 3 * width + passes * out) * size, launches
