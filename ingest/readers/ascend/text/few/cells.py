"""Cells of a small CSV file: the same as the macros of ../../cells.py say in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.ascend.cells import UNITS, Csv
from npulens.ingest.tables.arrays import NONE, Rows, Texts, Unusual
from npulens.ingest.tables.steps import Ints

_BLANK = " \t\r\n"
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
_EXACT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,30})?\Z")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?\Z")
_PLAIN = re.compile(r"([0-8]?[0-9]{1,15})(?:\.([0-9]{1,3}))?\s*\Z")
_NO_ID = 4294967295
#: A cell is read to as many places as SQL holds.
_PLACES, _EXACTLY = Decimal("1e-15"), Context(prec=60)


class Cells:
    """The columns of a file, under every name a version gave them."""

    def __init__(self, file: Csv, raws: Mapping[str, Rows]) -> None:
        self.file, self.rows = file, raws[file.name]

    def __len__(self) -> int:
        return len(self.rows)

    def cell(self, *names: str) -> Texts:
        """The cells under the first of these names; NULL if the file has none of them."""
        column = self.file.column(*names)
        if column is None:
            return Texts(np.zeros(len(self), np.int64), pa.nulls(1, pa.string()))
        return self.rows.texts(column)

    def said(self, *names: str) -> Texts:
        """Its text, NULL where it is blank or N/A."""
        return self.cell(*names).map(_said)

    def whole(self, *names: str) -> Ints:
        """Its whole number, none where it is the tools' word for none."""
        return self._numbers(_whole, *names)

    def ns(self, *names: str) -> Ints:
        """Its microseconds as exact nanoseconds."""
        return self._numbers(_times(1000), *names)

    def bytes(self, name: str) -> Ints:
        """Its size as exact bytes; the unit is in the header and changes between versions."""
        for unit, factor in UNITS.items():
            if self.file.has(f"{name}({unit})"):
                return self._numbers(_times(factor), f"{name}({unit})")
        return np.full(len(self), NONE)

    def approx(self, *names: str) -> pa.Array:
        """Its finite number."""
        texts = self.cell(*names)
        known = pa.array([None if text is None else approx(text) for text in texts.known.to_pylist()], pa.float64())
        return known.take(pa.array(texts.codes))

    def exact(self, *names: str) -> list[Decimal | None]:
        """Its number as it is written."""
        texts = self.cell(*names)
        known = [None if text is None else _exact(text) for text in texts.known.to_pylist()]
        return [known[code] for code in texts.codes.tolist()]

    def _numbers(self, read: Callable[[str], int | None], *names: str) -> Ints:
        texts = self.cell(*names)
        found = [None if text is None else read(text) for text in texts.known.to_pylist()]
        known = np.array([NONE if number is None else number for number in found], np.int64)
        return known[texts.codes]


def _said(known: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim(known, _BLANK)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def _written(text: str, form: re.Pattern[str]) -> str | None:
    """A number as it is written; None if a text is none."""
    trimmed = text.strip(_BLANK)
    if form.match(trimmed):
        return trimmed
    if any(letter.isdigit() for letter in trimmed):  # of what other form SQL knows it
        raise Unusual
    return None


def _whole(text: str) -> int | None:
    written = _written(text, _WHOLE)
    number = None if written is None else int(written)
    return None if number == _NO_ID else number


def _exact(text: str) -> Decimal | None:
    written = _written(text, _EXACT)
    return None if written is None else Decimal(written).quantize(_PLACES, ROUND_HALF_UP, _EXACTLY)


def _times(factor: int) -> Callable[[str], int | None]:
    def scaled(text: str) -> int | None:
        if factor == 1000 and (plain := _PLAIN.match(text)):  # nearly all of them: no more places than its unit has
            return int(plain[1]) * 1000 + int((plain[2] or "").ljust(3, "0"))
        number = _exact(text)
        if number is None:
            return None
        whole = int(_EXACTLY.multiply(number, Decimal(factor)).to_integral_value(ROUND_HALF_EVEN))
        return whole if -(2**63) < whole < 2**63 else None

    return scaled


def approx(text: str) -> float | None:
    """The finite number that a text is."""
    written = _written(text, _NUMBER)
    number = None if written is None else float(written)
    return number if number is not None and isfinite(number) else None
