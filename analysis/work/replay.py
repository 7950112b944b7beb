"""A recorded call as arguments that a script can hand to torch again, or why that cannot be.

CUDA, ROCm and CPU captures hold torch's own operators: names, shapes, types, strides and plain values go over as they
are. An Ascend capture holds kernels. Those whose type, shapes and formats say the operator are mapped by
`replays.toml`; the others are refused.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from math import prod
from pathlib import Path
from typing import Any

from npulens.analysis.device.kinds import Kind
from npulens.analysis.work.call import Argument, Tensor, Unmodelled, arguments, values

MAPPED_FILE = Path(__file__).with_name("replays.toml")
#: Why a call cannot be made again; what people read is in the words of `npulens replay`.
REFUSALS = (
    "no_operator", "no_shapes", "odd_shapes", "no_types", "list", "generated", "collective", "odd_name", "attributes",
    "format", "data", "not_mapped", "do_not_fit", "private_format", "memset",
)  # fmt: skip
#: A type as call.py leaves it -> as torch calls it.
TYPES = {
    "FLOAT": "float32", "FLOAT32": "float32", "DOUBLE": "float64", "FLOAT64": "float64", "HALF": "float16",
    "FLOAT16": "float16", "BF16": "bfloat16", "BFLOAT16": "bfloat16", "LONG INT": "int64", "LONG": "int64",
    "INT64": "int64", "INT": "int32", "INT32": "int32", "SHORT": "int16", "SHORT INT": "int16", "INT16": "int16",
    "SIGNED CHAR": "int8", "CHAR": "int8", "INT8": "int8", "UNSIGNED CHAR": "uint8", "BYTE": "uint8", "UINT8": "uint8",
    "BOOL": "bool", "UINT16": "uint16", "UNSIGNED SHORT": "uint16", "UINT32": "uint32", "UNSIGNED INT": "uint32",
    "UINT64": "uint64", "UNSIGNED LONG": "uint64", "COMPLEX<FLOAT>": "complex64", "COMPLEX<DOUBLE>": "complex128",
    "COMPLEX64": "complex64", "COMPLEX128": "complex128", "COMPLEX<HALF>": "complex32",
    "COMPLEX<C10::HALF>": "complex32",
    "FLOAT8_E4M3FN": "float8_e4m3fn", "FLOAT8_E5M2": "float8_e5m2", "FLOAT8_E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
#: Numbers by which torch knows types among plain values.
_NUMBERS = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7, "bool": 11,
    "bfloat16": 15,
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
_GENERATED = re.compile(r"^triton_|CompiledFxGraph|^Torch-Compiled|^inductor::|_fused_\w+_\d+$")
_COLLECTIVE = re.compile(r"^(nccl|gloo|hccl|c10d|_c10d_functional|symm_mem|mpi|ucc):|^record_param_comms$|^Hccl")
_TORCHS = ("aten", "prims", "quantized", "mkldnn", "mkl")
_MODE = re.compile(r"[a-z_]{1,24}", re.ASCII)
_PLAIN = ("", "ND", "NCHW", "NCL", "NCDHW", "NHWC", "NDHWC", "HWCN")
_LONGEST = 10_000  # characters of a plain value, which is a number, a word or a short list of numbers
_SIDES = 8  # more sides than this and their orders are not tried


class Refused(Exception):
    """Why a call cannot be made again, by its name in REFUSALS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Recorded:
    """A call of an operator of torch. `inputs` are tuples of plain data, as a script holds them:

    ("tensor", type, shape, strides), ("tensors", ((type, shape, strides), ...)), ("value", v), ("nothing",).
    """

    operator: str
    inputs: tuple[tuple[Any, ...], ...]
    mapped: bool  # made of an Ascend kernel
    notes: tuple[str, ...] = ()  # what was not recorded and is supposed, by name


Strides = Sequence[Any] | None


def recorded(kind: Kind, given: str | None, strides: str | None) -> Recorded:
    """The call again; `given` and `strides` as Kineto writes them. Raises Refused."""
    if kind.memset:
        raise Refused("memset")
    name = kind.op_type or kind.op or kind.name
    if _COLLECTIVE.search(name):
        raise Refused("collective")
    if _GENERATED.search(name):
        raise Refused("generated")
    if kind.op_type is not None:
        return _of_kernel(kind)
    if kind.op is None:
        raise Refused("generated" if _GENERATED.search(kind.name) else "no_operator")
    if not _NAME.fullmatch(name):
        raise Refused("odd_name")
    return _of_host(kind, name, given, _list(strides))


# ---- Operators of torch


