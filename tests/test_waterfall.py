"""The waterfall from peak to reached: worked out by hand, against the slow way, and on real captures."""

from __future__ import annotations

import json
import random
from collections import Counter
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.detectors.unfused import fused
from npulens.analysis.device.kernels import kernels
from npulens.analysis.run import Run
from npulens.analysis.split import breakdown
from npulens.analysis.work import waterfall as falls
from npulens.analysis.work.mfu import AGAIN, NEW, UNTOLD, recomputed
from npulens.analysis.work.operators import Operator, operators
from npulens.analysis.work.waterfall import COMPUTING, PARTS, Row, Waterfall, of_run, waterfall
from npulens.app.cli import main
from npulens.ingest.store import runs as stores
from tests.random_runs import empty_connection, fill, insert
from tests.real_captures import loaded
from tests.tablecase import connection
from tests.test_work_roofline import BF16, H100, MM, SHAPED, kernel, operator

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
MARK = {"id": 90, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100}
ADD = operator(11, 20, "aten::add", "[[1000, 1675], [1000, 1675], []]", BF16[:-1] + ', "Scalar"]')  # 3 us at its roof


def found(spans: list[dict[str, Any]], rank: dict[str, Any] = H100, **more: Any) -> Waterfall:
    return of_run(_run({"spans": spans, "rank": {0: rank}, **more}))


def _run(case: dict[str, Any]) -> Run:
    con = connection(case)
    views.install(con)
    return Run(con)


def parts(row: Row) -> dict[str, int]:
    """Those that are not zero."""
    assert tuple(name for name, _ in row.parts) == PARTS and row.residual_ns == 0
    return {name: ns for name, ns in row.parts if ns}


# ---- By hand


def test_a_step_with_a_product_a_sum_and_a_copy() -> None:
    # The product needs 2 us and takes 8 in two kernels, the sum needs 3 and takes 12, the copy takes 5 of 100.
    spans = [
        MARK, *MM, kernel(3, 10, 6, 2), kernel(4, 16, 2, 2, "reduce"), *ADD, kernel(13, 30, 12, 12, "add"),
        {"id": 20, "kind": "memcpy", "name": "Memcpy HtoD", "at": 50, "for": 5, "track": "s1"},
    ]  # fmt: skip
    got = found(spans)
    whole, step = got.rows
    assert (whole.step, step.step, step.dur_ns) == (None, 1, 100_000)
    assert parts(step) == {"at_peak": 2_000, "matrix_slow": 6_000, "other_roof": 3_000, "other_slow": 9_000,
                           "copies": 5_000, "idle": 75_000}  # fmt: skip
    assert got.total is not None and got.total.parts == step.parts
    assert step.matrix_flops == 1_978_000_000 and step.peak_ns == 2_000 and step.hfu == step.mfu == 0.02


def test_a_product_bound_by_memory_has_a_roof_beyond_the_peak() -> None:
    # 1 x 1000 times 1000 x 1675: 3.35e6 operations, 3.387 ns; 3,355,350 bytes of memory, 1001.597 ns.
    spans = [*operator(1, 0, "aten::mm", "[[1, 1000], [1000, 1675]]", BF16), kernel(3, 10, 4, 2)]
    assert parts(found(spans).rows[0]) == {"at_peak": 3, "matrix_roof": 998, "matrix_slow": 2_999}


def test_of_kernels_that_run_at_once_the_first_has_the_time() -> None:
    # The sum is hidden for 4 of its 12 us. What is left pays for its roof first, so waste is hidden.
    late = {**kernel(13, 14, 12, 12, "add"), "track": "s1"}
    got = found([*MM, kernel(3, 10, 8, 2), *ADD, late]).rows[0]
    assert parts(got) == {"at_peak": 2_000, "matrix_slow": 6_000, "other_roof": 3_000, "other_slow": 5_000}
    # A product that is hidden altogether is in HFU and not at its peak.
    behind = {**kernel(3, 12, 4, 2), "track": "s1"}
    row = found([*MM, behind, *ADD, kernel(13, 10, 12, 12, "add")]).rows[0]
    assert parts(row) == {"other_roof": 3_000, "other_slow": 9_000} and row.peak_ns == 2_000
    assert row.hfu == pytest.approx(2 / 12)


def test_a_kernel_across_the_end_of_a_step_is_cut_there() -> None:
    marks = [MARK, {**MARK, "id": 91, "name": "ProfilerStep#2", "at": 100, "for": 50}]
    first, second = found([*marks, *MM, kernel(3, 98, 8, 2)]).rows[1:]
    assert parts(first) == {"at_peak": 500, "matrix_slow": 1_500, "idle": 98_000}
    assert parts(second) == {"at_peak": 1_500, "matrix_slow": 4_500, "idle": 44_000}
    assert (first.matrix_flops, second.matrix_flops) == (494_500_000, 1_483_500_000)


