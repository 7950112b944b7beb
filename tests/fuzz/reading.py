"""A capture read as a load reads it, without the child process around it, and what must hold of whatever came out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import capture
from npulens.ingest.loading.parsing import put_together
from npulens.ingest.tables import schema
from npulens.ingest.tables.finish import Part
from npulens.ingest.tables.sqltext import literal

#: Tables that coverage does not speak of: of the run, or made from the others.
_OF_RUN = ("run", "rank", "coverage", "device_time", "checked")
_STATUS = {"recorded", "partial", "absent"}


@dataclass
class Read:
    """What came of a capture: parts of ranks, and refusals."""

    parts: list[Part] = field(default_factory=list)
    refused: list[IngestError] = field(default_factory=list)


def read(paths: list[Path], scratch: Path) -> Read:
    """Look, parse, finish; every part is checked."""
    done = Read()
    found = capture.find(paths)
    done.refused.extend(found.refused)
    for i, source in enumerate(found.sources):
        try:
            part = put_together(source, scratch / f"part{i}", lambda done: None)
        except IngestError as error:
            # A database engine's complaint about one value has taken a whole rank with it.
            assert error.kind != "failed", f"one value costs a whole rank: {error}"
            done.refused.append(error)
        else:
            check(part)
            done.parts.append(part)
    for error in done.refused:
        assert error.kind and error.message and "\n" not in error.message.strip(), f"no sentence: {error!r}"
    return done


def check(part: Part) -> None:
    """What holds of every part, whatever was in the files."""
    files = {path.stem: path for path in Path(part.directory).glob("*.parquet")}
    for name, rows in part.rows.items():
        if name in files:
            assert pq.ParquetFile(files[name]).metadata.num_rows == rows, f"rows of {name}"
    _check_coverage(part)
    with duckdb.connect() as con:
        for name in ("span", "track", "link", "kernel", "comm", "step"):
            con.execute(f"CREATE VIEW {name} AS FROM read_parquet({literal(str(files[name]))})")
        _check_spans(con, part)


def _one(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    assert row is not None
    return int(row[0] or 0)


def _check_coverage(part: Part) -> None:
    assert {row["table"] for row in part.coverage} == set(schema.tables()) - set(_OF_RUN)
    for row in part.coverage:
        table = row["table"]
        assert row["status"] in _STATUS and row["dropped"] >= 0 and row["rows"] == part.rows.get(table, 0), table
        assert row["status"] != "absent" or row["rows"] == 0, f"{table} is called absent and has rows"
        assert row["status"] == "recorded" or row["reason"], f"{table} is {row['status']} without a reason"
        assert row["dropped"] == 0 or row["status"] != "recorded", f"{table} lost rows and is called recorded"


def _check_spans(con: duckdb.DuckDBPyConnection, part: Part) -> None:
    promises = {
        "ids are unique": "SELECT count(*) - count(DISTINCT span_id) FROM span",
        "starts lie after the origin": "SELECT count(*) FROM span WHERE ts_ns < 0",
        "lengths are known": "SELECT count(*) FROM span WHERE dur_ns IS NULL OR dur_ns < 0",
        "parents exist": "SELECT count(*) FROM span AS s ANTI JOIN span AS p ON s.parent_id = p.span_id "
        "WHERE s.parent_id IS NOT NULL",
        "parents enclose their children": "SELECT count(*) FROM span AS s JOIN span AS p ON s.parent_id = p.span_id "
        "WHERE s.ts_ns < p.ts_ns OR s.ts_ns + s.dur_ns > p.ts_ns + p.dur_ns",
        "tracks exist": "SELECT count(*) FROM span ANTI JOIN track USING (track)",
        "links join spans": "SELECT count(*) FROM link ANTI JOIN span ON span.span_id = link.src_span_id",
        "links end at spans": "SELECT count(*) FROM link ANTI JOIN span ON span.span_id = link.dst_span_id",
        "kernels are spans": "SELECT count(*) FROM kernel ANTI JOIN span USING (span_id)",
        "one kernel row per span": "SELECT count(*) - count(DISTINCT span_id) FROM kernel",
        "one comm row per span": "SELECT count(*) - count(DISTINCT span_id) FROM comm",
        "steps have a length": "SELECT count(*) FROM step WHERE dur_ns < 0",
    }  # fmt: skip
    each = (f"SELECT {literal(promise)}, ({query})" for promise, query in promises.items())
    broken = con.execute(" UNION ALL ".join(each))
    assert [row for row in broken.fetchall() if row[1]] == []
    if part.rows.get("span"):
        last, end = _one(con, "SELECT max(ts_ns + dur_ns) FROM span"), part.end_ns - part.origin_ns
        assert last <= end, f"a span ends at {last}, the part at {end}"
