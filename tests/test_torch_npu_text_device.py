"""What a trace written by hand says of the device: kinds of tasks, communication, copies and links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.text_export import (
    CANN,
    GROUP,
    GROUP_HASH,
    HARDWARE,
    HCCL,
    HOST,
    OVERLAP,
    ROOT,
    comm_lanes,
    comm_op,
    comm_task,
    flow,
    load,
    named,
    processes,
    span,
    task,
    write,
)  # fmt: skip


def metadata(ranks: list[int]) -> str:
    return json.dumps({"parallel_group_info": {GROUP: {"group_name": "tp", "group_rank": 1, "global_ranks": ranks}}})


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("MatMul1", "KERNEL_AICORE", "kernel"), ("MatMul1", "AI_VECTOR_CORE", "kernel"), ("Cast", "AI_CPU", "kernel"),
        ("Gen", "DSA_SQE", "kernel"), ("Fa", "MIX_AIC", "kernel"), ("aclnnAdd_Add", "Other", "kernel"),
        ("xAicpuKernel", "AI_CPU", "device_other"), ("MEMCPY_ASYNC", "PCIE_DMA_SQE", "memcpy"),
        ("MEMCPY_ASYNC", "Other", "memcpy"), ("SDMA_SQE", "SDMA_SQE", "memcpy"), ("MEMSET_ASYNC", "MEMSET", "memset"),
        ("EVENT_WAIT", "EVENT_WAIT_SQE", "wait"), ("Notify Wait", "Notify Wait", "wait"),
        ("awaited", "AI_CORE", "kernel"),
        ("EVENT_RECORD", "EVENT_RECORD_SQE", "device_other"), ("PROFILING_ENABLE", "PLACE_HOLDER_SQE", "device_other"),
        ("Notify_Record", "Other", "device_other"), ("Other", "Other", "device_other"),
        ("Write Value", "Write Value", "device_other"),
    ],
)  # fmt: skip
def test_kinds_of_tasks(tmp_path: Path, name: str, kind: str, expected: str) -> None:
    got = load(write(tmp_path / ROOT, [*processes(), task(name, 0, 10, kind)]), tmp_path)
    assert got.all("SELECT kind FROM span") == [(expected,)]
    assert got.one("SELECT count(*) FROM kernel") == (expected in ("kernel", "memset"))
    assert got.one("SELECT count(*) FROM transfer") == (expected == "memcpy")
    if expected in ("wait", "device_other"):
        assert json.loads(got.one("SELECT args FROM arg"))["Task Type"] == kind


@pytest.mark.parametrize(
    ("task_type", "core"),
    [
        ("KERNEL_AICORE", "AI_CORE"), ("KERNEL_AIVEC", "AI_VECTOR_CORE"), ("KERNEL_AICPU", "AI_CPU"),
        ("KERNEL_MIX_AIC", "MIX_AIC"), ("KERNEL_MIX_AIV", "MIX_AIV"), ("DSA_SQE", "DSA_SQE"),
    ],
)  # fmt: skip
def test_the_type_of_a_task_tells_its_core(tmp_path: Path, task_type: str, core: str) -> None:
    """Where no kernel_details says it: msprof's json alone."""
    got = load(write(tmp_path / ROOT, [*processes(), task("k", 0, 10, task_type)]), tmp_path)
    assert got.all("SELECT core, task_type FROM kernel") == [(core, task_type)]


