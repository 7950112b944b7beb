"""Detectors of kernels say "clean" only where they judged most of the kernels' time: none, or few, is not measured."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.causes import OF_IDLE
from npulens.analysis.detectors import idle_cores
from npulens.analysis.discovery import detectors
from npulens.analysis.engine import check
from npulens.analysis.run import Run
from npulens.analysis.settings import DEFAULT
from tests.tablecase import connection

STEP: dict[str, Any] = {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 10}
H100: dict[int, Any] = {0: {"device_name": "NVIDIA H100 80GB HBM3", "backend": "cuda", "formats": ["kineto"]}}
NPU: dict[int, Any] = {0: {"device_name": "Ascend910B2"}}
OF_KERNELS = ("full_precision", "idle_cores", "low_efficiency", "unfused")


def outcome(detector: str, rank: dict[int, Any], *spans: dict[str, Any]) -> tuple[str, str]:
    (found,) = check(connection({"rank": rank, "spans": [STEP, *spans]}), only=[detector]).outcomes
    return found.outcome, found.reason


@pytest.mark.parametrize("detector", OF_KERNELS)
def test_where_no_kernel_ran_nothing_is_clean(detector: str) -> None:
    """The device set memory to a value and copied; neither is a kernel."""
    spans = ({"id": 11, "kind": "memset", "name": "Memset", "at": 10, "for": 50},
             {"id": 12, "kind": "memcpy", "name": "Memcpy HtoD", "at": 60, "for": 50})  # fmt: skip
    told = outcome(detector, H100, *spans)
    assert told == ("not_measured", "no kernel that this check is about ran on the device")


@pytest.mark.parametrize("detector", OF_KERNELS)
def test_where_nothing_ran_on_the_device_nothing_is_clean(detector: str) -> None:
    """A counter's range lies on the device's side, and there is no step to be a share of."""
    case = {"rank": H100, "spans": [{"id": 11, "kind": "device_other", "name": "a range", "at": 10, "for": 50}]}
    (found,) = check(connection(case), only=[detector]).outcomes
    assert found.outcome == "not_measured" and found.reason.startswith("no kernel that this check is about")


def kernel(number: int, at: int, length: int, **own: Any) -> dict[str, Any]:
    return {"id": number, "kind": "kernel", "name": f"k{number}", "at": at, "for": length, "kernel": own}


def test_few_kernels_with_block_counts() -> None:
    """All cores of 400 us are busy; 600 of 1000 us do not say."""
    told = outcome("idle_cores", H100, kernel(11, 10, 400, grid="[132,1,1]"), kernel(12, 410, 600))
    said = "kernels that say how many cores they used have only 40.0 % of the time that this check is about"
    assert told == ("not_measured", said)
    most = outcome("idle_cores", H100, kernel(11, 10, 800, grid="[132,1,1]"), kernel(12, 810, 200))
    assert most[0] == "clean"


def test_short_kernels_on_few_cores_are_not_judged() -> None:
    """20 of 5 us on 4 of 132 cores are 25 % of 400 us; 20 of 3 us are 16.7 % of 360 us, and the rest uses all cores."""
    large = kernel(11, 10, 300, grid="[132,1,1]")
    told = outcome("idle_cores", H100, large, *(kernel(20 + at, 310 + 5 * at, 5, grid="[4,1,1]") for at in range(20)))
    said = "kernels of less than 10.0 µs that use few of the cores have 25.0 % of the time: too short to judge"
    assert told == ("not_measured", said)
    fewer = (kernel(20 + at, 310 + 3 * at, 3, grid="[4,1,1]") for at in range(20))
    assert outcome("idle_cores", H100, large, *fewer)[0] == "clean"
    full = (kernel(20 + at, 310 + 5 * at, 5, grid="[132,1,1]") for at in range(20))
    assert outcome("idle_cores", H100, large, *full)[0] == "clean"


def test_several_small_losses_do_not_make_the_rest_fine() -> None:
    """Of 1000 us three types lose 6 us each, and 964 us do not say their blocks: one finding needs 10 us."""
    each = (kernel(20 + at, 10 + 12 * at, 12, grid="[66,1,1]") for at in range(3))
    told = outcome("idle_cores", H100, *each, kernel(11, 46, 964))
    said = "kernels that say how many cores they used have only 3.6 % of the time that this check is about"
    assert told == ("not_measured", said)


def test_several_slow_operators_do_not_make_the_rest_fine() -> None:
    """Four types of 2 x 20 us move 3 MB each, and 4840 of 5000 us tell no shapes: one finding needs 50 us.

    Of 20 us some 12 are lost. The sizes differ, so that no type reads what another wrote.
    """
    def small(number: int) -> dict[str, Any]:
        kind, size = ("Add", "Mul", "Sub", "Maximum")[number // 2], f"250,{1000 + number // 2}"
        tensors = {"input_shapes": f"{size};{size}", "input_dtypes": "FLOAT;FLOAT", "output_shapes": size}
        return kernel(20 + number, 10 + 20 * number, 20, op_type=kind, core="AI_VECTOR_CORE", output_dtypes="FLOAT",
                      **tensors)  # fmt: skip

    rest = kernel(11, 170, 4840, op_type="MatMulV2", core="AI_CORE")
    told = outcome("low_efficiency", NPU, *map(small, range(8)), rest)
    assert told[0] == "not_measured" and "not recorded, most in MatMulV2" in told[1], told


def test_several_small_conversions_do_not_make_the_rest_fine() -> None:
    """Of 1000 us a cast takes 8 and a transposition 8, and 984 have names of their own: one finding needs 10 us."""
    each = [kernel(20 + at, 10 + 8 * at, 8, op_type=kind, core="AI_VECTOR_CORE", input_shapes="9,9",
                   input_dtypes="FLOAT", output_shapes="9,9", output_dtypes="FLOAT16")
            for at, kind in enumerate(("Cast", "Transpose"))]  # fmt: skip
    told = outcome("layout_conversion", NPU, *each, kernel(11, 26, 984, core="AI_CORE"))
    assert told[0] == "not_measured" and "kernels whose type was recorded have only 1.6 % of the time" in told[1], told


def test_several_small_stalls_do_not_make_the_rest_fine() -> None:
    """Of 5000 us two types of 60 are idle for most of it, and the pipes of 4880 were not counted."""
    stalls = [kernel(20 + at, 10 + 60 * at, 60, op_type=kind, core="AI_CORE") for at, kind in enumerate(("Aa", "Bb"))]
    pmu = [{"rank": 0, "span_id": 20 + at, "metric": name, "value": value}
           for at in range(2) for name, value in (("aic_mac_ratio", 0.3), ("aic_mte2_ratio", 0.3))]  # fmt: skip
    case = {"rank": NPU, "spans": [STEP, *stalls, kernel(11, 130, 4880, core="AI_CORE")], "tables": {"pmu": pmu}}
    (found,) = check(connection(case), only=["pipe_stall"]).outcomes
    assert (found.outcome, found.reason) == ("not_measured", "how busy the pipes were was not counted for most kernels")


UNNAMED: dict[int, Any] = {0: {}}
VECTOR: dict[str, Any] = {"core": "AI_VECTOR_CORE", "op_type": "Cast"}


def test_kernels_of_few_blocks_do_not_count_the_cores() -> None:
    """Two kernels of 4 blocks make no device of 4 cores; 900 of 1000 us run on one block. 310P3 has 7 vector cores."""
    casts = [kernel(11 + at, 10 + 50 * at, 50, block_num=4, **VECTOR) for at in range(2)]
    (found,) = check(
        connection({"rank": UNNAMED, "spans": [STEP, *casts, kernel(20, 110, 900, block_num=1, **VECTOR)]}),
        only=["idle_cores"],
    ).outcomes
    assert (found.outcome, found.reason) == (
        "not_measured",
        "kernels have up to 4 blocks, but how many cores this device has is not known. Kernels with 90.0 % of the time "
        "run on 1 block: no Ascend chip known here has fewer than 7 cores for them",
    )
    assert str(found.collect_with).startswith("what names the device or counts its cores: ascend_*_profiler_*.db")


def test_the_clock_of_a_mixed_kernel_tells_large_devices() -> None:
    """729,466 cycles in 405.259 us on one block are 1800 MHz, which no 310P runs at: 20 cube cores at least."""
    case = {"rank": UNNAMED, "spans": [STEP, kernel(11, 10, 456, core="MIX_AIC", block_num=1)], "tables": {"pmu": [
        {"span_id": 11, "metric": "aic_total_cycles", "value": 729466},
        {"span_id": 11, "metric": "aicore_time(us)", "value": 405.259}]}}  # fmt: skip
    (found,) = check(connection(case), only=["idle_cores"]).outcomes
    assert found.reason.endswith(
        "run on 1 block: no Ascend chip known here that runs at 1800 MHz has fewer than 20 cores for them"
    )


def test_few_blocks_on_every_device_of_a_name() -> None:
    """Ascend910B has 40 or 48 vector cores, its oldest model 30 in all: 4 are few on each, 40 may be few."""
    name = {0: {"device_name": "Ascend910B"}}
    con = connection({"rank": name, "spans": [STEP, kernel(11, 10, 480, block_num=4, **VECTOR)]})
    (found,) = check(con, only=["idle_cores"]).findings
    assert "uses 4 of 30-48 cores" in found.words["en"].title and found.saving_ns == 440_000  # 480 x (1 - 4 / 48)
    told = outcome("idle_cores", name, kernel(11, 10, 480, block_num=40, **VECTOR))
    assert told == ("not_measured", "kernels have up to 40 blocks, but how many cores this device has is not known")


def test_idle_cores_lose_an_amount_also_where_a_fix_gives_nothing_back() -> None:
    """66 of 132 are idle for 400 us, so 200 us; but another stream is busy for as long as the step."""
    other = {**kernel(12, 10, 990, grid="[132,1,1]"), "track": "s8"}
    told = outcome("idle_cores", H100, kernel(11, 10, 400, grid="[66,1,1]"), other)
    assert told[0] == "masked" and told[1].startswith("200 µs of the step (20.0 %) is lost to it"), told


@pytest.mark.parametrize(
    ("grid", "beside", "lost"),
    [("[112,1,1]", 400, 0), ("[66,1,1]", 400, 103_030), ("[66,1,1]", 200, 151_515), ("[66,1,1]", 0, 200_000)],
)
def test_cores_that_communication_holds_are_not_idle(grid: str, beside: int, lost: int) -> None:
    """A kernel of 400 us on 112 or 66 of 132 cores, and communication beside it for so long, which may hold 32 cores.

    66 / 132 of 400 us are 200 us; 32 / 132 of the 400 or 200 us beside it are 96,970 or 48,485 ns of them.
    """
    ep = {"id": 12, "kind": "comm_op", "name": "deep_ep::internode::dispatch", "at": 10, "for": beside,
          "comm": {"op_span_id": 12, "collective": "alltoall"}}  # fmt: skip
    spans = [STEP, kernel(11, 10, 400, grid=grid), *([ep] if beside else ()), kernel(13, 410, 600, grid="[132,1,1]")]
    con = connection({"rank": H100, "spans": spans})
    found = list(idle_cores.detect(con, Run(con), idle_cores.Limits()))
    assert sum(one.measured_ns or 0 for one in found) == pytest.approx(lost, abs=1)


def test_few_kernels_with_shapes() -> None:
    shaped = {"op_type": "MatMulV2", "core": "AI_CORE", "input_shapes": "64,64;64,64", "output_shapes": "64,64",
              "input_dtypes": "FLOAT16;FLOAT16", "output_dtypes": "FLOAT16"}  # fmt: skip
    told = outcome("unfused", NPU, kernel(11, 10, 250, **shaped), kernel(12, 260, 750, op_type="Mul", core="AI_CORE"))
    assert told == ("not_measured", "kernels with shapes have only 25.0 % of the time that this check is about")
    most = outcome("unfused", NPU, kernel(11, 10, 995, **shaped), kernel(12, 1005, 5, op_type="Mul", core="AI_CORE"))
    assert most[0] == "clean"


def test_calls_too_short_for_their_roof() -> None:
    """100 additions of 9 us are under the 10 us from which on a call is judged; one of 100 us is at its roof."""
    add = {"op_type": "Add", "core": "AI_VECTOR_CORE", "input_shapes": "4096,4096;4096,4096",
           "input_dtypes": "FLOAT16;FLOAT16", "output_shapes": "4096,4096", "output_dtypes": "FLOAT16"}  # fmt: skip
    small = {**add, "input_shapes": "8,8;8,8", "output_shapes": "8,8"}
    short = [kernel(20 + i, 110 + 9 * i, 9, **small) for i in range(100)]
    told = outcome("low_efficiency", NPU, kernel(11, 10, 100, **add), *short)
    assert told == (
        "not_measured",
        "calls of 10.0 µs or more, the ones that can be judged, have only 10.0 % of the time that this check is about",
    )
    assert outcome("low_efficiency", NPU, kernel(11, 10, 100, **add), *short[:2])[0] == "clean"


@pytest.mark.parametrize("rank", [H100, NPU], ids=["gpu", "npu"])
def test_no_judgement_of_kernels_is_clean_without_a_kernel(rank: dict[int, Any]) -> None:
    """What idles is known here, so only judgements of idle time may be clean; those that need requests do not count."""
    spans = [{"id": 11, "kind": "memset", "name": "Memset", "at": 0, "for": 4},
             {"id": 12, "kind": "memcpy", "name": "Memcpy HtoD", "at": 5, "for": 4}]  # fmt: skip
    found = check(connection({"rank": rank, "spans": [STEP, *spans]}))
    needs = {each.name: each.needs for each in detectors(DEFAULT)}
    clean = {one.detector for one in found.outcomes if one.outcome == "clean" and "kernels" in needs[one.detector]}
    assert clean <= set(OF_IDLE) | {"idle_unexplained"}


def test_kernels_that_were_launched_and_not_recorded_are_no_absence_of_kernels() -> None:
    spans = ({"id": 11, "kind": "memset", "name": "Memset", "at": 0, "for": 4},
             {"id": 12, "kind": "runtime", "name": "cudaLaunchKernel", "at": 5, "for": 1})  # fmt: skip
    assert outcome("aicpu", NPU, *spans[:1])[1] == "no kernel ran on the device in the recorded time"
    assert outcome("imbalance", H100, *spans[:1])[1] == "no kernel ran on the device in the recorded time"
    assert outcome("imbalance", H100, *spans)[1] == "kernels were launched, but none was recorded on the device"


def test_time_without_ai_cores_counts_once_however_many_parts_the_ai_cpu_has() -> None:
    """Two parts on the AI CPU run from 10 to 320, those on AI cores from 110 to 260: 160 of 820 us are its alone."""
    parts = [
        {**kernel(11, 10, 300, core="AI_CPU"), "track": "s42"}, {**kernel(12, 20, 300, core="AI_CPU"), "track": "s43"},
        {**kernel(13, 110, 150, core="MIX_AIC"), "track": "s46"},
    ]  # fmt: skip
    last = {**kernel(14, 320, 500, core="AI_CORE"), "track": "s43"}
    told = outcome("aicpu", NPU, *({**one, "name": "PYPTO_add"} for one in parts), last)
    assert told[0] == "masked" and told[1].startswith("160 µs of the step (19.5 %) is lost to it"), told


TYPED: dict[str, Any] = {"op_type": "MatMulV2", "core": "AI_CORE", "input_dtypes": "FLOAT16;FLOAT16"}
UNTYPED: dict[str, Any] = {"op_type": "N/A", "core": "N/A", "input_dtypes": "N/A"}


def named(name: str, number: int, at: int, length: int, **own: Any) -> dict[str, Any]:
    return {**kernel(number, at, length, **own), "name": name}


@pytest.mark.parametrize("name", ["matmul_kernel", "aclnnMatmul_BatchMatMulNd_BatchMatMulV2", "aclnnDiv_RealDiv"])
def test_without_types_nothing_tells_the_precision_of_matrix_work(name: str) -> None:
    """No kernel has a type or inputs, so their names alone do not make the run fine."""
    told = outcome("full_precision", NPU, named(name, 11, 10, 100, **UNTYPED), named(name, 12, 110, 100))
    said = "kernels whose type and inputs were recorded have only 0.0 % of the time: any other may multiply in fp32"
    assert told == ("not_measured", said)


def test_matrix_work_of_unknown_precision_hides_what_is_known() -> None:
    """300 of 1000 us are a product in fp16 and 100 a vector's; 600 are a product without types, then 100 of 500."""
    half = (kernel(11, 10, 300, **TYPED), kernel(12, 310, 100, core="AI_VECTOR_CORE"))
    told = outcome("full_precision", NPU, *half, kernel(13, 410, 600, op_type="MatMulV2", core="AI_CORE"))
    assert told[0] == "not_measured" and "only 40.0 % of the time" in told[1]
    assert outcome("full_precision", NPU, *half, kernel(13, 410, 100, op_type="MatMulV2", core="AI_CORE"))[0] == "clean"


def test_what_is_no_matrix_product_needs_no_types() -> None:
    """One kernel has types; the others are told to be additions and divisions by their type or aclnn's name."""
    spans = (kernel(11, 10, 10, **TYPED), kernel(12, 20, 100, op_type="Add", core="MIX_AIC"),
             named("aclnnDiv_RealDivAiCore_RealDiv", 13, 120, 500, **UNTYPED))  # fmt: skip
    assert outcome("full_precision", NPU, *spans)[0] == "clean"


def test_a_vector_core_has_no_matrix_unit() -> None:
    assert outcome("full_precision", NPU, named("custom", 11, 10, 500, core="AI_VECTOR_CORE"))[0] == "clean"


def test_fp32_that_was_recorded_is_found_beside_what_has_no_types() -> None:
    fp32 = {**TYPED, "input_dtypes": "FLOAT;FLOAT"}
    told = outcome("full_precision", NPU, kernel(11, 10, 300, **fp32), named("matmul_kernel", 12, 310, 700, **UNTYPED))
    assert told[0] == "found", told
