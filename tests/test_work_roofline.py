"""Operators beside their roofs: runs made by hand, whose shares can be worked out on paper, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.device.abilities import Device, Seen, known, models
from npulens.analysis.run import Run
from npulens.analysis.work.families import Work
from npulens.analysis.work.roofline import Roofline, Row, of_run, roofline
from npulens.analysis.work.roofs import precision, roofs
from npulens.app.cli import main
from npulens.ingest.store import runs as stores
from tests.real_captures import loaded
from tests.tablecase import connection

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
H100 = {"backend": "cuda", "device_name": "NVIDIA H100 80GB HBM3", "formats": ["kineto"]}
BF16 = '["c10::BFloat16", "c10::BFloat16"]'


def kernel(number: int, at: float, long: float, by: int, name: str = "gemm") -> dict[str, Any]:
    """A kernel that a host operator's launch started."""
    return {
        "id": number, "kind": "kernel", "name": name, "at": at, "for": long, "by": by, "route": "correlation",
        "kernel": {"grid": "[1,1,1]", "block": "[128,1,1]"},
    }  # fmt: skip


def operator(number: int, at: float, name: str, shapes: str, types: str, given: object = None) -> list[dict[str, Any]]:
    """A host operator, and the launch below it under the next number."""
    told: dict[str, Any] = {"id": number, "kind": "cpu_op", "name": name, "at": at, "for": 9,
                            "host_op": {"input_shapes": shapes, "input_dtypes": types}}  # fmt: skip
    if given is not None:
        told["arg"] = {"args": json.dumps({"Concrete Inputs": given})}
    return [told, {"id": number + 1, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 1, "for": 2}]


def found(spans: list[dict[str, Any]], rank: dict[str, Any] = H100, **more: Any) -> Roofline:
    run = Run(_ready({"spans": spans, "rank": {0: rank}, **more}))
    return of_run(run)


def _ready(case: dict[str, Any]) -> Any:
    con = connection(case)
    views.install(con)
    return con


def only(rows: Roofline, operator_: str) -> Row:
    (row,) = [row for row in rows.rows if row.operator == operator_]
    return row


# 1000 x 989 times 989 x 1000 in bf16: 1.978e9 operations, 2 us at 989e12 a second; 5.956e6 bytes, 1.78 us at 3.35e12.
MM = operator(1, 0, "aten::mm", "[[1000, 989], [989, 1000]]", BF16)


def test_a_product_at_a_quarter_of_its_roof() -> None:
    # Its call launched two kernels of 6 and 2 us: they are one operator.
    row = only(found([*MM, kernel(3, 10, 6, 2), kernel(4, 16, 2, 2, "reduce")]), "mm")
    assert (row.calls, row.kernels, row.ns, row.kernel) == (1, 2, 8_000, "gemm")
    assert (row.matrix_flops, row.vector_flops, row.bytes, row.precision) == (1_978_000_000, 0, 5_956_000, "bf16")
    assert row.roof_ns == pytest.approx(2_000) and row.share == pytest.approx(0.25)
    assert row.complete and row.bound == "compute" and row.above is None and row.reason is None
    assert row.flops_per_s == pytest.approx(1.978e9 / 8e-6) and row.bytes_per_s == pytest.approx(5.956e6 / 8e-6)
    assert row.gain_ns == 8_000 - 2_857  # 2 us are 0.7 of 2.857 us


def test_a_sum_is_bound_by_memory() -> None:
    # Two tensors of 3.35e6 bytes read, one written: 3 us.
    spans = operator(1, 0, "aten::add", "[[1000, 1675], [1000, 1675], []]", BF16[:-1] + ', "Scalar"]')
    row = only(found([*spans, kernel(3, 10, 12, 2)]), "add")
    assert row.roof_ns == pytest.approx(3_000) and row.share == pytest.approx(0.25) and row.bound == "memory"


def test_a_share_above_one_is_no_share() -> None:
    spans = operator(1, 0, "aten::add", "[[1000, 1675], [1000, 1675], []]", BF16[:-1] + ', "Scalar"]')
    row = only(found([*spans, kernel(3, 10, 2, 2)]), "add")
    assert row.share is None and row.above == pytest.approx(1.5) and row.gain_ns is None


