"""What the page of kernels measures: by hand, by brute force over the spans, and against the views."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.kept import LEVELS
from npulens.analysis.look import kernel_detail as deeper
from npulens.analysis.look import kernels as look
from npulens.analysis.look.kernels import Filter
from npulens.ingest.store import runs
from tests.tablecase import connection

Con = duckdb.DuckDBPyConnection
EVERY = Filter()


def case(spans: list[dict[str, Any]], **more: Any) -> Con:
    con = connection({"spans": spans, **more})
    views.install(con)
    return con


def kernel(number: int, at: float, length: float, op: str | None = "MatMul", **more: Any) -> dict[str, Any]:
    place = {name: more.pop(name) for name in ("rank", "track", "by", "name") if name in more}
    return {"id": number, "kind": "kernel", "name": f"k_{op}", "at": at, "for": length, **place,
            "kernel": {"op_type": op, "core": "AI_CORE", **more}}  # fmt: skip


def mark(step: int, at: float, length: float = 100) -> dict[str, Any]:
    return {"id": 900 + step, "kind": "step_mark", "name": f"ProfilerStep#{step}", "at": at, "for": length}


#: MatMul runs 10-30 and, on another stream, 20-40, and from step 1 into step 2; Add 50-60; a copy 60-80.
OVERLAPPING = [
    mark(1, 0), mark(2, 100), kernel(1, 10, 20), kernel(2, 20, 20, track="s1"), kernel(3, 95, 10),
    kernel(4, 50, 10, "Add", core="AI_VECTOR_CORE"),
    {"id": 5, "kind": "memcpy", "name": "copy", "at": 60, "for": 20, "transfer": {"direction": "h2d"}},
]  # fmt: skip


def test_time_is_a_union_and_the_sum_is_called_one() -> None:
    found = look.table(case(OVERLAPPING), "type", EVERY)
    top = found.groups.iloc[0]
    assert (top["op"], top["count"], top["busy_ns"], top["total_ns"]) == ("MatMul", 3, 40_000, 50_000)
    assert (top["min_ns"], top["mean_ns"], top["max_ns"], top["median_ns"]) == (10_000, 16_666, 20_000, 20_000)
    # Busy are 10-40, 50-80 and 95-105.
    assert (found.busy_ns, found.computing_ns, found.kernels, found.count) == (70_000, 50_000, 4, 2)
    assert top["share"] == pytest.approx(40 / 70)


def test_of_a_step_counts_what_starts_in_it_and_times_what_runs_in_it() -> None:
    con = case(OVERLAPPING)
    first = look.table(con, "type", Filter(step=1))
    assert (first.groups.iloc[0]["count"], first.groups.iloc[0]["busy_ns"]) == (3, 35_000)
    assert (first.busy_ns, first.wall_ns) == (65_000, 100_000)
    second = look.table(con, "type", Filter(step=2))
    assert len(second.groups) == 0 and second.computing_ns == 5_000


def test_a_filter_means_ranks_cores_and_text() -> None:
    spans = [kernel(1, 0, 10, rank=0), kernel(2, 0, 10, "Add", rank=1, core="AI_VECTOR_CORE", input_shapes="8,[9]")]
    con = case(spans)
    for what in (Filter(ranks=(1,)), Filter(cores=("AI_VECTOR_CORE",)), Filter(text="aDD"), Filter(text="8,[9]")):
        assert list(look.table(con, "shape", what).groups["op"]) == ["Add"], what
    assert len(look.table(con, "type", Filter(text="%")).groups) == 0  # text, not a pattern
    there = look.choices(con)
    assert (there.ranks, there.steps, there.cores) == ((0, 1), (), ("AI_CORE", "AI_VECTOR_CORE"))
    assert there.shaped and there.typed


def test_without_kernels_nothing_is_made_up() -> None:
    con = case([mark(1, 0)])
    found = look.table(con, "type", EVERY)
    assert (len(found.groups), found.kernels, found.ranks, found.computing_ns) == (0, 0, 0, 0)
    assert look.choices(con).ranks == ()
    assert len(look.slow(con)) == 0 and len(look.sequences(con, (), "", "gap")) == 0


def test_a_cuda_kernel_has_the_shapes_of_its_operator() -> None:
    con = case([
        {"id": 1, "kind": "cpu_op", "name": "aten::mm", "at": 0, "for": 9, "host_op": {"input_shapes": "[[4, 8]]"}},
        {"id": 2, "kind": "runtime", "name": "cudaLaunchKernel", "at": 1, "for": 3},
        {"id": 3, "kind": "kernel", "name": "sgemm", "at": 20, "for": 5, "by": 2, "route": "correlation",
         "kernel": {"grid": "[4, 2, 1]"}},
    ], rank={0: {"backend": "cuda", "device_name": "NVIDIA A100-SXM4-80GB"}})  # fmt: skip
    row = look.table(con, "shape", EVERY).groups.iloc[0]
    assert (row["op"], row["input_shapes"]) == ("sgemm", "[[4, 8]]")
    source = deeper.source(con, "shape", int(row["key"]), EVERY)
    assert source.ops[["op", "call", "count"]].values.tolist() == [["aten::mm", "cudaLaunchKernel", 1]]
    (blocks,) = deeper.blocks(con, "shape", int(row["key"]), EVERY)
    assert (blocks.blocks, blocks.cores, blocks.waves) == (8, 108, None)
    assert blocks.used == pytest.approx(8 / 108)


def test_blocks_against_the_cores_of_the_device() -> None:
    con = case([kernel(1, 0, 10, block_num=30), kernel(2, 20, 10)],
               rank={0: {"device_name": "Ascend910B2"}})  # fmt: skip
    key = int(look.table(con, "type", EVERY).groups.iloc[0]["key"])
    (blocks,) = deeper.blocks(con, "type", key, EVERY)
    # 24 cube cores: two rounds of 24 places hold 30 blocks.
    assert (blocks.blocks, blocks.count, blocks.cores, blocks.waves, blocks.used) == (30, 1, 24, 2, 30 / 48)


def test_pipes_weigh_kernels_by_their_length() -> None:
    con = case([kernel(1, 0, 30), kernel(2, 50, 10)], tables={"pmu": [
        {"span_id": 1, "metric": "aic_mac_ratio", "value": 0.8},
        {"span_id": 2, "metric": "aic_mac_ratio", "value": 0.4},
    ]})  # fmt: skip
    key = int(look.table(con, "type", EVERY).groups.iloc[0]["key"])
    row = deeper.pipes(con, "type", key, EVERY).iloc[0]
    assert row["mean"] == pytest.approx((0.8 * 30 + 0.4 * 10) / 40)
    assert (row["least"], row["most"], row["count"]) == (0.4, 0.8, 2)


def test_stacks_and_the_line_of_the_users_own_code() -> None:
    frames = "torch/nn/modules/linear.py(114): forward\ntrain.py(7): step\n"
    con = case([
        {"id": 1, "kind": "cpu_op", "name": "aten::mm", "at": 0, "for": 9, "stack": {"frames": frames}},
        kernel(2, 20, 5, by=1, name="mm"), kernel(3, 30, 5, name="other"),
    ])  # fmt: skip
    key = int(look.table(con, "type", EVERY).groups.iloc[0]["key"])
    found = deeper.source(con, "type", key, EVERY)
    assert (found.linked, found.count, found.stacked) == (1, 2, 1)
    assert found.stacks[0].frames == ("torch/nn/modules/linear.py(114): forward", "train.py(7): step")
    mine = deeper.source(con, "name", int(look.table(con, "name", Filter(text="mm")).groups.iloc[0]["key"]), EVERY)
    assert (mine.longest.op, mine.longest.code) == ("aten::mm", "train.py(7): step")


def test_bins_hold_every_kernel_once() -> None:
    for lengths in ([5, 5, 5], [1, 2, 3, 90], [0.001, 1000], [0, 7]):
        con = case([kernel(n, 2000 * n, length) for n, length in enumerate(lengths, 1)])
        key = int(look.table(con, "type", EVERY).groups.iloc[0]["key"])
        found = look.durations(con, "type", key, EVERY)
        for _, row in found.bins.iterrows():
            inside = sum(row["from_ns"] <= round(1000 * length) < row["to_ns"] for length in lengths)
            assert inside == row["count"], lengths
        assert found.bins["count"].sum() == len(lengths)
        assert found.ranks.iloc[0]["max_ns"] == round(1000 * max(lengths))


def test_instances_come_page_by_page() -> None:
    con = case([kernel(n, 20 * n, n) for n in range(1, 8)])
    key = int(look.table(con, "type", EVERY).groups.iloc[0]["key"])
    pages = [look.instances(con, "type", key, EVERY, "longest", page, 3) for page in range(3)]
    assert [list(page["span_id"]) for page in pages] == [[7, 6, 5], [4, 3, 2], [1]]
    assert list(look.instances(con, "type", key, EVERY, "first", 0, 2)["span_id"]) == [1, 2]


def test_the_slow_ones_are_those_of_the_detector_with_their_groups() -> None:
    con = case([kernel(n, 100 * n, 50 if n == 7 else 10 + n % 2 / 10, input_shapes="4") for n in range(1, 20)])
    (row,) = look.slow(con).to_dict("records")
    assert (row["span_id"], row["dur_ns"]) == (7, 50_000)
    assert row["excess_ns"] == pytest.approx(50_000 - row["usual_ns"], abs=1)
    for level in LEVELS:
        assert int(row[f"key_{level}"]) == int(look.table(con, level, EVERY).groups.iloc[0]["key"])


def test_sequences_add_ranks_and_lead_to_the_first() -> None:
    spans = [kernel(10 * rank + n, 10 * n, 4, "AB"[n % 2], rank=rank) for rank in (0, 1) for n in range(4)]
    found = look.sequences(case(spans), (), "", "count").set_index("ops")
    assert found.loc["A → B", "count"] == 4 and found.loc["B → A", "count"] == 2
    assert found.loc["A → B", "gap_ns"] == 4 * 6_000 and found.loc["A → B", "span_id"] == 0
    only = look.sequences(case(spans), (1,), "b → a", "gap")
    assert len(only) == 0  # the text is looked for in names, not across them
    assert set(look.sequences(case(spans), (1,), "a", "gap")["rank"]) == {1}


def union(pieces: list[tuple[int, int]]) -> int:
    """The slow way."""
    edges = sorted({edge for piece in pieces for edge in piece})
    return sum(b - a for a, b in zip(edges, edges[1:], strict=False) if any(s <= a and b <= e for s, e in pieces))


@pytest.mark.parametrize("seed", range(5))
def test_random_runs_against_brute_force(seed: int) -> None:
    dice = random.Random(seed)
    spans = [
        kernel(n, dice.randint(0, 300), dice.randint(0, 40), dice.choice("ABC"), rank=dice.randint(0, 1),
               track=dice.choice(["s0", "s1"]))
        for n in range(1, 60)
    ]  # fmt: skip
    found = look.table(case(spans), "type", EVERY).groups.set_index("op")
    for op in "ABC":
        mine = [one for one in spans if one["kernel"]["op_type"] == op]
        lengths = sorted(1000 * one["for"] for one in mine)
        whole = sum(
            union([(1000 * one["at"], 1000 * (one["at"] + one["for"])) for one in mine if one["rank"] == rank])
            for rank in (0, 1)
        )
        row = found.loc[op]
        assert (row["count"], row["total_ns"], row["busy_ns"]) == (len(mine), sum(lengths), whole)
        assert row["p90_ns"] == lengths[int(np.ceil(0.9 * len(lengths))) - 1]


@pytest.mark.shared
def test_on_a_real_capture_it_is_what_the_view_and_the_parquet_files_say(shared_traces: Path, store_dir: Path) -> None:
    ingest.load(shared_traces / "Ascend+msinsight/test/data/pytorch/text/level1", store_dir)
    run_id = runs.runs(store_dir)[0].run_id
    con = runs.open_run(store_dir, run_id)
    views.install(con)
    for rank in (0, 1):
        mine = look.table(con, "shape", Filter(ranks=(rank,)))
        assert int(mine.groups["count"].sum()) == mine.kernels == 187
        view = con.execute("SELECT * FROM kernel_group WHERE rank = ?", [rank]).fetchdf()
        columns = ["count", "total_ns", "min_ns", "median_ns", "p90_ns", "p99_ns", "max_ns"]
        assert sorted(map(tuple, mine.groups[columns].values)) == sorted(map(tuple, view[columns].values))
    spans = pd.read_parquet(store_dir / run_id / "span.parquet")
    spans = spans[spans["kind"].isin(["kernel", "memset"])].merge(
        pd.read_parquet(store_dir / run_id / "kernel.parquet")[["span_id", "op_type"]], on="span_id"
    )
    found = look.table(con, "type", EVERY).groups
    by_type = found.groupby("op")["busy_ns"].sum()
    for op, rows in spans.groupby("op_type"):
        pieces = [rows[rows["rank"] == rank] for rank in (0, 1)]
        slow = sum(union(list(zip(p["ts_ns"], p["ts_ns"] + p["dur_ns"], strict=True))) for p in pieces)
        assert by_type[op] == slow, op
    con.close()
