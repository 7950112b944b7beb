"""Ranks beside each other: worked out by hand, on clocks that disagree, and with a thousand ranks."""

from __future__ import annotations

import time
from typing import Any

import duckdb
import numpy as np
import pytest
import tablecase

from npulens.analysis import views
from npulens.analysis.look import ranks as look
from npulens.app.pages.workspace import charts as chart


def _said(key: str, _values: object = None) -> str:
    return key


def _rank(rank: int, work: tuple[int, int]) -> list[dict[str, Any]]:
    """Two steps of 100 us; in each the device starts after 5 us and computes as long as `work` says."""
    base = 1000 * (rank + 1)
    rows: list[dict[str, Any]] = []
    for place, length in enumerate(work):
        at = 100 * place
        mark = {"kind": "step_mark", "name": f"ProfilerStep#{place + 1}", "at": at, "for": 100}
        kernel = {"kind": "kernel", "name": "mm", "at": at + 5, "for": length, "kernel": {"op_type": "mm"}}
        rows += [{"id": base + 10 * place, "rank": rank, **mark}, {"id": base + 10 * place + 1, "rank": rank, **kernel}]
    return rows


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    """Ranks 0 and 1 compute 40 us a step, rank 2 computes 60 and 80."""
    made = tablecase.connection({"spans": [*_rank(0, (40, 40)), *_rank(1, (40, 40)), *_rank(2, (60, 80))]})
    views.install(made)
    return made


def test_the_grid_holds_every_rank_and_step(con: duckdb.DuckDBPyConnection) -> None:
    grid = look.grids(con)["computing"]
    assert (grid.ranks, grid.steps, grid.each) == ((0, 1, 2), ("1", "2"), 1)
    assert grid.ns.tolist() == [[40_000, 40_000], [40_000, 40_000], [60_000, 80_000]]
    assert grid.deviation().tolist() == [[0, 0], [0, 0], [20_000, 40_000]]
    assert look.grids(con)["start"].ns.tolist() == [[5_000, 5_000]] * 3


def test_the_rank_that_computes_most_stands_first(con: duckdb.DuckDBPyConnection) -> None:
    found = look.compared(con)
    first = found.stands[0]
    assert first.rank == 2
    assert first.median_ns["computing"] == 70_000
    assert first.apart_ns["computing"] == 30_000  # the median of 20 and 40 us
    assert (first.kernels_ns, first.kernel, first.kernel_ns) == (60_000, "mm", 60_000)
    assert not found.staged
    assert found.missed is None


def test_a_step_is_cut_into_slices_that_add_up(con: duckdb.DuckDBPyConnection) -> None:
    lanes = look.pipeline(con, 2, 50)
    assert [lane.rank for lane in lanes] == [0, 1, 2]
    for lane, computed in zip(lanes, (40_000, 40_000, 80_000), strict=True):
        assert lane.computing_ns == computed
        assert lane.computing_ns + lane.idle_ns == lane.dur_ns
        assert sum(lane.computing) * lane.slice_ns == pytest.approx(computed, rel=0.01)


def _late(skew: int) -> dict[str, Any]:
    """Three all-reduces that rank 1 enters 20 us after rank 0; rank 1's clock is `skew` us ahead."""
    spans: list[dict[str, Any]] = []
    for rank, ahead, begins in ((0, 0, 10), (1, skew, 30)):
        spans.append({"id": 100 * rank + 1, "rank": rank, "kind": "step_mark", "name": "ProfilerStep#1", "at": ahead,
                      "for": 400})  # fmt: skip
        for number in range(3):
            op, at = 100 * rank + 10 * (number + 1), ahead + begins + 100 * number
            length = 60 - begins
            comm = {"op_span_id": op, "collective": "allReduce", "group_name": "g", "bytes": 64}
            spans.append({"id": op, "rank": rank, "kind": "comm_op", "name": "hcom", "at": at, "for": length,
                          "track": "g", "comm": comm})  # fmt: skip
        spans.append({"id": 100 * rank + 90, "rank": rank, "kind": "kernel", "name": "k", "at": ahead + 350, "for": 5,
                      "kernel": {"op_type": "k"}})  # fmt: skip
    return {"spans": spans}


