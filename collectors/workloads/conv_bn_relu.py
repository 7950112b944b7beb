"""A 3x3 convolution, batch normalisation in evaluation and ReLU: the block of most convolutional networks.

Unfused it is three kernels, and the output of the convolution travels to memory and back twice more than it must. In
evaluation the normalisation is a multiplication and an addition per channel, known beforehand. ``folded`` has put them
into the weights and the bias of the convolution. ``fused`` lets the convolution apply ReLU as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors.workloads._block import Block, counted
from npulens.collectors.workloads._parts import compiled, item_bytes, kind, without_gradients
from npulens.collectors.workloads.workload import Case, NotHere

SHOWS = ("unfused",)
SHAPES = {
    "small": {"batch": 2, "channels": 8, "height": 14, "width": 14, "filters": 16},
    "image": {"batch": 1, "channels": 3, "height": 224, "width": 224, "filters": 64},
    "layer": {"batch": 32, "channels": 64, "height": 224, "width": 224, "filters": 128},
}
DTYPES = ("float32", "float16", "bfloat16")
VARIANTS = ("reference", "unfused", "folded", "fused", "compiled")
BATCH = "batch"


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The block, ready to run."""
    block = Block(shape, shape["filters"], 1, dtype, device, seed)
    if variant == "reference":
        step: Callable[[], Any] = block.reference
    elif variant == "unfused":
        step = block.unfused
    elif variant == "folded":
        step = block.two_kernels()
    elif variant == "fused":
        step = _fused(block, device)
    elif variant == "compiled":
        step = compiled(block.unfused, device)
    else:
        raise ValueError(f"conv_bn_relu has no variant {variant!r}")
    flops, moved, launches = counted(variant, shape, shape["filters"], 1)
    return Case(without_gradients(step), flops, moved * item_bytes(dtype), launches)


def _fused(block: Block, device: str) -> Callable[[], Any]:
    """Convolution and ReLU in one kernel, where torch has it."""
    torch, (kernel, bias) = block.torch, block.folded()
    if kind(device) == "cuda" and torch.backends.cudnn.is_available():
        return lambda: torch.cudnn_convolution_relu(block.image, kernel, bias, (1, 1), (1, 1), (1, 1), 1)
    if kind(device) != "cpu" or not torch.backends.mkldnn.is_available():
        raise NotHere("torch has a convolution with ReLU in it for CUDA (cuDNN) and for CPUs with oneDNN only")
    library = torch.ops.mkldnn
    for dtype, able in ((torch.float16, "_is_mkldnn_fp16_supported"), (torch.bfloat16, "_is_mkldnn_bf16_supported")):
        if kernel.dtype == dtype and not (hasattr(library, able) and getattr(library, able)()):
            raise NotHere(f"oneDNN does not compute {dtype} on this CPU")
    joined = library._convolution_pointwise
    return lambda: joined(block.image, kernel, bias, (1, 1), (1, 1), (1, 1), 1, "relu", [], "")