def _of_host(kind: Kind, name: str, given: str | None, strides: Strides) -> Recorded:
    try:
        tensors = arguments(kind.input_shapes, kind.input_dtypes, None, kind.name)
    except Unmodelled as refused:
        raise Refused(refused.reason if refused.reason in REFUSALS else "odd_shapes") from refused
    plain = values(given)
    notes = [] if plain else ["no_values"]
    notes += [] if name.partition("::")[0] in _TORCHS else ["library"]
    if strides is None or len(strides) != len(tensors):
        strides = [None] * len(tensors)
        notes.append("no_strides")
    common = next((TYPES.get(one.type) for one in _flat(tensors) if "FLOAT" in one.type or "HALF" in one.type), None)
    found: list[tuple[Any, ...]] = []
    for at, one in enumerate(tensors):
        text = plain[at].strip() if at < len(plain) else ""
        if isinstance(one, Tensor):
            found.append(("tensor", *_tensor(one, strides[at])))
        elif one == ():
            raise Refused("list")
        elif one is not None:
            guessed = [each for each in one if not each.type]
            notes += ["list_types"] if guessed and "list_types" not in notes else []
            found.append(("tensors", tuple(_listed(each, at_, strides[at], common) for at_, each in enumerate(one))))
        else:
            found.append(("value", _literal(text)) if text else ("nothing",))
    return Recorded(name, tuple(found), False, tuple(notes))


def _listed(one: Tensor, at: int, strides: Any, common: str | None) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    own = strides[at] if isinstance(strides, list) and at < len(strides) else None
    return _tensor(one if one.type else Tensor(one.shape, (common or "float32").upper()), own)


def _flat(tensors: Sequence[Argument]) -> list[Tensor]:
    return [one for one in tensors if isinstance(one, Tensor)]


def _tensor(one: Tensor, strides: Any) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    kind = TYPES.get(one.type) or (one.type.lower() if one.type.lower() in TYPES.values() else None)
    if kind is None:
        raise Refused("no_types")
    return kind, one.shape, _strides(strides, one.shape)


