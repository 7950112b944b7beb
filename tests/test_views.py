"""The views of analysis/sql against plain Python that shares nothing with them, on made and on recorded runs."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npulens import ingest
from npulens.analysis import split, views
from npulens.ingest.store import runs
from npulens.ingest.store.export import export
from npulens.ingest.store.query import ask
from tests import view_reference
from tests.slow_job import Job
from tests.tablecase import connection

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ("torch_npu_text", "torch_npu_db", "kineto")
SPLIT = (
    "rank, step, start_ns, dur_ns, computing_ns, communication_ns, communication_not_overlapped_ns, overlapped_ns, "
    "copy_ns, copy_not_overlapped_ns, unknown_ns, unknown_not_overlapped_ns, idle_ns, residual_ns"
)
Con = duckdb.DuckDBPyConnection


def ask_all(con: Con, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def split_is_breakdown(con: Con) -> None:
    """The split that was summed at load is that of sets of time, and `npulens breakdown` says the same."""
    expected: list[tuple[Any, ...]] = []
    for (rank,) in ask_all(con, "SELECT rank FROM rank"):
        windows = ask_all(con, f"SELECT step, start_ns, start_ns + dur_ns FROM step_window WHERE rank = {rank}")
        if windows == [(None, None, None)]:
            expected.append((rank, *[None] * 13))
        else:
            found = split.rows(rank, windows, split.activity(con, rank))
            expected += [tuple(vars(row)[name] for name in SPLIT.split(", ")) for row in found]
    said = [tuple(vars(row)[name] for name in SPLIT.split(", ")) for row in split.breakdown(con)]
    assert in_order(ask_all(con, f"SELECT {SPLIT} FROM split")) == in_order(expected) == in_order(said)


def pieces_tile(con: Con) -> None:
    """The pieces of a rank never overlap, and those within a window are as long as the window."""
    query = """
        SELECT p.rank FROM device_state p JOIN device_state q
        ON p.rank = q.rank AND p.ts_ns < q.ts_ns + q.dur_ns AND q.ts_ns < p.ts_ns + p.dur_ns AND p.ts_ns <> q.ts_ns
        UNION ALL
        SELECT w.rank FROM step_window w LEFT JOIN device_state p
        ON p.rank = w.rank AND p.ts_ns >= w.start_ns AND p.ts_ns + p.dur_ns <= w.start_ns + w.dur_ns
        GROUP BY w.rank, w.start_ns, w.dur_ns, w.step
        HAVING coalesce(sum(p.dur_ns), 0) <> count(DISTINCT w.start_ns) * coalesce(w.dur_ns, 0)
    """
    assert ask_all(con, query) == []


def same(con: Con) -> None:
    """Every view says what the slow way says."""
    views.install(con)
    job = Job(con)
    for name, columns in view_reference.COLUMNS.items():
        found = ask_all(con, f"SELECT {columns} FROM {name} WHERE {view_reference.WHERE.get(name, 'true')}")
        assert in_order(found) == in_order(getattr(view_reference, name)(job)), name
    split_is_breakdown(con)


def sums_agree(con: Con) -> None:
    """What two views say of one thing is the same, however each of them finds it."""
    for one, other in (
        ("SELECT rank, sum(dur_ns) FROM device_gap WHERE complete GROUP BY rank",
         "SELECT rank, idle_ns FROM split WHERE step IS NULL AND idle_ns > 0"),
        ("SELECT rank, step, dur_ns - busy_ns FROM device_busy WHERE track IS NULL AND rank IN ("
         "SELECT rank FROM device_coverage WHERE computing AND communication AND copy)",
         "SELECT rank, step, idle_ns FROM split WHERE idle_ns IS NOT NULL"),
        ("SELECT name, rank, step, value::BIGINT FROM metric WHERE name = 'only_waiting_ns'",
         "SELECT 'only_waiting_ns', rank, step, only_waiting_ns FROM rank_step"),
        ("SELECT rank, sum(count) FROM kernel_group GROUP BY rank",
         "SELECT rank, kernels FROM rank_step WHERE step IS NULL AND kernels > 0"),
    ):  # fmt: skip
        assert in_order(ask_all(con, one)) == in_order(ask_all(con, other))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each sample capture in a store of its own."""
    where = {}
    for name in SAMPLES:
        where[name] = tmp_path_factory.mktemp(name)
        assert ingest.load(ROOT / "sample_traces" / name, where[name]).runs[0].run_id
    return where


