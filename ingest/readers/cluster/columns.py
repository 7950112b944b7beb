"""Columns of the step tables, which every version and file calls differently, and their cells.

The manuals give ms for these times; the values are microseconds. Where a rank directory and its analysis are both at
hand they agree to the digit. analysis.db says 8903.431 for what step_trace_time.csv, whose unit is us, gives as 8903.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from npulens.ingest.readers.sqlite import Database, Scan, Wanted

#: Letters of a column's name, units and marks aside -> ours.
_NAMES = {
    "step": "step", "stepid": "step", "type": "type", "index": "rank", "rank": "rank", "rankid": "rank",
    "computing": "computing_ns", "computation": "computing_ns", "communication": "communication_ns",
    "communicationnotoverlapped": "communication_not_overlapped_ns",
    "communicationnotoverlapcomputation": "communication_not_overlapped_ns",
    "overlapped": "overlapped_ns", "communicationoverlapcomputation": "overlapped_ns",
    "free": "free_ns", "stage": "stage_ns", "bubble": "bubble_ns", "preparing": "preparing_ns",
    "communicationnotoverlappedandexcludereceive": "communication_not_overlapped_exclude_receive_ns",
}  # fmt: skip
_UNIT = re.compile(r"\((?:us|ms|ns)\)")
#: Columns that hold times, in the order of the contract.
TIMES = tuple(dict.fromkeys(name for name in _NAMES.values() if name.endswith("_ns")))
#: Tables that hold them, best first.
TABLES = ("ClusterStepTraceTime", "StepTraceTime", "ClusterTimeSummary")
#: Microseconds beyond which a time is damage.
_LONGEST = Decimal(2) ** 50


def ours(name: str) -> str | None:
    """Our name of a column; None for one that has no place here."""
    return _NAMES.get(re.sub(r"[^a-z]", "", _UNIT.sub("", name.lower())))


def rank_of(row: Mapping[str, str | None]) -> int | None:
    """The rank a row speaks of; None if it speaks of a stage or of nobody."""
    if (row.get("type") or "rank").strip().lower() != "rank":
        return None
    return whole(row.get("rank"))


def whole(text: str | None) -> int | None:
    """A number of few digits, or None."""
    found = re.fullmatch(r"\s*(\d{1,7})(?:\.0)?\s*", text or "")
    return int(found[1]) if found else None


def step_of(row: Mapping[str, str | None]) -> int | None:
    """The number in "50" or "step50"; None if the file gives no step."""
    found = re.search(r"(\d{1,15})(?:\.0)?\s*$", row.get("step") or "")
    return int(found[1]) if found else None


def ns(text: str | None) -> int | None:
    """Microseconds as whole nanoseconds, rounded half to even."""
    try:
        value = Decimal((text or "").strip())
    except InvalidOperation:
        return None
    if not value.is_finite() or not 0 <= value <= _LONGEST:
        return None
    return int((value * 1000).to_integral_value(ROUND_HALF_EVEN))


def step_tables(database: Database) -> Iterator[tuple[str, Iterator[dict[str, str | None]]]]:
    """Name and rows of every table of step times; the cells as text."""
    for table in TABLES:
        have = {found: name for name in database.tables.get(table, ()) if (found := ours(name))}
        if have:
            yield table, _rows(database, table, have)


def _rows(database: Database, table: str, have: Mapping[str, str]) -> Iterator[dict[str, str | None]]:
    wanted = [Wanted(name, "f" if name in TIMES else "s", (theirs,)) for name, theirs in have.items()]
    result = Scan()
    for batch in database.scan(table, wanted, result):
        for row in batch.to_pylist():
            yield {name: None if row[name] is None else str(row[name]) for name in have}