def test_what_cannot_be_split_keeps_its_own_part() -> None:
    above = found([*ADD, kernel(13, 30, 2, 12, "add")]).rows[0]
    assert parts(above) == {"above_roof": 2_000}
    nobody = found([*MM, kernel(3, 10, 8, 2)], {**H100, "device_name": "a new device"}).rows[0]
    assert parts(nobody) == {"no_roof": 8_000} and nobody.hfu is None and nobody.matrix_flops == 1_978_000_000
    alone = {"id": 1, "kind": "kernel", "name": "gemm", "at": 10, "for": 8}
    assert parts(found([alone]).rows[0]) == {"no_work": 8_000}


def test_operations_that_no_device_can_do_count_nowhere() -> None:
    # At the peak the product needs 2 us. It cannot have taken 1.
    row = found([*MM, kernel(3, 10, 1, 2), *ADD, kernel(13, 30, 12, 12, "add")]).rows[0]
    assert parts(row)["above_roof"] == 1_000 and row.matrix_flops == row.peak_ns == 0 and row.hfu is None
    sides = f"[[{2**30}, {2**30}], [{2**30}, {2**30}]]"
    for device in (H100, {**H100, "device_name": "a new device"}):
        huge = found([*operator(1, 0, "aten::mm", sides, BF16), kernel(3, 10, 8, 2)], device).rows[0]
        assert sum(parts(huge).values()) == 8_000 and huge.matrix_flops == huge.peak_ns == 0


def test_windows_of_years_are_exact() -> None:
    long = 10**15  # us: 31 years, more ns than 2**53
    row = found([*MM, kernel(3, 10, long, 2), *ADD, kernel(13, 11 + long, 12, 12, "add")]).rows[0]
    assert parts(row) == {"at_peak": 2_000, "matrix_slow": 1_000 * long - 2_000, "other_roof": 3_000,
                          "other_slow": 9_000, "idle": 1_000}  # fmt: skip


def test_a_precision_without_a_peak_leaves_no_hfu() -> None:
    fp64 = operator(5, 30, "aten::mm", "[[1000, 1000], [1000, 1000]]", '["double", "double"]')
    row = found([*MM, kernel(3, 10, 8, 2), *fp64, kernel(7, 40, 10, 6)]).rows[0]
    assert parts(row)["no_roof"] == 10_000 and row.hfu is None and row.peak_ns == 2_000


def test_what_fusing_would_give_back_is_a_part_of_its_own() -> None:
    shapes = {
        "input_shapes": "4096,4096",
        "input_dtypes": "DT_BF16",
        "output_shapes": "4096,4096",
        "output_dtypes": "DT_BF16",
        "input_formats": "ND",
        "output_formats": "ND",
        "core": "AI_VECTOR_CORE",
    }
    spans = [
        {"id": at, "kind": "kernel", "name": name, "at": 60 * at, "for": 60, "kernel": {"op_type": name, **shapes}}
        for at, name in enumerate(("Pows", "Sqrt", "Abs", "Exp"), start=1)
    ]  # fmt: skip
    run = _run({"spans": spans, "rank": {0: {"backend": "npu", "device_name": "Ascend910B2"}}})
    saved = int(run.get(fused).sum())
    (row,) = of_run(run).rows
    # Each reads and writes 2 x 33.6 MB: 41.9 us at 1.6 TB/s; one of four remains.
    assert saved > 120_000 and parts(row)["unfused"] == saved
    assert parts(row)["other_roof"] == sum(min(41_943, 60_000 - int(cut)) for cut in run.get(fused).tolist())


def test_phases_are_added_up() -> None:
    steps = [{"step": n, "at": 20 * n, "for": 20, "source": "s", "phase": phase}
             for n, phase in enumerate(("prefill", "decode", "decode"))]  # fmt: skip
    got = found([*MM, kernel(3, 10, 8, 2), *ADD, kernel(13, 30, 12, 12, "add")], tables={"step": steps})
    prefill, decode = got.by("phase")
    assert (prefill.phase, prefill.windows, prefill.step, decode.windows, decode.step) == ("prefill", 1, 0, 2, None)
    assert parts(prefill) == {"at_peak": 2_000, "matrix_slow": 6_000, "idle": 12_000} and prefill.hfu == 0.1
    # Of the sum 10 of 12 us lie in one step and 2 in the next.
    assert parts(decode) == {"other_roof": 3_000, "other_slow": 9_000, "idle": 28_000} and decode.hfu is None


