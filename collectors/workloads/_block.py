"""A 3x3 convolution, batch normalisation in evaluation and ReLU, in the ways that every kind of convolution has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors.workloads._parts import Numbers

EPSILON = 1e-5  # torch.nn.BatchNorm2d's


class Block:
    """The block of one seed: its image, its weights, and a normalisation that has seen data."""

    def __init__(self, shape: Mapping[str, int], filters: int, groups: int, dtype: str, device: str, seed: int) -> None:
        numbers = Numbers(seed, dtype, device)
        inputs = shape["channels"] // groups
        self.torch, self.groups = numbers.torch, groups
        self.image = numbers.normal(shape["batch"], shape["channels"], shape["height"], shape["width"])
        self.weight = numbers.normal(filters, inputs, 3, 3, scale=(9 * inputs) ** -0.5)
        # Means and variances that a fresh module would not have: folding them must change something.
        self.mean, self.shift = numbers.normal(filters, scale=0.1), numbers.normal(filters, scale=0.1)
        self.variance, self.gain = numbers.between(0.5, 2.0, filters), numbers.between(0.5, 1.5, filters)

    def reference(self) -> Any:
        """The formula of the normalisation, written out."""
        mean, variance, gain, shift = (
            each[None, :, None, None] for each in (self.mean, self.variance, self.gain, self.shift)
        )
        return ((self._convolved() - mean) / (variance + EPSILON).sqrt() * gain + shift).clamp(min=0)

    def unfused(self) -> Any:
        """Three kernels, as three modules make them."""
        functional = self.torch.nn.functional
        parameters = (self.mean, self.variance, self.gain, self.shift)
        return functional.relu(functional.batch_norm(self._convolved(), *parameters, False, 0.0, EPSILON))

    def folded(self) -> tuple[Any, Any]:
        """Weights and bias of the convolution that normalises by itself; right in evaluation only."""
        wide = self.torch.float32 if self.image.device.type == "mps" else self.torch.float64
        weight, mean, variance, gain, shift = (
            each.to(wide) for each in (self.weight, self.mean, self.variance, self.gain, self.shift)
        )
        factor = gain / (variance + EPSILON).sqrt()
        kernel, bias = weight * factor[:, None, None, None], shift - mean * factor
        return kernel.to(self.weight.dtype), bias.to(self.weight.dtype)

    def two_kernels(self) -> Callable[[], Any]:
        """The folded convolution, then ReLU."""
        kernel, bias = self.folded()
        functional = self.torch.nn.functional
        return lambda: functional.relu(functional.conv2d(self.image, kernel, bias, padding=1, groups=self.groups))

    def _convolved(self) -> Any:
        return self.torch.nn.functional.conv2d(self.image, self.weight, padding=1, groups=self.groups)


def counted(variant: str, shape: Mapping[str, int], filters: int, groups: int) -> tuple[int, int, int | None]:
    """Floating-point operations, numbers moved and kernels of one step."""
    pixels, inputs = shape["batch"] * shape["height"] * shape["width"], shape["channels"] // groups
    out = pixels * filters
    # An output is 9 products per channel and their sum. A normalisation is one of each more, a bias an addition, ReLU a
    # comparison. Every kernel after the convolution reads and writes all outputs once more.
    extra, passes, kernels = {
        "reference": (5, 11, None), "unfused": (3, 5, 3), "folded": (2, 3, 2), "fused": (2, 1, 1), "triton": (2, 1, 1),
        "compiled": (3, 1, None),
    }[variant]  # fmt: skip
    parameters = 9 * inputs * filters + filters * (1 if variant in ("folded", "fused", "triton") else 4)
    return out * (2 * 9 * inputs + extra), pixels * shape["channels"] + parameters + passes * out, kernels
