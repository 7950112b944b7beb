"""The gradient of an embedding table: one row of it is the sum of all gradients whose token it is.

The sums are the trouble: many tokens ask for one row at once. How often rows repeat decides. So the shapes hold the
exponent of Zipf's law by which tokens are drawn. 0 draws all alike, 1 as in a language, 99 always the same one.
``fused`` is torch's operator, ``atomic`` lets every token add to its row. ``sorted`` gives every row to one program,
which adds in a fixed order: the same bits every time. Token 1 is the padding and gets no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors import kernels
from npulens.collectors.workloads._parts import Numbers, compiled, item_bytes, without_gradients
from npulens.collectors.workloads.workload import Case

SHOWS = ("unfused", "idle_cores")
SHAPES = {
    "small": {"rows": 8, "tokens": 7, "vocabulary": 50, "width": 20, "zipf": 0},
    "small_zipf": {"rows": 8, "tokens": 7, "vocabulary": 50, "width": 20, "zipf": 1},
    "small_same": {"rows": 8, "tokens": 7, "vocabulary": 50, "width": 20, "zipf": 99},
    "uniform": {"rows": 256, "tokens": 77, "vocabulary": 49408, "width": 1280, "zipf": 0},
    "zipf": {"rows": 256, "tokens": 77, "vocabulary": 49408, "width": 1280, "zipf": 1},
    "same": {"rows": 256, "tokens": 77, "vocabulary": 49408, "width": 1280, "zipf": 99},
}
DTYPES = ("float32", "float16", "bfloat16")
VARIANTS = ("reference", "unfused", "fused", "compiled", "atomic", "sorted")
BATCH = "rows"
PADDING = 1


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The gradient, ready to be summed."""
    numbers = Numbers(seed, dtype, device)
    torch, vocabulary = numbers.torch, shape["vocabulary"]
    weights = torch.arange(1, vocabulary + 1, dtype=torch.float64) ** -float(shape["zipf"])
    tokens = numbers.chosen(weights, shape["rows"] * shape["tokens"])
    gradient = numbers.normal(len(tokens), shape["width"])
    summed = _summed(variant, device)
    flops, moved, launches = _counted(variant, shape, item_bytes(dtype))
    return Case(without_gradients(lambda: summed(gradient, tokens, vocabulary)), flops, moved, launches)


def _summed(variant: str, device: str) -> Callable[[Any, Any, int], Any]:
    import torch

    def reference(gradient: Any, tokens: Any, vocabulary: int) -> Any:
        wide = torch.promote_types(gradient.dtype, torch.float32)
        table = torch.zeros(vocabulary, gradient.shape[1], dtype=wide, device=gradient.device)
        kept = tokens != PADDING
        return table.index_add_(0, tokens[kept], gradient[kept].to(wide)).to(gradient.dtype)

    def unfused(gradient: Any, tokens: Any, vocabulary: int) -> Any:
        # The padding's rows count as nothing: no size depends on the tokens, so nothing waits for the device.
        counts = gradient.float() * (tokens != PADDING)[:, None]
        table = torch.zeros(vocabulary, gradient.shape[1], dtype=counts.dtype, device=gradient.device)
        return table.index_add_(0, tokens, counts).to(gradient.dtype)

    def fused(gradient: Any, tokens: Any, vocabulary: int) -> Any:
        return torch.ops.aten.embedding_dense_backward(gradient, tokens, vocabulary, PADDING, False)

    if variant == "reference":
        return reference
    if variant == "unfused":
        return unfused
    if variant == "fused":
        return fused
    if variant == "compiled":
        return compiled(unfused, device)
    if variant in ("atomic", "sorted"):
        joined = kernels.load("embedding_grad", device)
        by = joined.atomic if variant == "atomic" else joined.by_row
        return lambda gradient, tokens, vocabulary: by(gradient, tokens, vocabulary, PADDING)
    raise ValueError(f"embedding_dense_grad has no variant {variant!r}")


def _counted(variant: str, shape: Mapping[str, int], item: int) -> tuple[int, int, int | None]:
    """Floating-point operations, bytes and kernels of one step; every token counts as one that is no padding."""
    count, width = shape["rows"] * shape["tokens"], shape["width"]
    given, table, tokens = count * width, shape["vocabulary"] * width, 8 * count
    whole = (given + table) * item + tokens
    # Where rows are added to, the table is emptied, read and written in float32, and written once more in its type.
    added = (given + table) * item + tokens + (2 * table + 2 * given) * 4
    moved = {"unfused": added + 2 * given * 4, "atomic": added, "reference": added}.get(variant, whole)
    return given, moved, {"fused": 1}.get(variant)
