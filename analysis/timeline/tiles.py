"""A window of the timeline at a zoom: spans that are wide enough to see, and the sums of the others.

Spans at least as long as a bucket come one by one. Shorter ones come as cells, one per track, lane and bucket: how
many, how busy, the longest and its name. A bucket is at most two pixels wide; a window of few spans has no buckets at
all. Cells are whole buckets: the first and the last may reach over the window's edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

#: A window of so few spans is drawn exactly.
FEW = 20_000
NAME_BITS = 25  # as in the file: a cell's longest span is its length and its name in one number

#: Buckets longer than this (275 s) leave no room for the length in that number.
_COARSEST = 38
#: Looking at so many spans in vain costs about as much as another scan.
IN_VAIN = 30_000

Ints = NDArray[np.int64]
_SPAN = "ts_ns, dur_ns, span_id, track, depth, name, kind"
_CELL = "bucket, track, depth, spans, busy_ns, longest"


@dataclass(frozen=True)
class Spans:
    """Spans of a window, by track, lane and start; `name` and `kind` are numbers of the file."""

    ts: Ints
    dur: Ints
    id: Ints
    track: Ints
    lane: Ints
    name: Ints
    kind: Ints


@dataclass(frozen=True)
class Cells:
    """Buckets of spans too short to see, by track, lane and start."""

    ts: Ints
    track: Ints
    lane: Ints
    spans: Ints
    busy: Ints  # ns, summed
    longest: Ints  # ns
    name: Ints  # of the longest


@dataclass(frozen=True)
class Tile:
    bucket_ns: int  # 0: every span of the window is there
    spans: Spans
    cells: Cells


@dataclass(frozen=True)
class Class:
    """Spans of about one length."""

    number: int
    longest_ns: int
    spans: int


@dataclass(frozen=True)
class Arranged:
    """What a question has to know of a level-of-detail file; it never changes."""

    classes: tuple[Class, ...]  # shortest first
    finest: int  # of the levels that are summed up; a small run has none
    coarsest: int
    length_ns: int
    kinds: tuple[str, ...]
    portion: int | None = None  # exponent of the portions that summaries are made of; a small run has none
    #: Names that tiles have asked for, by how much of one is wanted and its number: most tiles use the same few.
    names: dict[tuple[int, int], str] = field(default_factory=dict, compare=False, repr=False)


def arranged(con: duckdb.DuckDBPyConnection) -> Arranged:
    """How a file is arranged."""
    rows = con.execute("SELECT class, longest_ns, spans FROM class ORDER BY class").fetchall()
    finest, coarsest = con.execute("SELECT min(level), max(level) FROM cell").fetchall()[0]
    length = con.execute("SELECT coalesce(max(end_ns), 0) FROM track").fetchall()[0][0]
    kinds = con.execute("SELECT text FROM kind ORDER BY id").fetchall()
    portion = con.execute("SELECT max(bits) FROM portion").fetchall()[0][0]
    if finest is None:
        finest, coarsest = _COARSEST + 1, _COARSEST
    return Arranged(
        tuple(Class(*row) for row in rows), finest, coarsest, length, tuple(text for (text,) in kinds), portion
    )  # fmt: skip


def tile(
    con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, pixels: int, tracks: Sequence[int],
    few: int = FEW,
) -> Tile:  # fmt: skip
    """What to draw of some tracks from ``begin`` to before ``end``; exact where that is at most ``few`` spans."""
    level = min(level_of(end - begin, pixels), how.coarsest)
    on_tracks = among(tracks)
    every = overlapping(how, begin, end, 0, on_tracks)
    if level == 0:
        return Tile(0, _spans(con, every), _cells(None, 0))
    if level < how.finest and few >= 0:
        exact = _spans(con, f"{every} LIMIT {few + 1}")
        if len(exact.ts) <= few:
            return Tile(0, exact, _cells(None, 0))
    cells = _cells(con.execute(_summed(level, how.finest, begin, end, on_tracks)).fetchnumpy(), level)
    spans = _spans(con, overlapping(how, begin, end, 1 << level, on_tracks))
    if level >= how.finest and len(spans.ts) + int(cells.spans.sum()) <= few:
        return Tile(0, _spans(con, every), _cells(None, 0))
    return Tile(1 << level, spans, cells)


def among(tracks: Sequence[int]) -> str:
    """The condition that a row lies on one of some tracks."""
    return f"track IN ({', '.join(str(int(track)) for track in tracks)})" if tracks else "false"


def level_of(length_ns: int, pixels: int) -> int:
    """The exponent of the longest bucket that is at most two pixels wide; 0: a pixel is not wider than a nanosecond."""
    return max(0, (2 * length_ns // max(pixels, 1)).bit_length() - 1)


def overlapping(how: Arranged, begin: int, end: int, at_least: int, on_tracks: str, columns: str = _SPAN) -> str:
    """Spans of a window that are at least so long. A scan looks back as far as its longest span."""
    scans = [
        f"SELECT {columns} FROM span WHERE class BETWEEN {group[0].number} AND {group[-1].number} "
        f"AND ts_ns < {end} AND ts_ns > {begin - max(group[-1].longest_ns, 1)} "
        f"AND ts_ns + greatest(dur_ns, 1) > {begin} AND dur_ns >= {at_least} AND {on_tracks}"
        for group in _scans(how, end - begin, at_least)
    ]
    return " UNION ALL ".join(scans) or f"SELECT {columns} FROM span WHERE false"


def _scans(how: Arranged, window_ns: int, at_least: int) -> list[list[Class]]:
    """Classes that share a scan, and with it the look-back of the longest of them."""
    groups: list[list[Class]] = []
    for each in how.classes:
        if each.longest_ns < at_least:
            continue
        together = sum(one.spans for one in groups[-1]) if groups else 0
        if groups and together * min(1.0, each.longest_ns / max(how.length_ns, 1)) <= IN_VAIN:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _summed(level: int, finest: int, begin: int, end: int, on_tracks: str) -> str:
    """Cells of the window: summed in advance, or now where the level is finer than any that is."""
    first, last = begin >> level, (end - 1) >> level
    if level >= finest:
        return f"SELECT {_CELL} FROM cell WHERE level = {level} AND bucket BETWEEN {first} AND {last} AND {on_tracks}"
    return (
        f"SELECT ts_ns >> {level} AS bucket, track, depth, count(*) AS spans, sum(dur_ns)::BIGINT AS busy_ns, "
        f"max((dur_ns << {NAME_BITS}) | name) AS longest FROM span WHERE class <= {level // 2} "
        f"AND ts_ns >= {first << level} AND ts_ns < {(last + 1) << level} AND dur_ns < {1 << level} AND {on_tracks} "
        "GROUP BY ALL"
    )


def _spans(con: duckdb.DuckDBPyConnection, sql: str) -> Spans:
    found = con.execute(sql).fetchnumpy()
    columns = [_ints(found[name]) for name in _SPAN.split(", ")]
    order = _order(columns[3], columns[4], columns[0])
    return Spans(*(column[order] for column in columns))


def _cells(found: dict[str, Any] | None, level: int) -> Cells:
    if found is None:
        return Cells(*(np.zeros(0, np.int64) for _ in range(7)))
    bucket, track, depth, spans, busy, longest = (_ints(found[name]) for name in _CELL.split(", "))
    order = np.argsort(_place(track, depth, bucket), kind="stable")
    longest = longest[order]
    return Cells(
        bucket[order] << level, track[order], depth[order], spans[order], busy[order], longest >> NAME_BITS,
        longest & ((1 << NAME_BITS) - 1),
    )  # fmt: skip


def _place(track: Ints, lane: Ints, bucket: Ints) -> Ints:
    """Track, lane and bucket in one number: one key sorts three times as fast as three."""
    if not len(track):
        return track
    there = np.unique(track)
    width = int(bucket.max() - bucket.min()) + 1
    place: Ints = (np.searchsorted(there, track) * (int(lane.max()) + 1) + lane) * width + (bucket - bucket.min())
    return place


def _ints(column: Any) -> Ints:
    return np.ma.getdata(column).astype(np.int64, copy=False)


def _order(track: Ints, lane: Ints, ts: Ints) -> Ints:
    """One order whatever the number of threads: the same question gives the same bytes."""
    order: Ints = np.lexsort((ts, lane, track))
    return order
