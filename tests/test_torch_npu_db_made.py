"""Databases made by hand: every version of the schema, and values that nobody would write in good faith."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch_npu_db_files import CANN, NONE, NOW, PYTORCH, TASK, Maker, load

from npulens.ingest.readers.ascend import read_torch_npu_db


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker]:
    (tmp_path / "in").mkdir()
    made = Maker(tmp_path / "in" / "ascend_pytorch_profiler_2.db")
    yield made
    made.con.close()


def make_newest(maker: Maker) -> None:
    """A kernel, a copy, a communication operator with one task, and a wait, as CANN writes them in 2026."""
    maker.task(1, "KERNEL_AIVEC", 100, 200, connection=11)
    maker.task(2, "MEMCPY_ASYNC", 300, 400, connection=12)
    maker.task(3, "Notify Wait", 500, 600, stream=4, connection=13)
    maker.task(4, "EVENT_WAIT", 700, 800)
    maker.table(
        "COMPUTE_TASK_INFO(name, globalTaskId, blockNum, mixBlockNum, taskType, opType, inputShapes, opState, gridDim, "
        "blockDim)",
        ("MatMul_1", 1, 24, 0, "AI_CORE", "MatMulV2", '"2,3;3,4"', "static", "N/A", "N/A"),
    )
    maker.table("MEMCPY_INFO(globalTaskId, size, memcpyOperation)", (2, 4096, 2))
    for at, level, connection, name in ((0, 10000, 11, "launch"), (60, 20000, 12, "aclrtMemcpy"), (120, 5500, 13, "x")):
        maker.table(CANN, (NOW + at, NOW + 50 + at, level, 77 << 32 | 5, connection, name))
    maker.table(
        "ENUM_API_TYPE(id, name TEXT)",
        *((i, (n,)) for i, n in ((10000, "node"), (20000, "acl"), (5500, "communication"))),
    )
    maker.table(
        "COMMUNICATION_OP(opName, startNs, endNs, connectionId, groupName, opId, relay, retry, dataType, algType, "
        "count, opType, deviceId, rankSize)",
        ("hcom_send__001_0_1", NOW + 500, NOW + 610, 13, "g", 9, 0, 1, 3, "MESH", 10, "N/A", 3, 4),
    )
    maker.table(
        "COMMUNICATION_TASK_INFO(name, globalTaskId, taskType, planeId, groupName, notifyId, rdmaType, srcRank, "
        "dstRank, transportType, size, dataType, linkType, opId, isMaster, bandwidth)",
        ("hcom_send__001_0_1", 3, "Notify_Wait", 2, "g", -1, 65534, 0, 1, 0, 512, 3, 1, 9, 1, 2.5e9),
    )
    for enum, name in (("DATA_TYPE", "FP16"), ("LINK_TYPE", "HCCS"), ("TRANSPORT_TYPE", "SDMA")):
        maker.table(f"ENUM_HCCL_{enum}(id, name TEXT)", (3 if name == "FP16" else 1 if name == "HCCS" else 0, (name,)))
    maker.table("OVERLAP_ANALYSIS(id, deviceId, startNs, endNs, type)", (1, 3, NOW + 100, NOW + 200, 0))
    maker.table("ENUM_OVERLAP_ANALYSIS_TYPE(id, name TEXT)", (0, ("COMPUTE",)))
    groups = {"g": {"group_name": "pp", "group_rank": 0, "global_ranks": [2, 6]}}
    maker.table("META_DATA(name TEXT, value TEXT)", (("parallel_group_info",), (json.dumps(groups),)),
                (("distributed_args",), ('{"world_size": 8}',)))  # fmt: skip
    maker.table("RANK_DEVICE_MAP(rankId, deviceId)", (2, 3))


def test_the_newest_schema(maker: Maker, tmp_path: Path) -> None:
    """blockNum, MEMCPY_INFO, deviceId and rankSize in COMMUNICATION_OP, the profiler's own OVERLAP_ANALYSIS."""
    make_newest(maker)
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, name, ts_ns, dur_ns FROM span WHERE kind NOT IN ('runtime') ORDER BY kind") == [
        ("comm_op", "hcom_send__001_0_1", 500, 110),
        ("comm_task", "Notify_Wait", 500, 100),
        ("kernel", "MatMul_1", 100, 100),
        ("memcpy", "MEMCPY_ASYNC", 300, 100),
        ("profiler_split", "Computing", 100, 100),
        ("wait", "EVENT_WAIT", 700, 100),
    ]
    assert run.all("SELECT block_num, op_type, core, task_type, input_shapes, op_state, stream FROM kernel") == [
        (24, "MatMulV2", "AI_CORE", "KERNEL_AIVEC", "2,3;3,4", "static", 1)]  # fmt: skip
    assert run.all("SELECT direction, bytes, blocking FROM transfer") == [("d2h", 4096, True)]
    assert run.all(
        "SELECT collective, group_name, plane, src_rank, dst_rank, src_local, dst_local, bytes, dtype, link_type, "
        "transport, bandwidth_bytes_per_s, notify_id, retry FROM comm ORDER BY plane NULLS FIRST"
    ) == [
        ("send", "g", None, None, None, None, None, 20, "FP16", None, None, None, None, 1),
        ("send", "g", 2, 2, 6, 0, 1, 512, "FP16", "HCCS", "SDMA", 2.5e9, None, None),
    ]  # fmt: skip
    assert {row[0] for row in run.all("SELECT name FROM span WHERE kind = 'runtime'")} == {
        "Node@launch", "AscendCL@aclrtMemcpy", "Communication@x"}  # fmt: skip
    assert run.one("SELECT count(*) FROM link WHERE route = 'host_to_device'") == 3
    assert run.all("SELECT group_name, kind, ranks FROM parallel_group") == [("g", "pp", [2, 6])]
    assert run.part.facts["world_size"] == 8 and run.part.facts["device_id"] == 3 and run.part.rank == 2
    assert run.cover("pmu")["status"] == "absent"


