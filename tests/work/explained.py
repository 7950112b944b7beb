"""A row of TraceLens that differs, worked out again the way in which TraceLens counts.

A difference is explained where that comes to TraceLens' own figures, to the last digit. What it gives no figure for is
not compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod

from npulens.analysis.work.call import Call, Tensor, Unmodelled, arguments
from tests.work.tracelens import Row

#: What TraceLens would write: (operations, bytes), each with all that it may be.
Figures = tuple[set[int | None], set[int | None]]


def explained(row: Row) -> bool:
    """Whether TraceLens' way of counting gives its figures from the same shapes."""
    way = _WAYS.get(row.category)
    if way is None or row.ours.reason is not None:
        return False
    try:
        flops, moved = way(row, Call(row.name, arguments(row.shapes, row.types)))
    except (Unmodelled, IndexError):
        return False
    own = {row.ours.flops, row.ours.matrix}
    return (row.flops in flops | own) and (row.bytes is None or row.bytes in moved | {row.ours.bytes})


def _convolution(row: Row, call: Call) -> Figures:
    """A bias is left out."""
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    return set(), {(row.ours.bytes or 0) - (bias.bytes if isinstance(bias, Tensor) else 0)}


def _convolution_backward(row: Row, call: Call) -> Figures:
    """dy is read for each of two gradients. That of the input counts also where none is wanted."""
    dy, x, weight = call.read[:3]
    met = 2 * 2 * dy.values * prod(weight.shape[1:])
    return {met}, {2 * (dy.bytes + x.bytes + weight.bytes)}


def _attention(row: Row, call: Call) -> Figures:
    """Of a causal mask half of all pairs count, without half of those on the diagonal. A mask is not read."""
    q, k, v = call.read[:3]
    pairs = prod(q.shape[:-2]) * q.shape[-2] * k.shape[-2]
    mask = call.inputs[3] if len(call.inputs) > 3 else None
    read = mask.bytes if isinstance(mask, Tensor) else 0
    return {pairs * (q.shape[-1] + v.shape[-1])}, {(row.ours.bytes or 0) - read}


def _elementwise(row: Row, call: Call) -> Figures:
    """A copy counts one operation a value, as does every value of a result that is padded.

    A number has 4 bytes. A tensor without sides widens the result as any other does.
    """
    first = call.read[0]
    padded = ((row.ours.bytes or 0) - first.bytes) * 8 // first.bits
    wide = max(one.values for one in call.read) * max(one.bits for one in call.read) // 8
    return {first.values, padded}, {(row.ours.bytes or 0) + 4, sum(one.bytes for one in call.read) + wide}


def _reduction(row: Row, call: Call) -> Figures:
    """One tensor is read and one value written."""
    first = call.read[0]
    return set(), {first.bytes + first.bits // 8}


def _norm(row: Row, call: Call) -> Figures:
    """Statistics by channel, which for a layer are the values of a row; six vectors of them, or the weights alone."""
    x = call.read[0]
    by_row = _size(row) if "layer_norm" in row.name or "rms_norm" in row.name else 0
    channels = by_row or x.shape[1]
    one = channels * x.bits // 8
    return {5 * x.values + 6 * channels}, {2 * x.bytes + 6 * one, 2 * x.bytes + one}


def _norm_backward(row: Row, call: Call) -> Figures:
    """Two tensors read, one written, and one, two or four vectors. What MIOpen does backward counts as forward."""
    x = call.read[0]
    one = (_size(row) or x.shape[1]) * x.bits // 8
    of_miopen = "miopen" in row.name
    whole = (2 if of_miopen else 3) * x.bytes
    channels = x.shape[1]
    forward = {5 * x.values + 6 * channels, 4 * x.values + 3 * channels} if of_miopen else {8 * x.values}
    return forward, {whole + times * one for times in (1, 2, 4)}


def _size(row: Row) -> int:
    """The values of a row that is normalised, as the call was told."""
    given = json.loads(row.given)
    sizes = [json.loads(one) for one in given if isinstance(one, str) and one.startswith("[") and "T" not in one
             and "F" not in one]  # fmt: skip
    return prod(sizes[0]) if sizes else 0


_WAYS: dict[str, Callable[[Row, Call], Figures]] = {
    "CONV_fwd": _convolution, "CONV_bwd": _convolution_backward, "SDPA_fwd": _attention, "elementwise": _elementwise,
    "reduce": _reduction, "NORM_fwd": _norm, "NORM_bwd": _norm_backward,
}  # fmt: skip