def _strides(told: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Those that were recorded, where they can be; else those of a tensor that lies in one piece."""
    whole = isinstance(told, list) and len(told) == len(shape) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 2**63 for one in told
    )  # fmt: skip
    return tuple(told) if whole else contiguous(shape)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(max(1, side) for side in shape[at + 1 :]) for at in range(len(shape)))


def _literal(text: str) -> Any:
    """A plain value of Kineto: a number, a truth, a list of them, or a mode in one word."""
    if text in ("inf", "-inf", "nan"):
        return text
    if len(text) > _LONGEST:
        raise Refused("odd_shapes")
    try:
        found = ast.literal_eval(re.sub(r"\binf\b", "1e999", text))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        word = text.strip("\"'")
        if _MODE.fullmatch(word):
            return word
        raise Refused("odd_shapes") from None
    numbers = found if isinstance(found, list | tuple) else (found,)
    if isinstance(found, str) and _MODE.fullmatch(found):
        return found
    if not all(isinstance(one, bool | int | float) for one in numbers):
        raise Refused("odd_shapes")
    return tuple(found) if isinstance(found, list | tuple) else found


def _list(text: str | None) -> Strides:
    try:
        found = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None


# ---- Kernels of Ascend


@cache
def mapped() -> tuple[Mapping[str, tuple[str, str]], Mapping[str, str]]:
    """Type -> (form, operator of torch), and type -> why it is refused."""
    told = tomllib.loads(MAPPED_FILE.read_text("utf-8"))
    known = {}
    for op in told["op"]:
        for pair in op["names"]:
            kernel, _, short = pair.partition("=")
            known[kernel] = (op["as"], op["torch"] + short)
    return known, {name: reason for reason, names in told["refused"].items() for name in names}


Form = Callable[[tuple[Argument, ...], tuple[Tensor, ...]], list[tuple[Any, ...]]]


def _of_kernel(kind: Kind) -> Recorded:
    known, refused = mapped()
    name = kind.op_type or ""
    if name in refused:
        raise Refused(refused[name])
    if name not in known:
        raise Refused("not_mapped")
    form, operator = known[name]
    try:
        inputs = arguments(kind.input_shapes, kind.input_dtypes, kind.input_formats)
        outputs = arguments(kind.output_shapes, kind.output_dtypes, kind.output_formats)
    except Unmodelled as wrong:
        raise Refused(wrong.reason if wrong.reason in REFUSALS else "odd_shapes") from wrong
    written = tuple(one for one in outputs if isinstance(one, Tensor))
    if any(one.format.partition(":")[0] not in _PLAIN for one in (*_flat(inputs), *written)):
        raise Refused("private_format")
    found = _FORMS[form](inputs, written)
    if form == "matmul" and len(found) == 3:
        if operator != "aten::mm":
            raise Refused("do_not_fit")
        operator, found = "aten::addmm", [found[2], *found[:2]]
    return Recorded(operator, tuple(found), True, ("no_strides",))


def _is(one: Argument) -> tuple[Any, ...]:
    if not isinstance(one, Tensor):
        raise Refused("do_not_fit")
    return ("tensor", *_tensor(one, None))


def _same(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    """A number that has no sides goes over as a tensor without sides, of the type of the first."""
    tensors = _flat(inputs)
    if not tensors:
        raise Refused("do_not_fit")
    return [_is(one if one is not None else Tensor((), tensors[0].type)) for one in inputs]


def _cast(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    number = _NUMBERS.get(TYPES.get(written[0].type, "")) if written else None
    if number is None or not inputs:
        raise Refused("do_not_fit")
    return [_is(inputs[0]), ("value", number)]


def _relu_grad(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    if len(inputs) != 2:
        raise Refused("do_not_fit")
    return [_is(inputs[0]), _is(inputs[1]), ("value", 0)]


def _matmul(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    """Which input lies transposed is not recorded: the sides of the result say it, square ones count as they lie."""
    tensors = _flat(inputs)
    if len(tensors) not in (2, 3) or not written or min(len(one.shape) for one in (*tensors[:2], *written)) < 2:
        raise Refused("do_not_fit")
    a, b, out = tensors[0], tensors[1], written[0].shape
    for left in (False, True):
        for right in (False, True):
            m, k = _turned(a.shape, left)[-2:]
            k_, n = _turned(b.shape, right)[-2:]
            if (m, n) == out[-2:] and k == k_:
                return [_laid(a, left), _laid(b, right), *(_is(one) for one in tensors[2:])]
    raise Refused("do_not_fit")


def _turned(shape: tuple[int, ...], turned: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if turned else shape


def _laid(one: Tensor, turned: bool) -> tuple[Any, ...]:
    """A matrix that lies transposed in memory is a view of it."""
    kind, shape, strides = _tensor(one, None)
    return ("tensor", kind, _turned(shape, turned), _turned(strides, turned))


def _layer_norm(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    tensors = _flat(inputs)
    if len(tensors) != 3 or tensors[0].shape[-len(tensors[1].shape) :] != tensors[1].shape:
        raise Refused("do_not_fit")
    return [_is(tensors[0]), ("value", tensors[1].shape), _is(tensors[1]), _is(tensors[2]), ("value", 1e-5)]


def _rms_norm(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    tensors = _flat(inputs)
    if len(tensors) != 2 or tensors[0].shape[-len(tensors[1].shape) :] != tensors[1].shape:
        raise Refused("do_not_fit")
    return [_is(tensors[0]), _is(tensors[1]), ("value", 1e-6)]


def _embedding(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    """Rows of a table: the result has the sides of the places, then those of a row."""
    tensors = _flat(inputs)
    if len(tensors) < 2 or not written or written[0].shape != (*tensors[1].shape, *tensors[0].shape[1:]):
        raise Refused("data")
    return [_is(tensors[0]), _is(tensors[1])]


def _concat(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    tensors = _flat(inputs)
    if not tensors or not written:
        raise Refused("do_not_fit")
    out = written[0].shape
    fits = [
        at for at in range(len(out))
        if all(len(one.shape) == len(out) and one.shape[:at] == out[:at] and one.shape[at + 1 :] == out[at + 1 :]
               for one in tensors) and sum(one.shape[at] for one in tensors) == out[at]
    ]  # fmt: skip
    if len(fits) != 1:
        raise Refused("do_not_fit")
    return [("tensors", tuple(_tensor(one, None) for one in tensors)), ("value", fits[0])]


def _transpose(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    """A copy into one piece of a tensor that lies in another order; sure where only one order gives the result."""
    if not inputs or not isinstance(inputs[0], Tensor) or not written or len(inputs[0].shape) > _SIDES:
        raise Refused("do_not_fit")
    kind, shape, strides = _tensor(inputs[0], None)
    out = written[0].shape
    orders = [order for order in permutations(range(len(shape))) if tuple(shape[at] for at in order) == out]
    if len(orders) != 1:
        raise Refused("attributes")
    return [("tensor", kind, out, tuple(strides[at] for at in orders[0])), ("value", 0)]


def _reduce(inputs: tuple[Argument, ...], written: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    """Over the sides that the result lacks, where these can be only one choice."""
    if not inputs or not isinstance(inputs[0], Tensor) or not written or len(inputs[0].shape) > _SIDES:
        raise Refused("do_not_fit")
    shape, out = inputs[0].shape, written[0].shape
    ways = []
    for count in range(1, len(shape) + 1):
        for gone in combinations(range(len(shape)), count):
            left = tuple(side for at, side in enumerate(shape) if at not in gone)
            kept = tuple(1 if at in gone else side for at, side in enumerate(shape))
            ways += [(gone, False)] if left == out else [(gone, True)] if kept == out else []
    if len(ways) != 1:
        raise Refused("attributes")
    return [_is(inputs[0]), ("value", ways[0][0]), ("value", ways[0][1])]


_FORMS: Mapping[str, Form] = {
    "same": _same, "cast": _cast, "relu_grad": _relu_grad, "matmul": _matmul, "layer_norm": _layer_norm,
    "rms_norm": _rms_norm, "embedding": _embedding, "concat": _concat, "transpose": _transpose, "reduce": _reduce,
}  # fmt: skip
