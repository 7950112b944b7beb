"""Databases of msServiceProfiler: ms_service_*.db as it is written, and profiler.db as it is parsed.

Stamps of the former are counts of the processor's counter, and `Meta` holds what makes them times.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving import msservice
from npulens.ingest.readers.serving.found import Found
from npulens.ingest.readers.serving.msservice import Cells
from npulens.ingest.readers.sqlite import Database, Scan, is_sqlite, wanted
from npulens.ingest.tables.draft import Draft

TITLE = "msServiceProfiler database"

_MARKS = "Mstx"
#: What says when a count of 0 was, and how fast it goes.
_CLOCK = ("cpu_frequency", "cntvct", "collection_time_begin", "host_clock_monotonic_raw", "start_clock_monotonic_raw")
#: Tables of profiler.db, and columns that tell them.
_PARSED = {"request": "http_rid", "batch": "batch_type"}
_US, _SECOND = 10**3, 10**9


def sniff(path: Path) -> Claim | None:
    """A database with marks of its own or with its parsed tables."""
    if not is_sqlite(path):
        return None
    try:
        with Database(path) as database:
            tables = database.tables
    except IngestError:
        return None
    raw = _MARKS in tables and "Meta" in tables and "message" in tables[_MARKS]
    parsed = any(column in tables.get(name, ()) for name, column in _PARSED.items())
    return Claim("msservice_db", path, (path,)) if raw or parsed else None


def read(claim: Claim, draft: Draft) -> None:
    """The same rows as those of its tables as CSV."""
    path = claim.files[0]
    found = Found(draft, "msserviceprofiler", path)
    with Database(path, draft.dir) as database:
        if _MARKS in database.tables:
            msservice.spans(_marks(database, _meta(database, draft), draft), found)
        for name, column in _PARSED.items():
            if column in database.tables.get(name, ()):
                rows = _cells(database, name, draft)
                (msservice.requests if name == "request" else msservice.batches)(rows, found)
    if not sum(found.counts.values()):
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done()


def _cells(database: Database, table: str, draft: Draft) -> Iterator[Cells]:
    """Rows of a table, every value as text."""
    columns, result = database.tables[table], Scan()
    for batch in database.scan(table, wanted(" ".join(f"{name}:s" for name in columns if " " not in name)), result):
        for row in pa.Table.from_batches([batch]).to_pylist():
            yield {name: "" if row.get(name) is None else str(row[name]) for name in columns}
    if result.damage:
        draft.partial(None, result.damage)


def _meta(database: Database, draft: Draft) -> dict[str, int]:
    """What makes a count a time."""
    said = {row.get("name", "").lower(): row.get("value", "") for row in _cells(database, "Meta", draft)}
    found = {}
    for name in _CLOCK:
        try:
            found[name] = round(float(said[name])) if "." in said[name] else int(said[name])
        except (KeyError, ValueError, OverflowError):
            raise IngestError("no_clock", Message("serving_counter_without_clock"), str(database.path)) from None
    return found


def _marks(database: Database, clock: dict[str, int], draft: Draft) -> Iterator[Cells]:
    """Marks with stamps in microseconds since 1970, exact to the ns."""
    for row in _cells(database, _MARKS, draft):
        begin, end = (_time(row.get(name, ""), clock) for name in ("timestamp", "endTimestamp"))
        yield {"message": row.get("message", ""), "name": "", "start_time": begin, "end_time": end or begin,
               "pid": row.get("pid", ""), "batch_type": ""}  # fmt: skip


def _time(count: str, clock: dict[str, int]) -> str:
    """A count as microseconds, in decimals; empty for what is none."""
    if not count.isdecimal() or count == "0":
        return ""
    since = int(count) - clock["cntvct"]
    if clock["cpu_frequency"]:
        since = since * _SECOND // clock["cpu_frequency"] + clock["host_clock_monotonic_raw"]
    else:
        since = int(count)
    ns = clock["collection_time_begin"] * _US + since - clock["start_clock_monotonic_raw"]
    return f"{ns // _US}.{ns % _US:03d}" if ns > 0 else ""
