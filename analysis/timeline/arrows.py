"""Launch arrows of a window: which kinds there are, and those whose ends lie on the rows that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from npulens.analysis.timeline.tiles import Arranged, among, overlapping

#: Spans of a window for which arrows are looked up, and arrows that are drawn.
MOST_SPANS, MOST_ARROWS = 20_000, 2_000


@dataclass(frozen=True)
class End:
    id: int
    track: int
    lane: int
    ts: int
    dur: int


@dataclass(frozen=True)
class Arrow:
    source: End
    target: End
    route: str


@dataclass(frozen=True)
class Arrows:
    arrows: tuple[Arrow, ...]  # by the start of their source
    cut: bool  # there are more


def routes(con: duckdb.DuckDBPyConnection) -> tuple[tuple[str, int], ...]:
    """How arrows of this run were found, and how many there are."""
    return tuple(con.execute("SELECT route, count(*) FROM link GROUP BY route ORDER BY route").fetchall())


def arrows(
    con: duckdb.DuckDBPyConnection, tables: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int,
    tracks: Sequence[int], of_routes: Sequence[str],
) -> Arrows | None:  # fmt: skip
    """Arrows with both ends on some tracks, and at least one in the window; None: too many spans are in it."""
    raw = overlapping(how, begin, end, 0, among(tracks), "span_id")
    ids = [row[0] for row in con.execute(f"{raw} LIMIT {MOST_SPANS + 1}").fetchall()]
    if len(ids) > MOST_SPANS:
        return None
    ends = ", ".join(f"{of}.{name}" for of in "st" for name in ("span_id", "track", "depth", "ts_ns", "dur_ns"))
    rows = tables.execute(
        "WITH here AS (SELECT unnest($ids::BIGINT[]) AS id), near AS (SELECT src_span_id, dst_span_id, min(route) AS "
        "route FROM link WHERE list_contains($routes, route) AND (src_span_id IN (FROM here) OR dst_span_id IN "
        "(FROM here)) GROUP BY ALL), both_ends AS (SELECT span_id, track, depth, ts_ns, dur_ns FROM span WHERE span_id "
        f"IN (SELECT src_span_id FROM near UNION ALL SELECT dst_span_id FROM near) AND {among(tracks)}) "
        f"SELECT {ends}, route FROM near JOIN both_ends AS s ON s.span_id = src_span_id JOIN both_ends AS t "
        f"ON t.span_id = dst_span_id ORDER BY s.ts_ns, s.span_id, t.ts_ns, t.span_id LIMIT {MOST_ARROWS + 1}",
        {"ids": ids, "routes": list(of_routes)},
    ).fetchall()
    found = [Arrow(End(*row[:5]), End(*row[5:10]), row[10]) for row in rows[:MOST_ARROWS]]
    return Arrows(tuple(found), len(rows) > MOST_ARROWS)