def test_both_measures_at_the_peak_of_bf16() -> None:
    # tf32 reaches 494.5e12, bf16 989e12: 2 x 494.5e6 operations need 2 us or 1 us.
    spans = [*operator(1, 0, "aten::mm", "[[1000, 500], [500, 989]]", '["float", "float"]'),
             kernel(3, 10, 20, 2, "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n")]  # fmt: skip
    row = found(spans).rows[0]
    assert row.mfu == pytest.approx(0.1) and row.mfu_bf16 == pytest.approx(0.05)


def test_no_device_work_is_no_waterfall() -> None:
    got = found([MARK], absent=("kernel", "comm", "transfer"))
    assert [row.parts for row in got.rows] == [(), ()] and got.total is not None and got.total.residual_ns is None
    assert of_run(_run({"spans": []})).rows == () and of_run(_run({"spans": []})).total is None


# ---- What is computed again


def node(number: int, at: float, long: float, name: str) -> dict[str, Any]:
    return {"id": number, "kind": "cpu_op", "name": name, "at": at, "for": long}


def test_only_evidence_says_that_something_is_computed_again() -> None:
    def product(number: int, at: float) -> list[dict[str, Any]]:
        spans = operator(number, at, "aten::mm", "[[1000, 989], [989, 1000]]", BF16)
        return [*spans, kernel(number + 2, 200 + at, 8, number + 1)]

    spans = [
        *product(10, 0),  # forward
        node(20, 10, 20, "autograd::engine::evaluate_function: MmBackward0"), node(21, 11, 18, "MmBackward0"),
        *product(22, 12),  # its gradient
        node(30, 40, 60, "autograd::engine::evaluate_function: CheckpointFunctionBackward"),
        node(31, 41, 58, "CheckpointFunctionBackward"),
        *product(32, 42),  # run again by the checkpoint
        node(36, 60, 20, "autograd::engine::evaluate_function: MmBackward0"),
        *product(37, 62),  # a gradient within the checkpoint's node
        node(40, 110, 20, "CompiledFunctionBackward"), *product(41, 111),
        {"id": 50, "kind": "kernel", "name": "mm", "at": 400, "for": 8, "kernel": SHAPED},  # nobody launched it
    ]  # fmt: skip
    case = {"spans": spans, "rank": {0: H100}}
    run = _run(case)
    told = dict(zip(run.get(kernels).span_id.tolist(), run.get(recomputed).tolist(), strict=True))
    assert told == {12: NEW, 24: NEW, 34: AGAIN, 39: NEW, 43: UNTOLD, 50: UNTOLD}
    row = of_run(run).rows[0]
    assert row.again_flops == 1_978_000_000 and row.again_ns == 2_000 and row.mfu is None and row.hfu is not None
    served = {**case, "tables": {"step": [{"step": 0, "at": 0, "for": 500, "source": "s", "phase": "decode"}]}}
    assert set(_run(served).get(recomputed).tolist()) == {NEW}


def test_a_block_that_is_rerun_within_another_node_ends_with_its_last_forward_operator() -> None:
    spans = [
        node(20, 10, 80, "AddmmBackward0"), *operator(22, 12, "aten::mm", "[[10, 10], [10, 10]]", BF16),
        node(30, 30, 10, "aten::linear"), *operator(32, 42, "aten::mm", "[[10, 10], [10, 10]]", BF16),
        node(35, 60, 5, "aten::layer_norm"), *operator(37, 70, "aten::mm", "[[10, 10], [10, 10]]", BF16),
        kernel(24, 100, 5, 23), kernel(34, 110, 5, 33), kernel(39, 120, 5, 38),
    ]  # fmt: skip
    run = _run({"spans": spans, "rank": {0: H100}})
    assert run.get(recomputed).tolist() == [NEW, AGAIN, NEW]


#: Three blocks of 4 x 32 rows of 64: projection, up, down, and two products of attention, forward.
BLOCK = 2 * 128 * 64 * 64 + 2 * (2 * 128 * 64 * 256) + 2 * (2 * 4 * 32 * 32 * 64)
HEAD = 2 * 128 * 64 * 10


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("kind", ["plain", "reentrant", "free"])
def test_torch_itself_computes_checkpointed_blocks_again(kind: str, tmp_path: Path) -> None:
    _record(kind, tmp_path / "one.pt.trace.json")
    (run,) = ingest.load(tmp_path / "one.pt.trace.json", tmp_path / "store").runs
    total = waterfall(stores.open_run(tmp_path / "store", str(run.run_id))).total
    assert total is not None and total.residual_ns == 0
    again = 0 if kind == "plain" else 3 * BLOCK
    assert total.again_flops == again
    # Backward is twice forward: every input needs its gradient.
    assert total.matrix_flops - again == 3 * (3 * BLOCK + HEAD)


