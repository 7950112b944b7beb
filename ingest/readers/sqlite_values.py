"""Values of an SQLite column on their way to Arrow. A column may hold anything, whatever its declared type.

Each function takes the values of one column and gives an array and how many of them had to become NULL.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc

#: What a column can be wanted as: whole number, number, text.
ARROW = {"i": pa.int64(), "f": pa.float64(), "s": pa.string()}


def _integers(values: list[object]) -> tuple[pa.Array, int]:
    try:  # the common case by the shortest way: array takes whole numbers of 64 bits and nothing else
        packed = array("q", values)  # type: ignore[type-var]
        return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(packed)]), 0
    except (TypeError, OverflowError):
        pass
    try:
        found = pa.array(values)  # of the type that all values share; asking for int64 would cut 1.5 down to 1
        if found.type in (pa.int64(), pa.null(), pa.string()):
            return found.cast(pa.int64()), 0
    except (pa.ArrowException, OverflowError):
        pass
    whole = [_integer(value) for value in values]
    return pa.array(whole, pa.int64()), _lost(values, whole)


def _numbers(values: list[object]) -> tuple[pa.Array, int]:
    try:
        found = pa.array(values)
        if found.type in (pa.int64(), pa.float64(), pa.null()):
            found = found.cast(pa.float64(), safe=False)
            if pc.all(pc.is_finite(found), min_count=0).as_py():
                return found, 0
    except (pa.ArrowException, OverflowError):
        pass
    numbers = [_number(value) for value in values]
    return pa.array(numbers, pa.float64()), _lost(values, numbers)


def _texts(values: list[object]) -> tuple[pa.Array, int]:
    try:
        return pa.array(values, pa.binary()).cast(pa.string()), 0
    except pa.ArrowException:
        texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else None for value in values]
    return pa.array(texts, pa.string()), 0


CONVERT: Mapping[str, Callable[[list[object]], tuple[pa.Array, int]]] = {"i": _integers, "f": _numbers, "s": _texts}


def _integer(value: object) -> int | None:
    """A whole number of 64 bits, also where it was stored as text (the profiler does that to its stamps)."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, float):
        return int(value) if isfinite(value) and value == int(value) and abs(value) < 2**53 else None
    if isinstance(value, str):
        text = value.strip()
        if len(text) > 20 or not text.removeprefix("-").isdecimal():
            return None
        value = int(text)
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _number(value: object) -> float | None:
    """A finite number."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _lost(before: Sequence[object], after: Sequence[object]) -> int:
    return sum(old is not None and new is None for old, new in zip(before, after, strict=True))
