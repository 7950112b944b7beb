"""What a selection holds, clipped to the window: per track, name and kind how many and how long; the busy time.

A large run's file has the sums of whole portions of time (ingest/store/lod.py). So only the spans at the edges of a
window are looked at, and those that are longer than a portion. Both ways give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from npulens.analysis.timeline.find import Hit
from npulens.analysis.timeline.tiles import Arranged, among, overlapping

#: Rows of a summary.
MOST_ROWS = 500
#: Spans of a selection without portions for which the time of their children is taken off.
MOST_NESTED = 2_000_000
#: Spans of a selection without portions for which the busy time is found.
MOST_BUSY = 4_000_000
#: A level of sums joins so many portions of the finer one, as in the file.
JOINED_BITS = 4

_SUMS = "track, name, kind, spans, total_ns, self_ns, least_ns, most_ns"
_SPAN = "track, name, kind, span_id, parent_id, ts_ns, dur_ns"


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
    whole = _whole(how, begin, end)
    found, busy = _seen(con, how, begin, end, tracks) if whole is None else (
        _added(con, how, begin, end, tracks, whole), _busy_added(con, how, begin, end, tracks)
    )  # fmt: skip
    rows = con.execute(
        f"SELECT track, name.text, kind.text, count, total_ns, self_ns, least_ns, most_ns FROM ({found}) AS found "
        "JOIN name ON name.id = found.name JOIN kind ON kind.id = found.kind "
        f"ORDER BY total_ns DESC, track, name.text, kind.text LIMIT {MOST_ROWS + 1}"
    ).fetchall()
    return Summary(tuple(Row(*row) for row in rows[:MOST_ROWS]), busy, len(rows) > MOST_ROWS)


def longest(
    con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int], limit: int
) -> tuple[Hit, ...]:
    """Spans of some tracks that reach into the window, one by one: those with most of their length within it."""
    raw = overlapping(how, begin, end, 0, among(tracks), "span_id, track, ts_ns, dur_ns, name")
    rows = con.execute(
        "SELECT span_id, s.track, track.rank, s.ts_ns, s.dur_ns, left(text, 4096) FROM (SELECT *, "
        f"least(ts_ns + dur_ns, {end}) - greatest(ts_ns, {begin}) AS inside FROM ({raw}) "
        f"ORDER BY inside DESC, ts_ns, span_id LIMIT {limit}) AS s "
        "JOIN name ON name.id = s.name JOIN track ON track.track = s.track "
        "ORDER BY inside DESC, s.ts_ns, span_id"
    ).fetchall()
    return tuple(Hit(*row) for row in rows)


# Every span of the window.
def _seen(
    con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int]
) -> tuple[str, tuple[tuple[int, int | None], ...]]:
    raw = overlapping(how, begin, end, 0, among(tracks), _SPAN)
    inside = _clipped(raw, begin, end)
    spans = con.execute(f"SELECT count(*) FROM ({raw})").fetchall()[0][0]
    busy: Sequence[tuple[int, int | None]] = [(track, None) for track in sorted(tracks)]
    if spans <= MOST_BUSY:
        busy = con.execute(f"{_busy(inside)} ORDER BY track").fetchall()
    return _nested(inside, inside) if spans <= MOST_NESTED else _flat(inside), tuple(busy)


def _clipped(raw: str, begin: int, end: int) -> str:
    return (
        f"SELECT track, name, kind, span_id, parent_id, greatest(ts_ns, {begin}) AS start_ns, "
        f"least(ts_ns + dur_ns, {end}) AS end_ns FROM ({raw})"
    )


_TOTALS = (
    "SELECT track, name, kind, {count} AS count, sum(end_ns - start_ns)::BIGINT AS total_ns, {own} AS self_ns, "
    "min(end_ns - start_ns) AS least_ns, max(end_ns - start_ns) AS most_ns FROM {source} GROUP BY track, name, kind"
)


def _flat(inside: str) -> str:
    return _TOTALS.format(count="count(*)", own="NULL", source=f"({inside})")


def _nested(inside: str, below: str) -> str:
    """With what is left of every span without its children: a union, because children of one span may overlap."""
    return _less(inside, _union("parent_id", f"SELECT * FROM ({below}) WHERE parent_id IS NOT NULL"))


def _less(inside: str, covered: str) -> str:
    """Totals, and what is left of each span without what its children cover."""
    source = f"({inside}) AS outer_span LEFT JOIN ({covered}) AS below ON below.parent_id = outer_span.span_id"
    own = "sum(end_ns - start_ns - coalesce(union_ns, 0))::BIGINT"
    return _TOTALS.format(count="count(span_id)", own=own, source=source)


def _busy(inside: str) -> str:
    """Per track the union; what lies below another span of its track adds nothing."""
    return _union("track", f"SELECT * FROM ({inside}) WHERE parent_id IS NULL")


def _union(key: str, source: str) -> str:
    return (
        f"SELECT {key}, sum(greatest(0, end_ns - greatest(start_ns, coalesce(reach, start_ns))))::BIGINT AS union_ns "
        f"FROM (SELECT {key}, start_ns, end_ns, max(end_ns) OVER (PARTITION BY {key} ORDER BY start_ns, end_ns "
        f"ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach FROM ({source})) GROUP BY {key}"
    )


# Sums of whole portions, and the spans that they leave out.
def _whole(how: Arranged, begin: int, end: int) -> tuple[int, int] | None:
    """The first portion whose short spans all lie in the window, and the one after the last; None: there is none.

    A short span may reach into the portion after the one that it starts in.
    """
    if how.portion is None:
        return None
    first = max(0, -(-begin >> how.portion))
    beyond = (how.length_ns >> how.portion) + 1 if end >= how.length_ns else (end >> how.portion) - 1
    return (first, beyond) if beyond > first else None


def _added(
    con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int], whole: tuple[int, int]
) -> str:
    """The rows of the window."""
    bits, on_tracks = how.portion or 0, among(tracks)
    length, first, beyond = 1 << bits, *whole
    chosen = " OR ".join(f"(level = {n} AND portion BETWEEN {a} AND {b - 1})" for n, a, b in _levels(first, beyond))
    sums = f"SELECT {_SUMS} FROM total WHERE ({chosen}) AND {on_tracks}"
    parts = [sums, _long(con, how, begin, end, tracks)]
    # Short spans before the first portion, with the children that lie within it, and after the last.
    edges, below = [], []
    if begin > 0:
        early = overlapping(how, begin, (first + 1) * length, 0, on_tracks, _SPAN)
        below.append(f"SELECT * FROM ({early}) WHERE dur_ns < {length}")
        edges.append(f"{below[0]} AND ts_ns < {first * length}")
    if beyond * length < end:
        after = (
            f"SELECT {_SPAN} FROM span WHERE class <= {bits // 2} AND ts_ns >= {beyond * length} AND ts_ns < {end} "
            f"AND dur_ns < {length} AND {on_tracks}"
        )
        below.append(after)
        edges.append(after)
    if edges:
        inside, within = (_clipped(" UNION ALL ".join(some), begin, end) for some in (edges, below))
        parts.append(_nested(inside, within))
    return (
        "SELECT track, name, kind, sum(spans)::BIGINT AS count, sum(total_ns)::BIGINT AS total_ns, "
        "sum(self_ns)::BIGINT AS self_ns, min(least_ns) AS least_ns, max(most_ns) AS most_ns "
        f"FROM ({' UNION ALL '.join(f'({part})' for part in parts)}) GROUP BY track, name, kind"
    )


def _levels(first: int, beyond: int) -> Iterator[tuple[int, int, int]]:
    """Few sums for many portions: level, first and one after the last of each level."""
    level = 0
    while first < beyond:
        a, b = -(-first >> JOINED_BITS), beyond >> JOINED_BITS
        if a >= b:
            yield level, first, beyond
            return
        if first < a << JOINED_BITS:
            yield level, first, a << JOINED_BITS
        if b << JOINED_BITS < beyond:
            yield level, b << JOINED_BITS, beyond
        first, beyond, level = a, b, level + 1


def _long(con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int]) -> str:
    """Spans at least as long as a portion. Those that cross an edge of the window have only some of their children."""
    raw = overlapping(how, begin, end, 1 << (how.portion or 0), among(tracks), _SPAN)
    crossing = con.execute(f"SELECT span_id FROM ({raw}) WHERE ts_ns < {begin} OR ts_ns + dur_ns > {end}").fetchall()
    covered = f"SELECT span_id AS parent_id, dur_ns - self_ns AS union_ns FROM ({raw}) JOIN own USING (span_id)"
    if crossing:
        ids = ", ".join(str(span_id) for (span_id,) in crossing)
        every = overlapping(how, begin, end, 0, among(tracks), _SPAN)
        some = _union("parent_id", _clipped(f"SELECT * FROM ({every}) WHERE parent_id IN ({ids})", begin, end))
        covered = f"{covered} WHERE span_id NOT IN ({ids}) UNION ALL {some}"
    return _less(_clipped(raw, begin, end), covered)


def _busy_added(
    con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Per track the union: of whole portions, and of the spans before and after them."""
    bits, on_tracks = how.portion or 0, among(tracks)
    first = max(0, -(-begin >> bits))
    beyond = (how.length_ns >> bits) + 1 if end >= how.length_ns else end >> bits
    inner = f"portion BETWEEN {first} AND {beyond - 1} AND {on_tracks}"
    parts = [f"SELECT track, busy_ns AS union_ns FROM busy WHERE {inner}"]
    for a, b in ((begin, first << bits), (beyond << bits, end)):
        if a < b:
            parts.append(_busy(_clipped(overlapping(how, a, b, 0, on_tracks, _SPAN), a, b)))
    found = con.execute(
        f"SELECT track, sum(union_ns)::BIGINT FROM ({' UNION ALL '.join(f'({part})' for part in parts)}) "
        "GROUP BY track ORDER BY track"
    ).fetchall()
    return tuple((int(track), int(ns)) for track, ns in found)
