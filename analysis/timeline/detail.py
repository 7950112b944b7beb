"""Everything that was recorded of one span, and what was not."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

#: Tables whose columns describe a span, and the kinds of span that each would describe.
_DESCRIBES = {
    "kernel": ("kernel", "memset"),
    "pmu": ("kernel",),
    "transfer": ("memcpy",),
    "comm": ("comm_op", "comm_task"),
    "host_op": ("cpu_op",),
    "stack": ("cpu_op",),
    "link": ("kernel", "memset", "memcpy", "comm_op", "unknown", "enqueue", "dequeue", "runtime"),
}
_FACTS = ("kernel", "transfer", "comm", "host_op", "l2_cache")
#: Arrows of one span that are drawn.
MOST_LINKS = 200


@dataclass(frozen=True)
class Link:
    """The other end of an arrow."""

    id: int
    track: int
    rank: int
    ts: int
    dur: int
    name: str
    route: str
    out: bool  # from the span to there


@dataclass(frozen=True)
class Detail:
    id: int
    rank: int
    track: int
    name: str
    kind: str
    ts: int
    dur: int
    step: int | None
    depth: int
    parent: int | None
    facts: tuple[tuple[str, object], ...]  # column and value
    pmu: tuple[tuple[str, float | None], ...]
    stack: tuple[str, ...] | None  # innermost first
    args: str | None
    links: tuple[Link, ...]
    not_recorded: tuple[tuple[str, str | None], ...]  # table, and the setting that records it


def detail(con: duckdb.DuckDBPyConnection, span: int) -> Detail | None:
    """One span of the run; None where there is none of that number."""
    row = con.execute(
        "SELECT span_id, rank, track, name, kind, ts_ns, dur_ns, step, depth, parent_id FROM span WHERE span_id = ?",
        [span],
    ).fetchone()
    if row is None:
        return None
    pmu = con.execute("SELECT metric, value FROM pmu WHERE span_id = ? ORDER BY metric", [span]).fetchall()
    frames = con.execute("SELECT frames FROM stack WHERE span_id = ?", [span]).fetchone()
    args = con.execute("SELECT args FROM arg WHERE span_id = ?", [span]).fetchone()
    return Detail(
        *(
            *row, tuple(fact for table in _FACTS for fact in _facts(con, table, span)), tuple(pmu),
            tuple(frames[0].split("\n")) if frames else None, args[0] if args else None, _links(con, span),
            _not_recorded(con, row[1], row[4]),
        ),
    )  # fmt: skip


def _facts(con: duckdb.DuckDBPyConnection, table: str, span: int) -> list[tuple[str, object]]:
    found = con.execute(f"SELECT * EXCLUDE (span_id, rank) FROM {table} WHERE span_id = ?", [span])
    names, row = [column[0] for column in found.description or ()], found.fetchone()
    return [(name, value) for name, value in zip(names, row or (), strict=False) if value is not None]


def _links(con: duckdb.DuckDBPyConnection, span: int) -> tuple[Link, ...]:
    ends = con.execute(
        "SELECT DISTINCT CASE WHEN src_span_id = $1 THEN dst_span_id ELSE src_span_id END, route, src_span_id = $1 "
        "FROM link WHERE src_span_id = $1 OR dst_span_id = $1 ORDER BY ALL LIMIT $2",
        [span, MOST_LINKS],
    ).fetchall()
    if not ends:
        return ()
    rows = con.execute(
        f"SELECT span_id, track, rank, ts_ns, dur_ns, name FROM span WHERE span_id IN ({', '.join('?' * len(ends))})",
        [end for end, _, _ in ends],
    ).fetchall()
    there = {row[0]: row for row in rows}
    return tuple(Link(*(*there[end], route, out)) for end, route, out in ends if end in there)


def _not_recorded(con: duckdb.DuckDBPyConnection, rank: int, kind: str) -> tuple[tuple[str, str | None], ...]:
    wanted = [table for table, kinds in _DESCRIBES.items() if kind in kinds]
    rows = con.execute(
        "SELECT table_name, collect_with FROM coverage WHERE rank = ? AND status = 'absent' ORDER BY table_name", [rank]
    ).fetchall()
    return tuple(row for row in rows if row[0] in wanted)
