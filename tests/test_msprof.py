"""msprof exports: a simulated job written as msprof writes it gives the tables that its torch_npu export gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npulens.collectors.simulator.simulated import write_text
from npulens.collectors.writers.ascend import AscendOptions
from npulens.ingest.readers.ascend.text import exports
from tests.msprof_export import (
    PROF,
    STAMP,
    by_device,
    device_events,
    named,
    op_summary,
    rows,
    same,
    text_of,
    write,
)
from tests.simjob import job
from tests.text_export import TRACES, Loaded, load


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = write_text(job(ranks=2), tmp_path_factory.mktemp("text"), AscendOptions("Level1"), [0, 1])
    return [root / "ASCEND_PROFILER_OUTPUT" for root in made]


@pytest.fixture(scope="module")
def torch(outputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Loaded]:
    return [named(load(output, tmp_path_factory.mktemp("torch"))) for output in outputs]


ARROWS = "SELECT route, s.key, d.key, latency_ns FROM link JOIN named s ON s.span_id = src_span_id " \
    "JOIN named d ON d.span_id = dst_span_id WHERE route = 'host_to_device'"  # fmt: skip


@pytest.mark.parametrize("slices", [1, 3])
def test_an_msprof_export_gives_the_tables_of_torch_npu(
    outputs: list[Path], torch: list[Loaded], tmp_path: Path, slices: int
) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]), slices)
    ((source, got),) = by_device(root, tmp_path)
    assert source.root == root and source.facts.rank is None
    same(got, torch[0])
    assert rows(got, ARROWS) == rows(torch[0], ARROWS) != []
    assert got.part.reasons == []


def test_files_without_their_directory_are_read_alike(outputs: list[Path], torch: list[Loaded], tmp_path: Path) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]), 2)
    (root / "mindstudio_profiler_output").rename(tmp_path / "copied")
    ((_, got),) = by_device(tmp_path / "copied", tmp_path)
    same(got, torch[0])


def test_of_two_exports_of_one_capture_the_newer_is_read(
    outputs: list[Path], torch: list[Loaded], tmp_path: Path
) -> None:
    events, kernels = device_events(outputs[0]), op_summary(outputs[0])
    root = write(tmp_path / PROF, events[:40], kernels[:3], stamp="20250109035000")
    write(root, events, kernels, 2)
    ((_, got),) = by_device(root, tmp_path)
    same(got, torch[0])
    assert "msprof_20250109035000.json is an older export of the same" in got.cover("arg")["reason"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("op_summary_slice_2_20250109035001.csv", exports.Name("op_summary.csv", 2, (), 20250109035001)),
        ("op_summary_0_2_1.csv", exports.Name("op_summary.csv", None, (0, 2, 1), 0)),
        ("msprof_0_2_10.json", exports.Name("msprof.json", None, (0, 2, 10), 0)),
        ("l2_cache.csv", exports.Name("l2_cache.csv", None, (), 0)),
        ("step_trace_time.csv", exports.Name("step_trace_time.csv", None, (), 0)),
        ("step_trace_0_1.csv", exports.Name("step_trace.csv", None, (0, 1), 0)),
        ("msprof.json", None),
        ("trace_view_1.json", None),
        ("kernel_details.csv.bak", None),
        ("op_summary_x.csv", None),
    ],
)
def test_a_name_is_taken_apart(name: str, expected: exports.Name | None) -> None:
    assert exports.name(name) == expected


def test_a_trace_of_torch_npu_goes_before_the_same_of_msprof() -> None:
    files = [Path(name) for name in ("trace_view.json", f"msprof_{STAMP}.json", "kernel_details.csv",
        f"op_summary_{STAMP}.csv", f"task_time_{STAMP}.csv")]  # fmt: skip
    chosen = exports.choose(files)
    assert (chosen.trace, chosen.kernels) == ([files[0]], [files[2]])
    assert len(chosen.unread) == 3


def test_task_time_alone_tells_kernels_from_other_tasks(tmp_path: Path) -> None:
    (tmp_path / f"task_time_{STAMP}.csv").write_text(
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
        '0,MatMul1,AI_CORE,2,1,2.001,"1736408883000001.000\t","1736408883000003.001\t"\n'
        '0,N/A,EVENT_RECORD,2,2,0.02,"1736408883000004.000\t","1736408883000004.020\t"\n'
        '0,copy,MEMCPY_ASYNC,3,3,5,"1736408883000006.000\t","1736408883000011.000\t"\n'
        '0,Fa,KERNEL_MIX_AIC,2,4,1,"1736408883000012.000\t","1736408883000013.000\t"\n'
    )
    got = load(tmp_path, tmp_path)
    assert got.all("SELECT kind, name, ts_ns, dur_ns FROM span ORDER BY ts_ns") == [
        ("kernel", "MatMul1", 0, 2001), ("device_other", "EVENT_RECORD", 3000, 20), ("memcpy", "copy", 5000, 5000),
        ("kernel", "Fa", 11000, 1000),
    ]  # fmt: skip
    assert got.all("SELECT core FROM kernel ORDER BY span_id") == [("AI_CORE",), ("MIX_AIC",)]
    assert got.cover("kernel")["dropped"] == 0
    assert got.part.facts["settings"] == '{"profiler": "msprof"}'


def test_a_core_that_op_summary_does_not_say_is_that_of_the_task(tmp_path: Path) -> None:
    """Task 1 has one core, task 2 its own, of task 3 two are said, and task 4 began at another time."""
    head = "Device_id,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)\n"
    cores = ("N/A", "AI_VECTOR_CORE", "N/A", "N/A")
    (tmp_path / f"op_summary_{STAMP}.csv").write_text(
        head + "".join(f"0,{n},46,k{n},N/A,{core},{n}0.5\t,2\n" for n, core in enumerate(cores, 1))
    )
    tasks = ((1, "KERNEL_AICORE", "10.5"), (2, "KERNEL_AICORE", "20.5"), (3, "KERNEL_AICORE", "30.5"),
             (3, "KERNEL_AICPU", "30.5"), (4, "KERNEL_AICORE", "41.5"))  # fmt: skip
    (tmp_path / f"task_time_{STAMP}.csv").write_text(
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
        + "".join(f"0,k{n},{kind},46,{n},2,{start}\t,99\t\n" for n, kind, start in tasks)
    )
    got = load(tmp_path, tmp_path)
    assert got.all("SELECT name, core FROM kernel JOIN span USING (span_id) ORDER BY name") == [
        ("k1", "AI_CORE"), ("k2", "AI_VECTOR_CORE"), ("k3", None), ("k4", None)]  # fmt: skip
    assert got.cover("sample")["reason"] == "there is no msprof_*.json"
    assert got.cover("host_op")["reason"] == "msprof records no operators of the framework"


_SUMMARY = "Device_id,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)\n"
_TASKS = "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"


def _both(where: Path, kernels: str, tasks: str) -> Loaded:
    """An op_summary beside a task_time: rows without their device, times in us."""
    for name, head, lines in (("op_summary", _SUMMARY, kernels), ("task_time", _TASKS, tasks)):
        (where / f"{name}_{STAMP}.csv").write_text(head + "".join(f"0,{line}\n" for line in lines.split()))
    return load(where, where)


_ON_DEVICE = "SELECT kind, name, ts_ns, dur_ns FROM span WHERE kind <> 'comm_op' ORDER BY ts_ns"


def test_tasks_beside_kernels_are_tasks_and_no_kernel_comes_twice(tmp_path: Path) -> None:
    """Task 1 began before its kernel did, number 2 comes round again, and Cast is a kernel that op_summary lacks."""
    got = _both(
        tmp_path,
        "1,46,k1,Mul,AI_CORE,10.5,2 2,46,k2,Add,AI_CORE,20.5,2",
        "N/A,PROFILING_ENABLE,49,3,0.02,5,5.02 m1,AI_CORE,46,1,3,10,13 N/A,MEMCPY_ASYNC,46,9,4,14,18 "
        "m2,AI_CORE,46,2,2,20.5,22.5 c,AI_CPU,46,7,1,30,31 N/A,EVENT_RECORD,46,2,0,40,40",
    )
    assert got.all(_ON_DEVICE) == [
        ("device_other", "PROFILING_ENABLE", 0, 20), ("kernel", "k1", 5500, 2000),
        ("memcpy", "MEMCPY_ASYNC", 9000, 4000),
        ("kernel", "k2", 15500, 2000), ("kernel", "c", 25000, 1000), ("device_other", "EVENT_RECORD", 35000, 0),
    ]  # fmt: skip
    assert got.cover("transfer")["status"] == "recorded"
    assert got.all("SELECT direction, bytes FROM transfer") == [(None, None)]


def test_a_kernel_that_is_no_task_leaves_open_which_tasks_compute(tmp_path: Path) -> None:
    """k2 has no task: m3 may be it, and is not taken. What op_summary never lists is."""
    got = _both(
        tmp_path,
        "1,46,k1,Mul,AI_CORE,10.5,2 2,46,k2,Add,AI_CORE,20.5,2",
        "m1,AI_CORE,46,1,2,10.5,12.5 m3,AI_CORE,46,3,2,20.5,22.5 N/A,MEMCPY_ASYNC,46,9,4,14,18",
    )
    assert got.all(_ON_DEVICE) == [
        ("kernel", "k1", 0, 2000), ("memcpy", "MEMCPY_ASYNC", 3500, 4000), ("kernel", "k2", 10000, 2000),
    ]  # fmt: skip
    assert "no other file names copies" in got.cover("transfer")["reason"]


def test_a_list_of_kernels_alone_names_no_copies(tmp_path: Path) -> None:
    got = _both(tmp_path, "1,46,k1,Mul,AI_CORE,10.5,2", "m1,AI_CORE,46,1,2,10.5,12.5")
    assert got.all(_ON_DEVICE) == [("kernel", "k1", 0, 2000)]
    assert "no other file names copies" in got.cover("transfer")["reason"]


def test_what_begins_in_a_collective_may_be_its_part(tmp_path: Path) -> None:
    """The copy at 12 us may be one of the operator's, that at 30 us is none. Mul computes beside it."""
    got = _both(
        tmp_path,
        "1,46,k1,Mul,AI_CORE,13,2 N/A,N/A,hcom_allReduce__1_0_1,hcom_allReduce_,COMMUNICATION,10,10",
        "m1,AI_CORE,46,1,2,13,15 N/A,SDMA,50,1,2,12,14 N/A,NOTIFY_WAIT,50,2,1,11,12 N/A,MEMCPY_ASYNC,46,9,4,30,34",
    )
    assert got.all(_ON_DEVICE) == [("kernel", "k1", 3000, 2000), ("memcpy", "MEMCPY_ASYNC", 20000, 4000)]
    assert got.all("SELECT ts_ns, dur_ns FROM span WHERE kind = 'comm_op'") == [(0, 10000)]
    assert "no other file names copies" in got.cover("transfer")["reason"]


