"""A depthwise 3x3 convolution, batch normalisation in evaluation and ReLU: the block of networks for small devices.

Every channel has a filter of its own, so there is little to compute and much to move. Three kernels cost three trips to
memory. ``folded`` has put the normalisation into the weights, ``triton`` also applies ReLU before it writes, and goes
to memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors import kernels
from npulens.collectors.workloads._block import Block, counted
from npulens.collectors.workloads._parts import compiled, item_bytes, without_gradients
from npulens.collectors.workloads.workload import Case

SHOWS = ("unfused",)
SHAPES = {
    "small": {"batch": 2, "channels": 8, "height": 13, "width": 11},
    "one": {"batch": 1, "channels": 1, "height": 1, "width": 1},
    "first": {"batch": 1, "channels": 32, "height": 224, "width": 224},
    "early": {"batch": 16, "channels": 256, "height": 56, "width": 56},
    "middle": {"batch": 32, "channels": 512, "height": 28, "width": 28},
    "late": {"batch": 64, "channels": 1024, "height": 14, "width": 14},
}
DTYPES = ("float32", "float16", "bfloat16")
VARIANTS = ("reference", "unfused", "folded", "compiled", "triton")
BATCH = "batch"


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The block, ready to run."""
    channels = shape["channels"]
    block = Block(shape, channels, channels, dtype, device, seed)
    if variant == "reference":
        step: Callable[[], Any] = block.reference
    elif variant == "unfused":
        step = block.unfused
    elif variant == "folded":
        step = block.two_kernels()
    elif variant == "compiled":
        step = compiled(block.unfused, device)
    elif variant == "triton":
        joined = kernels.load("depthwise_conv_relu", device)
        weight, bias = block.folded()
        step = lambda: joined.depthwise_conv_relu(block.image, weight, bias)  # noqa: E731
    else:
        raise ValueError(f"depthwise_conv has no variant {variant!r}")
    flops, moved, launches = counted(variant, shape, channels, channels)
    return Case(without_gradients(step), flops, moved * item_bytes(dtype), launches)