def test_durations_end_where_the_profilers_split_ends(tmp_path: Path) -> None:
    """Start and duration are rounded each on its own; the lanes of the split hold whole ns."""
    events = [
        *processes(), named(OVERLAP, "Computing", 0, "thread_name"), named(OVERLAP, "Communication", 1, "thread_name"),
        task("a", 100, 50, "AI_CORE"), task("b", 200, 50, "AI_CORE"), task("c", 300, 50, "AI_CORE"),
        span(OVERLAP, 0, "Computing", 100, 51), span(OVERLAP, 0, "Computing", 200, 49),
        span(OVERLAP, 0, "Computing", 300, 90),
        *comm_lanes(), comm_op("hcom_allReduce__210_0_1", 400, 50), span(OVERLAP, 1, "Communication", 400, 51),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    query = "SELECT dur_ns FROM span WHERE kind IN ('kernel', 'comm_op') ORDER BY ts_ns"
    assert [row[0] for row in got.all(query)] == [51, 49, 50, 51]


@pytest.mark.parametrize("process", ["HCCL", "Communication"])
@pytest.mark.parametrize("context", [1, 4294967295])
def test_a_task_on_stream_and_plane_is_stored_once(tmp_path: Path, process: str, context: int) -> None:
    events = [
        *processes(), named(HCCL, process), *comm_lanes(), comm_op("hcom_allReduce__210_0_1", 100, 900),
        comm_task("Notify_Wait", 110, 50, 0),
        task("Notify Wait", 110, 50, "Notify Wait", 4, 9, **{"Subtask Id": context}),
        task("Notify Wait", 110, 50, "Notify Wait", 5, 9, connection_id=3),  # another stream, launched on its own
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
    events = [*processes(), *comm_lanes(), comm_task("Memcpy", 1, 1, 0, **{"src rank": src, "dst rank": dst})]
    files = {} if ranks is None else {"profiler_metadata_json": metadata(ranks)}
    got = load(write(tmp_path / ROOT, events, **files), tmp_path)
    assert got.all("SELECT src_rank, dst_rank FROM comm") == [expected]
    assert got.all("SELECT src_local, dst_local FROM comm") == [(src, None if dst == 4294967295 else dst)]


@pytest.mark.parametrize(
    ("lane", "known", "expected"),
    [(GROUP_HASH, True, GROUP), (GROUP_HASH, False, GROUP_HASH), (GROUP, False, GROUP), ("0", True, GROUP),
     ("0", False, "210")],
)  # fmt: skip
def test_names_of_groups(tmp_path: Path, lane: str, known: bool, expected: str) -> None:
    files = {"profiler_metadata_json": metadata([2, 3])} if known else {}
    events = [*processes(), *comm_lanes(lane), comm_op("hcom_send__210_0_1", 0, 9), comm_task("Memcpy", 1, 1, 1)]
    got = load(write(tmp_path / ROOT, events, **files), tmp_path)
    assert got.all("SELECT DISTINCT group_name FROM comm") == [(expected,)]
    assert sorted(got.all("SELECT name, group_name FROM track")) == [
        (f"Group {expected} Communication", expected), ("Plane 1", expected),
    ]  # fmt: skip


def test_two_groups_have_planes_of_their_own(tmp_path: Path) -> None:
    names = ["Group 1 Communication", "Plane 0", "Group 2 Communication", "Plane 0"]
    events = [
        *processes(), *(named(HCCL, name, tid, "thread_name") for tid, name in enumerate(names)),
        comm_op("hcom_send__111_0_1", 0, 9, 0), comm_op("hcom_receive__222_0_1", 0, 20, 2),
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
        ("inner", "a", "host_to_device", 1900), ("op", "b", "host_to_device", 2700),
        ("op", "c", "host_to_device", 3700),
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
    ends = "JOIN span s ON s.span_id = src_span_id JOIN span d ON d.span_id = dst_span_id"
    assert sorted(got.all(f"SELECT s.name, d.name FROM link {ends}")) == [("op0", "k0"), ("op1", "k1"), ("op2", "k2")]


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


def test_kernels_of_mc2_communicate(tmp_path: Path) -> None:
    """A fused one computes as well; one that only dispatches is communication."""
    events = [*processes(), task("aclnnMatmulAllReduce_MatmulAllReduce_1", 0, 10, "MIX_AIC"),
              task("MoeDistributeDispatchV2_2", 20, 10, "AI_VECTOR_CORE"), task("MatMulV2_3", 40, 10, "AI_CORE"),
              task("hcom_allReduce_AivKernel_4", 60, 10, "AI_VECTOR_CORE")]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert got.all("SELECT kind FROM span ORDER BY ts_ns") == [("kernel",), ("comm_op",), ("kernel",), ("kernel",)]
    said = "SELECT ts_ns, collective, op_span_id = span_id, stream FROM comm JOIN span USING (span_id) ORDER BY ts_ns"
    assert got.all(said) == [(0, "allreduce", True, 2), (20, "alltoall", True, 2)]
    assert got.one("SELECT count(*) FROM kernel") == 3
    sums = "SELECT computing_ns, communication_ns, communication_not_overlapped_ns, collectives FROM device_time"
    assert got.all(sums) == [(30, 20, 10, 2)]
