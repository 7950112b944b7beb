"""Matrix products, convolutions and attention: what the matrix units of a device are for.

A multiplication with its addition counts as two operations. A bias that is added counts one for each value of the
result, and not as work of the matrix units.
"""

from __future__ import annotations

import re
from math import prod

from npulens.analysis.work.call import SCALAR_TYPES, Call, Tensor, Unmodelled
from npulens.analysis.work.families import Model, Spec, Work
from npulens.analysis.work.values import RANKED, promoted, spread

#: CANN takes a mask of this size for a causal one of any length ("sparse mode" 2 to 4).
_CAUSAL_MASK = (2048, 2048)


def _matmul(call: Call, spec: Spec) -> Work:
    a, c = call.tensor("a"), call.maybe("c")
    turned = call.maybe("bt")
    b = turned or call.tensor("b")
    left = a.logical if len(a.logical) > 1 else (1, *a.logical)
    right = b.logical if len(b.logical) > 1 else ((1, *b.logical) if turned else (*b.logical, 1))
    if not left or not right or len(left) < 2 or len(right) < 2:
        raise Unmodelled("do_not_fit")
    inner, columns = (right[-1], right[-2]) if turned else (right[-2], right[-1])
    if left[-1] != inner:
        raise Unmodelled("do_not_fit")
    batch = spread((left[:-2], right[:-2]))
    return _product(spec, a, b, c, prod(batch), left[-2], columns, inner)


def _product(
    spec: Spec, a: Tensor, b: Tensor, c: Tensor | None, batch: int, rows: int, columns: int, inner: int,
    result: str | None = None,
) -> Work:  # fmt: skip
    """The work of `batch` products of rows x inner with inner x columns, and of adding c."""
    wide = {"INT8": "INT32"}.get(a.type, a.type)
    out = Tensor((batch, rows, columns), result or (c.type if c is not None and c.type in RANKED else wide))
    moved = a.bytes + b.bytes + out.bytes + (c.bytes if c is not None else 0)
    return Work(
        spec.family, 2 * batch * rows * columns * inner, out.values if c is not None else 0, moved, _slower(a, b)
    )


def _slower(a: Tensor, b: Tensor) -> str:
    """In which type two inputs are multiplied: that of the wider one."""
    return a.short if a.bits >= b.bits else b.short


def _scaled_matmul(call: Call, spec: Spec) -> Work:
    a, b = call.tensor("a"), call.tensor("b")
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise Unmodelled("do_not_fit")
    result = SCALAR_TYPES.get(call.text("out") or "", a.type)
    return _product(spec, a, b, call.maybe("c"), 1, a.shape[0], b.shape[1], a.shape[1], result)


def _addbmm(call: Call, spec: Spec) -> Work:
    """The products of a batch, added up into one matrix."""
    a, b, c = call.tensor("a"), call.tensor("b"), call.tensor("c")
    if len(a.shape) != 3 or len(b.shape) != 3 or (a.shape[0], a.shape[2]) != b.shape[:2]:
        raise Unmodelled("do_not_fit")
    batch, rows, inner = a.shape
    return _product(spec, a, b, c, 1, rows, b.shape[2], batch * inner)


def _outer(call: Call, spec: Spec) -> Work:
    a, b = call.tensor("a"), call.tensor("b")
    out = Tensor((a.values, b.values), promoted((a, b)))
    return Work(spec.family, 0, out.values, a.bytes + b.bytes + out.bytes)


def _int4_matmul(call: Call, spec: Spec) -> Work:
    """Weights of four bits, eight in each value: their number over the inner side gives the columns."""
    a, packed = call.tensor("a"), call.tensor("packed")
    inner = a.shape[-1] if a.shape else 0
    weights = packed.values * packed.bits // 4
    if not inner or weights % inner:
        raise Unmodelled("do_not_fit")
    rows, columns = a.values // inner, weights // inner
    scales = call.maybe("scales")
    moved = a.bytes + packed.bytes + (scales.bytes if scales else 0) + rows * columns * a.bits // 8
    return Work(spec.family, 2 * rows * columns * inner, 0, moved, a.short)


