"""A thousand tiny kernels, one after another: the device is done before the host has launched the next.

Each adds a shift to nearly all of what the one before left, so their order cannot be changed. ``graph`` records the
launches once and replays them all. ``compiled`` lets the compiler join what it can. ``fused`` does what all of them
together do, in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors.workloads._parts import Numbers, compiled, item_bytes, kind, without_gradients
from npulens.collectors.workloads.workload import Case, NotHere

SHOWS = ("launch_overhead",)
SHAPES = {
    "small": {"kernels": 20, "size": 64},
    "thousand": {"kernels": 1000, "size": 1024},
}
DTYPES = ("float32",)
VARIANTS = ("reference", "unfused", "compiled", "graph", "fused")
BATCH = "size"
KEPT = 0.999  # what a kernel leaves of the numbers it gets


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The kernels, ready to be launched."""
    numbers = Numbers(seed, dtype, device)
    count, size = shape["kernels"], shape["size"]
    x, shift = numbers.normal(size), numbers.normal(size, scale=0.01)
    step = without_gradients(_step(variant, device, x, shift, count))
    # Times that something of this size is read or written, and launches.
    passes, launches = {
        "reference": (5 * count, 2 * count), "unfused": (3 * count, count), "graph": (3 * count, count),
        "compiled": (3, None), "fused": (3, 1),
    }[variant]  # fmt: skip
    return Case(step, 2 * size * (1 if variant == "fused" else count), passes * size * item_bytes(dtype), launches)


def _step(variant: str, device: str, x: Any, shift: Any, count: int) -> Callable[[], Any]:
    import torch

    def reference() -> Any:
        y = x
        for _ in range(count):
            y = y * KEPT + shift
        return y

    def unfused() -> Any:
        y = x
        for _ in range(count):
            y = torch.add(shift, y, alpha=KEPT)
        return y

    if variant == "reference":
        return reference
    if variant == "unfused":
        return unfused
    if variant == "compiled":
        return compiled(unfused, device)
    if variant == "graph":
        return _graph(unfused, device)
    if variant == "fused":
        # x k^n + s (1 + k + ... + k^(n-1)), the sum of a geometric series.
        kept, shifts = KEPT**count, shift * ((1 - KEPT**count) / (1 - KEPT))
        return lambda: torch.add(shifts, x, alpha=kept)
    raise ValueError(f"launch_overhead has no variant {variant!r}")


def _graph(step: Callable[[], Any], device: str) -> Callable[[], Any]:
    """The step's launches recorded once and replayed; what it returns is written anew by every replay."""
    import torch

    if kind(device) not in ("cuda", "npu"):
        raise NotHere("launches are recorded as a graph on CUDA and NPU only")
    module = getattr(torch, kind(device))
    graph = module.CUDAGraph() if kind(device) == "cuda" else module.NPUGraph()
    aside = module.Stream()
    aside.wait_stream(module.current_stream())
    with module.stream(aside), torch.no_grad():  # what is allocated on first use must not be part of the record
        for _ in range(3):
            step()
    module.current_stream().wait_stream(aside)
    with module.graph(graph), torch.no_grad():
        out = step()

    def replay() -> Any:
        graph.replay()
        return out

    return replay