@pytest.mark.parametrize(("us", "bound"), [(4.5, "launch"), (3.9, "compute"), (5.1, "compute")])
def test_short_operators_are_bound_by_being_started(us: float, bound: str) -> None:
    assert only(found([*MM, kernel(3, 10, us, 2)]), "mm").bound == bound


def test_what_it_was_called_with_makes_it_another_operator() -> None:
    shapes, types = "[[2,3,8,8],[6,3,3,3],[],[],[],[],[],[],[]]", json.dumps(["float", "float", *["Scalar"] * 7])

    def given(stride: int) -> list[str]:
        return ["", "", f"[{stride}, {stride}]", f"[{stride}, {stride}]", "[1, 1]", "1", "False", "False", "True"]

    spans = [
        *operator(1, 0, "aten::cudnn_convolution", shapes, types, given(1)), kernel(3, 10, 8, 2),
        *operator(4, 20, "aten::cudnn_convolution", shapes, types, given(2)), kernel(6, 30, 8, 5),
        *operator(7, 40, "aten::cudnn_convolution", shapes, types, given(1)), kernel(9, 50, 8, 8),
    ]  # fmt: skip
    # Padding 1, stride 1: 8 x 8 places. Padding 2, stride 2: (8 + 4 - 3) // 2 + 1 = 5.
    got = sorted((row.calls, row.matrix_flops) for row in found(spans).rows)
    assert got == [(1, 2 * 6 * 25 * 54), (2, 2 * 6 * 64 * 54)]


def test_mfu_is_time_at_the_peak_over_the_window() -> None:
    mark = {"id": 90, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100}
    got = found([mark, *MM, kernel(3, 10, 6, 2)])
    assert got.mfu == pytest.approx(2 / 100) and got.step_flops == 1_978_000_000 and got.mfu_missing == ()
    assert (got.kernel_ns, got.modelled_ns, got.modelled_share, got.missing) == (6_000, 6_000, 1.0, ())


def test_no_peak_no_mfu() -> None:
    fp64 = operator(1, 0, "aten::mm", "[[10, 10], [10, 10]]", '["double", "double"]')
    got = found([*fp64, kernel(3, 10, 6, 2)])
    assert got.mfu is None and got.mfu_missing == ("fp64",)
    row = only(got, "mm")
    assert not row.complete and row.bound is None and row.share is not None  # at least that of memory
    nobody = found([*MM, kernel(3, 10, 6, 2)], {**H100, "device_name": "a new device"})
    assert nobody.mfu is None and nobody.roofs == () and only(nobody, "mm").share is None


def test_missing_shapes_name_the_setting() -> None:
    bare = [{"id": 1, "kind": "cpu_op", "name": "aten::mm", "at": 0, "for": 9},
            {"id": 2, "kind": "runtime", "name": "cudaLaunchKernel", "at": 1, "for": 2}]  # fmt: skip
    got = found([*bare, kernel(3, 10, 6, 2)])
    assert [(one.reason, one.ns, one.operators) for one in got.missing] == [("no_shapes", 6_000, ("mm",))]
    assert got.collect_with == "record_shapes=True" and got.modelled_ns == 0
    level0 = found([{"id": 1, "kind": "kernel", "name": "MatMulV2_1", "at": 0, "for": 5}], {"backend": "npu"})
    assert level0.missing[0].reason == "no_shapes" and level0.collect_with == "profiler_level=Level1"


NPU = {"backend": "npu", "device_name": "Ascend910B2"}


def test_what_makes_numbers_of_nothing_lacks_no_shapes() -> None:
    """DSARandomNormal has no input: what it writes is all it moves. With neither recorded, nothing is known."""
    made = {"op_type": "DSARandomNormal", "core": "DSA_SQE", "output_shapes": "4,8", "output_dtypes": "FLOAT"}
    one = {"id": 1, "kind": "kernel", "name": "DSARandomNormal", "at": 0, "for": 5}
    got = found([{**one, "kernel": made}], NPU)
    assert got.missing == () and only(got, "DSARandomNormal").bytes == 128
    bare = found([{**one, "kernel": {"op_type": "DSARandomNormal"}}], NPU)
    assert bare.missing[0].reason == "no_shapes"