def test_an_early_schema(maker: Maker, tmp_path: Path) -> None:
    """The table API, no COMPUTE_TASK_INFO, SESSION_TIME_INFO with three columns, no enums."""
    maker.task(1, "KERNEL_AICORE", 10, 20, connection=5)
    maker.task(2, "PLACE_HOLDER_SQE", 30, 40)
    maker.table(CANN.replace("CANN_API", "API"), (NOW + 1, NOW + 5, 10000, 1, 5, "launch"))
    maker.table("SESSION_TIME_INFO(startTimeNs, endTimeNs, baseTimeNs)", (NOW, 1_700_000_001_000_000_000, 1))
    claim = read_torch_npu_db.sniff(maker.path)
    assert claim is not None and claim.facts.begin_ns == NOW
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, name FROM span ORDER BY ts_ns") == [
        ("runtime", "Node@launch"), ("kernel", "KERNEL_AICORE"), ("device_other", "PLACE_HOLDER_SQE")]  # fmt: skip
    assert run.one("SELECT count(*) FROM link") == 1


@pytest.mark.parametrize(
    ("task_type", "core"),
    [
        ("KERNEL_AICORE", "AI_CORE"), ("KERNEL_AIVEC", "AI_VECTOR_CORE"), ("KERNEL_AICPU", "AI_CPU"),
        ("KERNEL_MIX_AIC", "MIX_AIC"), ("KERNEL_MIX_AIV", "MIX_AIV"),
    ],
)  # fmt: skip
def test_the_type_of_a_task_tells_its_core(maker: Maker, tmp_path: Path, task_type: str, core: str) -> None:
    """No COMPUTE_TASK_INFO says it."""
    maker.task(1, task_type, 10, 20)
    assert load(maker.path, tmp_path / "out").all("SELECT core, task_type FROM kernel") == [(core, task_type)]


