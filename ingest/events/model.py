"""The types of the event scanner: what a reader asks for, what it gets, and what both scanners guarantee."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.messages import Message

NULL = -(2**63)
"""``ts`` or ``dur`` that is not recorded."""

MAX_EVENT = 4 << 20
"""Bytes of the largest event kept: beyond it memory would be the file's to decide."""

MAX_DEPTH = 64
"""Nesting of the deepest event kept; real events reach 4."""

NEAR = 64 << 10
"""Bytes of the largest event by which a damaged text is followed again."""

LOOKAHEAD = 32
"""What is refused less than these bytes before the end of the data may be whole with more data."""

PAD = 64
"""Bytes behind the data that the C scanner may read, so that its loops need no bounds check."""

MORE, END, DAMAGED = 0, 1, 2
"""What ``Scanner.feed`` met: the end of its data, the end of the array, or text it cannot follow any further."""


class Column(NamedTuple):
    """A key of ``args`` wanted as a column.

    type 'i': exact int64; 'f': float64; 's': string code (any value but null, numbers and lists as written). 't': the
    same texts where they hardly repeat, each told by its place in ``Batch.texts``. 'n': decimal microseconds as exact
    int64 ns. Numbers may be written as strings. A value that does not fit its type (and null) is not promoted: it
    stays in ``rest``.
    """

    key: str
    type: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Complete events of one piece of the file, column by column."""

    n: int
    row: int  # array elements before this piece; row + i is unique and ascending over the file
    offset: int  # decompressed byte offset of the end of the last complete event
    ph: NDArray[np.uint8]  # ord of ph; 0 if absent
    ts: NDArray[np.int64]  # ns; NULL if absent
    dur: NDArray[np.int64]  # ns; NULL if absent
    name: NDArray[np.int32]  # string codes, -1 if absent
    cat: NDArray[np.int32]
    pid: NDArray[np.int32]  # a number and a string of the same text share a code
    tid: NDArray[np.int32]
    id: NDArray[np.int64]  # -2 - n for a whole number n below 2^63 - 1, else as those before
    args: dict[str, tuple[NDArray[np.int32], NDArray[np.int64] | NDArray[np.float64] | NDArray[np.int32]]]
    texts: dict[str, pa.Array]  # of each column of type 't' the distinct texts of this piece
    rest_rows: NDArray[np.int32]  # events with something no column holds
    rest_text: pa.Array  # that, as one JSON object each, values verbatim
    new_strings: tuple[int, pa.Array]  # (first code, texts); several codes may mean the same text
    bad: dict[str, int]  # array elements (and oddities) of this piece that were lost, by reason


Buffer = bytes | bytearray | array  # type: ignore[type-arg]


class Parts(NamedTuple):
    """A batch as a scanner leaves it: raw buffers."""

    elements: int  # complete array elements met, kept or lost
    n: int
    ph: Buffer
    ts: Buffer
    dur: Buffer
    name: Buffer
    cat: Buffer
    pid: Buffer
    tid: Buffer
    id: Buffer
    args: list[tuple[Buffer, Buffer, Buffer, Buffer]]  # rows, values; offsets and bytes of texts, if it is of texts
    rest_rows: Buffer
    rest_offsets: Buffer
    rest_bytes: Buffer
    first_code: int
    string_offsets: Buffer
    string_bytes: Buffer
    bad: dict[str, int]
    gaps: int  # damaged places that were passed, to an event by which the text can be followed again
    gap_bytes: int
    gap_at: int  # where the first of them begins; below 0 if that was in data before


class Scanner(Protocol):
    """What ``_scan.Scanner`` (C) and ``plain.Scanner`` (its twin) both do, to the last bit."""

    @property
    def pending(self) -> int:
        """Bytes already passed of what is lost and whose end is not in sight."""

    def feed(self, data: bytearray, start: int, end: int, last: bool, /) -> tuple[int, int, int, tuple[object, ...]]:
        """Read elements of ``data[start:end]``: (what it met, where to go on, end of the last element or -1, Parts).

        ``start`` is where the previous call said to go on. ``data`` is PAD bytes longer than ``end``.
        ``last``: no data follows. What is damaged to the end is met as DAMAGED, what ends within an element as MORE.
        """


def lost_by(reason: str) -> Message:
    """What a scanner's word for an element that it lost says."""
    what, _, column = reason.partition(": ")
    return Message(f"lost_{re.sub('[ -]', '_', what)}", {"column": column} if column else {})