def _grouped_matmul(call: Call, spec: Spec) -> Work:
    """Rows of a, each multiplied with the matrix of its group."""
    a, b = call.tensor("a"), call.tensor("b")
    if len(a.shape) == len(b.shape) == 3:
        return _matmul(call, spec)
    if len(a.shape) != 2 or len(b.shape) != 3 or a.shape[1] != b.shape[1]:
        raise Unmodelled("data")  # groups along the inner side: their sizes lie in data
    return _product(spec, a, b, None, 1, a.shape[0], b.shape[2], a.shape[1])


def _cann_matmul(call: Call, spec: Spec) -> Work:
    """Which side is the inner one is not recorded (either input may lie transposed): the result tells it."""
    a, b, written = call.tensor("a"), call.tensor("b"), call.written
    if not written:
        raise Unmodelled("part")
    out = written[0].logical
    left, right = a.logical, b.logical
    if len(out) < 2 or len(left) < 2 or len(right) < 2:
        raise Unmodelled("do_not_fit")
    inner, values = _inner(left, right, out), prod(out)
    moved = sum(one.bytes for one in (*call.read, *written))
    return Work(
        spec.family, 2 * values * inner, values if call.maybe("c") is not None else 0, moved, _slower(a, b)
    )  # fmt: skip


def _inner(left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...]) -> int:
    """The side over which two matrices are multiplied, whichever of them lies transposed."""
    for sides in (_last_two, _folded):
        rows, columns = sides(out)
        lefts = {inner for first, inner in _either(sides(left)) if first == rows}
        rights = {inner for inner, second in _either(_last_two(right)) if second == columns}
        if lefts & rights:
            return max(lefts & rights)
    raise Unmodelled("do_not_fit")


def _last_two(sides: tuple[int, ...]) -> tuple[int, int]:
    """The matrices of a batch."""
    return sides[-2], sides[-1]


def _folded(sides: tuple[int, ...]) -> tuple[int, int]:
    """All sides but the last as one."""
    return prod(sides[:-1]), sides[-1]


