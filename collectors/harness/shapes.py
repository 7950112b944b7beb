"""The shapes of a sweep: those of the workload, and the extremes that kernels forget."""

from __future__ import annotations

from collections.abc import Mapping

Shape = Mapping[str, int]


def sweep(shapes: Mapping[str, Shape]) -> dict[str, dict[str, int]]:
    """Every shape by name, then all ones and odd sizes."""
    small = shapes["small"]
    extremes = {
        "ones": {name: 1 for name in small},
        "odd": {name: size if size % 2 or size == 1 else size + 1 for name, size in small.items()},
    }
    return {**{name: dict(sizes) for name, sizes in shapes.items()}, **extremes}


def empty(small: Shape, batch: str | None) -> dict[str, int]:
    """A shape without an element: a workload has to refuse it or return nothing, never fail oddly."""
    which = batch or next(iter(small))
    return {**small, which: 0}
