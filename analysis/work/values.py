"""What works value by value, makes few of many, or only moves: its time is that of memory.

Operations on a value are a convention: one for each value of an elementwise result, 5 for softmax. Copies count none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod

from npulens.analysis.work.call import Call, Tensor, Unmodelled, flat
from npulens.analysis.work.families import Model, Spec, Work

#: From the narrowest to the widest kind of number; a tensor without sides does not widen one that has some.
RANKED = (
    "BOOL", "UINT8", "BYTE", "UNSIGNED CHAR", "INT8", "CHAR", "SIGNED CHAR", "SHORT", "SHORT INT", "INT16",
    "INT", "INT32", "LONG", "LONG INT", "INT64", "FLOAT8_E4M3FN", "FLOAT8_E5M2", "HALF", "FLOAT16", "BFLOAT16",
    "BF16", "FLOAT", "FLOAT32", "DOUBLE", "FLOAT64", "COMPLEX<HALF>", "COMPLEX<FLOAT>", "COMPLEX64",
    "COMPLEX<DOUBLE>", "COMPLEX128",
)  # fmt: skip


#: Bytes of the two floats behind a row of FBGEMM, and what its numbers of types mean.
_SCALES = 8
_UNPACKED = {"0": "FLOAT", "1": "HALF", "5": "BFLOAT16"}


def promoted(tensors: Iterable[Tensor]) -> str:
    """The type of what is computed from tensors."""
    every = list(tensors)
    sided = [one for one in every if one.shape] or every
    known = [one.type for one in sided if one.type in RANKED]
    if not known:
        raise Unmodelled("no_types")
    return max(known, key=RANKED.index)


def spread(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The sides that all of them spread to."""
    found: list[int] = []
    for place in range(1, max((len(one) for one in shapes), default=0) + 1):
        side = 1
        for one in shapes:
            if len(one) >= place and one[-place] != 1:
                if side not in (1, one[-place]):
                    raise Unmodelled("do_not_fit")
                side = one[-place]
        found.insert(0, side)
    return tuple(found)


def _simple(spec: Spec, read: int, written: Sequence[Tensor], values: int) -> Work:
    return Work(spec.family, 0, spec.ops * values, read + sum(one.bytes for one in written))


def _spread(call: Call, spec: Spec) -> Work:
    most = spec.options.get("tensors")
    tensors, into = call.read[:most], call.read[most:] if most else ()
    if not tensors:
        raise Unmodelled("part")
    try:
        sides = spread([one.shape for one in tensors])
    except Unmodelled:  # a result to write into, still empty, is no input
        tensors = tuple(one for one in tensors if one.values)
        sides = spread([one.shape for one in tensors])
    out = Tensor(sides, spec.options.get("result") or (into[-1].type if into else promoted(tensors)))
    return _simple(spec, sum(one.bytes for one in tensors), [out], out.values)


def _like(call: Call, spec: Spec) -> Work:
    """Reads what it was given and gives something like the tensor called `like`, which it may not need to read."""
    out = call.tensor("like")
    also = [Tensor(out.shape, "BOOL")] if spec.options.get("mask") else []
    weight, bias = call.maybe("weight"), call.maybe("bias")
    if weight is not None:  # their gradients; where no bias is given, it is as large as the weights
        also += [weight, weight if "bias" not in call.names else bias or Tensor((0,), weight.type)]
    read = sum(one.bytes for one in call.read) - (out.bytes if spec.options.get("unread") else 0)
    return _simple(spec, read, [out, *also], out.values)


def _recorded(call: Call, spec: Spec) -> Work:
    """The profiler recorded inputs and results: all of them are moved once."""
    written = call.written
    if not written and spec.family == "reduction" and call.read:
        written = ()  # a single value has no sides
    elif not written:
        raise Unmodelled("part")
    values = max((one.values for one in (*call.read, *written)), default=0)
    return _simple(spec, sum(one.bytes for one in call.read), written, values)


def _once(call: Call, spec: Spec) -> Work:
    """A fused kernel of Inductor: it touches each of its tensors. What it computes its arguments do not tell."""
    if not call.read:
        raise Unmodelled("part")
    return Work(spec.family, 0, None, sum(one.bytes for one in call.read))


def _norm(call: Call, spec: Spec) -> Work:
    """Statistics are taken by row, channel, group or instance, and kept in fp32 where backward needs them."""
    x = call.tensor("x")
    given = [one for one in (call.maybe("weight"), call.maybe("bias")) if one is not None]
    rows = _statistics(call, spec, x, given)
    kept = 4 * int(spec.options.get("statistics", 0)) * rows
    vector = spec.ops * x.values + int(spec.options["ops_row"]) * rows
    return Work(spec.family, 0, vector, 2 * x.bytes + sum(one.bytes for one in given) + kept)


def _statistics(call: Call, spec: Spec, x: Tensor, given: Sequence[Tensor]) -> int:
    by, shape = spec.options["by"], x.shape
    if by == "row":
        size = call.numbers("size")
        row = prod(size) if size else given[0].values if given else shape[-1] if shape else 0
        return x.values // row if row else 0
    if len(shape) < 2:
        raise Unmodelled("do_not_fit")
    if by == "group":
        groups = call.numbers("groups")
        if not groups:
            raise Unmodelled("no_values")
        return shape[0] * groups[0]
    return shape[1] if by == "channel" else shape[0] * shape[1]


