"""What the SQL page needs besides the answer: types of columns, a span's moment, examples, and a query cut short."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb


@dataclass(frozen=True)
class Moment:
    """The rank, start and length of a span, for a link to the timeline."""

    rank: int
    ts_ns: int
    dur_ns: int


def column_types(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], str]:
    """(table or view, column) -> type, as the database says it."""
    rows = con.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal AND database_name <> 'temp'"
    ).fetchall()
    return {(table, column): kind for table, column, kind in rows}


def moment(con: duckdb.DuckDBPyConnection, span_id: int) -> Moment | None:
    """Rank, start and length of a span; None where there is none of this id."""
    rows = con.execute("SELECT rank, ts_ns, dur_ns FROM span WHERE span_id = ?", [span_id]).fetchall()
    return Moment(*rows[0]) if rows else None


def limited(query: str, most: int) -> str:
    """The first rows of a query that is known to be one SELECT and to answer with too many."""
    text = query.strip().rstrip(";").strip()
    return f"FROM (\n{text}\n) LIMIT {most}"


#: Queries to begin with: the key of their title, and the query.
EXAMPLES: tuple[tuple[str, str], ...] = (
    ("longest", """-- The 50 longest kernels; choose a row to see it on the timeline.
SELECT s.span_id, s.rank, s.step, coalesce(k.op_type, s.name) AS op, k.input_shapes, s.ts_ns, s.dur_ns
FROM span s LEFT JOIN kernel k USING (span_id)
WHERE s.kind = 'kernel'
ORDER BY s.dur_ns DESC
LIMIT 50"""),
    ("types", """SELECT rank, op, sum(count) AS count, sum(total_ns) / 1e6 AS total_ms, max(max_ns) / 1e3 AS longest_us
FROM kernel_group
GROUP BY ALL
ORDER BY total_ms DESC
LIMIT 100"""),
    ("split", """-- The exact split: the parts sum to dur_ns. Where step is NULL, it is that of the whole capture.
SELECT rank, step, start_ns, dur_ns, computing_ns, communication_not_overlapped_ns, copy_not_overlapped_ns,
    unknown_not_overlapped_ns, idle_ns
FROM split
ORDER BY rank, step"""),
    ("gaps", """-- The longest gaps in which a device did nothing.
SELECT * FROM device_gap
ORDER BY dur_ns DESC
LIMIT 50"""),
    ("collectives", """SELECT s.span_id, s.rank, s.step, c.collective, c.group_name, c.bytes, s.ts_ns, s.dur_ns
FROM span s JOIN comm c USING (span_id)
WHERE s.kind = 'comm_op'
ORDER BY s.dur_ns DESC
LIMIT 100"""),
    ("host", """-- Host calls that take longest in all; calls nest, so these do not add up.
SELECT kind, name, count(*) AS count, sum(dur_ns) / 1e6 AS total_ms, max(dur_ns) / 1e6 AS longest_ms
FROM span
WHERE kind IN ('cpu_op', 'runtime')
GROUP BY ALL
ORDER BY total_ms DESC
LIMIT 50"""),
    ("missing", """-- What was not fully recorded, and the setting that records it.
SELECT rank, table_name, status, dropped, reason, collect_with
FROM coverage
WHERE status <> 'recorded'
ORDER BY table_name, rank"""),
)  # fmt: skip