def opened(where: Path) -> Con:
    return runs.open_run(where, runs.runs(where)[0].run_id)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_views_say_of_the_samples_what_the_slow_way_says(name: str, samples: dict[str, Path]) -> None:
    con = opened(samples[name])
    same(con)
    sums_agree(con)
    pieces_tile(con)


KINDS = ("kernel", "kernel", "memset", "memcpy", "comm_op", "comm_task", "wait", "device_other", "cpu_op", "enqueue",
         "dequeue", "runtime", "step_mark")  # fmt: skip
#: A run may be of all kinds, or of those that meet in one place.
MIXES = (KINDS, ("kernel", "comm_op", *["comm_task"] * 5), ("kernel", "kernel", "memcpy", "runtime", "step_mark"))
PARTS = ("Notify_Wait", "Notify_Wait", "Notify Wait", "Notify_Record", "Write Value", "Memcpy", "Reduce_Inline", "SDMA")
SIZES = (None, 0, 1, 3, 4, 1023, 1024, 1 << 40)


def made(seed: int) -> dict[str, Any]:
    """Spans in a short time, so that they touch, overlap and coincide; what a table may lack is left out."""
    dice = random.Random(seed)
    spans: list[dict[str, Any]] = []
    kinds = dice.choice(MIXES)
    for number in range(dice.choice((0, 1, 2, 4, 8, 16, 30, 60))):
        kind, rank = dice.choice(kinds), dice.choice((0, 0, 1))
        span: dict[str, Any] = {"id": number, "kind": kind, "name": f"{kind}#{number % 4}", "rank": rank}
        span |= {"at": dice.randrange(26), "for": dice.randrange(7), "track": f"s{dice.randrange(2)}"}
        operators = [s["id"] for s in spans if s["kind"] == "comm_op" and s["rank"] == rank]
        if kind in ("kernel", "memset") and dice.random() < 0.5:
            span["kernel"] = {"op_type": dice.choice((None, "Mul", "Add")), "input_shapes": "2,2"}
        if kind == "memcpy" and dice.random() < 0.8:
            span["transfer"] = {"direction": dice.choice((None, "h2d", "d2d")), "bytes": dice.choice(SIZES)}
        if kind == "comm_op" and dice.random() < 0.8:
            span["comm"] = {"op_span_id": number, "group_name": dice.choice((None, "tp", "dp")), "bytes": 7}
        if kind == "comm_task":
            span["comm"] = {
                "op_span_id": dice.choice([*operators, None]), "task_type": dice.choice(PARTS),
                "plane": dice.choice((None, 0, 1)), "dst_rank": dice.choice((5, 5, 0, 1, None)),
                "dst_local": dice.choice((None, 5)), "bytes": dice.choice(SIZES),
            }  # fmt: skip
        before = [s["id"] for s in spans if s["rank"] == rank]
        span["by"] = dice.sample(before, min(len(before), dice.randrange(4)))
        spans.append(span)
    absent = [table for table in ("kernel", "comm", "transfer") if dice.random() < 0.2]
    return {"spans": spans, "absent": absent, "rank": {0: {}, 1: {}, 2: {}}}


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_views_say_of_made_runs_what_the_slow_way_says(seed: int) -> None:
    con = connection(made(seed))
    same(con)
    pieces_tile(con)


