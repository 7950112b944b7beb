"""The work of many calls of one name at once: calls with the same types, whose tensors have as many sides.

A model (analysis/work/models.py) asks and answers with whole numbers. Here each of them stands for one number a call.
Where calls part, because a comparison holds for some of them only, each part is asked again by itself. So every call
gets the answer that it gets alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.work.call import Call, Tensor
from npulens.analysis.work.families import Work
from npulens.analysis.work.models import work

#: Fewer calls are asked one by one.
FEW = 4
_MOST = 2**62


class _Parted(Exception):
    """A comparison holds for some of the calls only."""

    def __init__(self, holds: NDArray[np.bool_]) -> None:
        super().__init__()
        self.holds = holds


class _TooLarge(Exception):
    """A number of one of the calls may not fit into 64 bits."""


def _decided(holds: NDArray[np.bool_]) -> bool:
    if holds.all():
        return True
    if holds.any():
        raise _Parted(holds)
    return False


class Numbers:
    """A whole number, never negative at first, of each call; `most` is at least what any of them amounts to."""

    def __init__(self, of: Ints, most: int | None = None) -> None:
        self.of = of
        self.most = int(np.abs(of).max(initial=0)) if most is None else most
        if self.most >= _MOST:
            raise _TooLarge

    def _with(self, other: object) -> tuple[Any, int]:
        if isinstance(other, Numbers):
            return other.of, other.most
        if isinstance(other, int):
            return other, abs(other)
        raise TypeError

    def __add__(self, other: object) -> Numbers:
        of, most = self._with(other)
        return Numbers(self.of + of, self.most + most)

    def __sub__(self, other: object) -> Numbers:
        of, most = self._with(other)
        return Numbers(self.of - of, self.most + most)

    def __rsub__(self, other: object) -> Numbers:
        return -self + other

    def __mul__(self, other: object) -> Numbers:
        of, most = self._with(other)
        if self.most * most >= _MOST:
            raise _TooLarge
        return Numbers(self.of * of, self.most * most)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: object) -> Numbers:
        of, _ = self._with(other)
        if not np.all(of):
            raise ZeroDivisionError
        return Numbers(self.of // of)

    def __mod__(self, other: object) -> Numbers:
        of, _ = self._with(other)
        if not np.all(of):
            raise ZeroDivisionError
        return Numbers(self.of % of)

    def __neg__(self) -> Numbers:
        return Numbers(-self.of, self.most)

    def __bool__(self) -> bool:
        return _decided(self.of != 0)

    def __eq__(self, other: object) -> bool:
        return _decided(np.asarray(self.of == self._with(other)[0]))

    def __lt__(self, other: object) -> bool:
        return _decided(np.asarray(self.of < self._with(other)[0]))

    def __le__(self, other: object) -> bool:
        return _decided(np.asarray(self.of <= self._with(other)[0]))

    def __gt__(self, other: object) -> bool:
        return _decided(np.asarray(self.of > self._with(other)[0]))

    def __ge__(self, other: object) -> bool:
        return _decided(np.asarray(self.of >= self._with(other)[0]))


@dataclass(frozen=True)
class Together:
    """What some of the calls have to do."""

    rows: Ints  # which of the calls
    form: Work  # all of it but the amounts
    amounts: tuple[Ints | int | None, ...]  # of the matrix units, of the other units, and bytes; None: not known


def works(
    name: str, types: Sequence[str | None], sides: Sequence[Sequence[Ints]], values: tuple[str, ...], count: int
) -> Iterator[Together]:
    """What the calls have to do, but for those that have to be asked by themselves.

    An argument has a type and the sides of each call's tensor; one without a type is no tensor.
    """
    parts = [np.arange(count)]
    while parts:
        at = parts.pop()
        if len(at) < FEW:
            continue
        try:
            inputs = tuple(
                None if kind is None else Tensor(cast(Any, tuple(Numbers(side[at]) for side in of)), kind)
                for kind, of in zip(types, sides, strict=True)
            )
            told = work(Call(name, inputs, values))
            amounts = tuple(map(_amount, (told.matrix, told.vector, told.bytes)))
        except _Parted as parted:
            parts += [at[parted.holds], at[~parted.holds]]
            continue
        except (_TooLarge, TypeError, ZeroDivisionError):
            continue
        yield Together(at, replace(told, matrix=None, vector=None, bytes=None), amounts)


def _amount(told: Any) -> Ints | int | None:
    """An amount of each call, or the same of all."""
    if isinstance(told, int) and abs(told) >= _MOST:
        raise _TooLarge
    found: Ints | int | None = told.of if isinstance(told, Numbers) else told
    return found
