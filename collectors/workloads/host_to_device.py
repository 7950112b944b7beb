"""Chunks of input copied to the device and worked on: how much of the copying hides behind the work.

The reference copies from ordinary memory, which holds the host up until each copy has ended. ``pinned`` copies from
memory that the device can read by itself. ``double_buffered`` copies the next chunk on a queue of its own while the
device works on this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors.workloads._parts import Numbers, item_bytes, kind, without_gradients
from npulens.collectors.workloads.workload import Case, NotHere

SHOWS = ("copy_exposed",)
#: In float32 a chunk is 512 bytes, then 1 KB, 1 MB and 32 MB.
SHAPES = {
    "small": {"chunks": 4, "rows": 8, "width": 16},
    "kilobytes": {"chunks": 64, "rows": 4, "width": 64},
    "megabytes": {"chunks": 16, "rows": 512, "width": 512},
    "quarter_gigabyte": {"chunks": 8, "rows": 8192, "width": 1024},
}
DTYPES = ("float32", "float16", "bfloat16")
VARIANTS = ("reference", "pinned", "double_buffered")
BATCH = "rows"


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The chunks in the host's memory, the weights on the device."""
    if variant not in VARIANTS:
        raise ValueError(f"host_to_device has no variant {variant!r}")
    if variant != "reference" and kind(device) not in ("cuda", "npu"):
        raise NotHere(f"there is no device to copy to on {kind(device)}: its memory is the host's")
    chunks, rows, width = shape["chunks"], shape["rows"], shape["width"]
    host, numbers = Numbers(seed, dtype, "cpu"), Numbers(seed + 1, dtype, device)
    given = [host.normal(rows, width) for _ in range(chunks)]
    weight = numbers.normal(width, width, scale=width**-0.5)
    if variant != "reference":
        given = [chunk.pin_memory() for chunk in given]
    step = _double_buffered(given, weight, device) if variant == "double_buffered" else _serial(given, weight, device)
    moved = chunks * (2 * rows * width + 3 * rows * width + 2 * width) + width * width
    flops = chunks * rows * width * (2 * width + 1)
    return Case(without_gradients(step), flops, moved * item_bytes(dtype))


def _worked(chunk: Any, weight: Any) -> Any:
    return (chunk @ weight).mean(0)


def _serial(given: list[Any], weight: Any, device: str) -> Callable[[], Any]:
    """One queue: a chunk is copied, then worked on. Only copies from pinned memory return at once."""
    import torch

    pinned = kind(device) != "cpu" and given[0].is_pinned()
    return lambda: torch.stack([_worked(chunk.to(device, non_blocking=pinned), weight) for chunk in given])


def _double_buffered(given: list[Any], weight: Any, device: str) -> Callable[[], Any]:
    """Two queues and two buffers: a buffer is filled again when the work on it is done."""
    import torch

    module = getattr(torch, kind(device))
    copying = module.Stream()
    buffers = [torch.empty_like(given[0], device=device) for _ in range(2)]

    def step() -> Any:
        working, done = module.current_stream(), []
        filled, emptied = [[module.Event() for _ in given] for _ in range(2)]
        copying.wait_stream(working)
        for place, chunk in enumerate(given):
            buffer = buffers[place % 2]
            with module.stream(copying):
                if place >= 2:
                    copying.wait_event(emptied[place - 2])
                buffer.copy_(chunk, non_blocking=True)
                filled[place].record(copying)
            working.wait_event(filled[place])
            done.append(_worked(buffer, weight))
            emptied[place].record(working)
        return torch.stack(done)

    return step
