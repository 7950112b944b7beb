"""Sets of time as sorted, disjoint, half-open intervals of whole nanoseconds.

Streams overlap and so do spans on one stream, so no question about time is answered by adding durations. Everything is
a union, and what is asked of a window is read off running totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def bare(values: Any) -> Any:
    """A column without its mask; importing numpy's module for masks takes as long as a small detector."""
    return values if type(values) is np.ndarray else np.ma.getdata(values)


def combined(*columns: Ints) -> Ints:
    """One number for each combination of whole numbers, in their order: numpy sorts rows of several much slower."""
    key = np.zeros(len(columns[0]), np.int64)
    size = 1
    for column in columns:
        low = int(column.min(initial=0))
        span = int(column.max(initial=0)) - low + 1
        if size * span >= 2**62:
            known, key = np.unique(key, return_inverse=True)
            key, size = key.ravel().astype(np.int64), len(known)
        if size * span >= 2**62:
            known, column = np.unique(column, return_inverse=True)
            column, low, span = column.ravel().astype(np.int64), 0, len(known)
        key = key * span + (column - low)
        size *= span
    return key


def among(values: Ints, some: Ints) -> NDArray[np.bool_]:
    """Which values are among some that are in order: numpy would sort both once more."""
    if not len(some):
        return np.zeros(len(values), np.bool_)
    found: NDArray[np.bool_] = some[np.minimum(np.searchsorted(some, values), len(some) - 1)] == values
    return found


def distinct(values: Ints) -> Ints:
    """The values in order, each once. numpy hashes them, which takes twenty times this where they hardly repeat."""
    ordered: Ints = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


#: No axis is longer: a sum of moments must fit into 64 bits.
LONGEST = 2**61


def origins(count: int, moments: Sequence[Ints]) -> Ints | None:
    """What is added to the moments of each of so many clocks so that none of one reaches the next's.

    Then what is asked of all of them is asked once, on one axis. None: they are too far apart for that.
    """
    low = min((int(some.min(initial=0)) for some in moments), default=0)
    high = max((int(some.max(initial=0)) for some in moments), default=0)
    apart = 2 * (high - low) + 1  # room beyond either end
    if max(apart, abs(low)) * (count + 1) >= LONGEST:
        return None
    return np.arange(count, dtype=np.int64) * apart - low


@dataclass(frozen=True)
class Intervals:
    """Sorted, disjoint, none empty, none touching the next."""

    starts: Ints
    ends: Ints

    @staticmethod
    def union_of(starts: Ints, ends: Ints) -> Intervals:
        """The union of any intervals; empty ones vanish."""
        keep = ends > starts
        starts, ends = starts[keep], ends[keep]
        if not len(starts):
            return EMPTY
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(ends[order])
        first = np.concatenate(([True], starts[1:] > reach[:-1]))
        last = np.concatenate((first[1:], [True]))
        return Intervals(starts[first], reach[last])

    def __or__(self, other: Intervals) -> Intervals:
        return Intervals.union_of(np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends)))

    def __and__(self, other: Intervals) -> Intervals:
        first = np.searchsorted(other.ends, self.starts, side="right")
        count = np.maximum(np.searchsorted(other.starts, self.ends, side="left") - first, 0)
        mine = np.repeat(np.arange(len(count)), count)
        theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        return Intervals(
            np.maximum(self.starts[mine], other.starts[theirs]), np.minimum(self.ends[mine], other.ends[theirs])
        )

    def __sub__(self, other: Intervals) -> Intervals:
        return self & other.outside()

    def outside(self) -> Intervals:
        """Everything else, from the beginning to the end of time."""
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        starts, ends = np.concatenate(([least], self.ends)), np.concatenate((self.starts, [most]))
        return Intervals(starts[ends > starts], ends[ends > starts])

    def gaps(self, begin: int, end: int) -> Intervals:
        """What of the window [begin, end) is not covered."""
        return self.outside() & Intervals.union_of(np.array([begin]), np.array([end]))

    def total(self) -> int:
        return int((self.ends - self.starts).sum())

    def within(self, begins: Ints, ends: Ints) -> Ints:
        """How much of each window [begin, end) is covered."""
        return self._before(ends) - self._before(begins)

    def _before(self, at: Ints) -> Ints:
        """Time covered before each moment."""
        if not len(self.starts):
            return np.zeros(len(at), np.int64)
        index = np.searchsorted(self.starts, at, side="right")
        inside = np.maximum(index - 1, 0)
        within = np.minimum(at, self.ends[inside]) - self.starts[inside]
        return np.where(index > 0, self._done[inside] + within, 0).astype(np.int64)

    @cached_property
    def _done(self) -> Ints:
        """Time covered before each of them."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.ends - self.starts)))


EMPTY = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
