"""The kinds of work of a run, as columns: with shapes that hardly repeat there are as many of them as kernels.

What is said of a kind mostly follows from a few of its texts, and those repeat. So it is asked once for each
combination of them (`Kinds.each`). What follows from shapes is read for all kinds together (analysis/device/shapes.py).
A single kind is made when somebody asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.shapes import Lists, Tensors, joined, like_largest, lists, products_of, tensors_of
from npulens.analysis.device.tensors import PRODUCTS, TURNED, product, tensors
from npulens.analysis.intervals import Ints, combined

T = TypeVar("T")
S = TypeVar("S")
Bools = NDArray[np.bool_]

#: Operators that leave one number per row. Over which dimensions is not recorded: the last is what norms do.
REDUCTIONS = ("mean", "sum", "amax", "amin", "var", "norm", "linalg_vector_norm")
#: So much of a kernel's name is said.
LONGEST = 60
#: What `Kind.type` follows from.
TYPED = ("name", "op_type", "op")


def unmangled(name: str) -> str:
    """The function of a name that a C++ compiler wrote: `_ZN2ck6device3runEv` is run. Others as they are."""
    rest = name.removeprefix("_Z").removeprefix("N") if name.startswith("_Z") else ""
    found = name
    while size := re.match(r"\d{1,4}", rest):
        begin = len(size[0])
        found, rest = rest[begin : begin + int(size[0])], rest[begin + int(size[0]) :]
    return found or name


def shortened(name: str) -> str:
    """A kernel's name without its arguments, as much of it as a sentence can hold."""
    plain = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    bare = unmangled(plain.split("(")[0].split("<")[0])
    # Of a function in namespaces the end says most, of the names that generators of kernels make the begin.
    return bare[-LONGEST:] if "::" in bare else bare[:LONGEST]


