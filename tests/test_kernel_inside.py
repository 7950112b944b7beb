"""The inside of a kernel: made captures of msprof op and of its simulator, figures worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.look.kernel_inside import Inside, choices, inside
from npulens.analysis.look.kernel_inside import Path as Moved
from npulens.app.cli import main
from npulens.ingest.store import runs as store
from tests import test_reader_opprof as made
from tests import test_reader_opprof_simulator as simulator
from tests.tablecase import connection
from tests.test_pages_data import opened as opened_page

BASIC = (
    "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq,\n"
    "mm_0,mix,10,2,2,0,NA,900,1800,\n"
)
#: One cube core and two vector cores, of which the second takes three times as long.
PIPES = (
    "block_id,sub_block_id,aic_time(us),aic_cube_ratio,aic_scalar_ratio,aic_scalar_mte2_stall_time(us),"
    "aiv_time(us),aiv_vec_ratio,aiv_mte2_ratio,\n"
    "0,cube0,1,0.9,0.2,0.5,NA,NA,NA,\n0,vector0,NA,NA,NA,NA,2,0.5,0.4,\n0,vector1,NA,NA,NA,NA,6,0.1,0.8,\n"
)
CACHE = (
    "block_id,sub_block_id,aiv_time(us),aiv_write_cache_hit,aiv_write_cache_miss_allocate,aiv_r0_read_cache_hit,"
    "aiv_r0_read_cache_miss_allocate,aiv_r1_read_cache_hit,aiv_r1_read_cache_miss_allocate,aiv_read_hit_rate(%),\n"
    "0,vector0,2,1,3,10,10,20,0,75,\n0,vector1,6,0,0,0,40,10,10,16.6,\n"
)
MEMORY = (
    "block_id,sub_block_id,aiv_time(us),read_main_memory_datas(KB),write_main_memory_datas(KB),GM_to_UB_datas(KB),"
    "GM_to_UB_bw_usage_rate(%),L1_to_GM_datas(KB)(estimate),\n"
    "0,vector0,2,100,28,96,10,0,\n0,vector1,6,100,28,96,20,0,\n"
)


def opened(place: Path) -> duckdb.DuckDBPyConnection:
    (run,) = ingest.load(place, place.parent / "store").runs
    return store.open_run(place.parent / "store", str(run.run_id))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("inside") / "OPPROF_1"
    made.write(place, OpBasicInfo=BASIC, PipeUtilization=PIPES, L2Cache=CACHE, Memory=MEMORY)
    (place / "visualize_data.bin").write_bytes(simulator.binary(["ALL"]))
    ingest.load(place, place.parent / "store")
    return place.parent / "store"


@pytest.fixture(scope="module")
def found(whole: Path) -> Inside:
    (run,) = store.runs(whole)
    answer = inside(store.open_run(whole, run.run_id))
    assert answer is not None
    return answer


def test_pipes_by_the_time_of_their_cores(found: Inside) -> None:
    """Vector cores: (2 x 0.4 + 6 x 0.8) / 8 = 0.7. The cube core is busier, but done after 1 us."""
    shares = {(one.core, one.pipe): (round(one.share, 9), one.most, one.kind) for one in found.pipes}
    assert shares == {
        ("aic", "cube"): (0.9, 0.9, "compute"), ("aic", "scalar"): (0.2, 0.2, "scalar"),
        ("aiv", "mte2"): (0.7, 0.8, "memory"), ("aiv", "vec"): (0.2, 0.5, "compute"),
    }  # fmt: skip
    assert found.busiest is not None and (found.busiest.core, found.busiest.pipe) == ("aiv", "mte2")
    assert (found.bound, found.busy_share) == ("memory", pytest.approx(0.7))


def test_blocks_that_are_uneven(found: Inside) -> None:
    """A mean of 4 us, the slowest takes 6; of 10 us of the kernel no core runs for 4."""
    cores = {one.core: (one.units, one.mean_ns, one.most_ns, one.slowest, one.uneven) for one in found.cores}
    assert cores == {"aic": (1, 1000, 1000, "0 cube0", 1.0), "aiv": (2, 4000, 6000, "0 vector1", 1.5)}
    assert (found.dur_ns, found.outside_ns) == (10_000, 4_000)
    assert (found.blocks, found.mix_blocks, found.mhz, found.rated_mhz) == (2, 2, 900, 1800)


def test_hits_are_counted_over_blocks_and_not_rates_averaged(found: Inside) -> None:
    """Reads: 10 + 20 + 0 + 10 of 100 accesses; a mean of the rates would be 45.8 %."""
    assert [(one.core, one.access, one.hits, one.misses, one.share) for one in found.caches] == [
        ("aiv", "read", 40, 60, 0.4), ("aiv", "write", 1, 3, 0.25)]  # fmt: skip


def test_what_was_moved_is_over_the_time_of_the_kernel(found: Inside) -> None:
    """200 KiB in 10 us; a path that moved nothing is left out. 910B3 has no memory bandwidth that a source gives."""
    assert found.paths == (
        Moved("read_main_memory", 204_800, 20.48e9, None), Moved("write_main_memory", 57_344, 5.7344e9, None),
        Moved("GM_to_UB", 196_608, 19.6608e9, pytest.approx(0.15)),
    )  # fmt: skip
    assert found.device == "Ascend910B3"
    share = None if found.memory_peak is None else pytest.approx(26.2144e9 / found.memory_peak)
    assert found.memory_share == share


def test_stalls_and_lines(found: Inside) -> None:
    assert [(one.core, one.name, one.share) for one in found.waits] == [("aic", "scalar_mte2_stall", 0.5)]
    (line,) = found.lines
    assert (line.name, line.of, line.hit) == (f"{simulator.KERNEL}:2", "Add(z, x, y, 64);", None)


def test_a_simulated_operator(tmp_path: Path) -> None:
    """The vector core runs for 3501 ns, of which MTE2 is busy for 2001; the flag it waits for is no work of VECTOR."""
    con = opened(simulator.write(tmp_path / "capture"))
    answer = inside(con)
    assert answer is not None and answer.simulated and choices(con) == ()
    pipes = {(one.core, one.pipe): one.busy_ns for one in answer.pipes}
    assert pipes == {("aic", "cube"): 1, ("aiv", "mte2"): 2001, ("aiv", "vec"): 1500}
    assert (answer.dur_ns, answer.bound) == (3500, "memory")
    assert [line.cycles for line in answer.lines] == [3000, 90]
    (instruction,) = answer.instructions
    assert (instruction.name, instruction.of, instruction.calls) == ("VADD", "VECTOR", 8)


def test_pipes_of_instructions_that_overlap_count_once(tmp_path: Path) -> None:
    one, core = simulator.one, simulator.VEC
    events = [one("A", core, "MTE2", 0, 3), one("B", core, "MTE2", 1, 1), one("C", core, "MTE2", 2, 4),
              one("D", core, "VECTOR", 7, 1)]  # fmt: skip
    answer = inside(opened(simulator.write(tmp_path / "capture", events)))
    assert answer is not None
    assert {one.pipe: (one.busy_ns, one.share) for one in answer.pipes} == {"mte2": (6000, 0.75), "vec": (1000, 0.125)}


def test_numbers_that_fit_nothing_are_no_answer(tmp_path: Path) -> None:
    """Two lines whose calls add up to more than 64 bits; an instruction that takes no time."""
    most = 2**63 - 1
    lines = f"code,call_count,cycles,running_time(us)\na.cpp:1,{most},{most},1\na.cpp:1,{most},{most},nan\n"
    place = simulator.write(tmp_path / "capture", [simulator.one("A", simulator.VEC, "MTE2", 1, 0)], lines)
    answer = inside(opened(place))
    assert answer is not None and (answer.dur_ns, answer.pipes, answer.bound) == (0, (), None)
    (line,) = answer.lines
    assert (line.calls, line.cycles, line.ns) == (None, None, 1000)
    told = CliRunner().invoke(main, ["kernel", store.runs(tmp_path / "store")[0].run_id, "--store",
                                     str(tmp_path / "store")])  # fmt: skip
    assert told.exit_code == 0, told.output


@pytest.mark.parametrize("metric", ["aic_mac_ratio", "mac_exe_ratio"])
def test_kernels_of_a_job_are_weighed_with_their_time(metric: str) -> None:
    """(10 x 0.9 + 30 x 0.1) / 40 = 0.3; the other operator is not mixed in."""
    spans = [
        {"id": number, "kind": "kernel", "name": f"{op}_{number}", "at": 100 * number, "for": length,
         "kernel": {"op_type": op}}
        for number, op, length in ((1, "MatMul", 10), (2, "MatMul", 30), (3, "Add", 10))
    ]  # fmt: skip
    counted = [{"span_id": number, "metric": metric, "value": value}
               for number, value in ((1, 0.9), (2, 0.1), (3, 0.7))]  # fmt: skip
    con = connection({"spans": spans, "tables": {"pmu": counted}})
    answer = inside(con, "MatMul")
    assert answer is not None
    assert (answer.kernels, answer.unit, answer.dur_ns, answer.cores) == (2, "kernel", 20_000, ())
    (pipe,) = answer.pipes
    assert (pipe.share, pipe.most, answer.bound) == (pytest.approx(0.3), 0.9, "none")
    assert choices(con) == ("MatMul", "Add") and inside(con) is None and inside(con, "Softmax") is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_command_says_what_bounds_it(lang: str, whole: Path) -> None:
    (run,) = store.runs(whole)
    answer = CliRunner().invoke(main, ["kernel", run.run_id, "--lang", lang, "--store", str(whole)])
    assert answer.exit_code == 0, answer.output
    wanted = {"en": ("Bound by moving data: mte2", "1.50 times the mean", "4.000 µs of it no core runs"),
              "zh": ("受数据搬运限制", "1.50 倍", "4.000 µs 没有核在运行")}  # fmt: skip
    assert all(text in answer.output for text in wanted[lang])
    told = json.loads(CliRunner().invoke(main, ["kernel", run.run_id, "--json", "--store", str(whole)]).output)
    assert (told["kernel"]["bound"], told["operators"]) == ("memory", ["mm_0"])


def test_an_operator_that_is_not_there_is_answered_with_those_that_are(whole: Path) -> None:
    (run,) = store.runs(whole)
    answer = CliRunner().invoke(main, ["kernel", run.run_id, "Softmax", "--store", str(whole)])
    assert answer.exit_code == 0 and "Softmax" in answer.output and "mm_0" in answer.output


@pytest.mark.parametrize(("lang", "bound"), [("en", "Bound by moving data: mte2"), ("zh", "受数据搬运限制")])
def test_the_page_of_kernels_shows_the_inside(
    lang: str, bound: str, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a measured operator beside its pipes, of a simulated one in place of kernels."""
    monkeypatch.setenv("NPULENS_STORE", str(whole))
    (run,) = store.runs(whole)
    page = opened_page("kernels", lang, {"run": run.run_id})
    assert not any(bound in element.value for element in page.text)
    page.segmented_control(key="kernels_view").set_value("pipes").run()
    assert not page.exception and any(bound in element.value for element in page.text)


def test_the_page_of_a_simulated_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = ingest.load(simulator.write(tmp_path / "capture"), tmp_path / "store").runs
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    page = opened_page("kernels", "en", {"run": str(run.run_id)})
    assert any("longest core takes 3.500 µs" in element.value for element in page.text)
    assert any("Add(z, x, y, 64);" in str(frame.value) for frame in page.dataframe)


def test_settings_of_another_profiler_are_said_with_its_name(whole: Path) -> None:
    """msprof op records one operator whatever its options are."""
    (run,) = store.runs(whole)
    told = json.loads(CliRunner().invoke(main, ["check", run.run_id, "--json", "--store", str(whole)]).output)
    wanted = {one["detector"]: one["collect_with"] for one in told["outcomes"]}
    assert wanted["low_efficiency"] == wanted["compile"] == "torch_npu.profiler: profiler_level=Level1"
    assert wanted["gc"] == "torch_npu.profiler: gc_detect_threshold=0"
    assert not any(text and "=" in text and not text.startswith("torch_npu.") for text in wanted.values())
