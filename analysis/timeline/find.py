"""Finding spans: by name anywhere, and the next one on a lane."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb


@dataclass(frozen=True)
class Hit:
    id: int
    track: int
    rank: int
    ts: int
    dur: int
    name: str


@dataclass(frozen=True)
class Found:
    hits: tuple[Hit, ...]  # by start
    total: int  # spans of such a name in the whole run
    total_ns: int  # their lengths, added


_NAMES = "name IN (SELECT id FROM name WHERE contains(lower(text), lower($text)))"


def search(con: duckdb.DuckDBPyConnection, text: str, limit: int, after: int) -> Found:
    """Spans whose name holds a text, whatever the case, that start at a moment or later."""
    total, total_ns = con.execute(
        f"SELECT count(*), coalesce(sum(dur_ns), 0)::BIGINT FROM span WHERE {_NAMES}", {"text": text}
    ).fetchall()[0]
    rows = con.execute(
        "SELECT hit.span_id, hit.track, track.rank, hit.ts_ns, hit.dur_ns, left(name.text, 4096) FROM "
        f"(SELECT * FROM span WHERE {_NAMES} AND ts_ns >= $after ORDER BY ts_ns, span_id LIMIT $limit) AS hit "
        "JOIN name ON name.id = hit.name JOIN track ON track.track = hit.track ORDER BY hit.ts_ns, hit.span_id",
        {"text": text, "after": after, "limit": limit},
    ).fetchall()
    return Found(tuple(Hit(*row) for row in rows), total, total_ns)


def near(
    con: duckdb.DuckDBPyConnection, track: int, lane: int, ts: int, span: int | None, forward: bool
) -> tuple[int, int, int] | None:
    """Id, start and length of the next or previous span of a lane.

    With a span, it is the one after or before exactly it.
    """
    sign, way = (">", "ASC") if forward else ("<", "DESC")
    beyond = f"ts_ns {sign} $ts" if span is None else f"(ts_ns {sign} $ts OR (ts_ns = $ts AND span_id {sign} {span}))"
    found = con.execute(
        f"SELECT span_id, ts_ns, dur_ns FROM span WHERE track = $track AND depth = $lane AND {beyond} "
        f"ORDER BY ts_ns {way}, span_id {way} LIMIT 1",
        {"track": track, "lane": lane, "ts": ts},
    ).fetchone()
    return None if found is None else (int(found[0]), int(found[1]), int(found[2]))
