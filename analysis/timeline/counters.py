"""Counters of a window, at most one point a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb


@dataclass(frozen=True)
class Series:
    """What a counter said: where a column holds several values, the least, the most and the last of them."""

    id: int
    t: list[int]
    least: list[float]
    most: list[float]
    last: list[float]


def series(con: duckdb.DuckDBPyConnection, ids: Sequence[int], begin: int, end: int, pixels: int) -> list[Series]:
    """Some counters from ``begin`` to before ``end``; first the value in force at ``begin``, where there is one."""
    width = max(1, -(-(end - begin) // pixels))
    chosen = f"id IN ({', '.join(str(int(each)) for each in ids)})" if ids else "false"
    rows = con.execute(
        "SELECT id, max($begin) AS t, last(value ORDER BY ts_ns, value) AS least, least AS most, least AS last "
        f"FROM point WHERE {chosen} AND ts_ns <= $begin GROUP BY id UNION ALL "
        "SELECT id, min(ts_ns) AS t, min(value), max(value), last(value ORDER BY ts_ns, value) "
        f"FROM point WHERE {chosen} AND ts_ns > $begin AND ts_ns < $end GROUP BY id, (ts_ns - $begin) // $width "
        "ORDER BY id, t",
        {"begin": begin, "end": end, "width": width},
    ).fetchall()
    found = {each: Series(each, [], [], [], []) for each in ids}
    for each, t, least, most, last in rows:
        of = found[each]
        of.t.append(t)
        of.least.append(least)
        of.most.append(most)
        of.last.append(last)
    return list(found.values())