@pytest.mark.parametrize("skew", [0, 5000])
def test_clocks_are_put_on_one_before_a_step_is_drawn(skew: int) -> None:
    made = tablecase.connection(_late(skew))
    views.install(made)
    found = look.compared(made)
    clock = {row.rank: row for row in found.clocks}
    assert found.reference == 0
    assert clock[1].offset_ns is not None and clock[1].uncertainty_ns is not None
    assert abs(clock[1].offset_ns + 1000 * skew) <= clock[1].uncertainty_ns
    lanes = look.pipeline(made, 1, 40)
    assert lanes[1].begin_ns - lanes[0].begin_ns == -clock[1].offset_ns
    assert not lanes[0].told, "no tasks were recorded, so waiting cannot be told from moving"


def test_an_operator_that_only_waits_is_a_bubble() -> None:
    made = tablecase.connection({
        "spans": [
            {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100},
            {"id": 2, "kind": "kernel", "name": "k", "at": 0, "for": 20, "kernel": {"op_type": "k"}},
            {"id": 3, "kind": "comm_op", "name": "hcom_receive", "at": 20, "for": 50, "track": "g",
             "comm": {"op_span_id": 3, "collective": "receive", "group_name": "pp", "bytes": 8}},
            {"id": 4, "kind": "comm_task", "name": "Notify_Wait", "at": 20, "for": 40, "track": "p",
             "comm": {"op_span_id": 3, "group_name": "pp", "task_type": "Notify_Wait", "plane": 0, "dst_local": 1,
                      "src_local": 0}},
            {"id": 5, "kind": "comm_task", "name": "Memcpy", "at": 55, "for": 15, "track": "p2",
             "comm": {"op_span_id": 3, "group_name": "pp", "task_type": "Memcpy", "plane": 1, "bytes": 8}},
        ],
        "tables": {"parallel_group": [{"group_name": "pp", "rank": 0, "kind": "pp", "ranks": [0, 1], "source": "m"}]},
    })  # fmt: skip
    views.install(made)
    assert look.compared(made).staged
    (lane,) = look.pipeline(made, 1, 10)
    assert (lane.computing_ns, lane.waiting_ns, lane.moving_ns, lane.idle_ns) == (20_000, 35_000, 15_000, 30_000)
    assert lane.waiting[2] == 1.0


def test_a_run_of_nothing_is_no_grid() -> None:
    made = tablecase.connection({})
    views.install(made)
    found = look.compared(made)
    assert "dur" not in found.grids
    assert found.stands == ()
    assert look.pipeline(made, None, 10) == ()


def test_many_steps_are_put_together() -> None:
    steps = 900
    con = tablecase.connection({
        "rank": {0: {}},
        "tables": {"step": [{"step": n, "ts_ns": 1000 * n, "dur_ns": 1000, "source": "ProfilerStep"}
                            for n in range(steps)]},
    })  # fmt: skip
    views.install(con)
    grid = look.grids(con)["dur"]
    assert grid.each == 3
    assert grid.steps[0] == "0–2" and len(grid.steps) == 300
    assert (grid.ns == 1000).all()


def test_a_thousand_ranks_are_one_small_image() -> None:
    rng = np.random.default_rng(1)
    ns = rng.normal(1e8, 1e5, (1000, 20))
    grid = look.Grid(tuple(range(1000)), tuple(str(step) for step in range(20)), ns, 1)
    begun = time.perf_counter()
    picture = chart.grid(grid, list(range(1000)), True, _said, "#000000")
    text = picture.to_json()
    assert time.perf_counter() - begun < 5
    assert len(picture.data) == 1
    assert len(text) < 400_000
    lane = look.Lane(0, 0, 320, 1.0, (0.5,) * 320, (0.2,) * 320, (0.1,) * 320, True, 160, 64, 32, 64)
    assert len(chart.lanes([lane] * 1000, _said, "#000000").to_json()) < 1_500_000