def test_iterations_of_step_trace_are_steps(outputs: list[Path], tmp_path: Path) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]))
    first = min(float(e["ts"]) for e in device_events(outputs[0]) if e["ph"] == "X") // 1
    (root / "mindstudio_profiler_output" / f"step_trace_{STAMP}.csv").write_text(
        "Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),Model ID\n"
        f"0,1,{first},{first},{first + 30:.0f}.500,10.250,1\n0,2,{first},{first},{first + 60:.0f},20,1\n"
        "0,N/A,1,1,1,1,1\n"
    )
    ((_, got),) = by_device(root, tmp_path)
    base = int(first) * 1000 - got.origin
    assert got.all("SELECT step, ts_ns, device_dur_ns, source FROM step ORDER BY 1") == [
        (1, base + 20_250, 10_250, "step_trace"), (2, base + 40_000, 20_000, "step_trace"),
    ]  # fmt: skip


def test_tables_without_times_are_summaries(tmp_path: Path) -> None:
    (tmp_path / f"communication_statistic_{STAMP}.csv").write_text(
        "Device_id,OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "0,hcom_allReduce_,4,40.5,10,10.125,10.5,100\n"
    )
    (tmp_path / "static_op_mem.csv").write_text("Op Name,Graph ID,Size(KB)\nConv,1,32.5\n")
    (tmp_path / f"fusion_op_{STAMP}.csv").write_text("Model Name,Model ID,Fusion Op,Original Ops\nm,1,AB,A;B\n")
    (tmp_path / f"op_summary_{STAMP}.csv").write_text(text_of([{"Op Name": "a", "Task Start Time(us)": "1",
        "Task Duration(us)": "1"}]))  # fmt: skip
    (tmp_path / f"pcie_{STAMP}.csv").write_text("Device_id,Mode\n0,x\n")
    got = load(tmp_path, tmp_path)
    assert got.all("SELECT source, name, count, total_ns, min_ns, max_ns FROM summary ORDER BY 1") == [
        ("communication_statistic", "hcom_allReduce_", 4, 40_500, 10_000, 10_500),
        ("fusion_op", "AB", None, None, None, None), ("static_op_mem", "Conv", None, None, None, None),
    ]  # fmt: skip
    assert json.loads(got.one("SELECT args FROM summary WHERE source = 'static_op_mem'")) == {
        "Graph ID": "1", "Size(KB)": "32.5",
    }  # fmt: skip
    assert "not read, no table holds them: pcie.csv" in got.cover("arg")["reason"]


