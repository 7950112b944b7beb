"""What the page of launches measures: by hand, and its curves against every moment of the views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look import launch as look
from npulens.ingest.store import runs
from tests.tablecase import connection

Con = duckdb.DuckDBPyConnection


def case(spans: list[dict[str, Any]], **more: Any) -> Con:
    con = connection({"spans": spans, **more})
    views.install(con)
    return con


def call(number: int, at: float, length: float, name: str = "launch", **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": "runtime", "name": name, "at": at, "for": length, **more}


def kernel(number: int, at: float, length: float, by: int | None, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": "kernel", "name": f"k{number}", "at": at, "for": length, "by": by,
            "kernel": {"op_type": "Add"}, **more}  # fmt: skip


#: The stream is free at 30; the next launch begins at 40, and a copy on another stream runs 32-36 meanwhile.
LATE = [
    {"id": 1, "kind": "cpu_op", "name": "aten::add", "at": 38, "for": 14}, call(10, 10, 5), call(11, 40, 8),
    kernel(20, 20, 10, 10), kernel(21, 60, 3, 11),
    {"id": 30, "kind": "memcpy", "name": "copy", "at": 32, "for": 4, "track": "s1", "transfer": {"direction": "h2d"}},
]  # fmt: skip


def test_a_late_launch_costs_what_the_whole_device_idles() -> None:
    con = case(LATE)
    found = look.late(con)
    assert (found.tasks, found.idle_ns) == (1, 6_000)
    (row,) = found.calls.to_dict("records")
    assert (row["op"], row["call"], row["count"], row["idle_ns"]) == ("aten::add", "launch", 1, 6_000)
    assert (row["span_id"], row["ts_ns"], row["dur_ns"]) == (21, 30_000, 30_000)
    head = look.headline(con)
    assert (head.tasks, head.launched, head.led, head.late, head.late_idle_ns) == (3, 2, 1, 1, 6_000)
    assert (head.median_ns, head.p99_ns, head.negative, head.negative_ns) == (10_000, 20_000, 0, 0)


def test_kernels_shorter_than_their_launch() -> None:
    con = case(LATE)
    (row,) = look.short(con).to_dict("records")
    assert (row["op"], row["count"], row["short"], row["over_ns"], row["span_id"]) == ("Add", 2, 1, 5_000, 21)
    head = look.headline(con)
    assert (head.kernels, head.short) == (2, 1)


def test_the_same_idle_time_counts_once() -> None:
    con = case([
        call(1, 0, 1), call(2, 2, 1), call(3, 50, 1), call(4, 52, 1),
        kernel(10, 5, 5, 1), kernel(11, 5, 5, 2, track="s1"), kernel(12, 60, 5, 3), kernel(13, 60, 5, 4, track="s1"),
    ])  # fmt: skip
    # Free at 10 both; launched at 50 and at 52.
    assert look.late(con).idle_ns == 42_000
    assert look.late(con).calls["idle_ns"].tolist() == [42_000]


def test_latency_by_route_and_rank() -> None:
    spans = [call(1, 0, 1), call(2, 10, 1, rank=1), kernel(3, 5, 1, 1), kernel(4, 8, 1, 2, rank=1, route="correlation")]
    rows = look.latency(case(spans)).rows
    assert rows[["route", "rank", "median_ns", "negative"]].values.tolist() == [
        ["correlation", 1, -2_000, 1], ["host_to_device", 0, 5_000, 0],
    ]  # fmt: skip


def test_clocks_that_differ_are_said_with_by_how_much() -> None:
    head = look.headline(case([call(1, 10, 1), call(2, 20, 1), kernel(3, 7, 1, 1), kernel(4, 19, 1, 2)]))
    assert (head.negative, head.negative_ns) == (2, 3_000)


def test_the_queue_of_one_task_by_hand() -> None:
    con = case([call(1, 0, 1), call(2, 0.001, 1), kernel(3, 0.002, 1, 1), kernel(4, 0.01, 1, 2)])
    curve = look.queue(con, 0)
    assert (curve.begin_ns, curve.end_ns, curve.width_ns) == (0, 10, 1)
    # Launched at 0 and 1, started at 2 and 10.
    assert curve.slices["most"].tolist() == [1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0]


def curve_keeps(con: Con, rank: int) -> None:
    """Every moment of the views lies within its slice; the least and the most of a slice are there."""
    for curve, view, column in ((look.queue(con, rank), "queue_depth", "depth"), (look.lead(con, rank), "host_lead",
                                                                                 "lead_ns")):  # fmt: skip
        rows = con.execute(
            f"SELECT ts_ns, {column} FROM {view} WHERE rank = ? AND {column} IS NOT NULL ORDER BY ts_ns", [rank]
        ).fetchall()
        slices = {int(at): (least, most) for at, least, most in
                  curve.slices[["ts_ns", "least", "most"]].itertuples(index=False)}  # fmt: skip
        assert len(slices) <= look.SLICES
        held: dict[int, list[int]] = {}
        before = None
        for ts, value in rows:
            at = curve.begin_ns + (ts - curve.begin_ns) // curve.width_ns * curve.width_ns
            held.setdefault(at, []).append(value)
            if view == "queue_depth" and before is not None and ts > at:
                held[at].append(before) if len(held[at]) == 1 else None
            before = value
        for at, values in held.items():
            assert slices[at] == (min(values), max(values)), (view, at)


@pytest.mark.shared
def test_on_a_real_capture_curves_keep_their_extremes(shared_traces: Path, store_dir: Path) -> None:
    ingest.load(shared_traces / "Ascend+msinsight/test/data/pytorch/text/level1", store_dir)
    con = runs.open_run(store_dir, runs.runs(store_dir)[0].run_id)
    views.install(con)
    for rank in (0, 1):
        curve_keeps(con, rank)
    head = look.headline(con)
    assert (head.tasks, head.launched, head.kernels) == (430, 430, 374)
    rows = look.latency(con).rows
    assert int(rows["count"].sum()) == 430 and int(rows["negative"].sum()) == head.negative
    behind = con.execute("SELECT count(*) FROM host_lead WHERE lead_ns < 0").fetchall()[0][0]
    assert head.late == behind
    con.close()


def test_synchronising_calls_are_unions_of_their_rank() -> None:
    con = case([
        call(1, 0, 10, "cudaStreamSynchronize"), call(2, 5, 10, "cudaStreamSynchronize", track="other"),
        call(3, 30, 5, "cudaLaunchKernel"), kernel(4, 8, 4, None),
    ])  # fmt: skip
    (row,) = look.syncs(con).to_dict("records")
    assert (row["name"], row["count"], row["blocked_ns"], row["working_ns"]) == (
        "cudaStreamSynchronize", 2, 15_000, 4_000,
    )  # fmt: skip


def test_without_launches_nothing_is_made_up() -> None:
    con = case([kernel(1, 0, 5, None)], absent=["link"])
    head = look.headline(con)
    assert (head.tasks, head.launched, head.median_ns, head.ranks) == (1, 0, None, ())
    assert len(look.latency(con).rows) == len(look.late(con).calls) == len(look.short(con)) == 0
    assert len(look.queue(con, 0).slices) == len(look.lead(con, 0).slices) == 0
