"""A 3x3 convolution, batch normalisation in evaluation and ReLU: the block of most convolutional networks.

Unfused it is three kernels, and the output of the convolution travels to memory and back twice more than it must.
In evaluation the normalisation is a multiplication and an addition per channel, known beforehand: ``folded`` has put
them into the weights and the bias of the convolution, and ``fused`` lets the convolution apply ReLU as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collectors.workloads._parts import Numbers, compiled, item_bytes, kind
from collectors.workloads.workload import Case, NotHere

SHOWS = ("unfused",)
SHAPES = {
    "small": {"batch": 2, "channels": 8, "height": 14, "width": 14, "filters": 16},
    "image": {"batch": 1, "channels": 3, "height": 224, "width": 224, "filters": 64},
    "layer": {"batch": 32, "channels": 64, "height": 224, "width": 224, "filters": 128},
}
DTYPES = ("float32", "float16", "bfloat16")
VARIANTS = ("reference", "unfused", "folded", "fused", "compiled")
BATCH = "batch"
EPSILON = 1e-5  # torch.nn.BatchNorm2d's


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The block, ready to run."""
    numbers = Numbers(seed, dtype, device)
    channels, filters = shape["channels"], shape["filters"]
    image = numbers.normal(shape["batch"], channels, shape["height"], shape["width"])
    weight = numbers.normal(filters, channels, 3, 3, scale=(9 * channels) ** -0.5)
    # A trained normalisation: means and variances that are not the ones a fresh module starts with.
    mean, shift = numbers.normal(filters, scale=0.1), numbers.normal(filters, scale=0.1)
    variance, gain = numbers.between(0.5, 2.0, filters), numbers.between(0.5, 1.5, filters)
    block = _block(variant, device, weight, mean, variance, gain, shift)
    torch = numbers.torch

    def step() -> Any:
        with torch.no_grad():
            return block(image)

    return Case(step, *_counted(variant, shape, dtype))


def _block(
    variant: str, device: str, weight: Any, mean: Any, variance: Any, gain: Any, shift: Any
) -> Callable[[Any], Any]:
    from torch.nn import functional

    def reference(image: Any) -> Any:
        normal = (functional.conv2d(image, weight, padding=1) - _column(mean)) / (_column(variance) + EPSILON).sqrt()
        return (normal * _column(gain) + _column(shift)).clamp(min=0)

    def unfused(image: Any) -> Any:
        out = functional.conv2d(image, weight, padding=1)
        return functional.relu(functional.batch_norm(out, mean, variance, gain, shift, False, 0.0, EPSILON))

    if variant == "reference":
        return reference
    if variant == "unfused":
        return unfused
    if variant == "compiled":
        return compiled(unfused, device)
    kernel, bias = fold(weight, mean, variance, gain, shift)
    if variant == "folded":
        return lambda image: functional.relu(functional.conv2d(image, kernel, bias, padding=1))
    if variant == "fused":
        return _fused(kernel, bias, device)
    raise ValueError(f"conv_bn_relu has no variant {variant!r}")


def fold(weight: Any, mean: Any, variance: Any, gain: Any, shift: Any) -> tuple[Any, Any]:
    """Weights and bias of the convolution that normalises by itself; right in evaluation only."""
    wide = [each.double() if each.device.type != "mps" else each for each in (weight, mean, variance, gain, shift)]
    weights, mean_, variance_, gain_, shift_ = wide
    factor = gain_ / (variance_ + EPSILON).sqrt()
    return (weights * factor[:, None, None, None]).to(weight.dtype), (shift_ - mean_ * factor).to(weight.dtype)


def _fused(kernel: Any, bias: Any, device: str) -> Callable[[Any], Any]:
    """Convolution and ReLU in one kernel, where torch has it."""
    import torch

    if kind(device) == "cuda" and torch.backends.cudnn.is_available():
        return lambda image: torch.cudnn_convolution_relu(image, kernel, bias, (1, 1), (1, 1), (1, 1), 1)
    if kind(device) != "cpu" or not torch.backends.mkldnn.is_available():
        raise NotHere("torch has a convolution with ReLU in it for CUDA (cuDNN) and for CPUs with oneDNN only")
    library = torch.ops.mkldnn
    for dtype, able in ((torch.float16, "_is_mkldnn_fp16_supported"), (torch.bfloat16, "_is_mkldnn_bf16_supported")):
        if kernel.dtype == dtype and not (hasattr(library, able) and getattr(library, able)()):
            raise NotHere(f"oneDNN does not compute {dtype} on this CPU")
    joined = library._convolution_pointwise
    return lambda image: joined(image, kernel, bias, (1, 1), (1, 1), (1, 1), 1, "relu", [], "")


def _column(values: Any) -> Any:
    return values[None, :, None, None]


def _counted(variant: str, shape: Mapping[str, int], dtype: str) -> tuple[int, int, int | None]:
    """Floating-point operations, bytes and kernels of one step."""
    pixels = shape["batch"] * shape["height"] * shape["width"]
    out, channels, filters = pixels * shape["filters"], shape["channels"], shape["filters"]
    # Each output: 9 products per channel and their sums; a normalisation is one of each more, a bias an addition.
    extra, passes, kernels = {
        "reference": (5, 11, None), "unfused": (3, 5, 3), "folded": (2, 3, 2), "fused": (2, 1, 1),
        "compiled": (3, 1, None),
    }[variant]  # fmt: skip
    parameters = 9 * channels * filters + filters * (4 if variant in ("reference", "unfused", "compiled") else 1)
    moved = (pixels * channels + parameters + passes * out) * item_bytes(dtype)
    return out * (2 * 9 * channels + extra), moved, kernels
