"""Spans by track and time, whatever their number: sorted a stretch at a time.

One sort of tens of millions of rows holds more than a loading child may have. Tracks follow each other, and so does
time within a track: a few tracks, or a part of one, are sorted by themselves, and put one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa

#: Rows of a stretch: sorting them and handing them on takes some hundred bytes each.
STRETCH = 100_000


@dataclass(frozen=True)
class Spans:
    """Which spans, and what their track, their time and the rest of the order are called."""

    table: str
    track: str = "track"
    ts: str = "ts_ns"
    then: str = "dur_ns DESC, span_id"
    where: str = "true"


def in_order(con: duckdb.DuckDBPyConnection, spans: Spans, batch: int) -> Iterator[pa.RecordBatch]:
    """The rows, in batches."""
    order = f"ORDER BY {spans.track}, {spans.ts}, {spans.then}"
    for stretch in _stretches(con, spans):
        select = f"SELECT * FROM {spans.table} WHERE {spans.where} AND {stretch} {order}"
        yield from con.sql(select).to_arrow_reader(batch)


def _stretches(con: duckdb.DuckDBPyConnection, spans: Spans) -> Iterator[str]:
    """Conditions that together let every row through once, in order."""
    by = spans.track
    counts = con.execute(
        f"SELECT {by}, count(*) FROM {spans.table} WHERE {spans.where} GROUP BY {by} ORDER BY {by}"
    ).fetchall()
    first: int | None = None
    last, rows = 0, 0
    for track, count in counts:
        if first is not None and rows + count > STRETCH:
            yield f"{by} BETWEEN {first} AND {last}"
            first, rows = None, 0
        if count > STRETCH:
            yield from _parts(con, spans, track, count)
            continue
        first, last, rows = track if first is None else first, track, rows + count
    if first is not None:
        yield f"{by} BETWEEN {first} AND {last}"


def _parts(con: duckdb.DuckDBPyConnection, spans: Spans, track: int, count: int) -> Iterator[str]:
    """The same for the times of one long track. Where the cuts lie does not matter, as long as they ascend."""
    shares = [number * STRETCH / count for number in range(1, -(-count // STRETCH))]
    mine, ts = f"{spans.track} = {track}", spans.ts
    cuts = con.execute(
        f"SELECT approx_quantile({ts}, {shares}) FROM {spans.table} WHERE {spans.where} AND {mine}"
    ).fetchall()[0][0]
    before: int | None = None
    for cut in sorted(set(cuts)):
        yield f"{mine} AND {ts} < {cut}" + ("" if before is None else f" AND {ts} >= {before}")
        before = cut
    yield f"{mine} AND {ts} >= {before}"
