"""Text exports written by hand: every way in which versions differ and files are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.readers import torch_npu_text
from tests.text_export import (
    BASE_US, CANN, HARDWARE, HCCL, HOST, OVERLAP, Event, at, flow, load, named, processes, span, task, write,
)  # fmt: skip

GROUP = "90.91.105.46%enp189s0f0_60000_0_1736410538306028"
GROUP_HASH = "17148521525495523210"
BASE_NS = BASE_US * 1000
ROOT = "rank2_ascend_pt"
L1 = ("Step Id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),"
      "Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,"
      "Output Formats,Context ID,aic_mac_ratio")  # fmt: skip
SHAPES = '"""32,3;4""",FLOAT;INT32,ND;ND,"""32""",FLOAT,ND'
KERNEL = f"5,4294967295,1,2,MatMul1,MatMulV2,dynamic,AI_CORE,{at(1000)}\t,2.001,0.5,24,0,NO,{SHAPES},N/A,0.25"


def kernel_events() -> list[Event]:
    return [*processes(), task("MatMul1", 1000, 2001, "KERNEL_AICORE")]


def comm_task(name: str, ts: int, dur: int, plane: int, **args: Any) -> Event:
    told = {"notify_id": "7", "stream id": 4, "task id": 9, "context id": 1, "task type": name, "src rank": 1, "dst rank": 0,
            "transport type": "SDMA", "size(Byte)": 64, "data type": "FP32", "link type": "HCCS", "bandwidth(GB/s)": 2.5}
    return span(HCCL, plane + 1, name, ts, dur, told | args)  # fmt: skip


def op(name: str, ts: int, dur: int, tid: int = 0, connection: int = 70) -> Event:
    return span(HCCL, tid, name, ts, dur, {"connection_id": connection, "data_type": "FP16", "alg_type": "RING", "count": 10})


def lanes(group: str = GROUP_HASH) -> list[Event]:
    return [named(HCCL, f"Group {group} Communication", 0, "thread_name"), named(HCCL, "Plane 0", 1, "thread_name"),
            named(HCCL, "Plane 1", 2, "thread_name")]  # fmt: skip


def metadata(ranks: list[int]) -> str:
    return json.dumps({"parallel_group_info": {GROUP: {"group_name": "tp", "group_rank": 1, "global_ranks": ranks}}})


# --- what the trace may look like


@pytest.mark.parametrize("form", ["strings", "numbers", "object", "metadata last", "gzip"])
def test_forms_of_a_trace(tmp_path: Path, form: str) -> None:
    events = kernel_events()
    text = json.dumps(events)
    if form == "numbers":
        text = text.replace(f'"{at(1000)}"', at(1000))
    elif form == "object":
        text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    elif form == "metadata last":
        text = json.dumps(events[::-1])
    content = text.encode()
    if form == "gzip":
        import gzip

        content = gzip.compress(content)
    got = load(write(tmp_path / ROOT, trace_view_json=content), tmp_path)
    assert got.all("SELECT kind, name, ts_ns, dur_ns FROM span") == [("kernel", "MatMul1", 0, 2001)]
    assert got.origin == BASE_NS + 1000
    assert got.all("SELECT core, task_type, stream, task_id, model_id, context_id FROM kernel") == [
        ("KERNEL_AICORE", "KERNEL_AICORE", 2, 1, None, None)
    ]
    assert got.part.facts["clock"] == "unix" and got.part.reasons == []


def test_stamps_from_zero_are_no_wall_clock(tmp_path: Path) -> None:
    events = [named(HARDWARE, "Ascend Hardware"), {**task("MatMul1", 0, 20, "AI_CORE"), "ts": 0.0}]
    assert load(write(tmp_path / ROOT, events), tmp_path).part.facts["clock"] == "monotonic"


@pytest.mark.parametrize(("label", "device"), [("NPU", None), ("NPU 0", 0), ("NPU 13", 13)])
def test_the_label_tells_the_device(tmp_path: Path, label: str, device: int | None) -> None:
    told = {"ph": "M", "name": "process_labels", "pid": HARDWARE, "tid": 0, "args": {"labels": label}}
    got = load(write(tmp_path / ROOT, [*kernel_events(), told]), tmp_path)
    assert got.part.facts.get("device_id") == device


def test_the_last_name_of_a_thread_counts(tmp_path: Path) -> None:
    names = [named(HARDWARE, f"Stream {number}", 2, "thread_name") for number in (8, 9)]
    got = load(write(tmp_path / ROOT, [names[0], *kernel_events(), names[1]]), tmp_path)
    assert got.all("SELECT name, stream, kind FROM track") == [("Stream 9", 9, "stream")]


def test_lanes_without_a_process_name_are_told_by_what_they_carry(tmp_path: Path) -> None:
    events = [
        named(7, "Thread 31", 31, "thread_name"), span(7, 31, "AscendCL@aclrtMalloc", 0, 10, {"connection_id": 3}),
        span(8, 2, "MatMul1", 20, 5, {"Task Type": "AI_CORE", "Task Id": 1}), span(9, 4, "aten::add", 30, 5, cat="cpu_op"),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert got.all("SELECT s.kind, t.name, t.process FROM span s JOIN track t USING (track) ORDER BY ts_ns") == [
        ("runtime", "Thread 31", None), ("kernel", "Stream 2", None), ("cpu_op", "Thread 4", None),
    ]  # fmt: skip
    assert "pid 7, 8, 9" in got.cover("track")["reason"]


def test_lanes_of_every_process(tmp_path: Path) -> None:
    events = [
        *processes(), *lanes(), named(600, "Python GC"), named(700, "Fusion Task"), named(800, "Scope Layer"),
        {"ph": "M", "name": "process_labels", "pid": 700, "tid": 0, "args": {"labels": "NPU 0"}},
        span(HOST, 1, "torch/nn.py(3): forward", 1, 9, cat="python_function"), span(HOST, 1, "Enqueue", 2, 1, cat="enqueue"),
        span(HOST, 2, "Dequeue@aclnnAdd", 3, 1, cat="dequeue"), span(HOST, 1, "ProfilerStep#3", 4, 1, cat="cpu_op"),
        span(HOST, 1, "mine", 5, 1, cat="user_annotation"), span(600, 1, "GC", 6, 1), span(700, 1, "block", 7, 1),
        span(800, 1, "Default", 8, 1), span(OVERLAP, 0, "Computing", 9, 1), op("hcom_send__210_0_1", 10, 5),
        comm_task("Memcpy", 11, 1, 0),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert [row[0] for row in got.all("SELECT kind FROM span ORDER BY ts_ns")] == [
        "python", "enqueue", "dequeue", "step_mark", "annotation", "gc", "device_other", "host_other", "profiler_split",
        "comm_op", "comm_task",
    ]  # fmt: skip
    kinds = dict(got.all("SELECT process, any_value(kind) FROM track WHERE process <> 'Communication' GROUP BY 1"))
    assert kinds == {
        "Python": "host_thread", "Python GC": "host_thread", "Fusion Task": "other", "Scope Layer": "host_thread",
        "Overlap Analysis": "profiler",
    }  # fmt: skip


def test_events_that_cannot_be_spans_are_counted(tmp_path: Path) -> None:
    events = [
        *kernel_events(), {**task("a", 0, 0, "X"), "dur": -1}, {"ph": "X", "name": "b", "pid": HOST, "tid": 1, "ts": "x"},
        {"ph": "X", "name": "c", "pid": HOST, "tid": 1, "ts": at(3)}, {**span(HOST, 1, "d", 4, 0), "ts": "9" * 16},
        {"ph": "B", "name": "e", "pid": HOST, "tid": 1, "ts": at(5)}, {**span(HOST, 1, "f", 6, 0), "dur": 9e15},
        {"ph": "i", "name": "g", "pid": HOST, "tid": 1, "ts": at(7)}, 5, None, {**span(HOST, 1, "h", 8, 0), "ts": at(8)[:-4]},
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert {row[0] for row in got.all("SELECT name FROM span")} == {"MatMul1", "g", "h"}
    cover = got.cover("span")
    assert cover["dropped"] == 8 and cover["status"] == "partial"
    for reason in ("negative duration", "no duration", "century", "phase 'B'", "wrong type: ts", "not an object"):
        assert reason in cover["reason"]


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_cut_trace_keeps_what_is_whole(tmp_path: Path, cut: int) -> None:
    events = [*kernel_events(), *(span(HOST, 1, f"op{n}", n, 1, cat="cpu_op") for n in range(10))]
    got = load(write(tmp_path / ROOT, trace_view_json=json.dumps(events)[:-cut]), tmp_path)
    kept = got.one("SELECT count(*) FROM span")
    assert kept == 11 if cut == 1 else 5 < kept < 11
    assert got.cover("span")["status"] == "partial"
    assert any("trace_view.json" in reason for reason in got.part.reasons)


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"null", b"hello", b"\xff\xfe[", b'{"status": 1, "data": {}}', b"[]"])
def test_a_trace_that_is_none_leaves_the_rest(tmp_path: Path, content: bytes) -> None:
    root = write(tmp_path / ROOT, trace_view_json=content, kernel_details_csv=f"{L1}\n{KERNEL}\n")
    got = load(root, tmp_path)
    assert got.all("SELECT kind, name, dur_ns FROM span") == [("kernel", "MatMul1", 2001)]
    assert bool(got.part.reasons) == (content != b"[]")


def test_slices_are_one_trace(tmp_path: Path) -> None:
    one = [*processes(), named(HARDWARE, "Stream 2", 2, "thread_name"), task("MatMul1", 1000, 5, "AI_CORE")]
    two = [task("Add2", 2000, 5, "AI_VECTOR_CORE"), flow("s", "HostToDevice", "8", HARDWARE, 2, 2000)]
    root = tmp_path / "PROF_000001_20250818142704322_ABC"
    (root / "mindstudio_profiler_output").mkdir(parents=True)
    for number, events in enumerate((one, two)):
        path = root / "mindstudio_profiler_output" / f"msprof_slice_{number}_20250818142704.json"
        path.write_text(json.dumps(events))
    got = load(root, tmp_path)
    assert got.all("SELECT s.name, t.name FROM span s JOIN track t USING (track) ORDER BY ts_ns") == [
        ("MatMul1", "Stream 2"), ("Add2", "Stream 2"),
    ]  # fmt: skip


def test_counters_of_any_key(tmp_path: Path) -> None:
    def counter(name: str, **args: Any) -> Event:
        return {"ph": "C", "name": name, "pid": 900, "tid": 0, "ts": at(5), "args": args}

    events = [
        *kernel_events(), counter("AI Core Freq", MHz=1800), counter("HBM 0/Read", **{"Read(MB/s)": 1.5}),
        counter("write_band_width", value=3, acc_id=2), counter("Odd", **{"a b": 2, "c": "4.5", "d": "x", "e": None}),
        counter("Nan", MHz="nan"),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert sorted(got.all("SELECT counter, series, value FROM sample WHERE ts_ns = 0")) == [
        ("AI Core Freq", "MHz", 1800.0), ("Acc PMU 2/write_bandwidth", "value", 3.0), ("HBM 0/Read", "Read(MB/s)", 1.5),
        ("Odd", "a b", 2.0), ("Odd", "c", 4.5),
    ]  # fmt: skip


# --- what a task is


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("MatMul1", "KERNEL_AICORE", "kernel"), ("MatMul1", "AI_VECTOR_CORE", "kernel"), ("Cast", "AI_CPU", "kernel"),
        ("Gen", "DSA_SQE", "kernel"), ("Fa", "MIX_AIC", "kernel"), ("aclnnAdd_Add", "Other", "kernel"),
        ("xAicpuKernel", "AI_CPU", "device_other"), ("MEMCPY_ASYNC", "PCIE_DMA_SQE", "memcpy"),
        ("MEMCPY_ASYNC", "Other", "memcpy"), ("SDMA_SQE", "SDMA_SQE", "memcpy"), ("MEMSET_ASYNC", "MEMSET", "memset"),
        ("EVENT_WAIT", "EVENT_WAIT_SQE", "wait"), ("Notify Wait", "Notify Wait", "wait"), ("awaited", "AI_CORE", "kernel"),
        ("EVENT_RECORD", "EVENT_RECORD_SQE", "device_other"), ("PROFILING_ENABLE", "PLACE_HOLDER_SQE", "device_other"),
        ("Notify_Record", "Other", "device_other"), ("Write Value", "Write Value", "device_other"),
    ],
)  # fmt: skip
def test_kinds_of_tasks(tmp_path: Path, name: str, kind: str, expected: str) -> None:
    got = load(write(tmp_path / ROOT, [*processes(), task(name, 0, 10, kind)]), tmp_path)
    assert got.all("SELECT kind FROM span") == [(expected,)]
    assert got.one("SELECT count(*) FROM kernel") == (expected in ("kernel", "memset"))
    assert got.one("SELECT count(*) FROM transfer") == (expected == "memcpy")
    if expected in ("wait", "device_other"):
        assert json.loads(got.one("SELECT args FROM arg"))["Task Type"] == kind


def test_durations_end_where_the_profilers_split_ends(tmp_path: Path) -> None:
    """Start and duration are rounded each on its own; the lanes of the split hold whole ns."""
    events = [
        *processes(), named(OVERLAP, "Computing", 0, "thread_name"), named(OVERLAP, "Communication", 1, "thread_name"),
        task("a", 100, 50, "AI_CORE"), task("b", 200, 50, "AI_CORE"), task("c", 300, 50, "AI_CORE"),
        span(OVERLAP, 0, "Computing", 100, 51), span(OVERLAP, 0, "Computing", 200, 49), span(OVERLAP, 0, "Computing", 300, 90),
        *lanes(), op("hcom_allReduce__210_0_1", 400, 50), span(OVERLAP, 1, "Communication", 400, 51),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    query = "SELECT dur_ns FROM span WHERE kind IN ('kernel', 'comm_op') ORDER BY ts_ns"
    assert [row[0] for row in got.all(query)] == [51, 49, 50, 51]


@pytest.mark.parametrize("process", ["HCCL", "Communication"])
@pytest.mark.parametrize("context", [1, 4294967295])
def test_a_task_on_stream_and_plane_is_stored_once(tmp_path: Path, process: str, context: int) -> None:
    events = [
        *processes(), named(HCCL, process), *lanes(), op("hcom_allReduce__210_0_1", 100, 900),
        comm_task("Notify_Wait", 110, 50, 0), task("Notify Wait", 110, 50, "Notify Wait", 4, 9, **{"Subtask Id": context}),
        task("Notify Wait", 110, 50, "Notify Wait", 5, 9),
        flow("s", "HostToDevice", "1", HOST, 1, 5), flow("f", "HostToDevice", "1", HARDWARE, 4, 110),
        span(HOST, 1, "launch", 5, 3),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events, profiler_metadata_json=metadata([3, 2])), tmp_path)
    assert sorted(got.all("SELECT kind, name FROM span WHERE kind <> 'host_other'")) == [
        ("comm_op", "hcom_allReduce__210_0_1"), ("comm_task", "Notify_Wait"), ("wait", "Notify Wait"),
    ]  # fmt: skip
    assert got.all("SELECT s.kind FROM link JOIN span s ON s.span_id = dst_span_id") == [("comm_task",)]
    assert got.all(
        "SELECT collective, group_name, plane, task_type, src_rank, dst_rank, src_local, dst_local, bytes, dtype, "
        "transport, link_type, bandwidth_bytes_per_s, notify_id, stream, task_id, op_span_id IS NOT NULL FROM comm "
        "WHERE plane IS NOT NULL"
    ) == [
        ("allreduce", GROUP, 0, "Notify_Wait", 2, 3, 1, 0, 64, "FP32", "SDMA", "HCCS", 2.5e9, "7", 4, 9, True)
    ]  # fmt: skip
    assert got.all("SELECT collective, count, dtype, algorithm, bytes FROM comm WHERE plane IS NULL") == [
        ("allreduce", 10, "FP16", "RING", 20)
    ]


@pytest.mark.parametrize(
    ("ranks", "src", "dst", "expected"),
    [
        ([6, 2, 9], 1, 2, (2, 9)),  # the rank calls itself by its place: numbers are places
        ([0, 2, 4], 2, 4, (2, 4)),  # it calls itself by its name: numbers are names
        ([0, 2, 4], 1, 4294967295, (2, None)),
        ([0, 1], 1, 0, (None, None)),  # the rank is not of this group
        (None, 2, 5, (2, 5)),  # nobody lists the group, but the rank goes by its own name
        (None, 1, 0, (None, None)),
    ],
)
def test_numbers_of_ranks(
    tmp_path: Path, ranks: list[int] | None, src: int, dst: int, expected: tuple[int | None, int | None]
) -> None:
    events = [*processes(), *lanes(), comm_task("Memcpy", 1, 1, 0, **{"src rank": src, "dst rank": dst})]
    files = {} if ranks is None else {"profiler_metadata_json": metadata(ranks)}
    got = load(write(tmp_path / ROOT, events, **files), tmp_path)
    assert got.all("SELECT src_rank, dst_rank FROM comm") == [expected]
    assert got.all("SELECT src_local, dst_local FROM comm") == [(src, None if dst == 4294967295 else dst)]


@pytest.mark.parametrize(
    ("lane", "known", "expected"),
    [(GROUP_HASH, True, GROUP), (GROUP_HASH, False, GROUP_HASH), (GROUP, False, GROUP), ("0", True, GROUP), ("0", False, "210")],
)  # fmt: skip
def test_names_of_groups(tmp_path: Path, lane: str, known: bool, expected: str) -> None:
    files = {"profiler_metadata_json": metadata([2, 3])} if known else {}
    events = [*processes(), *lanes(lane), op("hcom_send__210_0_1", 0, 9), comm_task("Memcpy", 1, 1, 1)]
    got = load(write(tmp_path / ROOT, events, **files), tmp_path)
    assert got.all("SELECT DISTINCT group_name FROM comm") == [(expected,)]
    assert sorted(got.all("SELECT name, group_name FROM track")) == [
        (f"Group {expected} Communication", expected), ("Plane 1", expected),
    ]  # fmt: skip


def test_two_groups_have_planes_of_their_own(tmp_path: Path) -> None:
    names = ["Group 1 Communication", "Plane 0", "Group 2 Communication", "Plane 0"]
    events = [
        *processes(), *(named(HCCL, name, tid, "thread_name") for tid, name in enumerate(names)),
        op("hcom_send__111_0_1", 0, 9, 0), op("hcom_receive__222_0_1", 0, 20, 2),
        comm_task("Memcpy", 1, 1, 0), comm_task("Memcpy", 12, 1, 2), comm_task("Memcpy", 12, 1, 0),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert sorted(got.all("SELECT group_name, collective FROM comm WHERE plane = 0"), key=str) == [
        ("111", "send"), ("111", None), ("222", "receive"),
    ]  # fmt: skip


# --- links


def test_ends_of_flows(tmp_path: Path) -> None:
    """Exact start before innermost; the parent where the latest span is over; what is nowhere is counted."""
    events = [
        *processes(), span(HOST, 1, "outer", 0, 1000, cat="cpu_op"), span(HOST, 1, "inner", 100, 50, cat="cpu_op"),
        span(HOST, 1, "py.py(1): f", 300, 90, cat="python_function"), span(HOST, 1, "op", 300, 80, cat="cpu_op"),
        task("a", 2000, 10, "AI_CORE"), task("b", 3000, 10, "AI_CORE"), task("c", 4000, 10, "AI_CORE", 3),
        *(flow("s", "HostToDevice", str(n), HOST, 1, ts) for n, ts in ((1, 120), (2, 200), (3, 300), (4, 5000))),
        flow("f", "HostToDevice", "1", HARDWARE, 2, 2000), flow("f", "HostToDevice", "2", HARDWARE, 2, 3005),
        flow("f", "HostToDevice", 3, HARDWARE, 3, 4000), flow("f", "HostToDevice", "3", HARDWARE, 2, 3000),
        flow("f", "HostToDevice", "99", HARDWARE, 2, 2000), flow("f", "async_npu", 1, HARDWARE, 9, 2000),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    found = got.all(
        "SELECT s.name, d.name, route, latency_ns FROM link JOIN span s ON s.span_id = src_span_id "
        "JOIN span d ON d.span_id = dst_span_id ORDER BY ALL"
    )
    assert found == [
        ("inner", "a", "host_to_device", 1900), ("op", "b", "host_to_device", 2700), ("op", "c", "host_to_device", 3700),
        ("outer", "b", "host_to_device", 3000),
    ]  # fmt: skip
    assert got.cover("link")["dropped"] == 3
    assert "ends of flows at no span" in got.cover("link")["reason"] and "never start" in got.cover("link")["reason"]


def test_a_repeated_id_goes_to_the_latest_start_before(tmp_path: Path) -> None:
    events = [
        *processes(), *(span(HOST, 1, f"op{n}", n * 100, 10, cat="cpu_op") for n in range(3)),
        *(task(f"k{n}", n * 100 + 50, 5, "AI_CORE") for n in range(3)),
        *(flow("s", "HostToDevice", "7", HOST, 1, n * 100) for n in range(3)),
        *(flow("f", "HostToDevice", "7", HARDWARE, 2, n * 100 + 50) for n in range(3)),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    pairs = "SELECT s.name, d.name FROM link JOIN span s ON s.span_id = src_span_id JOIN span d ON d.span_id = dst_span_id"
    assert sorted(got.all(pairs)) == [("op0", "k0"), ("op1", "k1"), ("op2", "k2")]


def test_a_launch_may_come_after_its_kernel_for_clocks_differ(tmp_path: Path) -> None:
    events = [
        *processes(), span(CANN, 1, "Node@launch", 500, 10), task("k", 400, 5, "AI_CORE"),
        flow("s", "HostToDevice", "7", CANN, 1, 500), flow("f", "HostToDevice", "7", HARDWARE, 2, 400),
    ]  # fmt: skip
    assert load(write(tmp_path / ROOT, events), tmp_path).all("SELECT latency_ns FROM link") == [(-100,)]


@pytest.mark.parametrize("where", ["direction", "operation", "entry", "call"])
def test_the_way_of_a_copy(tmp_path: Path, where: str) -> None:
    args: dict[str, Any] = {}
    entry, call = "Dequeue@x", "AscendCL@aclrtMemcpyAsync"
    if where == "direction":
        args = {"memcpy direction": "device to host", "data size(Byte)": 512}
    elif where == "operation":
        args = {"operation": "device to host", "size(B)": 512, "bandwidth(GB/s)": 1.5}
    elif where == "entry":
        entry = "Dequeue@acl_memcpy_device_to_host"
    else:
        call = "AscendCL@aclrtMemcpy_device_to_host"
    events = [
        *processes(), span(HOST, 5, entry, 10, 100, cat="dequeue"), span(CANN, 5, call, 20, 10),
        task("MEMCPY_ASYNC", 200, 10, "SDMA_SQE", **args),
        flow("s", "HostToDevice", "1", CANN, 5, 20), flow("f", "HostToDevice", "1", HARDWARE, 2, 200),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    size, rate = (512 if args else None), (1.5e9 if where == "operation" else None)
    assert got.all("SELECT direction, bytes, bandwidth_bytes_per_s, blocking FROM transfer") == [
        ("d2h", size, rate, where == "call")
    ]


# --- where roots are


def test_what_is_claimed(tmp_path: Path) -> None:
    root = write(tmp_path / ROOT, kernel_events(), profiler_info_2_json="{}", logs_txt="x")
    output = root / "ASCEND_PROFILER_OUTPUT"
    for path in (root, output):
        claim = torch_npu_text.sniff(path)
        assert claim is not None and claim.root == root and claim.facts.rank == 2
        assert claim.files == (output / "trace_view.json", root / "profiler_info_2.json")
    assert torch_npu_text.sniff(tmp_path) is None
    assert torch_npu_text.sniff(output / "logs.txt") is None
    lone = tmp_path / "lone"
    lone.mkdir()
    (lone / "kernel_details.csv").write_text(f"{L1}\n{KERNEL}\n")
    for path in (lone, lone / "kernel_details.csv"):
        claim = torch_npu_text.sniff(path)
        assert claim is not None and claim.root == lone and claim.files == (lone / "kernel_details.csv",)
    (tmp_path / "db_only_ascend_pt").mkdir()
    (tmp_path / "db_only_ascend_pt" / "profiler_info_0.json").write_text("{}")
    assert torch_npu_text.sniff(tmp_path / "db_only_ascend_pt") is None
