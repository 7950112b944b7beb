"""What an operator was called with: tensors and values by the names of its arguments.

Profilers print arguments in two ways. torch_npu and msprof separate tensors by semicolons, `32,3,224,224;64`. Kineto
writes JSON, `[[32, 3], []]`, a list of tensors as a list of lists, and beside it the values of plain arguments as text.
What cannot be read is refused with a reason, never guessed.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from npulens.analysis.device.tensors import NO_TENSOR, SIZES, dtype, listed

#: Why something is not modelled; what people read about each is in the words of `npulens roofline`.
REASONS = (
    "no_shapes", "odd_shapes", "no_types", "no_values", "not_known", "no_operator", "do_not_fit", "lengths", "mask",
    "data", "links", "part",
)  # fmt: skip

#: A type as profilers print it -> as the tables of peaks call it. What is not here keeps its name in small letters.
_SHORT = {
    "DOUBLE": "fp64", "FLOAT64": "fp64", "FLOAT": "fp32", "FLOAT32": "fp32", "HALF": "fp16", "FLOAT16": "fp16",
    "BF16": "bf16", "BFLOAT16": "bf16", "INT8": "int8", "UINT8": "int8", "CHAR": "int8", "SIGNED CHAR": "int8",
    "UNSIGNED CHAR": "int8", "BYTE": "int8", "INT4": "int4", "HIFLOAT8": "fp8",
}  # fmt: skip
_BITS = {
    "INT4": 4, "UINT4": 4, "SIGNED CHAR": 8, "SHORT INT": 16, "COMPLEX<HALF>": 32, "COMPLEX<FLOAT>": 64,
    "COMPLEX<DOUBLE>": 128,
}  # fmt: skip
_ELEMENTS = re.compile(r"OpaqueType<(\d+)")
_TEMPLATE = re.compile(r"(?:BatchedCopy|TensorListMetadata)\w*<([\w: ]+?)[,>]")
#: What Ascend's files write where nothing was recorded.
_NOTHING = ("NULL", "N/A")
#: Numbers by which torch writes a type among the values of an operator.
SCALAR_TYPES = {"5": "HALF", "6": "FLOAT", "7": "DOUBLE", "15": "BFLOAT16", "23": "FLOAT8_E5M2", "24": "FLOAT8_E4M3FN"}
#: No tensor has more values than this: a larger product is a damaged shape.
_MOST = 2**63


class Unmodelled(Exception):
    """What is not known of an operator, by its name in REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Tensor:
    """Sides, type and, on Ascend, the format in which it lies in memory."""

    shape: tuple[int, ...]
    type: str  # as dtype() leaves it: BFLOAT16
    format: str = ""

    @cached_property
    def values(self) -> int:
        return prod(self.shape)

    @cached_property
    def bits(self) -> int:
        """Of one value."""
        if self.type in _BITS:
            return _BITS[self.type]
        if self.type.startswith("FLOAT8_"):
            return 8
        if self.type not in SIZES:
            raise Unmodelled("no_types")
        return 8 * SIZES[self.type]

    @cached_property
    def bytes(self) -> int:
        return (self.values * self.bits + 7) // 8

    @property
    def short(self) -> str:
        """Its type as the tables of peaks call it."""
        return _SHORT.get(self.type, "fp8" if self.type.startswith("FLOAT8_") else self.type.lower())

    @property
    def logical(self) -> tuple[int, ...]:
        """Its sides as the operator sees them. Blocks of a private format are put together, padding included."""
        sides = self.shape
        if "FRACTAL_NZ" in self.format and len(sides) >= 4:
            return (*sides[:-4], sides[-3] * sides[-2], sides[-4] * sides[-1])
        if self.format.startswith("NC1HWC0") and len(sides) == 5:
            return (sides[0], sides[1] * sides[4], *sides[2:4])
        if self.format.startswith("NDC1HWC0") and len(sides) == 6:
            return (sides[0], sides[2] * sides[5], sides[1], *sides[3:5])
        if self.format == "NHWC" and len(sides) == 4:
            return (sides[0], sides[3], *sides[1:3])
        return sides


Argument = Tensor | tuple[Tensor, ...] | None