@dataclass(frozen=True)
class Kind:
    """One kind of work."""

    name: str
    op_type: str | None
    core: str | None
    op: str | None  # the operator that launched it, where the kernel has no type of its own
    input_shapes: str | None
    input_dtypes: str | None
    input_formats: str | None
    output_shapes: str | None
    output_dtypes: str | None
    output_formats: str | None
    block_num: int | None
    mix_block_num: int | None
    grid: str | None
    block: str | None
    memset: bool

    @cached_property
    def type(self) -> str:
        """What people call it: its type, else the operator that launched it, else its name."""
        return self.op_type or (self.op or "").removeprefix("aten::") or shortened(self.name)

    @cached_property
    def on_aicpu(self) -> bool:
        """Whether it runs on the AI CPU, a processor beside the AI cores."""
        return (self.core or "").upper().replace("_", "") in ("AICPU", "KERNELAICPU")

    @cached_property
    def inputs(self) -> tuple[tuple[str, int], ...] | None:
        """Its inputs as (shape, bytes); None where shapes or types are not known."""
        return tensors(self.input_shapes, self.input_dtypes)

    @cached_property
    def outputs(self) -> tuple[tuple[str, int], ...] | None:
        """Its outputs. Where they are not recorded (CUDA, ROCm) what a product makes of its inputs.

        Of others one like the largest input, reduced if it reduces.
        """
        if self.output_shapes is not None or not self.inputs:
            return tensors(self.output_shapes, self.output_dtypes)
        if (made := product(self.type, self.inputs)) is not None:
            return (made,)
        shape, size = max(self.inputs, key=lambda tensor: tensor[1])
        if self.type in REDUCTIONS and "," in shape:
            rest, last = shape.rsplit(",", 1)
            return ((f"{rest},1", size // max(1, int(last))),)
        return ((shape, size),)

    @cached_property
    def bytes(self) -> int | None:
        """What it reads and writes at least."""
        if not self.inputs or self.outputs is None:
            return None
        return sum(size for _, size in (*self.inputs, *self.outputs))


#: The columns of a kind, in their order.
COLUMNS = tuple(Kind.__dataclass_fields__)


@dataclass(frozen=True)
class Coded(Generic[T]):
    """A value per kind: its place among the values that there are."""

    code: Ints
    values: Sequence[T]

    def __getitem__(self, at: int) -> T:
        return self.values[int(self.code[at])]

    def map(self, says: Callable[[T], S]) -> Coded[S]:
        """Another value for each, asked once for each that there is."""
        return Coded(self.code, [says(value) for value in self.values])

    def every(self) -> list[T]:
        """Kind by kind."""
        values = self.values
        return [values[at] for at in self.code.tolist()]

    def ints(self) -> Ints:
        return np.array(self.values, np.int64)[self.code]

    def equal(self, value: T) -> Bools:
        """Which of them are this one."""
        return self.map(lambda one: one == value).flags()

    def flags(self) -> Bools:
        return np.array(self.values, np.bool_)[self.code]


class Kinds:
    """Every kind of a run; its place is its number."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = columns
        self._made: dict[int, Kind] = {}
        self._coded: dict[tuple[str, ...], Coded[Any]] = {}

    def __len__(self) -> int:
        return len(self._columns["name"])

    def __getitem__(self, at: int | np.integer[Any]) -> Kind:
        place = int(at)
        if place not in self._made:
            self._made[place] = Kind(*(self._columns[name][place] for name in COLUMNS))
        return self._made[place]

    def __iter__(self) -> Iterator[Kind]:
        return (self[at] for at in range(len(self)))

    def column(self, name: str) -> Coded[Any]:
        """One column, each text once."""
        key = (name,)
        if key not in self._coded:
            values = self._columns[name]
            known = {value: place for place, value in enumerate(dict.fromkeys(values))}
            code = np.fromiter(map(known.__getitem__, values), np.int64, len(values))
            self._coded[key] = Coded(code, list(known))
        return self._coded[key]

    def each(self, says: Callable[[Kind], T], *columns: str) -> Coded[T]:
        """What is said of every kind, where these columns alone decide it."""
        alike = self._alike(columns)
        return Coded(alike.code, [says(self[first]) for first in alike.values])

    def there(self, column: str) -> Bools:
        """Of which kinds a column is known."""
        known = self.column(column)
        there: Bools = known.code != (known.values.index(None) if None in known.values else len(known.values))
        return there

    def _alike(self, columns: tuple[str, ...]) -> Coded[int]:
        """Kinds that are the same in some columns; the value is the first of them."""
        key = ("first", *columns)
        if key not in self._coded:
            code = combined(*(self.column(name).code for name in columns))
            _, first, where = np.unique(code, return_index=True, return_inverse=True)
            self._coded[key] = Coded(where.ravel().astype(np.int64), first.tolist())
        return self._coded[key]

    @cached_property
    def types(self) -> Coded[str]:
        """What people call each."""
        return self.each(lambda kind: kind.type, *TYPED)

    @cached_property
    def memset(self) -> Bools:
        """Which only clear memory."""
        return self.column("memset").flags()

    @cached_property
    def inputs(self) -> Tensors:
        """Their inputs."""
        shapes, dtypes = self.column("input_shapes"), self.column("input_dtypes")
        return tensors_of(shapes.code, shapes.values, dtypes.code, dtypes.values, self.shapes)

    @cached_property
    def shapes(self) -> Lists:
        """The texts of input shapes that there are, read."""
        return lists(self.column("input_shapes").values)

    @cached_property
    def outputs(self) -> Tensors:
        """Their outputs, as `Kind.outputs` says them."""
        shapes, dtypes, given = self.column("output_shapes"), self.column("output_dtypes"), self.inputs
        told = tensors_of(shapes.code, shapes.values, dtypes.code, dtypes.values, lists(shapes.values))
        reduce = self.types.map(lambda name: name in REDUCTIONS).flags()
        left = self.types.map(lambda name: PRODUCTS.get(name, -1)).ints()
        silent = ~self.there("output_shapes") & (given.count > 0)
        made = products_of(given, left, self.types.equal(TURNED))
        return joined(joined(told, like_largest(given, reduce), silent), made, silent & made.known)

    @cached_property
    def bytes(self) -> Ints:
        """What each reads and writes at least; -1: not known."""
        given, made = self.inputs, self.outputs
        return np.where((given.count > 0) & made.known, given.total() + made.total(), -1)