def _added_norm(call: Call, spec: Spec) -> Work:
    """The norm of a sum: both the sum and its norm are written."""
    x, residual, weight = call.tensor("x"), call.tensor("residual"), call.tensor("weight")
    rows = _statistics(call, spec, x, [weight])
    vector = spec.ops * x.values + int(spec.options["ops_row"]) * rows
    return Work(spec.family, 0, vector, 2 * x.bytes + 2 * residual.bytes + weight.bytes)


def _rotary(call: Call, spec: Spec) -> Work:
    """Queries and keys are turned in place."""
    turned = [call.tensor("q"), call.tensor("k")]
    return _simple(spec, sum(one.bytes for one in turned), turned, sum(one.values for one in turned))


def _rows(call: Call, spec: Spec) -> Work:
    """Each index picks a row of the table: that row is read and written."""
    table, index = call.tensor("table"), call.tensor("index")
    if call.written:
        out = call.written[0]
    elif len(table.shape) < 1:
        raise Unmodelled("do_not_fit")
    else:
        out = Tensor((*index.shape, *table.shape[1:]), table.type)
    return _simple(spec, index.bytes + out.bytes, [out], 0)


def _gather(call: Call, spec: Spec) -> Work:
    """Each index picks one value."""
    table, index = call.tensor("table"), call.tensor("index")
    out = Tensor(index.shape, table.type)
    return _simple(spec, index.bytes + out.bytes, [out], 0)


def _embedding_backward(call: Call, spec: Spec) -> Work:
    dy, index, rows = call.tensor("dy"), call.tensor("index"), call.numbers("rows")
    if not rows:
        raise Unmodelled("no_values")
    if not dy.shape:
        raise Unmodelled("do_not_fit")
    out = Tensor((rows[0], dy.shape[-1]), dy.type)
    return Work(spec.family, 0, dy.values, dy.bytes + index.bytes + out.bytes)


def _updated(call: Call, spec: Spec) -> Work:
    """An optimiser on Ascend: its states are updated in place, whether or not the profiler lists them as results."""
    tensors = call.read
    if not tensors:
        raise Unmodelled("part")
    largest = max(tensors, key=lambda one: one.values)
    written = int(spec.options["writes"]) * largest.bytes
    return Work(spec.family, 0, spec.ops * largest.values, sum(one.bytes for one in tensors) + written)


def _lists(call: Call, spec: Spec) -> Work:
    """Lists of tensors, updated in place or into lists like the first."""
    place = call.inputs[0] if call.inputs else None
    first = flat([place]) if isinstance(place, tuple) else ()
    if not first:
        raise Unmodelled("part")
    read = sum(one.bytes for one in call.read)
    written = int(spec.options["writes"]) * sum(one.bytes for one in first)
    return Work(spec.family, 0, spec.ops * sum(one.values for one in first), read + written)


