"""Spans by track and time, whatever their number: sorted a stretch at a time.

One sort of tens of millions of rows holds more than a loading child may have. Tracks follow each other, and so does
time within a track. A few tracks, or a part of one, are sorted by themselves, and put one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

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
    for stretch in _of_tracks(con, spans):
        select = f"SELECT * FROM {spans.table} WHERE {spans.where} AND {stretch} {order}"
        yield from con.sql(select).to_arrow_reader(batch)


def _of_tracks(con: duckdb.DuckDBPyConnection, spans: Spans) -> Iterator[str]:
    """Conditions on tracks and times that together let every row through once, in order."""
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
            mine = f"{by} = {track} AND {spans.where}"
            for part in stretches(con, spans.table, spans.ts, count, STRETCH, mine):
                yield f"{by} = {track} AND {part}"
            continue
        first, last, rows = track if first is None else first, track, rows + count
    if first is not None:
        yield f"{by} BETWEEN {first} AND {last}"


def stretches(
    con: duckdb.DuckDBPyConnection, table: str, by: str, rows: int, size: int, where: str = "true"
) -> Iterator[str]:
    """Conditions on a column without NULL that together let every row through once, ascending, so many at a time.

    Where the cuts lie does not matter, as long as they ascend.
    """
    shares = [number * size / rows for number in range(1, -(-rows // size))]
    cuts: list[int] = []
    if shares:
        cuts = con.execute(f"SELECT approx_quantile({by}, {shares}) FROM {table} WHERE {where}").fetchall()[0][0]
    for begin, end in pairwise([None, *sorted(set(cuts)), None]):
        after = [] if begin is None else [f"{by} >= {begin}"]
        before = [] if end is None else [f"{by} < {end}"]
        yield " AND ".join([*after, *before]) or "true"
