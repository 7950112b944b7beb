"""The files beside the trace and what becomes of each: memory, steps, sums, caches, the analysis of communication."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.quality import quality
from npulens.analysis.run import Run
from npulens.ingest.store import runs as store
from tests.text_export import (
    BASE_US,
    HARDWARE,
    HCCL,
    HOST,
    ROOT,
    Event,
    at,
    load,
    named,
    processes,
    span,
    task,
    write,
)  # fmt: skip

BASE_NS = BASE_US * 1000


def trace() -> list[Event]:
    return [*processes(), task("MatMul1", 1000, 2001, "KERNEL_AICORE")]


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type", f"PTA,{at(9)}\t,1.5,2,NPU:0",
         ("PTA", 0, 1572864, 2097152, None, None, "NPU:0")),
        ("Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type",
         f"PTA,{at(9)}\t,935.9951171875,,0,77,NPU:0", ("PTA", 0, 981462016, None, 0, "77", "NPU:0")),
        ("Device_id,Component,Timestamp(us),Total Reserved(KB),Device", f"0,SLOG,{at(9)},0.5,NPU:0",
         ("SLOG", 0, None, 512, None, None, "NPU:0")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["memory_record", "npu_module_mem"])
def test_memory_samples(tmp_path: Path, name: str, header: str, row: str, expected: tuple[Any, ...]) -> None:
    got = load(write(tmp_path / ROOT, **{f"{name}_csv": f"{header}\r\n{row}\r\n"}), tmp_path)
    columns = "component, ts_ns, allocated_bytes, reserved_bytes, active_bytes, stream_ptr, device"
    assert got.all(f"SELECT {columns} FROM memory_sample") == [expected]
    assert got.origin == BASE_NS + 9


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),Allocation Total Allocated(MB),"
         "Allocation Total Reserved(MB),Release Total Allocated(MB),Release Total Reserved(MB),Device Type",
         f"aten::add,0.5,{at(1000)}\t,{at(3500)}\t,2.5,1,2,3,4,NPU:0",
         (0, 2500, None, "aten::add", 512, 1 << 20, 2 << 20, None, 3 << 20, 4 << 20, None)),
        ("Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us)",
         f"aten::add,-20.5,{at(1000)}\t,,,,", (0, None, None, "aten::add", -20992, *[None] * 6)),
        ("Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us)",
         f"aten::add,1,,{at(3500)}\t,{at(3400)}", (None, None, None, "aten::add", 1024, *[None] * 6)),
        ("Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us)",
         f"aten::add,1,{at(1000)},{at(3500)}\t,{at(3400)}", (0, 2500, 2400, "aten::add", 1024, *[None] * 6)),
    ],
)  # fmt: skip
def test_memory_events(tmp_path: Path, header: str, row: str, expected: tuple[Any, ...]) -> None:
    root = write(tmp_path / ROOT, operator_memory_csv=f"{header}\n{row}\n",
        memory_record_csv=f"Component,Timestamp(us)\nAPP,{at(1000)}\n")
    columns = ("ts_ns, dur_ns, active_dur_ns, name, bytes, allocated_bytes, reserved_bytes, active_bytes, "
               "release_allocated_bytes, release_reserved_bytes, release_active_bytes")  # fmt: skip
    assert load(root, tmp_path).all(f"SELECT {columns} FROM memory_event") == [expected]


STEP = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        (STEP, "50,8827.472999999998,81515.607,4001.281999999992,85516.889,25908.102000000003,116251.25,0",
         (50, 8827473, 85516889, 81515607, 4001282, 25908102, 116251250, 0, None)),
        (f"Device_id,{STEP},Preparing", "5,,1,2,3,4,5,6,7,19358.0",
         (None, 1000, 4000, 2000, 3000, 5000, 6000, 7000, 19358000)),
        (" Step, Computing , Free", "1,0.0005,0.0015", (1, 0, None, None, None, 2, None, None, None)),
    ],
)  # fmt: skip
def test_the_profilers_split(tmp_path: Path, header: str, row: str, expected: tuple[Any, ...]) -> None:
    columns = ("step, computing_ns, communication_ns, communication_not_overlapped_ns, overlapped_ns, free_ns, "
               "stage_ns, bubble_ns, preparing_ns")  # fmt: skip
    got = load(write(tmp_path / ROOT, step_trace_time_csv=f"{header}\n{row}\n"), tmp_path)
    assert got.all(f"SELECT {columns} FROM profiler_step") == [expected]


@pytest.mark.parametrize(("step", "why"), [
    ("5", "step_trace_time.csv lists the steps, but not when each began"), ("", "nothing marks steps"),
])  # fmt: skip
def test_steps_that_are_only_summed_were_marked(tmp_path: Path, step: str, why: str) -> None:
    place = tmp_path / "only sums"
    place.mkdir()
    (place / "step_trace_time.csv").write_text(f"Device_id,{STEP}\n0,{step},1,0,0,1,5,6,0\n")
    (run,) = ingest.load(place, tmp_path / "store").runs
    with store.open_run(tmp_path / "store", str(run.run_id)) as con:
        assert con.execute("SELECT reason FROM coverage WHERE table_name = 'step'").fetchall() == [(why,)]
        doubts = [doubt.text[0] for doubt in quality(Run.of(con)).doubts if doubt.name == "no_steps"]
    assert doubts == [
        f"{'when each step began was not recorded' if step else 'no steps were marked'}: "
        "the whole capture counts as one step"
    ]


def test_sums_keep_the_columns_that_have_no_place(tmp_path: Path) -> None:
    operators = "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"
    calls = "Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance"
    files = {
        "op_statistic_csv": f"{operators}\n0,MatMulV2,AI_CORE,8,921.498,16.54,115.187,346.567,10.385\n",
        "api_statistic_csv": f"{calls}\nacl,aclrtMalloc,4.5,2,2.25,2,2.5,N/A\n",
    }
    found = load(write(tmp_path / ROOT, **files), tmp_path).all(
        "SELECT source, name, category, count, total_ns, min_ns, max_ns, args FROM summary ORDER BY source DESC"
    )
    assert [row[:-1] for row in found] == [
        ("op_statistic", "MatMulV2", "AI_CORE", 8, 921498, 16540, 346567),
        ("api_statistic", "aclrtMalloc", "acl", 2, 4500, 2000, 2500),
    ]
    assert [json.loads(row[-1]) for row in found] == [
        {"Device_id": "0", "Avg Time(us)": "115.187", "Ratio(%)": "10.385"}, {"Avg(us)": "2.25", "Variance": None},
    ]  # fmt: skip


@pytest.mark.parametrize("calls", [2, 3])
def test_operator_details_give_what_the_trace_lacks(tmp_path: Path, calls: int) -> None:
    """Rows have no stamp: only if a name has as many rows as calls is it known which is which."""
    events = [*processes(),
        *(span(HOST, 1, "aten::add", n * 10, 5, {"Sequence number": n}, "cpu_op") for n in range(calls))]
    rows = 'aten::add,"2,3;\r\n4","a.py(1): f;\r\nb.py(2): g",1,2\naten::add,,,3,4\n'
    content = f"Name,Input Shapes,Call Stack,Host Self Duration(us),Device Total Duration(us)\n{rows}"
    got = load(write(tmp_path / ROOT, events, operator_details_csv=content), tmp_path)
    stacks = got.all("SELECT ts_ns, frames FROM stack JOIN span USING (span_id)")
    shapes = got.all("SELECT ts_ns, input_shapes FROM host_op JOIN span USING (span_id) WHERE input_shapes IS NOT NULL")
    assert stacks == ([(0, "a.py(1): f\nb.py(2): g")] if calls == 2 else [])
    assert shapes == ([(0, "2,3;4")] if calls == 2 else [])
    assert got.one("SELECT count(*) FROM host_op") == calls
    ((count, total, args),) = got.all("SELECT count, total_ns, args FROM summary")
    assert (count, total) == (2, 4000) and float(json.loads(args)["Device Total Duration(us)"]) == 6


def test_cache_rates_go_to_the_only_kernel_that_fits(tmp_path: Path) -> None:
    events = [*trace(), *(task("Twice", n, 1, "AI_CORE", 2, 5) for n in (5000, 6000))]
    rows = "2,1,N/A,1e-05,MatMul1\n2,5,0.5,0.1,Twice\n3,1,0,0,MatMul1\n"
    content = f"Stream Id,Task Id,Hit Rate,Victim Rate,Op Name\n{rows}"
    got = load(write(tmp_path / ROOT, events, l2_cache_csv=content), tmp_path)
    columns = "s.name, stream, hit_share, victim_share"
    found = got.all(f"SELECT {columns} FROM l2_cache LEFT JOIN span s USING (span_id) ORDER BY stream, task_id")
    assert found == [("MatMul1", 2, None, 1e-05), (None, 2, 0.5, 0.1), (None, 3, 0.0, 0.0)]


def test_the_analysis_of_an_operator_finds_it_by_name_and_start(tmp_path: Path) -> None:
    def told(start: int, wait: float) -> dict[str, Any]:
        times = {"Start Timestamp(us)": round((BASE_NS + start) / 1000, 1), "Wait Time(ms)": wait,
            "Transit Time(ms)": 2e-05}
        return {"Communication Time Info": times,
            "Communication Bandwidth Info": {"HCCS": {"Size Distribution": {"1.5": [1, 2]}}}}

    name, group = "hcom_send__210_0_1", "17148521525495523210"
    events = [
        *processes(), named(HCCL, "Group 0 Communication", 0, "thread_name"),
        span(HCCL, 0, name, 10_000, 99), span(HCCL, 0, name, 90_000, 99, {"model id": 3}),
    ]  # fmt: skip
    analysis = {
        "step1": {"p2p": {f"{name}@{group}": told(10_000, 0.5), "Total Op Info": {}}, "collective": {}},
        "step2": {"p2p": {f"{name}@{group}": told(90_000, 0.25), f"lost@{group}": told(5, 1)}},
    }
    got = load(write(tmp_path / ROOT, events, communication_json=json.dumps(analysis)), tmp_path)
    columns = "wait_ns, transit_ns, idle_ns, group_name"
    assert got.all(f"SELECT {columns} FROM comm JOIN span USING (span_id) ORDER BY ts_ns") == [
        (500_000, 20, None, group), (250_000, 20, None, group),
    ]  # fmt: skip
    args = [json.loads(text) for (text,) in got.all("SELECT args FROM arg JOIN span USING (span_id) ORDER BY ts_ns")]
    assert [sorted(found) for found in args] == [["Communication Bandwidth Info"],
        ["Communication Bandwidth Info", "model id"]]
    assert got.cover("comm")["dropped"] == 1
    assert got.all("SELECT name FROM track WHERE kind = 'comm_group'") == [(f"Group {group} Communication",)]


def test_links_between_ranks(tmp_path: Path) -> None:
    link = {"Transport Type": "HCCS", "Transit Size(MB)": 2.064384, "Transit Time(ms)": 0.5, "Bandwidth(GB/s)": 4.1,
        "Op Name": "x"}
    matrix = {"step5": {"p2p": {}, "collective": {"allreduce-top1@77": {"0-1": link, "bad": {}}}}}
    got = load(write(tmp_path / ROOT, trace(), communication_matrix_json=json.dumps(matrix)), tmp_path)
    assert got.all("SELECT * EXCLUDE (rank) FROM comm_link WHERE src_rank IS NOT NULL") == [
        ("step5", "collective", "allreduce-top1", "77", "x", 0, 1, "HCCS", 2_064_384, 500_000, 4.1e9)
    ]


# --- what is missing


def test_an_export_that_did_not_finish_is_partial(tmp_path: Path) -> None:
    config = {"common_config": {"activities": ["ProfilerActivity.NPU"]},
        "experimental_config": {"_export_type": "text"}}
    info = json.dumps({"config": config, "end_info": {"collectionTimeEnd": 1, "MonotonicTimeEnd": 1}})
    got = load(write(tmp_path / ROOT, trace(), profiler_info_2_json=info), tmp_path)
    (reason,) = got.part.reasons
    assert reason.startswith("the export lacks kernel_details.csv, step_trace_time.csv: its analysis did not finish")


def test_what_is_absent_says_how_to_record_it(tmp_path: Path) -> None:
    got = load(write(tmp_path / ROOT, trace()), tmp_path)
    settings = {row["table"]: row["collect_with"] for row in got.part.coverage if row["status"] == "absent"}
    assert "with_stack=True" in settings["stack"] and "Level1" in settings["link"] and "aic_metrics" in settings["pmu"]
    assert settings["memory_sample"] == "profile_memory=True" and settings["l2_cache"] == "l2_cache=True"
    assert got.cover("kernel")["status"] == got.cover("transfer")["status"] == "recorded"


def test_the_host_is_in_the_name_of_the_directory_if_the_process_agrees(tmp_path: Path) -> None:
    for pid, host in ((77, "node-1"), (78, None)):
        events = [named(pid, "Python"), span(pid, 1, "op", 0, 1, cat="cpu_op"), named(HARDWARE, "Ascend Hardware")]
        (tmp_path / str(pid)).mkdir()
        root = write(tmp_path / str(pid) / "node-1_77_20250109034804123_ascend_pt", events)
        facts = load(root, tmp_path / str(pid)).part.facts
        assert (facts.get("host"), facts["pid"]) == (host, pid)
