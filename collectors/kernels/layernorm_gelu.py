"""Bias, layer normalisation and GELU in one kernel: after a matrix product, or with the product inside it."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from npulens.collectors.kernels import widen


@triton.jit
def _normalised(x, gain, shift, inside, width, epsilon):
    """Layer normalisation and GELU of whole rows; columns that are not ``inside`` count for nothing."""
    x = tl.where(inside, x, 0.0)
    mean = tl.sum(x, axis=1)[:, None] / width
    away = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(away * away, axis=1)[:, None] / width
    z = away / tl.sqrt(variance + epsilon) * gain + shift
    # 0.5 (1 + tanh u) = 1 / (1 + exp(-2u)): the same function without a tanh.
    return z / (1.0 + tl.exp(-1.5957691216057308 * (z + 0.044715 * z * z * z)))


@triton.jit
def epilogue_kernel(
    x_at, bias_at, gain_at, shift_at, out_at, rows, width, epsilon, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """Rows of a product -> gelu(layer_norm(row + bias))."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = column < width
    place, valid = row * width + column, (row < rows) & inside
    x = tl.load(x_at + place, mask=valid, other=0.0).to(tl.float32)
    x += tl.load(bias_at + column, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(gain_at + column, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(shift_at + column, mask=inside, other=0.0).to(tl.float32)
    out = _normalised(x, gain, shift, inside, width, epsilon)
    tl.store(out_at + place, out.to(out_at.dtype.element_ty), mask=valid)


@triton.jit
def whole_kernel(
    a_at, b_at, bias_at, gain_at, shift_at, out_at, rows, inner, width, epsilon,
    ROWS: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """gelu(layer_norm(a @ b + bias)), whole rows at a time."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = column < width
    total = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for begin in range(0, inner, INNER):
        across = begin + tl.arange(0, INNER)[None, :]
        down = begin + tl.arange(0, INNER)[:, None]
        a = tl.load(a_at + row * inner + across, mask=(row < rows) & (across < inner), other=0.0)
        b = tl.load(b_at + down * width + column, mask=(down < inner) & inside, other=0.0)
        if WIDEN:
            a, b = a.to(tl.float32), b.to(tl.float32)
        total += tl.dot(a, b, input_precision="ieee")
    total += tl.load(bias_at + column, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(gain_at + column, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(shift_at + column, mask=inside, other=0.0).to(tl.float32)
    out = _normalised(total, gain, shift, inside, width, epsilon)
    tl.store(out_at + row * width + column, out.to(out_at.dtype.element_ty), mask=(row < rows) & inside)


def epilogue(product: Any, bias: Any, gain: Any, shift: Any, epsilon: float) -> Any:
    """gelu(layer_norm(product + bias)) in one kernel."""
    rows, width = product.shape
    wide = triton.next_power_of_2(width)
    tall = max(1, 4096 // wide)
    out = torch.empty_like(product)
    epilogue_kernel[(triton.cdiv(rows, tall),)](
        product, bias, gain, shift, out, rows, width, epsilon, ROWS=tall, WIDTH=wide
    )
    return out


def whole(a: Any, b: Any, bias: Any, gain: Any, shift: Any, epsilon: float) -> Any:
    """gelu(layer_norm(a @ b + bias)) in one kernel; a row of the product has to fit on the chip."""
    (rows, inner), width = a.shape, b.shape[1]
    wide = max(16, triton.next_power_of_2(width))
    tall = 16 if wide > 256 else 64
    out = a.new_empty((rows, width))
    whole_kernel[(triton.cdiv(rows, tall),)](
        a, b, bias, gain, shift, out, rows, inner, width, epsilon,
        ROWS=tall, INNER=32, WIDTH=wide, WIDEN=widen(a),
    )  # fmt: skip
    return out