def _either(sides: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """A matrix, as it is and transposed."""
    return sides, sides[::-1]


def _cann_grouped_matmul(call: Call, spec: Spec) -> Work:
    """Every row of the first input meets one matrix: the inner side is the row's length."""
    a, b, written = call.tensor("a"), call.tensor("b"), call.written
    if not written or len(a.shape) != 2 or len(written[0].shape) != 2 or a.shape[0] != written[0].shape[0]:
        raise Unmodelled("data")
    moved = sum(one.bytes for one in (*call.read, *written))
    return Work(spec.family, 2 * a.values * written[0].shape[1], 0, moved, _slower(a, b))


# ---- Convolutions


def _convolution(call: Call, spec: Spec) -> Work:
    if call.flag("transposed"):
        return _transposed_convolution(call, spec)
    x, weight, bias = call.tensor("x"), call.tensor("weight"), call.maybe("bias")
    if not weight.shape:
        raise Unmodelled("do_not_fit")
    out = _result(call, weight.shape[0]) or Tensor(_convolved(call, x, weight), x.type)
    matrix = 2 * out.values * prod(weight.shape[1:])
    moved = x.bytes + weight.bytes + out.bytes + (bias.bytes if bias is not None else 0)
    return Work(spec.family, matrix, out.values if bias is not None else 0, moved, _slower(x, weight))


def _result(call: Call, channels: int) -> Tensor | None:
    """What the convolution gives, where another operator tells it."""
    if not call.written:
        return None
    out = call.written[0]
    if len(out.shape) < 3 or out.shape[1] != channels:
        raise Unmodelled("do_not_fit")
    return out


def _convolved(call: Call, x: Tensor, weight: Tensor) -> tuple[int, ...]:
    """The sides of what a convolution gives."""
    spatial = len(weight.shape) - 2
    if spatial < 1 or len(x.shape) not in (spatial + 1, spatial + 2):
        raise Unmodelled("do_not_fit")
    batch, sizes = (x.shape[:1] if len(x.shape) == spatial + 2 else ()), x.shape[-spatial:]
    stride, dilation = call.sides("stride", spatial), call.sides("dilation", spatial, 1)
    if call.text("padding") == "same":
        sides = tuple(-(-size // step) for size, step in zip(sizes, stride, strict=True))
    else:
        padding = (0,) * spatial if call.text("padding") == "valid" else call.sides("padding", spatial)
        sides = tuple(
            (size + 2 * pad - far * (kernel - 1) - 1) // step + 1 if step > 0 else -1
            for size, kernel, step, pad, far in zip(sizes, weight.shape[2:], stride, padding, dilation, strict=True)
        )
    if min(sides) < 0:
        raise Unmodelled("do_not_fit")
    return (*batch, weight.shape[0], *sides)


def _transposed_convolution(call: Call, spec: Spec) -> Work:
    """Each value of the input meets the whole kernel: the sides of the input count, not those of the result."""
    x, weight, bias = call.tensor("x"), call.tensor("weight"), call.maybe("bias")
    spatial = len(weight.shape) - 2
    if spatial < 1 or len(x.shape) < spatial + 1:
        raise Unmodelled("do_not_fit")
    groups = call.numbers("groups")
    if not groups:
        raise Unmodelled("no_values")
    stride, padding, extra, dilation = (
        call.sides(name, spatial) for name in ("stride", "padding", "output_padding", "dilation")
    )
    sides = tuple(
        (size - 1) * step - 2 * pad + far * (kernel - 1) + more + 1
        for size, kernel, step, pad, more, far in zip(
            x.shape[-spatial:], weight.shape[2:], stride, padding, extra, dilation, strict=True
        )
    )
    if min(sides) < 0:
        raise Unmodelled("do_not_fit")
    out = Tensor((*x.shape[: -spatial - 1], weight.shape[1] * groups[0], *sides), x.type)
    moved = x.bytes + weight.bytes + out.bytes + (bias.bytes if bias is not None else 0)
    return Work(
        spec.family, 2 * x.values * prod(weight.shape[1:]), out.values if bias is not None else 0, moved,
        _slower(x, weight),
    )  # fmt: skip


def _convolution_backward(call: Call, spec: Spec) -> Work:
    """The gradient of the input and that of the weights cost what the convolution did, each of them."""
    dy, x, weight = call.tensor("dy"), call.tensor("x"), call.tensor("weight")
    wanted = re.findall("True|False", call.text("mask") or "")
    if len(wanted) != 3:
        raise Unmodelled("no_values")
    of_x, of_weight, of_bias = (one == "True" for one in wanted)
    one = _met(x if call.flag("transposed") else dy, weight)
    moved = dy.bytes + x.bytes * (of_x + 1) + weight.bytes * (of_weight + 1)
    if not of_weight:
        moved -= x.bytes
    if not of_x:
        moved -= weight.bytes
    channels = dy.shape[1] if len(dy.shape) > 1 else 0
    return Work(
        spec.family, one * (of_x + of_weight), dy.values if of_bias else 0,
        moved + (channels * dy.bits // 8 if of_bias else 0), _slower(dy, weight),
    )  # fmt: skip


def _met(dy: Tensor, weight: Tensor) -> int:
    """Operations where each value of dy meets the kernel of its channel."""
    if len(weight.shape) < 3 or len(dy.shape) < 2:
        raise Unmodelled("do_not_fit")
    return 2 * dy.values * prod(weight.shape[1:])


def _convolution_backward_input(call: Call, spec: Spec) -> Work:
    """The sides of the result are a value of the call; where nothing tells them, its bytes are not known."""
    dy, weight, size = call.tensor("dy"), call.tensor("weight"), _size(call)
    moved = dy.bytes + weight.bytes + Tensor(size, dy.type).bytes if size else None
    return Work(spec.family, _met(dy, weight), 0, moved, _slower(dy, weight), None if size else "no_values")


def _size(call: Call) -> tuple[int, ...] | None:
    return call.numbers("size") or (call.written[0].shape if call.written else None)


def _convolution_backward_weight(call: Call, spec: Spec) -> Work:
    dy, x, size = call.tensor("dy"), call.tensor("x"), _size(call)
    if not size:
        raise Unmodelled("no_values")
    weight = Tensor(size, dy.type)
    return Work(spec.family, _met(dy, weight), 0, dy.bytes + x.bytes + weight.bytes, _slower(dy, x))


def _cann_convolution(call: Call, spec: Spec) -> Work:
    """Each place of the result meets the whole kernel once; a kernel's blocks hold every channel, padding included."""
    x, weight, written = call.tensor("x"), call.tensor("weight"), call.written
    if not written:
        raise Unmodelled("part")
    return _cann_met(call, spec, written[0], weight, _slower(x, weight))


def _cann_convolution_backward(call: Call, spec: Spec) -> Work:
    """Of the input: kernel and dy are given. Of the kernel: it is the result. Lists of sides are given besides."""
    tensors, written = [one for one in call.read if len(one.shape) > 1], call.written
    if not written or len(tensors) < 2:
        raise Unmodelled("part")
    of_kernel = "Filter" in call.name
    kernel, dy = (written[0] if of_kernel else tensors[0]), tensors[-1]
    return _cann_met(call, spec, dy, kernel, _slower(tensors[0], dy))


def _cann_met(call: Call, spec: Spec, places: Tensor, kernel: Tensor, short: str) -> Work:
    """Batch and sides of `places`, each with every value of the kernel."""
    sides = places.logical
    if len(sides) not in (4, 5) or len(kernel.shape) < 4:
        raise Unmodelled("do_not_fit")
    at = sides[0] * prod(sides[2:])
    moved = sum(one.bytes for one in (*call.read, *(call.written or ())))
    return Work(spec.family, 2 * at * kernel.values, 0, moved, short)


# ---- Attention


def _attention(call: Call, spec: Spec) -> Work:
    q, k, v = _qkv(call, spec)
    first, second = _scores(call, spec, q, k, v)
    out = Tensor((*q.shape[:-1], v.shape[-1]), q.type)
    mask = call.maybe("bias")
    moved = q.bytes + k.bytes + v.bytes + out.bytes + (mask.bytes if mask is not None else 0)
    return Work(spec.family, first + second, 0, moved, q.short)


def _attention_backward(call: Call, spec: Spec) -> Work:
    """The scores are computed again, then four products: of their gradient, and of q, k and v."""
    q, k, v = _qkv(call, spec)
    first, second = _scores(call, spec, q, k, v)
    dy = call.tensor("dy")
    mask = call.maybe("bias")
    moved = 2 * (q.bytes + k.bytes + v.bytes + dy.bytes) + (mask.bytes if mask is not None else 0)
    return Work(spec.family, 3 * first + 2 * second, 0, moved, q.short)


def _qkv(call: Call, spec: Spec) -> tuple[Tensor, Tensor, Tensor]:
    lengths = call.maybe("lengths")
    q, k, v = call.tensor("q"), call.tensor("k"), call.tensor("v")
    if (lengths is not None and lengths.values) or not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        raise Unmodelled("lengths")
    return q, k, v


def _scores(call: Call, spec: Spec, q: Tensor, k: Tensor, v: Tensor) -> tuple[int, int]:
    """Operations of q times k, and of the scores times v. A causal mask leaves out what no query may see."""
    heads_at, at = (1, 2) if spec.options["layout"] == "bhsd" else (2, 1)
    rows, columns = q.shape[at], k.shape[at]
    if v.shape[at] != columns or q.shape[3] != k.shape[3] or q.shape[0] != k.shape[0]:
        raise Unmodelled("do_not_fit")
    causal = (call.text("causal") or "0") in ("True", "true", "1", "2")
    pairs = causal_pairs(rows, columns) if causal else rows * columns
    each = 2 * q.shape[0] * q.shape[heads_at] * pairs
    return each * q.shape[3], each * v.shape[3]


def causal_pairs(rows: int, columns: int) -> int:
    """How many pairs of query and key a causal mask leaves: the last query sees every key."""
    first = columns - rows + 1  # keys that the first query sees
    if first >= 1:
        return rows * (first + columns) // 2
    return columns * (columns + 1) // 2


def _cann_attention(call: Call, spec: Spec) -> Work:
    """The order of the sides is no shape. The largest scores of each query, kept for backward, tell it: they lie as
    batch, heads, queries, 8. Where a mask is given, whether it is causal is told by its size alone."""
    q, k, written = call.tensor("q"), call.tensor("k"), call.written
    backward = "Grad" in call.name
    kept = [
        one for one in (*call.read, *(written or ())) if len(one.shape) == 4 and one.shape[3] == 8 and one.bits == 32
    ]
    if not written:
        raise Unmodelled("part")
    if not kept:
        raise Unmodelled("lengths")
    moved = sum(one.bytes for one in (*call.read, *written))
    batch, heads, rows, _ = kept[0].shape
    columns, depth = _keys(q, k, batch, heads, rows)
    if q.values != batch * heads * rows * depth or not columns or k.values % (batch * columns):
        raise Unmodelled("do_not_fit")
    masks = [one.shape for one in call.read if one.type in ("BOOL", "UINT8") and len(one.shape) >= 2]
    if masks and not (masks[0][-2:] == _CAUSAL_MASK and rows != _CAUSAL_MASK[0]):
        return Work(spec.family, None, None, moved, q.short, reason="mask")
    pairs = causal_pairs(rows, columns) if masks else rows * columns
    return Work(spec.family, 2 * batch * heads * pairs * depth * (5 if backward else 2), 0, moved, q.short)


def _keys(q: Tensor, k: Tensor, batch: int, heads: int, rows: int) -> tuple[int, int]:
    """How many keys there are, and how deep a head is."""
    if len(q.shape) == 3:
        at = 1 if q.shape[0] == batch and q.shape[1] == rows else 0 if q.shape[:2] == (rows, batch) else None
    else:
        at = {(heads, rows): 2, (rows, heads): 1}.get((q.shape[1], q.shape[2])) if len(q.shape) == 4 else None
    if at is None or len(k.shape) != len(q.shape):
        raise Unmodelled("do_not_fit")
    return k.shape[at], q.values // max(1, batch * heads * rows)


def _npu_attention(call: Call, spec: Spec) -> Work:
    """torch_npu's operator says its layout: B batch, S sequence, N heads, D depth, H heads times depth."""
    q, k, v = call.tensor("q"), call.tensor("k"), call.tensor("v")
    layout, heads = (call.text("layout") or "").strip("\"'"), call.numbers("heads")
    if call.maybe("lengths") is not None or call.numbers("lengths") or layout == "TND":
        raise Unmodelled("lengths")
    if not layout or not heads:
        raise Unmodelled("no_values")
    if layout not in ("BSH", "SBH", "BNSD", "BSND") or not len(layout) == len(q.shape) == len(k.shape):
        raise Unmodelled("do_not_fit")
    batch, rows, columns = (one.shape[layout.index(side)] for side, one in (("B", q), ("S", q), ("S", k)))
    sparse = call.numbers("sparse") or (0,)
    backward = call.maybe("dy")
    moved = sum(one.bytes for one in call.read) + q.bytes + (k.bytes + v.bytes if backward is not None else 0)
    if call.maybe("mask") is not None and sparse[0] not in (1, 2, 3):
        return Work(spec.family, None, None, moved, q.short, reason="mask")
    pairs = causal_pairs(rows, columns) if sparse[0] in (2, 3) else rows * columns
    width = q.values // max(1, batch * rows)  # heads times depth
    return Work(spec.family, 2 * batch * pairs * width * (2 if backward is None else 5), 0, moved, q.short)


MODELS: dict[str, Model] = {
    "matmul": _matmul, "scaled_matmul": _scaled_matmul, "addbmm": _addbmm, "outer": _outer,
    "int4_matmul": _int4_matmul, "grouped_matmul": _grouped_matmul, "cann_matmul": _cann_matmul,
    "cann_grouped_matmul": _cann_grouped_matmul, "convolution": _convolution,
    "transposed_convolution": _transposed_convolution, "convolution_backward": _convolution_backward,
    "convolution_backward_input": _convolution_backward_input,
    "convolution_backward_weight": _convolution_backward_weight, "cann_convolution": _cann_convolution,
    "cann_convolution_backward": _cann_convolution_backward, "attention": _attention,
    "attention_backward": _attention_backward, "cann_attention": _cann_attention,
    "npu_attention": _npu_attention,
}  # fmt: skip
