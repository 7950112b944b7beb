"""Steps between raw tables and contract tables: a SELECT kept as a file, and the texts behind string codes."""

from __future__ import annotations

from itertools import pairwise

from ingest.draft import Draft

#: Rows that are joined and grouped within a hundred megabytes.
STRETCH = 300_000


def keep_by_time(draft: Draft, name: str, select: str, stamped: str, rows: int) -> int:
    """`Draft.keep` a stretch of time after the other, each of about so many rows as there is memory for.

    ``select`` says with {during} what of its sources it takes: those that share a stamp meet in one stretch.
    """
    parts = -(-rows // STRETCH)
    shares = [number / parts for number in range(1, parts)]
    cuts = draft.con.execute(f"SELECT approx_quantile(ts, {shares}) FROM {stamped}").fetchall()[0][0] if shares else []
    edges = [None, *sorted(set(cuts)), None]
    made = []
    for number, (begin, end) in enumerate(pairwise(edges)):
        after = "true" if begin is None else f"ts >= {begin}"
        before = "true" if end is None else f"ts < {end}"
        made.append(draft.write(f"{name}_{number}", select.format(during=f"{after} AND {before}")))
    draft.show(name, [path for path, _ in made])
    return sum(count for _, count in made)


def frames(text: str) -> str:
    """SQL: a call stack with one frame a line; the profiler ends frames with a semicolon and a line break."""
    return f"regexp_replace({text}, ';?\\r?\\n', chr(10), 'g')"


def one_line(text: str) -> str:
    """SQL: shapes without the line breaks that the profiler puts behind each semicolon."""
    return f"replace(replace({text}, chr(13), ''), chr(10), '')"


def count(draft: Draft, query: str) -> int:
    """The number a query answers with."""
    return int(draft.con.execute(query).fetchall()[0][0] or 0)
