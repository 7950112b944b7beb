"""Spans by track and time, whatever their number: sorted a stretch at a time.

One sort of tens of millions of rows holds more than a loading child may have. Tracks follow each other, and so does
time within a track: a few tracks, or a part of one, are sorted by themselves, and put one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

#: Rows of a stretch: sorting them takes some hundred bytes each.
STRETCH = 1_000_000
_ORDER = "ORDER BY track, ts_ns, dur_ns DESC, span_id"


def in_order(con: duckdb.DuckDBPyConnection, table: str, where: str, batch: int) -> Iterator[pa.RecordBatch]:
    """The rows of a table of spans, in batches."""
    for stretch in _stretches(con, table, where):
        yield from con.sql(f"SELECT * FROM {table} WHERE {where} AND {stretch} {_ORDER}").to_arrow_reader(batch)


def _stretches(con: duckdb.DuckDBPyConnection, table: str, where: str) -> Iterator[str]:
    """Conditions that together let every row through once, in order."""
    counts = con.execute(f"SELECT track, count(*) FROM {table} WHERE {where} GROUP BY track ORDER BY track").fetchall()
    first: int | None = None
    last, rows = 0, 0
    for track, count in counts:
        if first is not None and rows + count > STRETCH:
            yield f"track BETWEEN {first} AND {last}"
            first, rows = None, 0
        if count > STRETCH:
            yield from _parts(con, table, where, track, count)
            continue
        first, last, rows = track if first is None else first, track, rows + count
    if first is not None:
        yield f"track BETWEEN {first} AND {last}"


def _parts(con: duckdb.DuckDBPyConnection, table: str, where: str, track: int, count: int) -> Iterator[str]:
    """The same for the times of one long track. Where the cuts lie does not matter, as long as they ascend."""
    shares = [number * STRETCH / count for number in range(1, -(-count // STRETCH))]
    cuts = con.execute(
        f"SELECT approx_quantile(ts_ns, {shares}) FROM {table} WHERE {where} AND track = {track}"
    ).fetchall()[0][0]
    before: int | None = None
    for cut in sorted(set(cuts)):
        yield f"track = {track} AND ts_ns < {cut}" + ("" if before is None else f" AND ts_ns >= {before}")
        before = cut
    yield f"track = {track} AND ts_ns >= {before}"