SHAPED = {"op_type": "MatMulV3", "core": "AI_CORE", "input_shapes": "4096,4096;4096,4096",
          "input_dtypes": "DT_BF16;DT_BF16", "input_formats": "ND;ND", "output_shapes": "4096,4096",
          "output_dtypes": "DT_BF16", "output_formats": "ND"}  # fmt: skip


@pytest.mark.parametrize(("metric", "busy", "disagree"), [
    ("aic_mte2_ratio", 0.9, True), ("aic_mac_ratio", 0.9, False), ("aic_scalar_ratio", 0.8, True),
    ("aic_mte2_ratio", 0.3, False),
])  # fmt: skip
def test_shapes_and_counters_may_disagree(metric: str, busy: float, disagree: bool) -> None:
    # 1.374e11 operations at 353.9e12 a second: 388 us; 100 MB at 1.6e12: 63 us. So the cube should bind it.
    spans = [{"id": 1, "kind": "kernel", "name": "mm", "at": 0, "for": 500, "kernel": SHAPED}]
    pmu = [{"span_id": 1, "metric": metric, "value": busy}, {"span_id": 1, "metric": "aic_mte1_ratio", "value": 0.1}]
    row = only(found(spans, NPU, tables={"pmu": pmu}), "MatMulV3")
    assert row.bound == "compute" and row.share == pytest.approx(2 * 4096**3 / 353.9e12 / 500e-6)
    assert (row.pipe, row.pipe_share, row.disagree) == (metric.removesuffix("_ratio"), busy, disagree)


def test_the_clock_stands_beside_the_roofs() -> None:
    # Ascend910B2 is rated at 1800 MHz.
    spans = [{"id": 1, "kind": "kernel", "name": "mm", "at": 10, "for": 500, "kernel": SHAPED}]
    slow = [{"counter": "AI Core Freq", "series": "MHz", "at": at, "value": 900} for at in (0, 1000)]
    assert found(spans, NPU, tables={"sample": slow}).clock_share == pytest.approx(0.5)
    rated = [{**one, "value": 1800} for one in slow]
    assert found(spans, NPU, tables={"sample": rated}).clock_share is None
    assert found(spans, NPU).clock_share is None


def test_operations_that_the_hardware_counted_otherwise_are_told(tmp_path: Path) -> None:
    spans = [{"id": 1, "kind": "kernel", "name": "mm", "at": 0, "for": 500, "kernel": SHAPED}]
    for counted, told in ((1.1 * 2 * 4096**3, False), (2 * 2 * 4096**3, True)):
        got = found(spans, NPU, tables={"pmu": [{"span_id": 1, "metric": "aic_cube_fops", "value": counted}]})
        assert only(got, "MatMulV3").counted_flops == round(counted) and bool(got.miscounted) is told


@pytest.mark.shared
def test_the_hardware_of_an_npu_counted_about_as_many(shared_traces: Path) -> None:
    """Nothing here knows of the counters of the cube: they are measured, a little above what a product needs."""
    store, report = loaded(shared_traces / "Ascend+msprof-analyze")
    ratios = []
    for run in report.runs:
        got = roofline(stores.open_run(store, str(run.run_id)))
        ratios += [row.counted_flops / row.matrix_flops for row in got.rows if row.counted_flops and row.matrix_flops]
        assert got.miscounted == ()
    assert len(ratios) >= 7 and all(1.0 <= ratio <= 1.1 for ratio in ratios)


def test_the_precision_is_that_of_the_unit() -> None:
    fp32 = Work("matmul", 1, 0, 1, "fp32")
    assert precision(fp32, "ampere_sgemm_128x64_tn", "cuda", False) == "fp32"
    assert precision(fp32, "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1", "cuda", False) == "tf32"
    assert precision(fp32, "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", "cuda", False) == "tf32"
    assert precision(fp32, "MatMulV3", "npu", True) == "hf32"
    assert precision(Work("matmul", 1, 0, 1, "bf16"), "s1688", "cuda", False) == "bf16"


