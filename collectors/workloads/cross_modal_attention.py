"""Attention of image tokens over text tokens: 197 queries, 77 keys, 16 heads of 80.

Unfused, the scores of all pairs are written to memory, read and written by the softmax, and read again. ``fused`` is
the vendor's operator (scaled_dot_product_attention; on an NPU npu_fusion_attention), ``triton`` our own. Both keep a
running maximum and sum, and the scores never leave the chip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors import kernels
from npulens.collectors.workloads._parts import Numbers, compiled, item_bytes, kind, without_gradients
from npulens.collectors.workloads.workload import Case

SHOWS = ("unfused",)
SHAPES = {
    "small": {"batch": 2, "heads": 2, "queries": 19, "keys": 37, "size": 20},
    "text77": {"batch": 32, "heads": 16, "queries": 197, "keys": 77, "size": 80},
    "text256": {"batch": 32, "heads": 16, "queries": 197, "keys": 256, "size": 80},
}
DTYPES = ("float32", "float16", "bfloat16")
VARIANTS = ("reference", "unfused", "fused", "compiled", "triton")
BATCH = "batch"

Attention = Callable[[Any, Any, Any], Any]


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The attention, ready to run."""
    numbers = Numbers(seed, dtype, device)
    batch, heads, size = shape["batch"], shape["heads"], shape["size"]
    query = numbers.normal(batch, heads, shape["queries"], size)
    key, value = (numbers.normal(batch, heads, shape["keys"], size) for _ in range(2))
    attention = _attention(variant, device, size**-0.5)
    return Case(without_gradients(lambda: attention(query, key, value)), *_counted(variant, shape, item_bytes(dtype)))


def _attention(variant: str, device: str, scale: float) -> Attention:
    import torch

    def reference(query: Any, key: Any, value: Any) -> Any:
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * scale
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        return torch.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdim=True), value)

    def unfused(query: Any, key: Any, value: Any) -> Any:
        scores = torch.matmul(query, key.transpose(-2, -1)) * scale
        return torch.matmul(torch.softmax(scores, dim=-1), value)

    if variant == "reference":
        return reference
    if variant == "unfused":
        return unfused
    if variant == "fused":
        return _fused(device, scale)
    if variant == "compiled":
        return compiled(unfused, device)
    if variant == "triton":
        joined = kernels.load("cross_attention", device)
        return lambda query, key, value: joined.cross_attention(query, key, value, scale)
    raise ValueError(f"cross_modal_attention has no variant {variant!r}")


def _fused(device: str, scale: float) -> Attention:
    """The vendor's operator."""
    if kind(device) == "npu":
        from torch_npu import npu_fusion_attention

        return lambda query, key, value: npu_fusion_attention(
            query, key, value, query.shape[1], input_layout="BNSD", scale=scale
        )[0]
    from torch.nn.functional import scaled_dot_product_attention

    # Its default scale is the one wanted; the argument came with torch 2.1.
    return lambda query, key, value: scaled_dot_product_attention(query, key, value)


def _counted(variant: str, shape: Mapping[str, int], item: int) -> tuple[int, int, int | None]:
    """Floating-point operations, bytes and kernels of one step."""
    many = shape["batch"] * shape["heads"]
    pairs, size = many * shape["queries"] * shape["keys"], shape["size"]
    ends = 2 * many * (shape["queries"] + shape["keys"]) * size
    # Each pair: two products of vectors, the scale, and the softmax's maximum, distance, exp, sum and quotient.
    flops = pairs * (4 * size + 6)
    passes, launches = {
        "reference": (11, None), "unfused": (6, 4), "fused": (0, 1), "compiled": (2, None), "triton": (0, 1)
    }[variant]  # fmt: skip
    return flops, (ends + passes * pairs) * item, launches