@dataclass(frozen=True)
class Call:
    """One call of an operator."""

    name: str
    inputs: tuple[Argument, ...]
    values: tuple[str, ...] = ()  # plain arguments by place, as Kineto writes them; empty where none were recorded
    outputs: tuple[Argument, ...] | None = None  # Kineto records none
    names: tuple[str, ...] = ()  # of the arguments, by place

    def _place(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    def maybe(self, name: str) -> Tensor | None:
        """The tensor of that name; None where it was left out."""
        place = self._place(name)
        found = self.inputs[place] if place is not None and place < len(self.inputs) else None
        return found if isinstance(found, Tensor) else None

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name, which the operator cannot do without."""
        found = self.maybe(name)
        if found is None:
            raise Unmodelled("do_not_fit")
        return found

    def text(self, name: str) -> str | None:
        """The value of that name as it is written; None where it was not recorded or left out."""
        place = self._place(name)
        found = self.values[place] if place is not None and place < len(self.values) else ""
        return found.strip() or None

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A value that is one whole number or a list of them."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
        many = found if isinstance(found, list | tuple) else [found]
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in many):
            return None
        return tuple(many)

    def sides(self, name: str, dimensions: int, otherwise: int | None = None) -> tuple[int, ...]:
        """A value that every spatial dimension has: `[2]` and `2` stand for all. `otherwise`: it has no such name."""
        if otherwise is not None and name not in self.names:
            return (otherwise,) * dimensions
        found = self.numbers(name)
        if not found:
            raise Unmodelled("no_values")
        if len(found) == 1:
            return found * dimensions
        if len(found) != dimensions:
            raise Unmodelled("do_not_fit")
        return found

    def flag(self, name: str) -> bool:
        """Whether a value is true; not where it was not recorded."""
        return self.text(name) in ("True", "true", "1")

    @property
    def read(self) -> tuple[Tensor, ...]:
        """Every tensor it was given, those of lists one by one."""
        return flat(self.inputs)

    @property
    def written(self) -> tuple[Tensor, ...] | None:
        """Every tensor it gave back; None where that was not recorded."""
        return None if self.outputs is None else flat(self.outputs)


def flat(arguments: Sequence[Argument]) -> tuple[Tensor, ...]:
    """The tensors among arguments."""
    found: list[Tensor] = []
    for one in arguments:
        if isinstance(one, Tensor):
            found.append(one)
        elif one is not None:
            found.extend(one)
    return tuple(found)


def arguments(shapes: str | None, dtypes: str | None, formats: str | None = None, kernel: str = "") -> tuple[
    Argument, ...
]:  # fmt: skip
    """Arguments as a profiler printed them. The kernel's name may tell the type of a list, which Kineto does not."""
    if shapes is None or shapes.strip('"') in _NOTHING:
        raise Unmodelled("no_shapes")
    if dtypes is None or dtypes.strip('"[] ') in ("", *_NOTHING):
        raise Unmodelled("no_types")
    if shapes.lstrip().startswith("["):
        return _of_json(shapes, dtypes, kernel)
    return _of_text(shapes.strip('"'), dtypes.strip('"'), (formats or "").strip('"'))


def values(concrete: str | None) -> tuple[str, ...]:
    """Kineto's `Concrete Inputs`; nothing where it is no list of texts."""
    try:
        found = json.loads(concrete or "[]")
    except ValueError:
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _of_text(shapes: str, dtypes: str, formats: str) -> tuple[Argument, ...]:
    sides, types = shapes.split(";"), dtypes.split(";")
    forms = formats.split(";")
    if len(sides) != len(types):
        raise Unmodelled("odd_shapes")
    forms += [""] * (len(sides) - len(forms))
    found: list[Argument] = []
    for one, kind, form in zip(sides, types, forms, strict=False):
        name = re.sub("^NUMBER_TYPE_", "", dtype(kind))
        if not one.strip():
            found.append(None)  # left out, or a single value: neither moves anything
            continue
        try:
            shape = tuple(int(side) for side in one.split(",") if side.strip())
        except ValueError:
            raise Unmodelled("odd_shapes") from None
        found.append(_tensor(shape, name, form.strip().removeprefix("FORMAT_")))
    return tuple(found)


def _of_json(shapes: str, dtypes: str, kernel: str) -> tuple[Argument, ...]:
    try:
        sides, types = json.loads(shapes), listed(dtypes)
    except (ValueError, RecursionError):
        raise Unmodelled("odd_shapes") from None
    if not isinstance(sides, list) or not isinstance(types, tuple) or len(sides) != len(types):
        raise Unmodelled("odd_shapes")
    found: list[Argument] = []
    for one, kind in zip(sides, types, strict=True):
        if not isinstance(one, list) or not isinstance(kind, str):
            raise Unmodelled("odd_shapes")
        name = dtype(kind)
        if name == "TENSORLIST" or (one and isinstance(one[0], list)):
            inner = _of_kernel(kernel) if name == "TENSORLIST" else name
            found.append(tuple(_tensor(_whole(each), inner, "") for each in one if isinstance(each, list)))
        elif name in NO_TENSOR:
            found.append(None)
        else:
            found.append(_tensor(_whole(one), name, ""))
    return tuple(found)


def _whole(sides: object) -> tuple[int, ...]:
    if not isinstance(sides, list) or not {int}.issuperset(map(type, sides)):  # a bool is none
        raise Unmodelled("odd_shapes")
    return tuple(sides)


@lru_cache(maxsize=65536)
def _tensor(shape: tuple[int, ...], kind: str, form: str) -> Tensor:
    if min(shape, default=0) < 0 or prod(shape) >= _MOST:
        raise Unmodelled("odd_shapes")
    return Tensor(shape, kind, form)


def _of_kernel(name: str) -> str:
    """The type of a list's tensors, as far as the kernel's name says it: a type there, or how long a value is."""
    size = _ELEMENTS.search(name)
    if size:
        return {"1": "BYTE", "2": "SHORT", "4": "INT", "8": "LONG", "16": "COMPLEX128"}.get(size[1], "")
    first = _TEMPLATE.search(name)
    if first and dtype(first[1]) in SIZES:
        return dtype(first[1])
    for mark, kind in (("BFloat16", "BFLOAT16"), ("c10::Half", "HALF"), ("double", "DOUBLE"), ("float", "FLOAT")):
        if mark in name:
            return kind
    return ""
