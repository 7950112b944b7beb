"""Few rows in arrays: what SQL says of columns, without a statement. A statement takes a millisecond to plan.

A number that is not there is NONE. A text is looked at once, however often it stands in its column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.steps import Ints

NONE = int(np.iinfo(np.int64).min)
#: Rows that a join may come to: more are left to DuckDB, which can spill.
_MOST = 2_000_000


class Unusual(Exception):
    """What these arrays are not made for: the statements that read ranks of any size are."""


@dataclass(frozen=True)
class Texts:
    """A column of texts: the code of each row, and the texts by code. The last one is NULL."""

    codes: Ints
    known: pa.Array

    @staticmethod
    def of(column: pa.ChunkedArray | pa.Array) -> Texts:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        coded = whole.dictionary_encode()
        known = pa.concat_arrays([coded.dictionary, pa.nulls(1, pa.string())])
        return Texts(np.asarray(pc.fill_null(coded.indices, len(known) - 1).to_numpy(False), np.int64), known)

    def take(self, rows: Ints) -> Texts:
        """The texts of rows; NULL for a row below 0."""
        codes = self.codes[rows] if len(self.codes) else np.zeros(len(rows), np.int64)
        return Texts(np.where(rows < 0, self._none(), codes), self._with_null())

    def map(self, change: Callable[[pa.Array], pa.Array]) -> Texts:
        """Other texts in place of these; NULL stays."""
        return Texts(self.codes, change(self.known).cast(pa.string()))

    def where(self, holds: Callable[[pa.Array], pa.Array]) -> Bools:
        """The rows of whose text something holds; of NULL nothing does."""
        return truths(holds(self.known))[self.codes]

    @cached_property
    def there(self) -> Bools:
        """The rows that have a text."""
        return truths(pc.is_valid(self.known))[self.codes]

    @property
    def array(self) -> pa.Array:
        return self.known.take(pa.array(self.codes))

    @property
    def list(self) -> list[str | None]:
        known = self.known.to_pylist()
        return [known[code] for code in self.codes.tolist()]

    def only(self, rows: Bools) -> Texts:
        """These texts in some rows, NULL in the others."""
        return Texts(np.where(rows, self.codes, self._none()), self._with_null())

    def filled(self, text: str = "") -> Texts:
        """A text for NULL."""
        return Texts(self.codes, pc.fill_null(self.known, text))

    def _none(self) -> int:
        return len(self.known) - 1 if not self.known[-1].is_valid else len(self.known)

    def _with_null(self) -> pa.Array:
        return self.known if not self.known[-1].is_valid else pa.concat_arrays([self.known, pa.nulls(1, pa.string())])


def first(*columns: Texts) -> Texts:
    """In each row the first of several texts that is there."""
    found, known, base = np.full(len(columns[0].codes), -1, np.int64), list[pa.Array](), 0
    for column in columns:
        use = (found < 0) & column.there
        found[use] = column.codes[use] + base
        known.append(column.known)
        base += len(column.known)
    known.append(pa.nulls(1, pa.string()))
    return Texts(np.where(found < 0, base, found), pa.concat_arrays(known))


def put_together(one: Texts, other: Texts, by: str) -> Texts:
    """Two texts with another between them, or the one that is there; each pair is put together once."""
    pair, rows = np.unique(one.codes * len(other.known) + other.codes, return_inverse=True)
    known, others = one.known.to_pylist(), other.known.to_pylist()
    both = [(known[at_ // len(others)], others[at_ % len(others)]) for at_ in pair.tolist()]
    texts = [by.join(text for text in each if text is not None) for each in both]
    return Texts(rows.reshape(-1).astype(np.int64), pa.array([*texts, None], pa.string()))


def same(text: str | None, rows: int) -> Texts:
    """One text in every row."""
    return Texts(np.zeros(rows, np.int64), pa.array([text, None], pa.string()))


class Rows:
    """A table whose columns are asked for one by one."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._ints: dict[str, Ints] = {}
        self._texts: dict[str, Texts] = {}

    def __len__(self) -> int:
        return len(self.table)

    def ints(self, name: str) -> Ints:
        if name not in self._ints:
            column = self.table[name]
            whole = column if column.type == pa.int64() else column.cast(pa.int64())
            values = np.asarray(pc.fill_null(whole, NONE).to_numpy(), np.int64)
            if int((values == NONE).sum()) != column.null_count:
                raise Unusual
            self._ints[name] = values
        return self._ints[name]

    def texts(self, name: str) -> Texts:
        if name not in self._texts:
            self._texts[name] = Texts.of(self.table[name])
        return self._texts[name]


