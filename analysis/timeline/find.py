"""Finding spans: by what is wanted of them anywhere, and the next one on a lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb

from npulens.analysis.timeline.wanted import Text, Wanted


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
    total: int  # such spans in the whole run
    total_ns: int  # their lengths, added


#: Rank, step, start, length, as in the layout.
Steps = Sequence[tuple[int, int, int, int]]


def search(con: duckdb.DuckDBPyConnection, wanted: Wanted, steps: Steps, limit: int, after: int) -> Found:
    """Spans that are as wanted and start at a moment or later."""
    source, where, given = _conditions(wanted, steps)
    total, total_ns = con.execute(
        f"SELECT count(*), coalesce(sum(dur_ns), 0)::BIGINT FROM {source} WHERE {where}", given
    ).fetchall()[0]
    rows = con.execute(
        "SELECT hit.span_id, hit.track, track.rank, hit.ts_ns, hit.dur_ns, left(name.text, 4096) FROM "
        f"(SELECT span.* FROM {source} WHERE {where} AND ts_ns >= $after ORDER BY ts_ns, span_id LIMIT $limit) AS hit "
        "JOIN name ON name.id = hit.name JOIN track ON track.track = hit.track ORDER BY hit.ts_ns, hit.span_id",
        {**given, "after": after, "limit": limit},
    ).fetchall()
    return Found(tuple(Hit(*row) for row in rows), total, total_ns)


def _conditions(wanted: Wanted, steps: Steps) -> tuple[str, str, dict[str, object]]:
    """What follows FROM and WHERE, and the values that both name."""
    given: dict[str, object] = {}

    def like(text: Text, column: str) -> str:
        given[f"text{len(given)}"] = text.like
        return f"lower({column}) {'NOT ' if text.absent else ''}LIKE lower($text{len(given) - 1}) ESCAPE '\\'"

    tests = ["true"]
    if wanted.names:
        tests.append(f"name IN (SELECT id FROM name WHERE {' AND '.join(like(one, 'text') for one in wanted.names)})")
    if wanted.kinds:
        tests.append(f"kind IN (SELECT id FROM kind WHERE {_like_one(wanted.kinds, 'text', like)})")
    tracks = [_any([f"rank BETWEEN {low} AND {high}" for low, high in wanted.ranks])] if wanted.ranks else []
    if wanted.tracks:
        tracks.append(_like_one(wanted.tracks, "name || ' ' || process || ' ' || kind", like))
    if tracks:
        tests.append(f"span.track IN (SELECT track FROM track WHERE {' AND '.join(tracks)})")
    if wanted.least_ns is not None:
        tests.append(f"dur_ns >= {wanted.least_ns}")
    if wanted.most_ns is not None:
        tests.append(f"dur_ns <= {wanted.most_ns}")
    source = "span"
    if wanted.steps:
        inside = [row for row in steps if any(low <= row[1] <= high for low, high in wanted.steps)]
        given |= {"step_rank": [row[0] for row in inside], "step_from": [row[2] for row in inside],
                  "step_to": [row[2] + row[3] for row in inside]}  # fmt: skip
        source = (
            "span JOIN (SELECT track AS of_track, rank FROM track) AS t ON t.of_track = span.track JOIN (SELECT "
            "unnest($step_rank::INTEGER[]) AS of_rank, unnest($step_from::BIGINT[]) AS begin_ns, "
            "unnest($step_to::BIGINT[]) AS end_ns) AS w ON w.of_rank = t.rank AND ts_ns >= w.begin_ns "
            "AND ts_ns < w.end_ns"
        )
    return source, " AND ".join(tests), given


def _any(tests: Sequence[str]) -> str:
    return f"({' OR '.join(tests)})"


def _like_one(texts: Sequence[Text], column: str, like: Callable[[Text, str], str]) -> str:
    """Like one of the texts, and like none of those that must be absent."""
    some = [like(one, column) for one in texts if not one.absent]
    return " AND ".join([*([_any(some)] if some else []), *(like(one, column) for one in texts if one.absent)])


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
