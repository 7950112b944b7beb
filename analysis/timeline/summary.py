"""What a selection holds, clipped to the window: per track, name and kind how many and how long; the busy time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from npulens.analysis.timeline.tiles import Arranged, among, overlapping

#: Rows of a summary.
MOST_ROWS = 500
#: Spans of a selection for which the time of their children is taken off.
MOST_NESTED = 2_000_000
#: Spans of a selection for which the busy time is found.
MOST_BUSY = 4_000_000


@dataclass(frozen=True)
class Row:
    """All lengths are of the part within the window."""

    track: int
    name: str
    kind: str
    count: int
    total_ns: int
    self_ns: int | None  # without what lies below on the same track; None: too many to tell
    min_ns: int
    max_ns: int

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.count


@dataclass(frozen=True)
class Summary:
    rows: tuple[Row, ...]  # largest first
    busy: tuple[tuple[int, int | None], ...]  # track, ns in which anything ran on it; None: too many to tell
    cut: bool  # there are more rows


def summary(con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int]) -> Summary:
    """Spans of some tracks that reach into the window from ``begin`` to before ``end``."""
    raw = overlapping(how, begin, end, 0, among(tracks), "track, name, kind, span_id, parent_id, ts_ns, dur_ns")
    inside = (
        f"SELECT track, name, kind, span_id, parent_id, greatest(ts_ns, {begin}) AS start_ns, "
        f"least(ts_ns + dur_ns, {end}) AS end_ns FROM ({raw})"
    )
    spans = con.execute(f"SELECT count(*) FROM ({raw})").fetchall()[0][0]
    rows = con.execute(
        "SELECT track, name.text, kind.text, count, total_ns, self_ns, least_ns, most_ns FROM "
        f"({_nested(inside) if spans <= MOST_NESTED else _flat(inside)}) AS found JOIN name ON name.id = found.name "
        f"JOIN kind ON kind.id = found.kind ORDER BY total_ns DESC, track, name.text, kind.text LIMIT {MOST_ROWS + 1}"
    ).fetchall()
    busy = con.execute(_busy(inside)).fetchall() if spans <= MOST_BUSY else [(track, None) for track in sorted(tracks)]
    return Summary(tuple(Row(*row) for row in rows[:MOST_ROWS]), tuple(busy), len(rows) > MOST_ROWS)


_TOTALS = (
    "SELECT track, name, kind, count(*) AS count, sum(end_ns - start_ns)::BIGINT AS total_ns, {own} AS self_ns, "
    "min(end_ns - start_ns) AS least_ns, max(end_ns - start_ns) AS most_ns FROM {source} GROUP BY track, name, kind"
)


def _flat(inside: str) -> str:
    return _TOTALS.format(own="NULL", source=f"({inside})")


def _nested(inside: str) -> str:
    """With what is left of every span without its children: a union, because children of one span may overlap."""
    covered = _union("parent_id", f"SELECT * FROM ({inside}) WHERE parent_id IS NOT NULL")
    source = f"({inside}) AS outer_span LEFT JOIN ({covered}) AS below ON below.parent_id = outer_span.span_id"
    own = "sum(end_ns - start_ns - coalesce(union_ns, 0))::BIGINT"
    return _TOTALS.format(own=own, source=source).replace("count(*)", "count(span_id)")


def _busy(inside: str) -> str:
    """Per track the union; what lies below another span of its track adds nothing."""
    return _union("track", f"SELECT * FROM ({inside}) WHERE parent_id IS NULL") + " ORDER BY track"


def _union(key: str, source: str) -> str:
    return (
        f"SELECT {key}, sum(greatest(0, end_ns - greatest(start_ns, coalesce(reach, start_ns))))::BIGINT AS union_ns "
        f"FROM (SELECT {key}, start_ns, end_ns, max(end_ns) OVER (PARTITION BY {key} ORDER BY start_ns, end_ns "
        f"ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach FROM ({source})) GROUP BY {key}"
    )