def test_peaks_of_the_devices_that_were_added() -> None:
    sxm, other = known("Tesla V100-SXM2-16GB", "cuda", Seen()), known("Tesla V100-DGXS-32GB", "cuda", Seen())
    assert sxm is not None and sxm.flops["fp16"] == 125e12 and sxm.memory_bytes_per_s == 900e9
    assert other is not None and not other.flops
    mi300 = known("AMD Instinct MI300X VF", "rocm", Seen())
    assert mi300 is not None and mi300.flops["bf16"] == 1307.4e12
    # The cube of the 910 and the 310P knows no bf16; that of the 910B takes it at the speed of fp16.
    for model in models():
        flops = model.facts.get("flops", {})
        if model.backend == "npu" and "bf16" in flops:
            assert model.family in ("Ascend910B", "Ascend910_93") and flops["bf16"] == flops["fp16"]


def test_an_ordinary_peak_is_none_of_the_matrix_units_of_an_npu() -> None:
    device = Device("x", flops={"fp32": 1e12}, memory_bytes_per_s=1e12)
    on_cuda, on_npu = roofs(device, "cuda"), roofs(device, "npu")
    assert on_cuda is not None and on_cuda.vector == 1e12 and on_npu is not None and on_npu.vector is None
    # 10 operations a value would take 10 ns on CUDA: more than 8 bytes of memory.
    work = Work("softmax", 0, 10_000, 8_000)
    assert on_cuda.least_ns(work, None).bound == "compute" and on_npu.least_ns(work, None).bound == "memory"


CAPTURES = sorted(one.name for one in SAMPLES.iterdir() if one.is_dir() and not one.name.startswith("_"))


@pytest.mark.parametrize("name", CAPTURES)
def test_the_command_on_every_bundled_sample(name: str, tmp_path: Path) -> None:
    for run in ingest.load(SAMPLES / name, tmp_path).runs:
        assert run.run_id is not None
        told = [CliRunner().invoke(main, ["roofline", run.run_id, "--store", str(tmp_path), *more])
                for more in ((), ("--lang", "zh", "--top", "3"), ("--json", "--top", "5"))]  # fmt: skip
        assert [one.exit_code for one in told] == [0, 0, 0], [one.output for one in told]
        as_json = json.loads(told[2].output)
        assert as_json["operators"] >= len(as_json["rows"]) and as_json["kernel_ns"] >= as_json["modelled_ns"] > 0
        assert all(row["share"] is None or 0 <= row["share"] <= 1 for row in as_json["rows"])
        assert "'-' is not measured" in told[0].output and "未测得" in told[1].output


def test_every_kernel_is_in_one_row(tmp_path: Path) -> None:
    (one,) = ingest.load(SAMPLES / "torch_npu_text", tmp_path).runs
    con = stores.open_run(tmp_path, str(one.run_id))
    whole, count = con.execute(
        "SELECT sum(dur_ns), count(*) FROM span WHERE kind IN ('kernel', 'memset')"
    ).fetchall()[0]
    got = roofline(con)
    assert sum(row.ns for row in got.rows) == got.kernel_ns == whole
    assert sum(row.kernels for row in got.rows) == count


def test_arguments_that_are_no_json_are_none() -> None:
    spans = operator(1, 0, "aten::sum", "[[2, 3], []]", '["float", "ScalarList"]')
    spans[0]["arg"] = {"args": '{"Concrete Inputs": ["", "[1]"'}
    assert only(found([*spans, kernel(3, 10, 8, 2)]), "sum").bytes == 24 + 4
    spans[0]["arg"] = {"args": '{"Concrete Inputs": ["", "[1]"]}'}
    assert only(found([*spans, kernel(3, 10, 8, 2)]), "sum").bytes == 24 + 8


def test_a_run_without_kernels_says_so() -> None:
    pmu = [{"span_id": 7, "metric": "aic_mac_ratio", "value": 0.5}]
    got = found([{"id": 1, "kind": "cpu_op", "name": "aten::mm", "at": 0, "for": 9}], tables={"pmu": pmu})
    assert got.rows == () and got.modelled_share is None and got.mfu is None
