"""The parts of a step: exact sums, names that last, cycles, limits, and figures of real captures found by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from npulens import ingest
from npulens.analysis.regression import families, parts
from npulens.analysis.regression.families import family
from npulens.ingest.store import runs

ROOT = Path(__file__).resolve().parents[1]
MINDSPORE = ROOT.parent / "shared/traces_2/mindspore-ai+mindinsight"


def measured(capture: Path, store: Path) -> tuple[parts.Table, list[int], list[tuple[str, int]]]:
    """The table of a capture, the computing time of its windows by the split, and the AI core clock samples."""
    (run_id,) = [run.run_id for run in ingest.load(capture, store).runs if run.run_id]
    with runs.open_run(store, run_id) as con:
        computing = con.execute(
            "SELECT computing_ns FROM device_time WHERE step IS NOT NULL ORDER BY rank, ts_ns"
        ).fetchall()
        clock = con.execute("SELECT DISTINCT counter, value FROM sample WHERE counter = 'AI Core Freq'").fetchall()
        return parts.measure(con), [ns for (ns,) in computing], clock


@pytest.fixture(scope="module", params=["torch_npu_text", "torch_npu_db", "kineto", "late_rank"])
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[
    tuple[str, parts.Table, list[int], list[tuple[str, int]]]
]:  # fmt: skip
    name = str(request.param)
    yield name, *measured(ROOT / "sample_traces" / name, tmp_path_factory.mktemp("store"))


def test_families_sum_to_computing_to_the_nanosecond(
    sample: tuple[str, parts.Table, list[int], list[tuple[str, int]]]
) -> None:
    _, table, computing, _ = sample
    assert len(table.families) > 5 and sum(computing) > 0
    assert sum(table.families.values()).tolist() == computing  # type: ignore[union-attr]
    for ns in table.others.values():
        assert (ns >= 0).all() and (ns <= 2 * table.windows.ns).all()


def test_cycles_are_times_the_recorded_clock(
    sample: tuple[str, parts.Table, list[int], list[tuple[str, int]]]
) -> None:
    name, table, _, clock = sample
    assert (table.cycles is None) == (name == "kineto") == (not clock)
    rated = {mhz for _, mhz in clock}
    if table.cycles is not None and len(rated) == 1:
        for family_name, ns in table.families.items():
            assert np.allclose(table.cycles[family_name], ns * float(next(iter(rated))) / 1000, rtol=0, atol=0.01)


def test_a_change_of_the_clock_is_counted_moment_by_moment() -> None:
    # 1000 MHz until 100 ns, then 2000: 50 ns at one cycle a ns and 50 at two; a sample also holds before it.
    at, mhz = np.array([0, 100]), np.array([1000.0, 2000.0])
    begins, ends = np.array([50, -40, 100, 300]), np.array([150, 0, 110, 300])
    assert parts._cycles(at, mhz, begins, ends).tolist() == [150.0, 40.0, 20.0, 0.0]


def test_what_is_kept_of_a_run_sums_to_its_step_nearly(
    sample: tuple[str, parts.Table, list[int], list[tuple[str, int]]]
) -> None:
    _, table, _, _ = sample
    found = parts.told(table)
    kernels = [part for part in found if part.metric.startswith((parts.KERNEL_NS, parts.KERNEL_CYCLES))]
    assert {part.unit for part in kernels} == ({"ns"} if table.cycles is None else {"cycles"})
    named = [part for part in kernels if not part.metric.endswith(f" {families.OTHERS}")]
    assert all(part.share > parts.LEAST_SHARE for part in named)
    computing = sum(table.families.values())
    steps = [float(np.mean(computing[table.windows.step == step])) for step in np.unique(table.windows.step)]  # type: ignore[index]
    whole = median(float(np.mean(table.windows.ns[table.windows.step == step]))
                   for step in np.unique(table.windows.step))  # fmt: skip
    assert sum(part.share for part in kernels) == pytest.approx(median(steps) / whole, rel=0.01)


@pytest.mark.shared
def test_a_real_job_against_its_own_files(tmp_path: Path) -> None:
    """MindSpore on eight Ascend 910, one of them: durations added by hand from the json of each of ten steps."""
    if not MINDSPORE.is_dir():
        pytest.skip("the real captures are not here")
    of: dict[str, list[int]] = defaultdict(list)
    for step in range(1, 11):
        (path,) = MINDSPORE.rglob(f"task_time_1_0_{step}.json")
        events = json.loads(path.read_text(), parse_float=Decimal)
        for name in ("FusedMulApplyMomentum", "Conv2DBackpropFilterD"):
            mine = {(event["ts"], event["dur"]) for event in events if f"/{name}-op" in str(event.get("name"))}
            of[name].append(int(sum(Decimal(dur) for _, dur in mine) * 1000))
    table, computing, _ = measured(MINDSPORE, tmp_path / "store")
    assert len(computing) == 10 and sum(table.families.values()).tolist() == computing  # type: ignore[union-attr]
    found = {part.metric: part for part in parts.told(table)}
    for name, values in of.items():
        assert table.families[name].tolist() == values and found[f"kernel_ns {name}"].value == median(values)
    momentum = found["kernel_ns FusedMulApplyMomentum"]
    assert momentum.value == 1_198_640 and momentum.error is not None and momentum.error < 0.001
    assert "host_ns" not in found and "dataloader_ns" not in found, "no host was recorded: not zero, but not known"
    net = found["step_net_ns"]
    assert net.error is not None and net.error > 50 * momentum.error, "what a part shows, its step hides"


def test_a_run_without_steps_has_no_parts() -> None:
    empty = np.zeros(0, np.int64)
    assert parts.told(parts.Table(parts.Windows(empty, empty, empty, empty), {}, None, {}, {})) == []


def table_of(rows: dict[str, list[int]], ns: list[int]) -> parts.Table:
    """One rank; each step has one number a family."""
    count = len(ns)
    length = np.array(ns, np.int64)
    windows = parts.Windows(np.zeros(count, np.int64), np.arange(count), np.cumsum(length) - length, length)
    return parts.Table(windows, {name: np.array(row, np.int64) for name, row in rows.items()}, None, {}, {})


def test_small_and_rare_kernels_are_among_the_others() -> None:
    rows = {"Add": [500, 500, 900], "Rare": [0, 0, 300], "Small": [1, 1, 1]}
    found = {part.metric: part for part in parts.told(table_of(rows, [1000, 1000, 2000]))}
    assert set(found) == {"kernel_ns Add", "kernel_ns others"}
    assert (found["kernel_ns Add"].value, found["kernel_ns Add"].share) == (500, 0.5)
    assert found["kernel_ns others"].value == 1 and found["kernel_ns Add"].error is None, "three steps are too few"


def test_a_run_keeps_so_many_names_and_no_more() -> None:
    rows = {f"op{number}": [1000 + number] * 5 for number in range(families.KEPT + 10)}
    found = [part.metric for part in parts.told(table_of(rows, [100_000] * 5))]
    assert len(found) == families.KEPT + 1 and found[0] == f"kernel_ns op{families.KEPT + 9}"
    assert found[-1] == "kernel_ns others"


def test_ranks_count_by_their_mean() -> None:
    windows = parts.Windows(*(np.array(each) for each in ([0, 0, 1, 1], [1, 2, 1, 2], [0, 100, 0, 100], [100] * 4)))
    table = parts.Table(windows, {"Add": np.array([10, 30, 20, 60])}, None, {}, {})
    assert [(part.metric, part.value) for part in parts.told(table)] == [("kernel_ns Add", 30.0)]  # of 15 and 45


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (("x", "MatMulV2", None, '"1024,4096;4096,11008"'), "GEMM 1024x4096 · 4096x11008"),
        (("other_tile", "MatMulV3", None, "1024,4096;4096,11008"), "GEMM 1024x4096 · 4096x11008"),
        (("ampere_a", None, "aten::addmm", "[[512],[64,128],[128,512],[],[]]"), "GEMM 64x128 · 128x512"),
        (("cutlass_b", None, "aten::mm", "[[64, 128],[128, 512]]"), "GEMM 64x128 · 128x512"),
        (("x", "MatMulAllReduce", None, "8,8;8,8"), "MatMulAllReduce"),
        (("x", "MatMul", None, None), "MatMul"),
        (("void at::native::vectorized_layer_norm<float>(int)", None, "aten::native_layer_norm", "[[1,2]]"),
         "native_layer_norm"),
        (("void at::native::(anonymous namespace)::add_kernel<4, float>(int)", None, None, None), "add_kernel"),
        (("Default/network/conv1-Conv2d/Conv2D-op8", None, None, None), "Conv2D"),
        (("triton_poi_fused_add_12", None, None, None), "triton_poi_fused_add"),
    ],
)  # fmt: skip
def test_a_family_keeps_its_name(kernel: tuple[str, str | None, str | None, str | None], expected: str) -> None:
    assert family(*kernel) == expected


def test_shapes_that_come_and_go_are_one_family() -> None:
    names = ["GEMM 8x8 · 8x8", "GEMM 9x8 · 8x8", "Add"]
    assert families.recurring(names, [6, 5, 1], 12) == ["GEMM 8x8 · 8x8", families.CHANGING, "Add"]


def test_the_error_is_that_of_the_median() -> None:
    rng = np.random.default_rng(5)
    steady = 1000 + 10 * rng.standard_normal((400, 50))
    actual = float(np.median(steady, axis=1).std() / 1000)
    said = [parts.error_of(row) for row in steady]
    # White noise is taken to resemble its neighbour by 0.2, which widens the error by 1.22, and a median by 1.25.
    assert 1.0 < float(np.mean([each or 0 for each in said])) / actual < 1.8
    walk = 1000 + 10 * np.cumsum(rng.standard_normal(50))
    assert (parts.error_of(walk) or 0) > 3 * actual
    assert parts.error_of([7.0] * 10) == 0.0 and parts.error_of([7.0] * 4) is None and parts.error_of([0.0] * 9) is None
