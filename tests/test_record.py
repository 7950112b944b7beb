"""Simulated jobs: what is stored equals the model's own record of every span, link and transfer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest

from npulens import ingest
from npulens.collectors.simulator.simulated import AscendOptions, Job, write_both, write_db, write_kineto, write_text
from npulens.ingest.store import runs
from tests.simjob import KINETO, TORCH_NPU_DB, TORCH_NPU_TEXT, expected_links, expected_spans, expected_transfers, job

RANKS = 4
ROUTES = ("host_to_device", "torch_to_npu", "task_queue", "fwdbwd")


def loaded(directory: Path, where: Path) -> duckdb.DuckDBPyConnection:
    report = ingest.load(directory, where)
    assert [(run.status, run.ranks) for run in report.runs] == [("complete", tuple(range(RANKS)))], report
    return runs.open_run(where, report.runs[0].run_id or "")


def stored_spans(con: duckdb.DuckDBPyConnection, rank: int) -> Counter[tuple[object, ...]]:
    return Counter(
        con.execute(
            "SELECT kind, name, ts_ns + origin_ns, dur_ns, step FROM span, run WHERE rank = ? "
            "AND kind NOT IN ('profiler_split', 'host_other')",
            [rank],
        ).fetchall()
    )


def recorded_spans(made: Job, rank: int, fmt: str) -> Counter[tuple[object, ...]]:
    return Counter(
        (row.kind, row.name, row.ts_ns, row.dur_ns, row.step) for row in expected_spans(made.ranks[rank], fmt)
    )


def stored_links(con: duckdb.DuckDBPyConnection, rank: int) -> set[tuple[str, int, int]]:
    return set(
        con.execute(
            "SELECT l.route, s.ts_ns + origin_ns, d.ts_ns + origin_ns FROM run, link l "
            "JOIN span s ON s.span_id = l.src_span_id JOIN span d ON d.span_id = l.dst_span_id WHERE l.rank = ?",
            [rank],
        ).fetchall()
    )


def check_latencies(con: duckdb.DuckDBPyConnection) -> None:
    wrong = con.execute(
        "SELECT count(*) FROM link l JOIN span s ON s.span_id = l.src_span_id JOIN span d ON d.span_id = l.dst_span_id "
        "WHERE l.latency_ns <> d.ts_ns - s.ts_ns"
    ).fetchall()
    assert wrong == [(0,)]


@pytest.mark.parametrize(("fmt", "write"), [(TORCH_NPU_TEXT, write_text), (TORCH_NPU_DB, write_db)])
def test_torch_npu_tables_equal_the_record(fmt: str, write: object, tmp_path: Path) -> None:
    made = job(ranks=RANKS)
    write(made, tmp_path / "capture", AscendOptions())  # type: ignore[operator]
    con = loaded(tmp_path / "capture", tmp_path / "store")
    for record in made.ranks:
        assert stored_spans(con, record.rank) == recorded_spans(made, record.rank, fmt)
        wanted = expected_links(record, *ROUTES)
        if fmt == TORCH_NPU_DB:  # a database has no arrow from an operator straight to a copy
            copies = {row.ts_ns for row in expected_transfers(record)}
            found = {
                link for link in stored_links(con, record.rank) if link[0] != "torch_to_npu" or link[2] not in copies
            }
            wanted = {link for link in wanted if link[0] != "torch_to_npu" or link[2] not in copies}
        else:
            found = stored_links(con, record.rank)
        assert found == wanted
    check_latencies(con)


def renamed(spans: Counter[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    """Without the names of device tasks, which differ from vendor to vendor, and the annotations that only CUDA has."""
    device = ("kernel", "memset", "memcpy", "comm_op")
    return Counter(
        (kind, None if kind in device else name, *rest)
        for kind, name, *rest in spans.elements()
        if kind != "device_annotation"
    )


def test_kineto_tables_equal_the_record(tmp_path: Path) -> None:
    made = job(ranks=RANKS, task_queue=False)
    write_kineto(made, tmp_path / "capture", "cuda", gz=True)
    con = loaded(tmp_path / "capture", tmp_path / "store")
    for record in made.ranks:
        assert renamed(stored_spans(con, record.rank)) == renamed(recorded_spans(made, record.rank, KINETO))
        found = [
            (ts, direction, size)
            for ts, direction, size in con.execute(
                "SELECT ts_ns + origin_ns, direction, bytes FROM run, transfer t JOIN span s USING (span_id) "
                "WHERE t.rank = ? ORDER BY ALL", [record.rank],
            ).fetchall()
        ]  # fmt: skip
        assert found == [(row.ts_ns, row.direction, row.bytes) for row in expected_transfers(record)]
    check_latencies(con)


def test_text_and_database_together_are_one_result(tmp_path: Path) -> None:
    made = job(ranks=RANKS)
    write_both(made, tmp_path / "both", AscendOptions())
    write_db(made, tmp_path / "db", AscendOptions())
    both, alone = loaded(tmp_path / "both", tmp_path / "store"), loaded(tmp_path / "db", tmp_path / "store")
    for record in made.ranks:
        assert stored_spans(both, record.rank) == stored_spans(alone, record.rank)
        assert stored_links(both, record.rank) == stored_links(alone, record.rank)
    for table, more in (("kernel", False), ("comm", False), ("pmu", False), ("l2_cache", True), ("summary", True)):
        counts = [con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for con in (both, alone)]
        assert counts[0] > counts[1] if more else counts[0] == counts[1], table
    lanes = "SELECT count(*), count(DISTINCT track) FROM span WHERE kind = 'profiler_split'"
    assert both.execute(lanes).fetchall()[0][1] == 4 * RANKS
    wrong = both.execute(
        "SELECT count(*) FROM span JOIN track USING (track) "
        "WHERE (span.kind = 'profiler_split') <> (track.kind = 'profiler')"
    ).fetchall()
    assert wrong == [(0,)]
    said = both.execute("SELECT reason FROM coverage WHERE table_name = 'kernel' AND rank = 0").fetchall()[0][0]
    assert "text and database differ in" in said and "task_type" in said
    waits = both.execute("SELECT count(wait_ns) FROM kernel").fetchall()[0][0]
    assert waits > 0, "a column that only the text has was not filled in"


def test_a_damaged_half_leaves_the_other(tmp_path: Path) -> None:
    made = job(ranks=RANKS)
    write_both(made, tmp_path / "both", AscendOptions())
    for path in (tmp_path / "both").rglob("ascend_pytorch_profiler_*.db"):
        path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    report = ingest.load(tmp_path / "both", tmp_path / "store")
    kept = [run for run in report.runs if run.run_id]
    assert len(kept) == 1 and kept[0].ranks == tuple(range(RANKS))
    con = runs.open_run(tmp_path / "store", kept[0].run_id or "")
    assert stored_spans(con, 0) == recorded_spans(made, 0, TORCH_NPU_TEXT)
