"""A window span by span, in the order in which a stack of them is built, for files that other viewers open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.timeline.tiles import Arranged, among, overlapping

_BATCH = 8_192
#: Track, start, end, name, kind, span id.
Row = tuple[int, int, int, str, str, int]


def count(con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int]) -> int:
    """How many spans of some tracks reach into a window."""
    raw = overlapping(how, begin, end, 0, among(tracks), "span_id")
    found: int = con.execute(f"SELECT count(*) FROM ({raw})").fetchall()[0][0]
    return found


def spans(con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int]) -> Iterator[Row]:
    """Those spans, track by track, by start, the longest first; not clipped."""
    columns = "track, ts_ns, dur_ns, name, kind, span_id"
    raw = overlapping(how, begin, end, 0, among(tracks), columns)
    found = con.execute(
        "SELECT track, ts_ns, ts_ns + dur_ns, name.text, kind.text, span_id "
        f"FROM ({raw}) AS w JOIN name ON name.id = w.name JOIN kind ON kind.id = w.kind "
        "ORDER BY track, ts_ns, dur_ns DESC, span_id"
    )
    while rows := found.fetchmany(_BATCH):
        yield from rows


def links(con: duckdb.DuckDBPyConnection, ids: Ints) -> Iterator[tuple[int, int, str]]:
    """Arrows with both ends among some spans, given in ascending order: the places of both ends, and the route."""
    found = con.execute("SELECT src_span_id, dst_span_id, route FROM link ORDER BY src_span_id, dst_span_id")
    while rows := found.fetchmany(_BATCH):
        ends = np.array([row[:2] for row in rows], np.int64)
        at = np.minimum(np.searchsorted(ids, ends), max(len(ids) - 1, 0))
        both = (ids[at] == ends).all(axis=1) if len(ids) else np.zeros(len(rows), bool)
        yield from ((int(at[n, 0]), int(at[n, 1]), rows[n][2]) for n in np.flatnonzero(both))
