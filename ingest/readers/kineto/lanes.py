"""Small numbers for where an event lies and what it looks like, by table look-up instead of joins on texts.

A lane is (process, thread, side): a GPU can carry the same number as a host process in a container.
A shape is (name, category, whether a collective is named, side).
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.events import Batch

#: Categories, processes, threads and pairs of them told apart. Real files have tens, hundreds, thousands;
#: in a file with more, the surplus shares the last number.
CATEGORIES, _PROCESSES, _THREADS, _PAIRS = 1 << 8, 1 << 10, 1 << 14, 1 << 15
_LANE = pa.schema(
    {"lane": pa.int32(), "pid": pa.int32(), "tid": pa.int32(), "device": pa.bool_(), "spans": pa.int64(),
     "first_row": pa.int64(), "cats": pa.list_(pa.int32())}
)  # fmt: skip

#: A shape taken apart again.
NAME, CATEGORY, SAID, DEVICE = "(shape >> 16) - 1", "(shape >> 2) & 255", "shape & 2 = 2", "shape & 1 = 1"


def grown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """The array with room for ``length`` entries, zeroed behind what it had; doubles, so that growing is cheap."""
    if length <= len(array):
        return array
    longer = np.zeros(max(length, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer


class Dense:
    """Keys to 0, 1, 2... in the order met."""

    def __init__(self, most: int) -> None:
        self.keys: list[int] = []
        self._number: NDArray[np.int32] = np.zeros(1, np.int32)  # by key: its number + 1
        self._most = most

    def of(self, keys: NDArray[Any]) -> NDArray[np.int32]:
        """The number of each key; keys are >= 0."""
        self._number = grown(self._number, int(keys.max()) + 1)
        numbers = self._number[keys]
        if not numbers.all():
            for key in np.unique(keys[numbers == 0]):
                if len(self.keys) < self._most:
                    self.keys.append(int(key))
                self._number[key] = len(self.keys)
            numbers = self._number[keys]
        made: NDArray[np.int32] = numbers - np.int32(1)
        return made


class Shapes:
    """Shapes to 0, 1, 2... in the order met. Nearly every name has one shape: it is looked up by the name."""

    def __init__(self) -> None:
        self.keys = array("q")
        self._shape: NDArray[np.int64] = np.zeros(1, np.int64)  # by name: its first shape + 1, and the number of that
        self._number: NDArray[np.int32] = np.zeros(1, np.int32)
        self._others: dict[int, int] = {}

    def of(self, shapes: NDArray[np.int64]) -> NDArray[np.int32]:
        """The number of each."""
        names = shapes >> 16
        self._shape, self._number = (grown(of, int(names.max()) + 1) for of in (self._shape, self._number))
        if (unlike := self._shape[names] != shapes + 1).any():
            for shape in np.unique(shapes[unlike]).tolist():
                if not self._shape[shape >> 16]:
                    self._shape[shape >> 16], self._number[shape >> 16] = shape + 1, len(self.keys)
                    self.keys.append(shape)
                elif self._shape[shape >> 16] != shape + 1 and shape not in self._others:
                    self._others[shape] = len(self.keys)
                    self.keys.append(shape)
        made: NDArray[np.int32] = self._number[names]
        wrong = np.flatnonzero(self._shape[names] != shapes + 1)
        if len(wrong):
            distinct, at = np.unique(shapes[wrong], return_inverse=True)
            made[wrong] = np.array([self._others[shape] for shape in distinct.tolist()], np.int32)[at]
        return made


class Lanes:
    """The lanes and categories of a file while its batches come in."""

    def __init__(self) -> None:
        self._cats, self._processes, self._threads = Dense(CATEGORIES), Dense(_PROCESSES), Dense(_THREADS)
        self._pairs = Dense(_PAIRS)
        self._spans: NDArray[np.int64] = np.zeros(1, np.int64)
        self._first: NDArray[np.int64] = np.zeros(1, np.int64)
        self._met: NDArray[np.bool_] = np.zeros(CATEGORIES, bool)

    def shapes(self, batch: Batch, device: NDArray[np.bool_], said: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Name, category, whether a collective is named, and side of each event as one number."""
        cats = self._cats.of(batch.cat + 1).astype(np.int64)
        made: NDArray[np.int64] = (
            ((batch.name.astype(np.int64) + 1) << 16) | (cats << 2) | (said.astype(np.int64) << 1) | device
        )
        return made

    def of(self, batch: Batch, device: NDArray[np.bool_], spans: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The lane of each event; the ones that ``spans`` picks count."""
        process, thread = self._processes.of(batch.pid + 1), self._threads.of(batch.tid + 1)
        lanes = self._pairs.of(process * np.int32(_THREADS) + thread) * np.int32(2) + device
        mine = lanes[spans]
        if len(mine):
            length = 2 * len(self._pairs.keys)
            self._met = grown(self._met, length * CATEGORIES)
            self._met[mine * np.int32(CATEGORIES) + self._cats.of(batch.cat[spans] + 1)] = True
            self._spans, self._first = grown(self._spans, length), grown(self._first, length)
            fresh = self._first.copy()
            fresh[mine[::-1]] = (batch.row + np.flatnonzero(spans))[::-1]
            self._first = np.where(self._spans == 0, fresh, self._first)
            self._spans[:length] += np.bincount(mine, minlength=length)
        return lanes

    def table(self) -> pa.Table:
        """Every pair of process and thread met, on both sides."""
        rows = []
        for pair, key in enumerate(self._pairs.keys):
            process, thread = divmod(key, _THREADS)
            place = {"pid": self._processes.keys[process] - 1, "tid": self._threads.keys[thread] - 1}
            for lane in (2 * pair, 2 * pair + 1):
                counted = lane < len(self._spans) and int(self._spans[lane])
                met = np.flatnonzero(self._met[lane * CATEGORIES : (lane + 1) * CATEGORIES])
                first = int(self._first[lane]) if counted else None
                cats = [self._cats.keys[cat] - 1 for cat in met]
                of_lane = {"lane": lane, "device": lane % 2 == 1, "spans": int(counted), "first_row": first}
                rows.append({**of_lane, "cats": cats, **place})
        return pa.Table.from_pylist(rows, schema=_LANE)

    def categories(self) -> pa.Table:
        """The string code of each category number of a shape."""
        numbers = pa.array(range(len(self._cats.keys)), type=pa.int64())
        return pa.table({"number": numbers, "code": pa.array([key - 1 for key in self._cats.keys], type=pa.int32())})
