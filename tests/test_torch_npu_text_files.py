"""The CSV and JSON files beside the trace: every set of columns a version wrote, and every damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.text_export import BASE_US, HARDWARE, HCCL, HOST, Event, at, load, named, processes, span, task, write

BASE_NS = BASE_US * 1000
ROOT = "rank2_ascend_pt"
SHAPES = '"""32,3;4""",FLOAT;INT32,ND;ND,"""32""",FLOAT,ND'
TENSORS = "Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats"
L1 = ("Step Id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),"
      f"Block Dim,Mix Block Dim,HF32 Eligible,{TENSORS},Context ID,aic_mac_ratio")  # fmt: skip
KERNEL = f"5,4294967295,1,2,MatMul1,MatMulV2,dynamic,AI_CORE,{at(1000)}\t,2.001,0.5,24,0,NO,{SHAPES},N/A,0.25"
OP = f"5,4294967295,N/A,N/A,hcom_send__210_0_1,hcom_send_,N/A,{{}},{at(9000)}\t,7,0,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A"


def trace() -> list[Event]:
    return [*processes(), task("MatMul1", 1000, 2001, "KERNEL_AICORE")]


# --- kernel_details


FULL = {
    "op_type": "MatMulV2", "core": "AI_CORE", "block_num": 24, "mix_block_num": 0, "op_state": "dynamic", "hf32": "NO",
    "input_shapes": "32,3;4", "input_dtypes": "FLOAT;INT32", "output_shapes": "32", "wait_ns": 500, "stream": 2,
    "task_id": 1, "model_id": None, "context_id": None,
}  # fmt: skip
BARE = dict.fromkeys(FULL) | {"core": "KERNEL_AICORE", "wait_ns": 500, "stream": 2, "task_id": 1}
HEADERS: dict[str, tuple[str, str, dict[str, Any], dict[str, float]]] = {
    "8 columns of Level0": (
        "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim",
        f"5,MatMul1,N/A,N/A,{at(1000)}\t,2.001,0.5,0", BARE, {},
    ),
    "Level1": (L1, KERNEL, FULL, {"aic_mac_ratio": 0.25}),
    "Block Num and a device": (
        "Device_id," + L1.replace("Block Dim", "Block Num"), f"6,{KERNEL}", FULL, {"aic_mac_ratio": 0.25},
    ),
    "910A": (
        f"Step Id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,"
        f"{TENSORS},total_time(us),total_cycles,vec_ratio,mac_ratio,memory_bound",
        f"5,4294967295,1,2,MatMul1,MatMulV2,AI_CORE,{at(1000)},2.001,0.5,24,{SHAPES},1.5,90,0.5,N/A,inf",
        FULL | {"mix_block_num": None, "op_state": None, "hf32": None},
        {"total_time(us)": 1.5, "total_cycles": 90.0, "vec_ratio": 0.5},
    ),
    "msprof": (
        f"Model ID,Task ID,Stream ID,Infer ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
        f"Task Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,{TENSORS},Context ID,aic_mac_ratio",
        f"4294967295,1,2,3,MatMul1,MatMulV2,dynamic,AI_CORE,{at(1000)},2.001,0.5,24,0,NO,{SHAPES},N/A,0.25",
        FULL, {"aic_mac_ratio": 0.25},
    ),
    "another order and blanks": (
        " Duration(us) , Name,start time(US),Stream ID,Task ID", f"2.001,MatMul1,\"{at(1000)}\t\",2,1",
        BARE | {"wait_ns": None}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", HEADERS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("alone", [False, True])
def test_columns_of_every_version(tmp_path: Path, version: str, newline: str, alone: bool) -> None:
    header, row, expected, metrics = HEADERS[version]
    name = "op_summary_20250109_csv" if version == "msprof" else "kernel_details_csv"
    files = {name: f"\ufeff{header}{newline}{row}{newline}"}
    got = load(write(tmp_path / ROOT, None if alone else trace(), **files), tmp_path)
    assert got.all("SELECT kind, name, ts_ns, dur_ns FROM span") == [("kernel", "MatMul1", 0, 2001)]
    found = dict(zip(expected, got.all(f"SELECT {', '.join(expected)} FROM kernel")[0], strict=True))
    if alone and "Level0" in version:
        expected = expected | {"stream": None, "task_id": None}
    assert found == expected | ({"core": expected["op_type"] and expected["core"]} if alone else {})
    assert dict(got.all("SELECT metric, value FROM pmu")) == metrics
    assert got.part.facts.get("device_id") == (6 if "device" in version else None)
    stream = "Stream ?" if alone and "Level0" in version else "Stream 2"
    assert got.all("SELECT name FROM track") == [(stream,)]


@pytest.mark.parametrize("core", ["HCCL", "COMMUNICATION", "N/A"])
@pytest.mark.parametrize("shown", [True, False])
def test_communication_rows_are_the_operators(tmp_path: Path, core: str, shown: bool) -> None:
    """On the communication lane the start may be rounded otherwise; it is one operator all the same."""
    lane = [named(HCCL, "Group 210 Communication", 0, "thread_name"), span(HCCL, 0, "hcom_send__210_0_1", 9001, 7000)]
    files = {"kernel_details_csv": f"{L1}\n{KERNEL}\n{OP.format(core)}\n"}
    got = load(write(tmp_path / ROOT, trace() + lane * shown, **files), tmp_path)
    assert sorted(got.all("SELECT kind, name, dur_ns FROM span")) == [
        ("comm_op", "hcom_send__210_0_1", 7000), ("kernel", "MatMul1", 2001),
    ]  # fmt: skip
    assert got.all("SELECT collective, group_name, op_span_id = span_id FROM comm") == [("send", "210", True)]
    assert got.all("SELECT name FROM track WHERE kind = 'comm_group'") == [("Group 210 Communication",)]


def test_a_stamp_that_one_file_rounds_still_meets_its_task(tmp_path: Path) -> None:
    row = KERNEL.replace(at(1000), at(1000)[:-2])
    events = [*processes(), task("MatMul1", 1040, 2001, "KERNEL_AICORE")]
    got = load(write(tmp_path / ROOT, events, kernel_details_csv=f"{L1}\n{row}\n"), tmp_path)
    assert got.all("SELECT op_type FROM kernel JOIN span USING (span_id)") == [("MatMulV2",)]


def test_kernels_of_one_file_only_are_kept(tmp_path: Path) -> None:
    other = KERNEL.replace(at(1000), at(50_000)).replace("MatMul1", "Lost1").replace(",1,2,", ",7,6,")
    events = [*trace(), task("Seen1", 9000, 5, "AI_CORE", 2, 8)]
    got = load(write(tmp_path / ROOT, events, kernel_details_csv=f"{L1}\n{KERNEL}\n{other}\n"), tmp_path)
    found = got.all("SELECT s.name, t.name, op_type FROM kernel JOIN span s USING (span_id) JOIN track t USING (track) ORDER BY 1")
    assert found == [("Lost1", "Stream 6", "MatMulV2"), ("MatMul1", "Stream 2", "MatMulV2"), ("Seen1", "Stream 2", None)]
    assert "1 tasks come from kernel_details alone" in got.cover("span")["reason"]
    assert "1 kernels of the trace are not in kernel_details" in got.cover("kernel")["reason"]


def test_steps_without_marks_are_those_of_kernel_details(tmp_path: Path) -> None:
    rows = [KERNEL, KERNEL.replace(at(1000), at(5000)), "6" + KERNEL.replace(at(1000), at(9000))[1:]]
    got = load(write(tmp_path / ROOT, kernel_details_csv="\n".join([L1, *rows, ""])), tmp_path)
    assert got.all("SELECT step, ts_ns, device_ts_ns, device_dur_ns, source FROM step ORDER BY step") == [
        (5, 0, 0, 6001, "kernel_details"), (6, 8000, 8000, 2001, "kernel_details"),
    ]  # fmt: skip


# --- damage


DAMAGE = {
    "ragged": (f"{L1}\n{KERNEL},more\n5,1,2\n{KERNEL}\n", 2, False),
    "cut off": (f"{L1}\n{KERNEL}\n5,4294967295,1,2,MatM", 1, True),
    "an open quote": (f'{L1}\n{KERNEL}\n5,"1,2\n{KERNEL}\n', 1, True),
    "no UTF-8": (f"{L1}\n{KERNEL}\n".encode().replace(b"MatMulV2", b"Mat\xff\xfeV2"), 1, False),
    "NUL": (f"{L1}\n{KERNEL}\n".encode().replace(b"MatMulV2", b"Mat\0V2"), 1, False),
    "numbers that are none": (f"{L1}\n{KERNEL}\n{KERNEL.replace('2.001', 'inf')}\n{KERNEL.replace('2.001', '-1')}\n", 1, True),
    "stamps of no time": (f"{L1}\n{KERNEL}\n{KERNEL.replace(at(1000), '9' * 30)}\n{KERNEL.replace(at(1000), '')}\n", 1, True),
    "header only": (f"{L1}\n", 0, False),
    "header without end": (L1, 0, False),
    "blank lines": (f"{L1}\n\n{KERNEL}\n\n", 1, False),
    "a cell of 5 MB": (f"{L1}\n{KERNEL.replace('MatMulV2', 'x' * (5 << 20))}\n{KERNEL}\n", 2, True),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_rows_cost_themselves_alone(tmp_path: Path, damage: str) -> None:
    content, kernels, partial = DAMAGE[damage]
    root = write(tmp_path / ROOT, kernel_details_csv=content, operator_memory_csv="Name,Size(KB)\na,1\n")
    got = load(root, tmp_path)
    assert got.one("SELECT count(*) FROM kernel") == kernels
    assert (got.cover("kernel")["status"] == "partial") == partial
    assert got.one("SELECT sum(bytes) FROM memory_event") == 1024
    if damage == "ragged":
        assert "2 rows of kernel_details.csv" in got.cover("kernel")["reason"]
        assert got.cover("kernel")["dropped"] == 1


@pytest.mark.parametrize("name", ["memory_record", "operator_memory", "step_trace_time", "op_statistic", "l2_cache"])
@pytest.mark.parametrize("content", ["", "\n", "nonsense", "a,b\n1,2\n", '"', "\0\0\0", ",,,\n,,,\n"])
def test_any_content_of_any_file_is_survived(tmp_path: Path, name: str, content: str) -> None:
    got = load(write(tmp_path / ROOT, trace(), **{f"{name}_csv": content}), tmp_path)
    assert got.one("SELECT count(*) FROM kernel") == 1


@pytest.mark.parametrize("name", ["communication", "communication_matrix"])
@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"step1": 5}', b'{"step1": {"p2p": [1]}}', b'{"step1": {"collective": {"a@1": {"0-1": 7}}}}',
     b'{"step1": {"collective": {"hcom_send__210_0_1@5": {"Communication Time Info": [], "0-1": {}}}}}',
     b'{"step1": {"collective": {"a@1": {"Communication Time Info": {"Wait Time(ms)": 1e400}, "0-1": {"x": 1e400}}}}}',
     b'{"a":' * 5000, b"\xff"],
)  # fmt: skip
def test_any_analysis_is_survived(tmp_path: Path, name: str, content: bytes) -> None:
    got = load(write(tmp_path / ROOT, trace(), **{f"{name}_json": content}), tmp_path)
    assert got.one("SELECT count(*) FROM kernel") == 1
    cover = got.cover("comm" if name == "communication" else "comm_link")
    assert cover["status"] == "partial" or cover["dropped"] or cover["reason"] or cover["rows"] or content == b"[]"


# --- the other tables


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
    root = write(tmp_path / ROOT, operator_memory_csv=f"{header}\n{row}\n", memory_record_csv=f"Component,Timestamp(us)\nAPP,{at(1000)}\n")
    columns = ("ts_ns, dur_ns, active_dur_ns, name, bytes, allocated_bytes, reserved_bytes, active_bytes, "
               "release_allocated_bytes, release_reserved_bytes, release_active_bytes")  # fmt: skip
    assert load(root, tmp_path).all(f"SELECT {columns} FROM memory_event") == [expected]


STEP = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        (STEP, "50,8827.472999999998,81515.607,4001.281999999992,85516.889,25908.102000000003,116251.25,0",
         (50, 8827473, 85516889, 81515607, 4001282, 25908102, 116251250, 0, None)),
        (f"Device_id,{STEP},Preparing", "5,,1,2,3,4,5,6,7,19358.0", (None, 1000, 4000, 2000, 3000, 5000, 6000, 7000, 19358000)),
        (" Step, Computing , Free", "1,0.0005,0.0015", (1, 0, None, None, None, 2, None, None, None)),
    ],
)  # fmt: skip
def test_the_profilers_split(tmp_path: Path, header: str, row: str, expected: tuple[Any, ...]) -> None:
    columns = ("step, computing_ns, communication_ns, communication_not_overlapped_ns, overlapped_ns, free_ns, stage_ns, "
               "bubble_ns, preparing_ns")  # fmt: skip
    got = load(write(tmp_path / ROOT, step_trace_time_csv=f"{header}\n{row}\n"), tmp_path)
    assert got.all(f"SELECT {columns} FROM profiler_step") == [expected]


def test_sums_keep_the_columns_that_have_no_place(tmp_path: Path) -> None:
    files = {
        "op_statistic_csv": "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
                            "0,MatMulV2,AI_CORE,8,921.498,16.54,115.187,346.567,10.385\n",
        "api_statistic_csv": "Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\nacl,aclrtMalloc,4.5,2,2.25,2,2.5,N/A\n",
    }  # fmt: skip
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
    events = [*processes(), *(span(HOST, 1, "aten::add", n * 10, 5, {"Sequence number": n}, "cpu_op") for n in range(calls))]
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
    content = "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name\n2,1,N/A,1e-05,MatMul1\n2,5,0.5,0.1,Twice\n3,1,0,0,MatMul1\n"
    got = load(write(tmp_path / ROOT, events, l2_cache_csv=content), tmp_path)
    found = got.all("SELECT s.name, stream, hit_share, victim_share FROM l2_cache LEFT JOIN span s USING (span_id) ORDER BY stream, task_id")
    assert found == [("MatMul1", 2, None, 1e-05), (None, 2, 0.5, 0.1), (None, 3, 0.0, 0.0)]


def test_the_analysis_of_an_operator_finds_it_by_name_and_start(tmp_path: Path) -> None:
    def told(start: int, wait: float) -> dict[str, Any]:
        times = {"Start Timestamp(us)": round((BASE_NS + start) / 1000, 1), "Wait Time(ms)": wait, "Transit Time(ms)": 2e-05}
        return {"Communication Time Info": times, "Communication Bandwidth Info": {"HCCS": {"Size Distribution": {"1.5": [1, 2]}}}}

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
    assert got.all("SELECT wait_ns, transit_ns, idle_ns, group_name FROM comm JOIN span USING (span_id) ORDER BY ts_ns") == [
        (500_000, 20, None, group), (250_000, 20, None, group),
    ]  # fmt: skip
    args = [json.loads(text) for (text,) in got.all("SELECT args FROM arg JOIN span USING (span_id) ORDER BY ts_ns")]
    assert [sorted(found) for found in args] == [["Communication Bandwidth Info"], ["Communication Bandwidth Info", "model id"]]
    assert got.cover("comm")["dropped"] == 1
    assert got.all("SELECT name FROM track WHERE kind = 'comm_group'") == [(f"Group {group} Communication",)]


def test_links_between_ranks(tmp_path: Path) -> None:
    link = {"Transport Type": "HCCS", "Transit Size(MB)": 2.064384, "Transit Time(ms)": 0.5, "Bandwidth(GB/s)": 4.1, "Op Name": "x"}
    matrix = {"step5": {"p2p": {}, "collective": {"allreduce-top1@77": {"0-1": link, "bad": {}}}}}
    got = load(write(tmp_path / ROOT, trace(), communication_matrix_json=json.dumps(matrix)), tmp_path)
    assert got.all("SELECT * EXCLUDE (rank) FROM comm_link WHERE src_rank IS NOT NULL") == [
        ("step5", "collective", "allreduce-top1", "77", "x", 0, 1, "HCCS", 2_064_384, 500_000, 4.1e9)
    ]


# --- what is missing


def test_an_export_that_did_not_finish_is_partial(tmp_path: Path) -> None:
    config = {"common_config": {"activities": ["ProfilerActivity.NPU"]}, "experimental_config": {"_export_type": "text"}}
    info = json.dumps({"config": config, "end_info": {"collectionTimeEnd": 1, "MonotonicTimeEnd": 1}})
    got = load(write(tmp_path / ROOT, trace(), profiler_info_2_json=info), tmp_path)
    assert got.part.reasons == ["the export lacks kernel_details.csv: its analysis did not finish"]


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