def test_communication_tasks_without_their_table(maker: Maker, tmp_path: Path) -> None:
    """Below level 1 copies and waits of an operator are told by its connection; its container is not a kernel."""
    maker.task(1, "AI_CORE", 0, 100, connection=7)
    maker.table(TASK, (NOW + 10, NOW + 20, 3, 7, 2, 77, "SDMA", 0, 1, 1, NONE))
    maker.task(3, "SDMA", 200, 210)
    maker.table("COMMUNICATION_OP(opName, startNs, endNs, connectionId, groupName, opId)",
                ("hcom_allGather__1_0_1", NOW, NOW + 100, 7, "g", 1))  # fmt: skip
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, dur_ns FROM span ORDER BY ALL") == [
        ("comm_op", 100),
        ("comm_task", 10),
        ("memcpy", 10),
    ]


def test_hostile_values_do_no_harm(maker: Maker, tmp_path: Path) -> None:
    big = 9223372036854775807
    maker.task(1, "KERNEL_AIVEC", 0, 10)
    maker.task(1, "KERNEL_AIVEC", 20, 30)  # the same id twice
    maker.table(
        TASK,
        (-big, big, 0, 1, 2, 3, "x", 4, 5, 6, 7),
        (("not a number",), 1, 0, 1, 3, 3, "x", 4, 5, 6, 7),
        (NOW + 9, NOW + 1, 0, 1, 4, 3, "x", 4, 5, 6, 7),
        (NOW + 40, NOW + 50, big, big, big, big, -1, big, big, big, big),
    )
    maker.table("COMPUTE_TASK_INFO(name, globalTaskId, blockDim)", ("a", 1, big), ("b", 1, big), (None, None, None))
    maker.table("COMMUNICATION_OP(opName, startNs, endNs, groupName, opId, count, dataType, relay)",
                (None, NOW, NOW + 1, -5, 1, big, 4, big), (1, big, big, 1, 1, 1, 1, 1))  # fmt: skip
    maker.table("ENUM_HCCL_DATA_TYPE(id, name TEXT)", (4, ("FP64",)), (4, ("FP32",)))
    maker.table("TASK_PMU_INFO(globalTaskId, name, value)", (1, "m", 9e999), (1, "m", 0.5), (555, "m", 1.0))
    maker.table(
        "PYTORCH_API(startNs, endNs, globalTid, name, type, connectionId)",
        (("1700000000000000001",), ("1700000000000000002",), -1, "op", 50001, 1),
    )
    maker.table("NPU_MEM(type, ddr, hbm, timestampNs, deviceId)", ("app", big, big, NOW, 0))
    maker.table("OP_MEMORY(name, size, allocationTime, releaseTime)", ("a", big, -big, big), ("a", 1, NOW + 1, None))
    maker.table(
        "META_DATA(name TEXT, value TEXT)",
        (("parallel_group_info",), ("{" * 5000,)),
        (("distributed_args",), ('{"world_size": 1e999}',)),
    )
    maker.table("WHO_KNOWS(a)", (1,), (2,))
    run = load(maker.path, tmp_path / "out")
    assert run.one("SELECT count(*) FROM span WHERE kind = 'kernel'") == 2
    assert run.one("SELECT count(*) FROM kernel") == 2 and run.one("SELECT max(block_num) FROM kernel") is None
    assert run.all("SELECT value FROM pmu") == [(0.5,), (0.5,)]
    reasons = run.cover("span")["reason"]
    assert (
        "3 dropped: rows without a start and an end" in reasons
        and "1 dropped: rows that end before they start" in reasons
    )
    assert "TASK.startNs" in reasons
    assert "2 dropped: rows of the table WHO_KNOWS" in run.cover("arg")["reason"]
    assert "COMMUNICATION" not in (run.part.reasons or [""])[0]