def _packed(call: Call, spec: Spec) -> Work:
    """FBGEMM's rows of one byte a value: as many as a multiple of four, and two floats that scale them."""
    x = call.tensor("x")
    if not x.shape:
        raise Unmodelled("do_not_fit")
    return _simple(spec, x.bytes, [Tensor((*x.shape[:-1], -(-x.shape[-1] // 4) * 4 + _SCALES), "UINT8")], 0)


def _unpacked(call: Call, spec: Spec) -> Work:
    """The same rows as floats again; older ones have no argument for another type."""
    x, kind = call.tensor("x"), call.text("type")
    if len(call.inputs) > call.names.index("type") and kind not in _UNPACKED:
        raise Unmodelled("no_values")
    if not x.shape or x.shape[-1] < _SCALES:
        raise Unmodelled("do_not_fit")
    out = Tensor((*x.shape[:-1], x.shape[-1] - _SCALES), _UNPACKED.get(kind or "0", "FLOAT"))
    return _simple(spec, x.bytes, [out], 0)


def _looked_at(call: Call, spec: Spec) -> Work:
    """Reads what has a name and writes nothing."""
    every = [one for name in call.names if name != "_" and (one := call.maybe(name)) is not None]
    if not every:
        raise Unmodelled("part")
    return _simple(spec, sum(one.bytes for one in every), [], max(one.values for one in every))


def _gated(call: Call, spec: Spec) -> Work:
    """One half of the last side opens or closes the other."""
    x = call.tensor("x")
    if not x.shape or x.shape[-1] % 2:
        raise Unmodelled("do_not_fit")
    out = Tensor((*x.shape[:-1], x.shape[-1] // 2), x.type)
    return _simple(spec, x.bytes, [out], out.values)


def _reduced(call: Call, spec: Spec) -> Work:
    """Over the sides that were named; over all of them where none was, and at least so where none was recorded."""
    if call.names[:1] == ("x",) and len([one for one in call.inputs[:2] if isinstance(one, Tensor)]) == 2:
        return _spread(call, spec)  # max and min of two tensors
    x = call.tensor("x")
    dims = call.numbers("dims")
    if dims and any(not -len(x.shape) <= one < len(x.shape) for one in dims):
        raise Unmodelled("do_not_fit")
    gone = {one % len(x.shape) for one in dims} if dims else set(range(len(x.shape)))
    out = Tensor(
        tuple(1 if at in gone else side for at, side in enumerate(x.shape)), spec.options.get("result", x.type)
    )
    also = [Tensor(out.shape, spec.options["also"])] if "also" in spec.options and dims else []
    return _simple(spec, x.bytes, [out, *also], x.values)


def _copied(call: Call, spec: Spec) -> Work:
    """Reads the one and writes the other, in the type of each."""
    to, source = call.tensor("to"), call.tensor("from")
    return Work(spec.family, 0, 0, source.bytes + to.bytes)


def _filled(call: Call, spec: Spec) -> Work:
    return Work(spec.family, 0, 0, call.tensor("to").bytes)


def _joined(call: Call, spec: Spec) -> Work:
    parts = flat(call.inputs[:1])
    if not parts:
        raise Unmodelled("part")
    return Work(spec.family, 0, 0, 2 * sum(one.bytes for one in parts))


def _taken(call: Call, spec: Spec) -> Work:
    """A part of the input: only that is read."""
    if not call.written:
        raise Unmodelled("part")
    return Work(spec.family, 0, 0, 2 * sum(one.bytes for one in call.written))


def _padded(call: Call, spec: Spec) -> Work:
    x, pad = call.tensor("x"), call.numbers("pad")
    if not pad:
        raise Unmodelled("no_values")
    if len(pad) % 2 or len(pad) // 2 > len(x.shape):
        raise Unmodelled("do_not_fit")
    sides = list(x.shape)
    for place in range(len(pad) // 2):
        sides[-1 - place] += pad[2 * place] + pad[2 * place + 1]
    if min(sides) < 0:
        raise Unmodelled("do_not_fit")
    return _simple(spec, x.bytes, [Tensor(tuple(sides), x.type)], 0)


def _resized(call: Call, spec: Spec) -> Work:
    x, size = call.tensor("x"), call.numbers("size")
    factors = re.findall(r"\d+\.?\d*", call.text("scale") or "")
    if not size and len(factors) + 2 == len(x.shape):
        size = tuple(int(side * float(factor)) for side, factor in zip(x.shape[2:], factors, strict=True))
    if not size:
        raise Unmodelled("no_values")
    if len(size) + 2 != len(x.shape) or min(size) < 0:
        raise Unmodelled("do_not_fit")
    out = Tensor((*x.shape[:2], *size), x.type)
    return _simple(spec, x.bytes, [out], out.values)


def _pooled(call: Call, spec: Spec) -> Work:
    x, kernel = call.tensor("x"), call.numbers("kernel")
    if not kernel:
        raise Unmodelled("no_values")
    spatial = {"1d": 1, "2d": 2, "3d": 3}[re.findall(r"[123]d", call.name)[0]]
    if len(x.shape) < spatial + 1:
        raise Unmodelled("do_not_fit")
    sizes, padding = call.sides("kernel", spatial), call.sides("padding", spatial)
    stride = call.sides("stride", spatial) if call.numbers("stride") else sizes
    far, up = call.sides("dilation", spatial, 1), call.flag("ceil")
    sides = []
    for side, size, step, pad, apart in zip(x.shape[-spatial:], sizes, stride, padding, far, strict=True):
        if step < 1:
            raise Unmodelled("do_not_fit")
        free = side + 2 * pad - apart * (size - 1) - 1
        sides.append((-(-free // step) if up else free // step) + 1)
    if min(sides) < 0:
        raise Unmodelled("do_not_fit")
    out = Tensor((*x.shape[:-spatial], *sides), x.type)
    also = [Tensor(out.shape, spec.options["also"])] if "also" in spec.options and "indices" in call.name else []
    moved = x.bytes + sum(one.bytes for one in (out, *also))
    return Work(spec.family, 0, out.values * prod(sizes), moved)


def _adaptive(call: Call, spec: Spec) -> Work:
    x, size = call.tensor("x"), call.numbers("size")
    if not size:
        raise Unmodelled("no_values")
    if len(size) >= len(x.shape):
        raise Unmodelled("do_not_fit")
    out = Tensor((*x.shape[: -len(size)], *size), x.type)
    return Work(spec.family, 0, x.values, x.bytes + out.bytes)


MODELS: dict[str, Model] = {
    "spread": _spread, "like": _like, "recorded": _recorded, "once": _once, "norm": _norm,
    "added_norm": _added_norm, "rotary": _rotary, "rows": _rows, "gather": _gather,
    "embedding_backward": _embedding_backward, "updated": _updated, "lists": _lists, "gated": _gated,
    "packed": _packed, "unpacked": _unpacked, "looked_at": _looked_at,
    "reduced": _reduced, "copied": _copied, "filled": _filled, "joined": _joined, "taken": _taken,
    "padded": _padded, "resized": _resized, "pooled": _pooled, "adaptive": _adaptive,
}  # fmt: skip