def test_what_was_not_recorded_is_null_and_what_did_not_happen_is_zero() -> None:
    spans = [
        {"id": 1, "kind": "step_mark", "name": "ProfilerStep#7", "at": 0, "for": 100},
        {"id": 2, "kind": "kernel", "name": "mul", "at": 10, "for": 20},
        {"id": 3, "kind": "comm_op", "name": "hcom", "at": 30, "for": 10},
        {"id": 4, "kind": "memcpy", "name": "copy", "at": 90, "for": 5},
    ]
    numbers = "only_waiting_ns, copy_ns, copy_not_overlapped_ns, idle_ns, kernels, collectives, copies"

    def said(kinds: str, *absent: str) -> tuple[Any, ...]:
        con = connection({"spans": [s for s in spans if s["kind"] in kinds], "absent": absent})
        views.install(con)
        return ask_all(con, f"SELECT {numbers} FROM rank_step WHERE step = 7")[0]

    assert said("step_mark kernel") == (0, 0, 0, 80_000, 1, 0, 0)
    assert said("step_mark kernel", "transfer") == (0, None, None, None, 1, 0, None)
    assert said("step_mark kernel comm_op memcpy") == (None, 5000, 5000, 65_000, 1, 1, 1)
    assert said("step_mark kernel memcpy", "comm") == (None, 5000, None, None, 1, None, 1)
    assert said("step_mark", "kernel") == (None,) * 7