def test_a_view_named_task_acts_as_if_absent(maker: Maker, tmp_path: Path) -> None:
    maker.con.execute(
        "CREATE VIEW TASK AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS startNs FROM c"
    )
    maker.table("PYTORCH_API(startNs, endNs, globalTid, name, type)", (NOW + 1, NOW + 2, 1, "op", 50001))
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, name FROM span") == [("cpu_op", "op")]
    assert run.cover("kernel")["status"] == "absent"


def test_annotations_and_garbage_collection(maker: Maker, tmp_path: Path) -> None:
    maker.table(
        "MSTX_EVENTS(startNs, endNs, eventType, rangeId, category, message, globalTid, endGlobalTid, domainId, "
        "connectionId)",
        (NOW, NOW + 50, 1, 0, 0, "forward", 77 << 32 | 9, 0, "default", 4000000000),
    )
    maker.task(8, "MsTx", 20, 60, connection=4000000000)
    maker.table("GC_RECORD(startNs, endNs, globalTid)", (NOW + 5, NOW + 9, 77 << 32 | 9))
    maker.table("STEP_TIME(id, startNs, endNs)", (1, NOW, NOW + 40), (2, NOW + 40, NOW + 90))
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT s.kind, s.name, process FROM span s JOIN track USING (track) ORDER BY 1") == [
        ("annotation", "forward", "MSTX"),
        ("device_annotation", "MsTx", "Ascend Hardware"),
        ("gc", "GC", "Python GC"),
    ]
    assert run.all("SELECT route FROM link") == [("connection_id",)]
    assert run.all("SELECT step, ts_ns, dur_ns, host_dur_ns, source FROM step") == [
        (1, 0, 40, 40, "STEP_TIME"),
        (2, 40, 50, 50, "STEP_TIME"),
    ]


OPERATOR = 50001


@pytest.mark.parametrize("marks, steps", [
    (["execute_context_1(8_64)_generation_0(0)", "execute_context_0(0)_generation_4(4)"],
     [(0, 0, "prefill", "engine annotation"), (1, 100, "decode", "engine annotation")]),
    (["execute_context_2(9)_generation_3(3)", "ProfilerStep#7"], [(7, 100, None, "ProfilerStep")]),
])  # fmt: skip
def test_annotations_of_a_serving_engine_are_steps_where_the_profiler_marks_none(
    marks: list[str], steps: list[tuple[object, ...]], maker: Maker, tmp_path: Path
) -> None:
    spans = [(NOW + 100 * at, NOW + 100 * at + 80, 77 << 32 | 9, None, mark, OPERATOR) for at, mark in enumerate(marks)]
    maker.table(PYTORCH, *spans)
    maker.task(8, "AI_CORE", 20, 60)
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT step, ts_ns, phase, source FROM step") == steps
    assert run.all("SELECT count(*) FROM span WHERE kind = 'step_mark'") == [(2,)]


def test_memory_and_counters(maker: Maker, tmp_path: Path) -> None:
    maker.table(
        "NPU_OP_MEM(operatorName, addr, type, size, timestampNs, totalAllocate, totalReserve, component, deviceId)",
        ("a", 1, "allocate", 100, NOW, 100, 200, "GE", 0),
        ("a", 1, "release", 100, NOW + 5, 0, 200, "GE", 0),
    )
    maker.table(
        "MEMORY_RECORD(component, timestamp, totalAllocated, totalReserved, totalActive, streamPtr, deviceId)",
        ("PTA", NOW, 1, 2, 3, None, 0),
        ("WORKSPACE", NOW, 4, 5, 6, 99, 0),
    )
    maker.table("HCCS(deviceId, timestampNs, txThroughput, rxThroughput)", (0, NOW, 1048576, 3145728))
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT ts_ns, bytes, address FROM memory_event ORDER BY ts_ns") == [(0, 100, "1"), (5, -100, "1")]
    assert run.all("SELECT component, reserved_bytes, stream_ptr FROM memory_sample ORDER BY 1") == [
        ("PTA", 2, None),
        ("WORKSPACE", 5, "99"),
    ]
    assert run.all("SELECT counter, series, value FROM sample ORDER BY 1") == [
        ("HCCS/Rx", "Rx(MB/s)", 3.0),
        ("HCCS/Tx", "Tx(MB/s)", 1.0),
    ]


