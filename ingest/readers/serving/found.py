"""Rows of the serving tables as a reader finds them, one file at a time.

Requests and iterations are numbered within their file. What several files say of one request is put together when the
run is (ingest/serving/join.py). Prompts and answers are never kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.tables.concatenate import arrow
from npulens.ingest.tables.draft import Draft, Spool

Row = Mapping[str, object]

TABLES = ("request", "request_event", "iteration", "member", "serving_sample", "stage")
#: Tells such a part from that of a rank, among the facts.
SERVING = "serving"
_BLOCK = 8192
#: Longest text that is kept of a name, an id or an error.
_LONGEST = 300
#: Stamps outside of 2001 to 2100 are of another clock.
_FIRST_NS, _LAST_NS = 10**18, 41 * 10**17
_MOST = (1 << 62) - 1


def text(value: object) -> str | None:
    """A text of a readable length; None for what is none."""
    if isinstance(value, bool) or value is None or not isinstance(value, str | int):
        return None
    return str(value)[:_LONGEST] or None


def whole(value: object) -> int | None:
    """A whole number that is not negative, written as a number or as text."""
    if isinstance(value, str):
        try:
            value = float(value) if not value.lstrip("-").isdigit() else int(value)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value <= _MOST and value == int(value) else None


def real(value: object) -> float | None:
    """A finite number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -1e300 < value < 1e300 else None


def duration(seconds: object, unit_ns: int = 10**9) -> int | None:
    """Nanoseconds of a length that is not negative."""
    found = real(seconds)
    return None if found is None or found < 0 or found * unit_ns > _MOST else round(found * unit_ns)


def stamp(value: object, unit_ns: int = 1) -> int | None:
    """Nanoseconds since 1970 of a stamp in a unit; its decimals are read as text where they come so."""
    found: int | None
    if isinstance(value, str):
        found = _decimal(value, unit_ns)
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    elif isinstance(value, int):
        found = value * unit_ns
    else:
        found = _decimal(repr(value), unit_ns)
    return found if found is not None and _FIRST_NS <= found <= _LAST_NS else None


def _decimal(value: str, unit_ns: int) -> int | None:
    """A decimal number times a power of ten, without a float between."""
    head, _, rest = value.strip().partition(".")
    digits = len(str(unit_ns)) - 1
    if not head.isdecimal() or len(head) > 20 or (rest and not rest.isdecimal()):
        return None
    return int(head) * unit_ns + (int(rest[:digits].ljust(digits, "0")) if rest[:digits] and digits else 0)


class Found:
    """Collects rows and hands them to a draft as contract tables."""

    def __init__(self, draft: Draft, source: str, path: Path) -> None:
        self._draft, self.source, self._path = draft, source, path
        self._rows: dict[str, list[Row]] = {}
        self._spools: dict[str, Spool] = {}
        self.counts = dict.fromkeys(TABLES, 0)

    def add(self, table: str, row: Row) -> int:
        """One row; its number within the table."""
        number = self.counts[table]
        self.counts[table] += 1
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        if len(rows) >= _BLOCK:
            self._flush(table)
        return number

    def request(self, row: Row) -> int:
        """A request with its id; the number by which events and members call it."""
        return self.add("request", {"source": self.source, **row, "request": self.counts["request"]})

    def tokens(self, request: int, stamps: Iterable[int]) -> None:
        """When a client got tokens."""
        for at in stamps:
            self.add("request_event", {"request": request, "ts_ns": at, "dur_ns": 0, "kind": "token"})

    def iteration(self, row: Row) -> int:
        """An iteration; the number by which members call it."""
        return self.add("iteration", {"source": self.source, **row, "iteration": self.counts["iteration"]})

    def sample(self, name: str, value: float, ts_ns: int | None, labels: str | None = None,
               step: int | None = None) -> None:  # fmt: skip
        """A figure."""
        self.add("serving_sample", {"ts_ns": ts_ns, "step": step, "name": name[:_LONGEST], "labels": labels,
                                    "value": value, "source": self.source})  # fmt: skip

    def lost(self, reason: Message, count: int = 1, table: str = "request") -> None:
        """Count what was met and not kept."""
        self._draft.drop(table, reason, count)

    def done(self, clock: str = "unix") -> None:
        """Provide the tables; refused where nothing was found."""
        if not sum(self.counts.values()):
            raise IngestError("empty", Message("serving_file_holds_nothing", {"file": self._path.name}),
                              str(self._path))  # fmt: skip
        for table in list(self._rows):
            self._flush(table)
        for table, spool in self._spools.items():
            spool.close()
            self._draft.provide(table, f"SELECT * FROM {table}_found")
        self._draft.fact(SERVING, self.source)
        self._draft.fact("clock", clock)

    def _flush(self, table: str) -> None:
        rows = self._rows[table]
        if table not in self._spools:
            self._spools[table] = self._draft.spool(f"{table}_found", _nullable(table))
        if rows:
            self._spools[table].write(pa.Table.from_pylist([dict(row) for row in rows], schema=_nullable(table)))
            rows.clear()


def _nullable(table: str) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in arrow(table)])