def test_no_gap_is_made_up_where_no_device_was_recorded() -> None:
    con = connection({"spans": [{"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 9}],
                      "absent": ["kernel"]})  # fmt: skip
    views.install(con)
    assert ask_all(con, "FROM device_gap") == []
    assert ask_all(con, "SELECT step, busy_ns FROM device_busy ORDER BY ALL") == [(1, None), (None, None)]
    assert ask_all(con, "SELECT DISTINCT value FROM metric WHERE name NOT IN ('step_ns')") == [(None,)]


def test_the_nearest_of_several_launches_counts() -> None:
    host = [(1, "cpu_op", 9), (2, "enqueue", 8), (3, "dequeue", 5), (4, "runtime", 2), (5, "runtime", 3)]
    spans = [{"id": i, "kind": kind, "name": kind, "at": at, "for": 1} for i, kind, at in host]
    by: Any
    for number, by in ((10, [1]), (11, [1, 2]), (12, [3, 2, 1]), (13, [1, 4, 3, 5]), (14, [])):
        spans.append({"id": number, "kind": "kernel", "name": "mul", "at": 4, "for": 1, "by": by})
    con = connection({"spans": spans})
    views.install(con)
    assert ask_all(con, "SELECT span_id, launch_id, latency_ns, negative FROM launch ORDER BY span_id") == [
        (10, 1, -5000, True), (11, 2, -4000, True), (12, 3, -1000, True), (13, 5, 1000, False), (14, None, None, None),
    ]  # fmt: skip


def test_groups_are_as_listed_or_else_as_seen() -> None:
    def op(number: int, group: str) -> dict[str, Any]:
        return {"id": number, "kind": "comm_op", "name": "hcom", "at": number, "for": 1,
                "comm": {"op_span_id": number, "group_name": group}}  # fmt: skip

    task = {"id": 3, "kind": "comm_task", "name": "Notify_Wait", "at": 1, "for": 1,
            "comm": {"op_span_id": 1, "group_name": "seen", "task_type": "Notify_Wait", "src_rank": 0, "src_local": 0,
                     "dst_rank": 9, "dst_local": 4}}  # fmt: skip
    listed = {"group_name": "listed", "rank": 0, "kind": "tp", "ranks": [8, 0], "source": "file"}
    con = connection({"spans": [op(1, "seen"), op(2, "listed"), task], "tables": {"parallel_group": [listed]}})
    views.install(con)
    assert ask_all(con, "FROM group_member ORDER BY group_name, rank") == [
        ("listed", "tp", 0, 1, True, "file"), ("listed", "tp", 8, 0, False, "file"),
        ("seen", None, 0, 0, True, "communication"), ("seen", None, 9, 4, False, "communication"),
    ]  # fmt: skip


def test_shares_and_rates_follow_from_their_parts(samples: dict[str, Path]) -> None:
    con = opened(samples["kineto"])
    views.install(con)
    assert ask_all(con, "SELECT count(*) FROM device_busy WHERE share <> busy_ns / dur_ns OR share IS NULL") == [(0,)]
    rates = ask_all(con, "SELECT bytes, busy_ns, bytes_per_s, from_bytes FROM transfer_group")
    assert rates and all(rate == pytest.approx(size / ns * 1e9, rel=1e-12) for size, ns, rate, _ in rates)
    assert all(least & (least - 1) == 0 for *_, least in rates)


def test_every_view_and_column_says_what_it_is() -> None:
    con = connection({})
    views.install(con)
    for view in views.views():
        assert view.comment.endswith("."), view.name
        assert [row[0] for row in ask_all(con, f"DESCRIBE {view.name}")] == [column.name for column in view.columns]
    with pytest.raises(ValueError, match="a column and its comment, not 'b'"):
        views.parsed("x", "-- X.\nCREATE OR REPLACE VIEW x (\n    a,  -- an a\n    b\n) AS\nSELECT 1, 2;\n")
    with pytest.raises(ValueError, match="CREATE OR REPLACE VIEW y"):
        views.parsed("y", "-- X.\nCREATE OR REPLACE VIEW x (\n    a  -- an a\n) AS\nSELECT 1;\n")


def test_each_view_names_the_views_it_is_built_on() -> None:
    names = [view.name for view in views.views()]
    for place, view in enumerate(views.views()):
        used = set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", view.sql)) & set(names)
        assert set(view.needs) == used, view.name
        assert used <= set(names[:place])


def test_made_twice_on_a_locked_connection_they_are_the_same(samples: dict[str, Path]) -> None:
    con = opened(samples["torch_npu_db"])
    views.install(con)
    before = ask_all(con, "FROM rank_step ORDER BY ALL")
    views.install(con)
    assert before and ask_all(con, "FROM rank_step ORDER BY ALL") == before


def test_a_stranger_can_ask_them_and_takes_them_along(samples: dict[str, Path], tmp_path: Path) -> None:
    where = samples["torch_npu_text"]
    run_id = runs.runs(where)[0].run_id
    query = "SELECT rank, step, idle_ns FROM split ORDER BY ALL"
    answer = ask(where, run_id, query, [view.sql for view in views.views()])
    export(where, run_id, tmp_path / "run.duckdb", "span", "parquet", views.statements())
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        assert [list(row) for row in ask_all(con, query)] == answer.rows
        said = ask_all(con, "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'split'")
    assert ("idle_ns", "nothing runs") in said


def test_a_long_stream_does_not_multiply() -> None:
    """30,000 kernels and as many copies: whatever is joined must be joined moment by moment."""
    con = connection({})
    con.execute("""
        INSERT INTO span (span_id, rank, track, kind, name, ts_ns, dur_ns, depth)
        SELECT i, 0, i % 2, if(i % 2 = 0, 'kernel', 'memcpy'), 'op', 10 * i, 8, 0 FROM range(60_000) t(i)
    """)
    con.execute("SET memory_limit = '200MB'; SET temp_directory = ''")
    views.install(con)
    for view in views.views():
        con.execute(f"FROM {view.name}").fetchmany(1)
    assert ask_all(con, "SELECT count(*), sum(dur_ns) FROM stream_gap") == [(59_998, 59_998 * 12)]
    assert ask_all(con, "SELECT exposed_ns, overlapped_ns FROM transfer_group") == [(240_000, 0)]
    assert ask_all(con, "SELECT count(*) FROM device_gap") == [(59_999,)]