def _record(kind: str, where: Path) -> None:
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.query = nn.LayerNorm(64), nn.Linear(64, 64)
            self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            attended = torch.softmax(self.query(x) @ x.transpose(-1, -2), -1) @ x
            down: torch.Tensor = self.down(torch.relu(self.up(self.norm(x + attended))))
            return x + down

    blocks, head = [Block() for _ in range(3)], nn.Linear(64, 10)
    inputs = torch.randn(4, 32, 64, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        x = inputs
        for block in blocks:
            x = block(x) if kind == "plain" else checkpoint(block, x, use_reentrant=kind == "reentrant")
        head(x).sum().backward()
    recorded.export_chrome_trace(str(where))


# ---- Against the slow way

#: Kernels of Ascend910B2 with known work, with work above its roof, without a model, and without a peak.
TYPES = (
    SHAPED | {"input_shapes": "64,64;64,64", "output_shapes": "64,64"},
    SHAPED | {"input_shapes": "1024,16;16,16", "output_shapes": "1024,16"},
    SHAPED | {"input_shapes": "4096,4096;4096,4096"},
    SHAPED | {"input_dtypes": "FLOAT;FLOAT", "input_shapes": "64,64;64,64", "output_shapes": "64,64"},
    *(
        {**SHAPED, "op_type": name, "core": "AI_VECTOR_CORE", "input_shapes": "512,512", "input_dtypes": "DT_BF16",
         "input_formats": "ND", "output_shapes": "512,512"}
        for name in ("Exp", "Sqrt", "Abs", "Pows", "NobodyKnowsIt")
    ),
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_a_random_run_is_split_as_the_slow_way_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(falls, "CHUNK", 1 + seed % 9)  # kernels of a run come in many pieces
    con, draw = empty_connection(), random.Random(seed)
    fill(con, seed, scale=draw.choice((37, 1_000)))
    names = con.execute("SELECT span_id, rank FROM span WHERE kind = 'kernel' ORDER BY span_id").fetchall()
    pool = draw.choice((TYPES, TYPES[:4], TYPES[4:8]))  # chains that could be fused need several of the last in a row
    insert(con, "kernel", [{"span_id": span, "rank": rank, **draw.choice(pool)} for span, rank in names])
    con.execute("UPDATE rank SET backend = 'npu', device_name = 'Ascend910B2'")
    views.install(con)
    run = Run(con)
    got = of_run(run)
    split = {(row.rank, row.step): row for row in breakdown(con)}
    assert {(row.rank, row.step) for row in got.rows} == {key for key, row in split.items() if row.dur_ns is not None}
    for row in got.rows:
        outer = split[row.rank, row.step]
        assert row.dur_ns == outer.dur_ns and row.residual_ns == outer.residual_ns
        begin = outer.start_ns or 0
        expected, peak = _slowly(run, row.rank or 0, begin, begin + row.dur_ns)
        assert abs(row.peak_ns - peak) <= 1
        if row.parts:
            told = dict(row.parts)
            assert all(abs(told[name] - expected[name]) <= 1 for name in COMPUTING), (told, expected)
            assert sum(told[name] for name in COMPUTING) == outer.computing_ns
            assert [told[name] for name in PARTS[len(COMPUTING):]] == [
                outer.communication_not_overlapped_ns or 0, outer.copy_not_overlapped_ns,
                outer.unknown_not_overlapped_ns, outer.idle_ns,
            ]  # fmt: skip


def _slowly(run: Run, rank: int, begin: int, end: int) -> tuple[Counter[str], Fraction]:
    """The parts of a window, kernel by kernel, with whole fractions."""
    every, of, cuts = run.get(kernels), run.get(operators), run.get(fused)
    mine = [at for at in range(len(every)) if every.rank[at] == rank and every.dur[at] > 0]
    edges = sorted({begin, end, *every.ts[mine].tolist(), *every.end[mine].tolist()})
    own, within = Counter[int](), Counter[int]()
    for low, high in zip(edges, edges[1:], strict=False):
        running = [at for at in mine if every.ts[at] <= low < every.end[at]]
        if running:  # the first that started; rows are sorted by track
            first = min(running, key=lambda at: (every.ts[at], at))
            own[first] += high - low
            within[first] += high - low if begin <= low < end else 0
    parts_, peak = Counter[str](), Fraction(0)
    for at in mine:
        one = of.every[of.of[at]]
        shared = max(0, min(end, int(every.end[at])) - max(begin, int(every.ts[at])))
        least = one.least.matrix if one.least is not None and one.work.matrix else None
        if least is not None and least <= one.each_ns:  # else it cannot have done so much
            peak += Fraction(least) * shared / int(every.dur[at])
        for name, ns in _divided(one, own[at], int(cuts[at])).items():
            parts_[name] += ns * within[at] / own[at] if own[at] else 0  # type: ignore[assignment]
    return parts_, peak


def _divided(one: Operator, own: int, cut: int) -> dict[str, Fraction]:
    """The time of one kernel that is a call of its own."""
    left, least = Fraction(own), one.least
    if one.above is not None and one.work.matrix is not None:
        return {"above_roof": left}
    known = least is not None and least.ns is not None and least.matrix is not None
    known = known and one.work.matrix is not None and (bool(one.work.matrix) or least.memory is not None)
    matrix, roof = Fraction(least.matrix if known else 0), Fraction(least.ns if known else 0)
    at_peak = min(left, matrix) if one.work.matrix else Fraction(0)
    unfused = min(left - at_peak, cut)
    beyond = min(left - at_peak - unfused, roof - matrix)
    rest = left - at_peak - unfused - beyond
    if not known:
        unknown = one.work.matrix is None or (one.work.matrix == 0 and one.work.bytes is None)
        return {"unfused": unfused, "no_work" if unknown else "no_roof": rest}
    name = "matrix" if one.work.matrix else "other"
    return {"at_peak": at_peak, "unfused": unfused, f"{name}_roof": beyond, f"{name}_slow": rest}


def test_sums_are_those_of_their_windows() -> None:
    con = empty_connection()
    for seed in range(8):
        fill(con, seed)
        views.install(con)
        got = of_run(Run(con))
        total = got.total
        for what in ("rank", "step", "phase"):
            rows = [row for row in got.by(what) if row.parts]
            if total is not None and total.parts:
                assert sum(row.dur_ns for row in rows) == total.dur_ns
                assert np.sum([[ns for _, ns in row.parts] for row in rows], axis=0).tolist() == [
                    ns for _, ns in total.parts
                ]
        for row in got.windows:
            assert got.by("run", row.rank, row.step)[0].dur_ns >= row.dur_ns


# ---- Real captures and the command


@pytest.mark.shared
def test_every_real_capture_is_split_without_a_rest(shared_traces: Path) -> None:
    store, report = loaded(shared_traces)
    windows = peaks = 0
    for run in report.runs:
        if run.run_id is None:
            continue
        con = stores.open_run(store, run.run_id)
        split = {(row.rank, row.step): row for row in breakdown(con)}
        for row in waterfall(con).rows:
            outer = split[row.rank, row.step]
            assert row.dur_ns == outer.dur_ns and row.residual_ns == outer.residual_ns
            assert row.residual_ns in (0, None) and all(ns >= 0 for _, ns in row.parts)
            told = dict(row.parts)
            assert not told or sum(told[name] for name in COMPUTING) == outer.computing_ns
            assert not told or told["at_peak"] <= row.peak_ns
            windows, peaks = windows + bool(told), peaks + (row.hfu is not None)
        con.close()
    assert windows >= 100 and peaks >= 10


def test_the_command_says_each_part(tmp_path: Path) -> None:
    (run,) = ingest.load(SAMPLES / "torch_npu_text", tmp_path).runs

    def said(*more: str) -> str:
        done = CliRunner().invoke(main, ["roofline", str(run.run_id), "--store", str(tmp_path), "--top", "1", *more])
        assert done.exit_code == 0, done.output
        return done.output

    as_json = json.loads(said("--json", "--by", "step"))
    told = as_json["waterfall"]
    assert [row["step"] for row in told["shown"]] == sorted({row["step"] for row in told["rows"]} - {None})
    assert all(sum(row["parts"].values()) == row["dur_ns"] and row["residual_ns"] == 0 for row in told["rows"])
    assert as_json["hfu"] == told["total"]["hfu"] and as_json["mfu"] == told["total"]["mfu"]
    assert "residual" in said() and "exposed communication" in said() and "未掩盖通信" in said("--lang", "zh")
    first = str(told["shown"][0]["step"])
    assert f"step {first}" in said("--step", first) and "HFU" in said("--by", "rank")
    none = CliRunner().invoke(main, ["roofline", str(run.run_id), "--store", str(tmp_path), "--step", "999999"])
    assert none.exit_code == 2 and "no such window" in none.output