@pytest.mark.parametrize("queued", [True, False])
def test_a_copy_is_linked_to_its_operator_through_the_queue(maker: Maker, tmp_path: Path, queued: bool) -> None:
    """The file connects no copy to an operator. The inner of two operators around the call, or its enqueuing, is it."""
    operators, worker = 77 << 32 | 1, 77 << 32 | 2
    maker.task(1, "MEMCPY_ASYNC", 500, 600, connection=5)
    maker.table(PYTORCH, (NOW, NOW + 400, operators, None, "aten::to", 50001))
    maker.table(PYTORCH, (NOW + 10, NOW + 300, operators, None, "aten::copy_", 50001))
    maker.table(PYTORCH, (NOW + 310, NOW + 390, operators, None, "aten::after", 50001))
    if queued:
        maker.table(PYTORCH, (NOW + 20, NOW + 30, operators, 0, "Enqueue", 50002))
        maker.table(PYTORCH, (NOW + 320, NOW + 380, worker, 1, "Dequeue@acl_memcpy_host_to_device", 50002))
        maker.table("CONNECTION_IDS(id, connectionId)", (0, 10336), (1, 10336))
        maker.table(CANN, (NOW + 330, NOW + 370, 20000, worker, 5, "aclrtMemcpyAsync"))
    else:
        maker.table(CANN, (NOW + 20, NOW + 90, 20000, operators, 5, "aclrtMemcpy"))
    run = load(maker.path, tmp_path / "out")
    assert run.all(
        "SELECT s.name, d.name, latency_ns FROM link JOIN span s ON s.span_id = src_span_id "
        "JOIN span d ON d.span_id = dst_span_id WHERE route = 'torch_to_npu'"
    ) == [("aten::copy_", "MEMCPY_ASYNC", 490)]
    expected = ("h2d", False) if queued else (None, True)
    assert run.all("SELECT direction, blocking FROM transfer") == [expected]


def test_a_long_text_that_is_repeated_is_cut(maker: Maker, tmp_path: Path) -> None:
    """One text of 8 MB under a number that 2000 rows carry would be 16 GB of names: it is cut."""
    long = "x" * (8 << 20)
    for number in range(2000):
        maker.task(number, long, number * 10, number * 10 + 5)
    run = load(maker.path, tmp_path / "out")
    assert run.one("SELECT max(strlen(name)) FROM span") == 1 << 10 and run.one("SELECT count(*) FROM span") == 2000
    assert "long texts of STRING_IDS that are used often are cut" in run.cover("span")["reason"]


def test_kernels_of_mc2_communicate(maker: Maker, tmp_path: Path) -> None:
    """A fused one computes as well; one that only dispatches is communication."""
    kinds = ("MatmulAllReduce", "MoeDistributeDispatchV2", "MatMulV2")
    for number, kind in enumerate(kinds):
        maker.task(number, "KERNEL_MIX_AIC", 20 * number, 20 * number + 10)
        maker.table("COMPUTE_TASK_INFO(name, globalTaskId, opType)", (f"{kind}_7", number, kind))
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind FROM span ORDER BY ts_ns") == [("kernel",), ("comm_op",), ("kernel",)]
    said = "SELECT ts_ns, collective, op_span_id = span_id FROM comm JOIN span USING (span_id) ORDER BY ts_ns"
    assert run.all(said) == [(0, "allreduce", True), (20, "alltoall", True)]
    assert run.one("SELECT count(*) FROM kernel") == 2
    sums = "SELECT computing_ns, communication_ns, communication_not_overlapped_ns, collectives FROM device_time"
    assert run.all(sums) == [(20, 20, 10, 2)]
