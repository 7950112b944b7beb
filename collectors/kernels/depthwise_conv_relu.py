"""A depthwise 3x3 convolution with bias and ReLU in one kernel: one reading of the image, one writing of the result."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from npulens.collectors.kernels import PROGRAMS

_BLOCK = 1024


@triton.jit
def depthwise_conv_relu_kernel(
    image_at, weight_at, bias_at, out_at, channels, height, width, tiles, units,
    PROGRAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A unit is one tile of the pixels of one channel of one image."""
    for unit in range(tl.program_id(0), units, PROGRAMS):
        plane, tile = unit // tiles, unit % tiles
        channel = plane % channels
        pixel = tile * BLOCK + tl.arange(0, BLOCK)
        row, column = pixel // width, pixel % width
        total = tl.zeros((BLOCK,), dtype=tl.float32) + tl.load(bias_at + channel).to(tl.float32)
        for place in tl.static_range(9):
            y, x = row + place // 3 - 1, column + place % 3 - 1
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            value = tl.load(image_at + (plane * height + y) * width + x, mask=inside, other=0.0).to(tl.float32)
            total += value * tl.load(weight_at + channel * 9 + place).to(tl.float32)
        out = tl.maximum(total, 0.0).to(out_at.dtype.element_ty)
        tl.store(out_at + plane * height * width + pixel, out, mask=pixel < height * width)


def depthwise_conv_relu(image: Any, weight: Any, bias: Any) -> Any:
    """relu(conv2d(image, weight, bias, padding=1, groups=channels)) for 3x3 filters."""
    batch, channels, height, width = image.shape
    out = torch.empty_like(image)
    tiles = triton.cdiv(height * width, _BLOCK)
    units = batch * channels * tiles
    programs = min(units, PROGRAMS)
    depthwise_conv_relu_kernel[(programs,)](
        image, weight, bias, out, channels, height, width, tiles, units, PROGRAMS=programs, BLOCK=_BLOCK
    )
    return out
