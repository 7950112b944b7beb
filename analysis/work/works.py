"""The work of many calls in columns: with shapes that hardly repeat there is as much of it as there are kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.kinds import Coded
from npulens.analysis.intervals import Ints
from npulens.analysis.work.families import Work
from npulens.analysis.work.many import Together

T = TypeVar("T")
#: An amount that is not known, and amounts that columns hold.
_UNKNOWN, _MOST = np.iinfo(np.int64).min, 2**62


@dataclass(frozen=True)
class Works(Sequence[Work]):
    """Each is made when it is asked for."""

    form: Ints  # place among `forms`
    forms: Sequence[Work]  # all that there are, without their amounts
    amounts: Ints  # of the matrix units, of the other units, and bytes: three rows
    large: Mapping[int, Work]  # those whose amounts columns do not hold

    @staticmethod
    def of(count: int, together: Iterable[Together], alone: Mapping[int, Work]) -> Works:
        """From calls that were asked together, and those that were asked by themselves."""
        form, amounts = np.zeros(count, np.int64), np.full((3, count), _UNKNOWN)
        places: dict[Work, int] = {}
        for one in together:
            form[one.rows] = places.setdefault(one.form, len(places))
            for row, amount in zip(amounts, one.amounts, strict=True):
                row[one.rows] = _UNKNOWN if amount is None else amount
        large = {}
        for at, told in alone.items():
            form[at] = places.setdefault(replace(told, matrix=None, vector=None, bytes=None), len(places))
            said = (told.matrix, told.vector, told.bytes)
            if max(abs(amount or 0) for amount in said) < _MOST:
                amounts[:, at] = [_UNKNOWN if amount is None else amount for amount in said]
            else:
                large[at] = told
        return Works(form, list(places), amounts, large)

    def __len__(self) -> int:
        return len(self.form)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Work: ...
    @overload
    def __getitem__(self, at: slice) -> list[Work]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Work | list[Work]:
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        place = range(len(self))[at]
        if place in self.large:
            return self.large[place]
        form = self.forms[int(self.form[place])]
        matrix, vector, moved = (None if one == _UNKNOWN else one for one in self.amounts[:, place].tolist())
        return Work(form.family, matrix, vector, moved, form.dtype, form.reason)

    def each(self, says: Callable[[Work], T]) -> Coded[T]:
        """What is said of each of them, where its amounts do not matter."""
        return Coded(self.form, [says(form) for form in self.forms])

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """The amounts, one row each; not a number where they are not known."""
        found = np.where(self.amounts == _UNKNOWN, np.nan, self.amounts).T
        for at, told in self.large.items():
            found[at] = [np.nan if amount is None else amount for amount in (told.matrix, told.vector, told.bytes)]
        return found
