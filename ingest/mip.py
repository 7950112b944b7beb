"""The timeline from far away.

At a zoom where a pixel is wider than a span, drawing spans one by one is wasted; a row per
track, lane and bucket says as much. Levels are four times coarser each, from the first whose
rows are at most an eighth of the spans up to about 500 buckets over the whole capture. A level
sums only spans shorter than its bucket: longer ones are few and drawn exactly.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from ingest.sqltext import literal

#: Below this many spans the timeline draws them all.
SMALLEST = 16_384
#: A level this coarse shows the whole capture.
BUCKETS = 500


def levels(spans: int, lanes: int, length_ns: int) -> list[int]:
    """Exponents of the bucket lengths worth building."""
    if spans < SMALLEST or length_ns <= 0:
        return []
    first = max(0, (8 * max(lanes, 1) * length_ns // spans).bit_length())
    last = max(first, (length_ns // BUCKETS).bit_length())
    return list(range(first, last + 2, 2))


def build_mip(con: duckdb.DuckDBPyConnection, span: Path, out: Path) -> int:
    """Write mip.parquet from span.parquet; rows written."""
    source = f"read_parquet({literal(str(span))})"
    spans, lanes, length = con.execute(
        "SELECT count(*), count(DISTINCT track * 1024 + depth), coalesce(max(ts_ns + dur_ns) - min(ts_ns), 0) "
        f"FROM {source}"
    ).fetchall()[0]
    con.execute(
        "CREATE OR REPLACE TEMP TABLE mip(level INTEGER, bucket BIGINT, track BIGINT, depth INTEGER, spans BIGINT, "
        "busy_ns BIGINT, longest_ns BIGINT, longest_id BIGINT)"
    )
    finer: int | None = None
    for level in levels(spans, lanes, length):
        # Each level adds the spans its finer one was too fine for to what that one summed.
        fresh = (
            f"SELECT ts_ns >> {level} AS bucket, track, depth, 1 AS spans, dur_ns AS busy_ns, dur_ns AS longest_ns, "
            f"span_id AS longest_id FROM {source} WHERE dur_ns < {1 << level}"
        )
        if finer is not None:
            fresh += (
                f" AND dur_ns >= {1 << finer} UNION ALL SELECT bucket >> {level - finer}, track, depth, spans, "
                f"busy_ns, longest_ns, longest_id FROM mip WHERE level = {finer}"
            )
        con.execute(
            f"INSERT INTO mip SELECT {level}, bucket, track, depth, sum(spans), sum(busy_ns), max(longest_ns), "
            f"arg_max(longest_id, longest_ns) FROM ({fresh}) GROUP BY bucket, track, depth"
        )
        finer = level
    written = con.execute(
        f"COPY (SELECT mip.* EXCLUDE (longest_id), name AS longest_name FROM mip JOIN {source} ON span_id = longest_id "
        f"ORDER BY level, bucket, mip.track, mip.depth) TO {literal(str(out))} (FORMAT parquet, COMPRESSION lz4)"
    ).fetchall()
    con.execute("DROP TABLE mip")
    return int(written[0][0])