# --- a real one


REAL = TRACES / "mindspore-ai+mindinsight/tests/utils/resource/profiler/PROF_000001_20230818142704322_COJGGGCANRMICFBC"


@pytest.mark.skipif(not REAL.is_dir(), reason="the shared real captures are not here")
@pytest.mark.parametrize("path", [REAL, REAL / "device_0"])
def test_the_iterations_of_a_real_export_are_its_steps(tmp_path: Path, path: Path) -> None:
    ((source, got),) = by_device(path, tmp_path)
    assert (source.facts.rank, source.facts.rank_source) == (0, "metadata")
    assert {"info.json.0", "start_info.0", "end_info.0"} <= {file.name for file in source.files}
    events = [
        event for file in sorted((REAL / "device_0/timeline").glob("msprof_*.json"))
        for event in json.loads(file.read_text(), parse_float=str)
    ]  # fmt: skip
    wanted = {
        event["args"]["Iteration ID"]: event["dur"] for event in events if event.get("cat") == "Iteration Time"
    }  # fmt: skip
    assert len(wanted) == 10
    steps = dict(got.all("SELECT step, device_dur_ns FROM step"))
    assert steps == {number: round(float(us) * 1000) for number, us in wanted.items()}
    streams = {event["tid"] for event in events if event["ph"] == "X" and event["pid"] == 3 and event["tid"] < 100}
    assert got.one("SELECT count(*) FROM track WHERE kind = 'stream'") == len(streams)
    assert got.part.facts["host"] == "A2007104679" and got.part.facts["device_id"] == 0
