"""Comparison of two sides: figures worked out by hand or by brute force, sums exact to the nanosecond."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tablecase import connection

from npulens import ingest
from npulens.analysis.look import alike, compare
from npulens.analysis.look.matched import matched
from npulens.analysis.views import install
from npulens.ingest.store import runs as stores

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"


def case(spans: list[dict[str, Any]], more: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    con = connection({"spans": spans, **more})
    install(con)
    return con


def step(number: int, at: int, length: int) -> dict[str, Any]:
    return {"id": 100 + number, "kind": "step_mark", "name": f"ProfilerStep#{number}", "at": at, "for": length}


def kernel(number: int, at: int, length: int, op: str, shapes: str) -> dict[str, Any]:
    return {"id": number, "kind": "kernel", "name": f"{op}_{number}", "at": at, "for": length,
            "kernel": {"op_type": op, "input_shapes": shapes, "core": "AI_CORE"}}  # fmt: skip


#: Two steps of 100 us: in the first 30 us of MatMul, in the second 31 us; the rest is idle.
BASE = [step(1, 0, 100), step(2, 100, 100), kernel(1, 10, 30, "MatMul", "8,8"), kernel(2, 110, 31, "MatMul", "8,8")]
#: One step of 120 us: 40 us of MatMul of another shape, 20 us of Cast, both on one stream; a copy of 10 us beside
#: the last of it, of which 5 us are exposed.
HEAD = [
    step(7, 0, 120), kernel(1, 10, 40, "MatMul", "8,16"), kernel(2, 60, 20, "Cast", "8,8"),
    {"id": 3, "kind": "memcpy", "name": "copy", "at": 75, "for": 10, "track": "s1"},
]  # fmt: skip


def both(more: Mapping[str, Any]) -> tuple[compare.Side, compare.Side]:
    base, head = case(BASE, {}), case(HEAD, {"run": {"run_id": "other"}, **more})
    return compare.side(base, None, None, False), compare.side(head, None, None, False)


def test_the_change_of_a_hand_made_step() -> None:
    change = compare.change(*both({}))
    assert (change.step.base_ns, change.step.head_ns) == (100_000, 120_000)
    found = {part.key: (part.base_ns, part.head_ns, part.change_ns) for part in change.parts}
    assert found == {
        "computing": (30_500, 60_000, 29_500), "communication": (0, 0, 0), "copy": (0, 5_000, 5_000),
        "idle": (69_500, 55_000, -14_500),
    }  # fmt: skip
    assert sum(part.change_ns for part in change.parts) == change.step.change_ns == 20_000


def test_what_one_side_does_not_know_is_told_apart_on_neither() -> None:
    base, head = both({"absent": ["comm"]})
    change = compare.change(base, head)
    assert [(p.key, p.base_ns, p.head_ns) for p in change.parts] == [
        ("computing", 30_500, 60_000), ("unsplit", 69_500, 60_000)
    ]  # fmt: skip
    assert sum(part.change_ns for part in change.parts) == change.step.change_ns
    lost = next(note for note in alike.notes(base, head) if note.key == "unsplit")
    assert dict(lost.values)["parts"] == ("communication", "copy", "unknown", "idle")


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=6), st.integers(1, 50))
def test_means_sum_to_the_mean(totals: list[int], count: int) -> None:
    named = {str(place): total for place, total in enumerate(totals)}
    means = compare._means(named, count)
    assert sum(means.values()) == sum(totals) // count
    assert all(abs(means[key] - total / count) < 1.001 for key, total in named.items())


def test_idle_time_by_cause_sums_to_the_idle_time() -> None:
    base, head = case(BASE, {}), case(HEAD, {"run": {"run_id": "other"}})
    ours = compare.idle_by_cause(base, None, None, False)
    theirs = compare.idle_by_cause(head, None, None, False)
    assert ours is not None and theirs is not None
    assert sum(ns for _, ns in ours) == 139_000 and sum(ns for _, ns in theirs) == 55_000
    whole = compare.Delta("idle", 69_500, 55_000)
    deltas = compare.idle_change(ours, theirs, (2, 1), whole)
    assert sum(delta.change_ns for delta in deltas) == whole.change_ns


def test_causes_sum_to_the_idle_time_of_the_split_however_it_is_rounded() -> None:
    whole = compare.Delta("idle", 34, 0)  # 100 ns of three windows are 33.3: the split may say 33 or 34
    deltas = compare.idle_change((("gc", 60), ("unknown", 40)), (), (3, 1), whole)
    assert [(d.key, d.base_ns, d.head_ns) for d in deltas] == [("gc", 21, 0), ("unknown", 13, 0)]


def test_one_step_and_one_rank_can_be_a_side() -> None:
    con = case(BASE, {})
    second = compare.side(con, None, (2,), False)
    assert [(w.rank, w.step, w.start_ns, w.dur_ns) for w in second.windows] == [(0, 2, 100_000, 100_000)]
    assert dict(second.parts)["computing"] == 31_000
    assert compare.side(con, (5,), None, False).windows == ()
    assert sum(ns for _, ns in compare.idle_by_cause(con, None, (2,), False) or ()) == 69_000
    assert compare.kernels(con, None, (2,), False)["total_ns"].tolist() == [31_000]


def test_a_capture_without_steps_is_one_window_a_rank() -> None:
    con = case([kernel(1, 10, 30, "MatMul", "8,8"), kernel(2, 110, 31, "MatMul", "8,8")], {})
    assert compare.side(con, None, None, False).windows == ()
    whole = compare.side(con, None, None, True)
    assert whole.dur_ns == 131_000 and dict(whole.parts)["idle"] == 70_000
    assert compare.kernels(con, None, None, True)["count"].tolist() == [2]
    assert sum(ns for _, ns in compare.idle_by_cause(con, None, None, True) or ()) == 70_000


def test_kernels_are_new_gone_or_changed_per_window() -> None:
    base = compare.kernels(case(BASE, {}), None, None, False)
    head = compare.kernels(case(HEAD, {}), None, None, False)
    by_type = matched(base, head, ("op",), (2, 1)).set_index("op")
    assert by_type["state"].to_dict() == {"MatMul": "time", "Cast": "new"}
    assert by_type.loc["MatMul", ["base_count", "head_count", "base_ns", "head_ns", "change_ns"]].tolist() == [
        1, 1, 30_500, 40_000, 9_500
    ]  # fmt: skip
    assert by_type.index.tolist() == ["Cast", "MatMul"]  # the largest change first
    by_shape = matched(base, head, ("op", "shapes"), (2, 1))
    assert {(op, shapes, state) for op, shapes, state in zip(by_shape["op"], by_shape["shapes"], by_shape["state"],
                                                            strict=True)} == {
        ("MatMul", "8,8", "gone"), ("MatMul", "8,16", "new"), ("Cast", "8,8", "new")
    }  # fmt: skip
    assert set(matched(base, base, ("op",), (2, 2))["state"]) == {"same"}
    assert set(matched(base, base, ("op",), (2, 1))["state"]) == {"count"}


def test_a_call_inside_one_of_its_name_is_not_added_again() -> None:
    con = case([
        step(1, 0, 100), {"id": 1, "kind": "cpu_op", "name": "aten::to", "at": 10, "for": 20},
        {"id": 2, "kind": "cpu_op", "name": "aten::to", "at": 12, "for": 10},
        {"id": 3, "kind": "runtime", "name": "launch", "at": 13, "for": 2},
    ], {})  # fmt: skip
    found = compare.host_calls(con, None, None, False).set_index("name")
    assert found.loc["aten::to", ["count", "total_ns"]].tolist() == [2, 20_000]
    assert found.loc["launch", ["count", "total_ns"]].tolist() == [1, 2_000]


def test_what_makes_two_runs_unlike_is_said() -> None:
    ranks = {0: {"profiler_level": "Level0", "device_name": "<b>x</b>", "versions": '{"cann": "8.1"}'}}
    level1 = {0: {"profiler_level": "Level1", "versions": '{"cann": "8"}'}}
    base = case(BASE, {"run": {"world_size": 8}, "rank": level1})
    head = case(HEAD, {"run": {"run_id": "b", "world_size": 2, "formats": ["kineto"], "status": "partial"},
                       "rank": ranks, "absent": ["stack"]})  # fmt: skip
    found = alike.notes(compare.side(base, None, None, False), compare.side(head, None, None, False))
    assert [note.key for note in found] == [
        "partial_head", "world", "levels", "devices", "version", "only_base"
    ]  # fmt: skip
    assert dict(found[1].values) == {"base": 8, "head": 2}
    assert dict(found[4].values) == {"name": "cann", "base": "8", "head": "8.1"}
    assert dict(found[5].values)["tables"] == ("stack",)


def test_a_side_against_itself_is_said_to_be_the_same() -> None:
    side = compare.side(case(BASE, {}), None, None, False)
    assert [note.key for note in alike.notes(side, side)] == ["same"]


def brute_force(con: duckdb.DuckDBPyConnection) -> None:
    """Every figure of a whole run once more, with pandas over the tables."""
    spans, steps = con.execute("FROM span").fetchdf(), con.execute("FROM step").fetchdf()
    kernels = con.execute("FROM kernel").fetchdf()[["span_id", "op_type"]]
    side = compare.side(con, None, None, False)
    assert side.dur_ns == int(steps["dur_ns"].sum()) and len(side.windows) == len(steps)
    parts = dict(side.parts)
    if None not in parts.values():
        assert sum(ns for ns in parts.values() if ns) == side.dur_ns
        causes = compare.idle_by_cause(con, None, None, False)
        assert causes is not None and sum(ns for _, ns in causes) == parts["idle"]
    ran = spans[spans["kind"].isin(["kernel", "memset"])].merge(kernels, on="span_id", how="left")
    inside = pd.Series(False, index=ran.index)
    for _, row in steps.iterrows():
        inside |= (ran["rank"] == row["rank"]) & (ran["ts_ns"] >= row["ts_ns"]) & (
            ran["ts_ns"] < row["ts_ns"] + row["dur_ns"]
        )  # fmt: skip
    ran = ran[inside].assign(op=ran["op_type"].fillna(ran["name"]))
    expected = ran.groupby("op")["dur_ns"].agg(["count", "sum"])
    found = compare.kernels(con, None, None, False).groupby("op")[["count", "total_ns"]].sum()
    assert found["count"].to_dict() == expected["count"].to_dict()
    assert found["total_ns"].to_dict() == expected["sum"].to_dict()
    again = matched(compare.kernels(con, None, None, False), compare.kernels(con, None, None, False), ("op",),
                            (len(steps), len(steps)))  # fmt: skip
    assert set(again["state"]) <= {"same"}


@pytest.mark.parametrize("sample", ["kineto", "torch_npu_text", "torch_npu_db"])
def test_samples_by_brute_force(sample: str, store_dir: Path) -> None:
    run = ingest.load(SAMPLES / sample, store_dir).runs[0]
    con = stores.open_run(store_dir, str(run.run_id))
    install(con)
    brute_force(con)


@pytest.mark.shared
def test_a_real_capture_by_brute_force(shared_traces: Path, store_dir: Path) -> None:
    path = shared_traces / "Ascend+msinsight/test/data/pytorch/db/level1"
    run = ingest.load(path, store_dir).runs[0]
    con = stores.open_run(store_dir, str(run.run_id))
    install(con)
    brute_force(con)
    left, right = (compare.side(con, (rank,), None, False) for rank in (0, 1))
    change = compare.change(left, right)
    assert sum(part.change_ns for part in change.parts) == change.step.change_ns