@dataclass
class Found:
    """What was made of a rank, before any of it is said to its draft."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    dropped: list[tuple[str, Message, int]] = field(default_factory=list)
    notes: list[tuple[str, Message]] = field(default_factory=list)
    expected: dict[str, int] = field(default_factory=dict)

    def give(self, table: str, columns: Mapping[str, object]) -> None:
        """Rows of a contract table. Whole numbers come as they are: NONE is NULL."""
        made = {name: _column(values) for name, values in columns.items()}
        self.tables.setdefault(table, []).append(pa.table(made))

    def say(self, draft: Draft) -> None:
        """Tell a draft all of it."""
        for table, rows in self.tables.items():
            for number, given in enumerate(rows):
                draft.give(table, f"{table}_{number}", given)
        for table, reason, count in self.dropped:
            draft.drop(table, reason, count)
        for table, text in self.notes:
            draft.note(table, text)
        for table, count in self.expected.items():
            draft.expect(table, count)


def _column(values: object) -> pa.Array:
    if isinstance(values, Texts):
        return values.array
    return nullable(values) if isinstance(values, np.ndarray) and values.dtype == np.int64 else pa.array(values)


def nullable(values: Ints) -> pa.Array:
    """Whole numbers, and NULL for NONE."""
    return pa.array(values, mask=values == NONE)


def truths(values: pa.Array | pa.ChunkedArray) -> Bools:
    """A column of truths; unknown is no."""
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), np.bool_)


def between(values: Ints, low: int, high: int) -> Ints:
    """Numbers within bounds; the others are none."""
    return np.where((values >= low) & (values <= high), values, NONE)


def at(values: Ints, rows: Ints, otherwise: int = NONE) -> Ints:
    """The numbers of rows; none for a row below 0."""
    return np.where(rows < 0, otherwise, values[rows]) if len(values) else np.full(len(rows), otherwise)


def lookup(keys: Ints, among: Ints) -> Ints:
    """The first row of each key among others, or -1."""
    known, rows = np.unique(among, return_index=True)
    if not len(known):
        return np.full(len(keys), -1, np.int64)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where((known[place] == keys) & (keys != NONE), rows[place], -1).astype(np.int64)


def among(keys: Ints, known: Ints) -> Bools:
    """The keys that are among others."""
    return np.asarray(np.isin(keys, known) & (keys != NONE), np.bool_)


def pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """The rows of two columns that have the same key."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    begin, end = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    many = np.where(left == NONE, 0, end - begin)
    total = int(many.sum())
    if total > _MOST:
        raise Unusual
    ours = np.repeat(np.arange(len(left)), many)
    theirs = order[np.arange(total) + np.repeat(begin - (np.cumsum(many) - many), many)]
    return ours, np.asarray(theirs, np.int64)


def coded(*sides: tuple[Ints | Texts, ...]) -> list[Ints]:
    """One number for each row of several columns, on every side: the same where all columns are the same.

    NONE where one of them is not there.
    """
    columns = [_both(*parts) for parts in zip(*sides, strict=True)]
    codes, lacking = np.zeros(len(columns[0]), np.int64), np.zeros(len(columns[0]), bool)
    for column in columns:
        known, of = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * len(known) + of.reshape(-1), return_inverse=True)
        lacking |= column == NONE
    codes = np.where(lacking, NONE, codes)
    ends = np.cumsum([len(side[0].codes) if isinstance(side[0], Texts) else len(side[0]) for side in sides])
    return [np.asarray(part, np.int64) for part in np.split(codes, ends[:-1])]


def _both(*parts: Ints | Texts) -> Ints:
    """Numbers of all sides behind each other; texts are numbered alike."""
    texts = [part for part in parts if isinstance(part, Texts)]
    if not texts:
        return np.concatenate([part for part in parts if not isinstance(part, Texts)])
    known = pa.concat_arrays([part.known for part in texts]).dictionary_encode()
    numbers = np.asarray(pc.fill_null(known.indices.cast(pa.int64()), NONE).to_numpy(False))
    begins = np.cumsum([0, *(len(part.known) for part in texts)])
    return np.concatenate([numbers[part.codes + begin] for part, begin in zip(texts, begins[:-1], strict=True)])


def most_frequent(values: Ints) -> int:
    """The number that is there most often, NONE without any."""
    known, times = np.unique(values[values != NONE], return_counts=True)
    if not len(known):
        return NONE
    if int((times == times.max()).sum()) > 1:  # which of them is said to be it is not told
        raise Unusual
    return int(known[np.argmax(times)])


def matches(pattern: str, *, any_case: bool = False) -> Callable[[pa.Array], pa.Array]:
    """Whether a text holds what a regular expression says."""
    return lambda texts: pc.match_substring_regex(texts, pattern, ignore_case=any_case)


def is_one(*values: str) -> Callable[[pa.Array], pa.Array]:
    """Whether a text is one of several."""
    wanted = pa.array(values, pa.string())
    return lambda texts: pc.is_in(texts, value_set=wanted)
