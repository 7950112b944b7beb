"""The files of a simulated job, read back with nothing but the standard library, hold what the job's record says."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.simulator.job import CommTask, HostOp, Kernel, RankRecord
from npulens.collectors.simulator.simulated import AscendOptions, write_both
from npulens.collectors.writers.profiler_rules import db_step_times, lanes
from tests.simjob import TORCH_NPU_TEXT, database, expected_links, expected_spans, job, ns, processes, rows

RANK = 2


@pytest.fixture(scope="module")
def record() -> RankRecord:
    return job(tensor_parallel=2).ranks[RANK]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("both")
    return write_both(job(tensor_parallel=2), root, AscendOptions("Level1"), ranks=[RANK])[0]


@pytest.fixture(scope="module")
def trace(both: Path) -> list[dict[str, Any]]:
    return json.loads((both / "ASCEND_PROFILER_OUTPUT/trace_view.json").read_text(), parse_float=str)


def test_trace_view_holds_every_span_once_and_tasks_of_collectives_twice(
    record: RankRecord, trace: list[dict[str, Any]]
) -> None:
    process = processes(trace)
    found: Counter[tuple[str, int, str]] = Counter()
    for event in trace:
        if event["ph"] == "X" and process[event["pid"]] != "Overlap Analysis":
            name = event["args"]["item_id"] if event["name"] == "Node@launch" else event["name"]
            found[name, ns(event["ts"]), event["dur"]] += 1
    hidden = {"Memcpy": "SDMA", "Reduce_Inline": "SDMA", "Notify_Record": "Write Value", "Notify_Wait": "Notify Wait"}
    wanted: Counter[tuple[str, int, str]] = Counter()
    for row, span in zip(expected_spans(record, TORCH_NPU_TEXT), _same_order(record), strict=True):
        name = span.name if row.name == "Node@launch" else row.name
        wanted[name, row.ts_ns, str(row.dur_ns / 1000)] += 1
        if isinstance(span.detail, CommTask):
            wanted[hidden[row.name], row.ts_ns, str(row.dur_ns / 1000)] += 1
    assert found == wanted


def _same_order(record: RankRecord) -> list[Any]:
    kept = [s for s in record.spans if not (s.kind == "runtime" and s.detail.level == "runtime")]
    kinds = {"annotation": "cpu_op", "memset": "kernel"}
    level = {"acl": "AscendCL", "node": "Node", "hccl": "Communication"}

    def key(span: Any) -> tuple[int, int, str, str]:
        name = span.name
        if span.kind == "runtime":
            names = {"node": "launch", "hccl": "Launch"}
            name = f"{level[span.detail.level]}@{names.get(span.detail.level, span.name)}"
        return span.ts_ns, span.dur_ns, kinds.get(span.kind, span.kind), name

    return sorted(kept, key=key)


def test_trace_view_arrows_are_the_links(record: RankRecord, trace: list[dict[str, Any]]) -> None:
    ends: dict[tuple[str, Any], dict[str, list[int]]] = {}
    for event in trace:
        if event["ph"] in "sf":
            ends.setdefault((event["cat"], event["id"]), {}).setdefault(event["ph"], []).append(ns(event["ts"]))
    routes = {"HostToDevice": "host_to_device", "async_npu": "torch_to_npu", "async_task_queue": "task_queue"}
    found = {
        (routes.get(category, category), start, end)
        for (category, _), marks in ends.items()
        for start in marks["s"]
        for end in marks["f"]
    }
    assert found == expected_links(record, "host_to_device", "torch_to_npu", "task_queue", "fwdbwd")
    assert all(isinstance(number, str) == (category == "HostToDevice") for category, number in ends)


def test_trace_view_says_who_is_who(record: RankRecord, trace: list[dict[str, Any]]) -> None:
    process = processes(trace)
    hardware = next(pid for pid, name in process.items() if name == "Ascend Hardware")
    assert (hardware >> 10, hardware & 31) == (record.pid, record.device) and record.device == 4
    cann = next(pid for pid, name in process.items() if name == "CANN")
    assert (cann >> 10, cann & 31) == (record.pid, 31)
    labels = {e["pid"]: e["args"]["labels"] for e in trace if e["name"] == "process_labels"}
    assert labels[hardware] == "NPU 4" and labels[cann] == labels[record.pid] == "CPU"
    names = [e["args"]["name"] for e in trace if e["name"] == "thread_name" and process[e["pid"]] == "Communication"]
    assert sum(name.startswith("Group 10.20.0.") for name in names) == 2 and "Plane 1" in names
    lane_pid = next(pid for pid, name in process.items() if name == "Overlap Analysis")
    for tid, lane in enumerate(lanes(record)):
        bars = [e for e in trace if e["ph"] == "X" and e["pid"] == lane_pid and e["tid"] == tid]
        assert [(ns(e["ts"]), ns(e["dur"])) for e in bars] == [(start, end - start) for start, end in lane]


def test_step_trace_time_follows_the_tools_own_walk_over_the_trace(both: Path, trace: list[dict[str, Any]]) -> None:
    """The walk of torch_npu over the finished trace, done again by hand with whole nanoseconds."""
    queued = {e["id"]: ns(e["ts"]) for e in trace if e["ph"] == "s" and e["name"] == "enqueue_to_dequeue"}
    dequeues = {e["args"]["correlation_id"]: e for e in trace if e.get("cat") == "dequeue"}
    launches = {(e["tid"], ns(e["ts"])): e["id"] for e in trace if e["ph"] == "s" and e["cat"] == "HostToDevice"}
    device = {(e["pid"], e["tid"], e["ts"]): e for e in trace if e["ph"] == "X"}
    tasks: dict[str, list[dict[str, Any]]] = {}
    for event in trace:
        if event["ph"] == "f" and event["cat"] == "HostToDevice":
            task = device[event["pid"], event["tid"], event["ts"]]
            if not task["name"].startswith("EVENT_"):
                tasks.setdefault(event["id"], []).append(task)
    kernels: dict[int, list[dict[str, Any]]] = {}
    for number, queue in dequeues.items():
        start, end = ns(queue["ts"]), ns(queue["ts"]) + ns(str(queue["dur"]))
        mine = [i for (tid, ts), i in launches.items() if tid == queue["tid"] and start <= ts <= end]
        kernels[number] = [task for i in mine for task in tasks.get(i, [])]
    written = rows(both / "ASCEND_PROFILER_OUTPUT/step_trace_time.csv")
    marks = [e for e in trace if e["name"].startswith("ProfilerStep#")]
    assert [row["Step"] for row in written] == [e["name"].split("#")[1] for e in marks]
    ranges = []
    for mark in marks:
        begin, end = ns(mark["ts"]), ns(mark["ts"]) + ns(mark["dur"])
        mine = [kernels[i] for i in sorted(kernels) if begin <= queued[i] < end and kernels[i]]
        first, last = min(ns(t["ts"]) for t in mine[0]), max(ns(t["ts"]) + ns(t["dur"]) for t in mine[-1])
        ranges.append((first, max(last, end), begin))
    for row, (first, last, begin) in zip(written, ranges, strict=True):
        bars = [
            e for e in trace if e["name"] in ("Computing", "Communication", "Free", "Communication(Not Overlapped)")
        ]
        bars = [e for e in bars if e["ph"] == "X" and first <= ns(e["ts"]) < last]
        for name in ("Computing", "Communication", "Free", "Communication(Not Overlapped)"):
            assert ns(row[name]) == sum(ns(e["dur"]) for e in bars if e["name"] == name)
        work = [e for e in bars if e["name"] in ("Computing", "Communication")]
        stage = max(ns(e["ts"]) + ns(e["dur"]) for e in bars) - min(ns(e["ts"]) for e in bars)
        assert ns(row["Stage"]) == stage
        assert ns(row["Preparing"]) == min(ns(e["ts"]) for e in work) - begin
        assert row["Device_id"] == "4" and row["Bubble"] == "0.0"


def test_kernel_details_as_spreadsheets_get_it(record: RankRecord, both: Path) -> None:
    path = both / "ASCEND_PROFILER_OUTPUT/kernel_details.csv"
    raw = path.read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n") and b'"""4096,2048;2048,3072"""' in raw
    assert {len(row) for row in csv.reader(raw.decode().splitlines())} == {47}
    found = rows(path)
    kernels, operators = record.of("kernel", "memset"), record.of("comm_op")
    assert len(found) == len(kernels) + len(operators)
    assert all(row["Start Time(us)"].endswith("\t") for row in found)
    written = {(row["Name"], ns(row["Start Time(us)"])): row for row in found}
    for span in kernels:
        row, detail = written[span.name, span.ts_ns], span.detail
        assert isinstance(detail, Kernel)
        assert ns(row["Duration(us)"]) == span.dur_ns
        assert (row["Stream ID"], row["Task ID"]) == (str(detail.stream), str(detail.task))
        assert row["Input Shapes"] == (f'"{detail.inputs.shapes}"' if detail.inputs.shapes else "N/A")
        if detail.pmu:
            pmu = dict(detail.pmu)
            assert float(row["aic_mac_ratio"]) == pmu["aic_mac_ratio"]
            assert ns(row["aiv_time(us)"]) == pmu["aiv_total_time"]
    for span in operators:
        row = written[span.name, span.ts_ns]
        assert (row["Type"], row["Accelerator Core"], row["Stream ID"]) == ("hcom_allReduce_", "COMMUNICATION", "N/A")
    assert {row["Step Id"] for row in found} == {"10", "11"}


def test_communication_json_by_hand(record: RankRecord, both: Path) -> None:
    content = json.loads((both / "ASCEND_PROFILER_OUTPUT/communication.json").read_text())
    assert list(content) == ["step10", "step11"]
    groups = {group.name: group.hash for group in job(tensor_parallel=2).groups}
    for operator in record.of("comm_op"):
        info = content[f"step{operator.step}"]["collective"][f"{operator.name}@{groups[operator.detail.group]}"]
        tasks = [s for s in record.of("comm_task") if s.detail.op == operator.id]
        waits = sum(s.dur_ns for s in tasks if s.detail.plane == 1 and s.name == "Notify_Wait")
        times = info["Communication Time Info"]
        assert times["Elapse Time(ms)"] == operator.dur_ns / 1e6 and times["Wait Time(ms)"] == waits / 1e6
        hccs = info["Communication Bandwidth Info"]["HCCS"]
        assert hccs["Transit Size(MB)"] == sum(s.detail.bytes for s in tasks if s.detail.link == "HCCS") / 1e6
        assert sum(count for count, _ in hccs["Size Distribution"].values()) == 2 * (operator.detail.ranks - 1)
    matrix = json.loads((both / "ASCEND_PROFILER_OUTPUT/communication_matrix.json").read_text())
    assert any(key.startswith("allreduce-total@") for key in matrix["step10"]["collective"])


def test_database_says_the_same_as_the_text(record: RankRecord, both: Path) -> None:
    con = database(both, RANK)
    kernels = con.execute(
        "SELECT s(c.name), t.startNs, t.endNs - t.startNs, t.streamId, t.taskId, s(c.opType), s(c.taskType),"
        " c.blockNum, s(c.inputShapes) FROM COMPUTE_TASK_INFO c JOIN TASK t USING (globalTaskId)"
    ).fetchall()
    text = [
        (row["Name"], ns(row["Start Time(us)"]), ns(row["Duration(us)"]), int(row["Stream ID"]), int(row["Task ID"]))
        + (row["Type"], row["Accelerator Core"], int(row["Block Num"]), row["Input Shapes"])
        for row in rows(both / "ASCEND_PROFILER_OUTPUT/kernel_details.csv")
        if row["Accelerator Core"] != "COMMUNICATION"
    ]
    assert sorted(kernels) == sorted(text) and kernels
    operators = con.execute("SELECT s(opName), startNs, endNs, s(groupName), count, rankSize FROM COMMUNICATION_OP")
    assert sorted(operators) == sorted(
        (s.name, s.ts_ns, s.end_ns, s.detail.group, s.detail.elements, s.detail.ranks) for s in record.of("comm_op")
    )
    tasks = con.execute(
        "SELECT s(c.taskType), t.startNs, t.endNs, c.planeId, c.srcRank, c.dstRank, c.size"
        " FROM COMMUNICATION_TASK_INFO c JOIN TASK t USING (globalTaskId)"
    )
    assert sorted(tasks) == sorted(
        (s.name, s.ts_ns, s.end_ns, s.detail.plane, s.detail.src, s.detail.dst, s.detail.bytes)
        for s in record.of("comm_task")
    )
    pmu = con.execute("SELECT t.startNs, s(p.name), value FROM TASK_PMU_INFO p JOIN TASK t USING (globalTaskId)")
    assert sorted(pmu) == sorted((s.ts_ns, *pair) for s in record.of("kernel", "memset") for pair in s.detail.pmu)


def test_database_links_and_host(record: RankRecord, both: Path) -> None:
    con = database(both, RANK)
    device = con.execute(
        "SELECT a.startNs, t.startNs FROM CANN_API a JOIN TASK t USING (connectionId)"
        " LEFT JOIN COMMUNICATION_TASK_INFO c USING (globalTaskId) WHERE c.name IS NULL"
        " UNION SELECT a.startNs, o.startNs FROM CANN_API a JOIN COMMUNICATION_OP o USING (connectionId)"
    )
    assert {("host_to_device", *row) for row in device} == expected_links(record, "host_to_device")
    torch = con.execute(
        "SELECT cast(p.startNs AS INT), k.startNs FROM PYTORCH_API p JOIN CONNECTION_IDS i ON i.id = p.connectionId"
        " JOIN (SELECT t.connectionId AS c, t.startNs FROM TASK t JOIN COMPUTE_TASK_INFO USING (globalTaskId)"
        " UNION SELECT connectionId, startNs FROM COMMUNICATION_OP) k ON k.c = i.connectionId"
    ).fetchall()
    copies = {span.ts_ns for span in record.of("memcpy")}
    wanted = {link for link in expected_links(record, "torch_to_npu") if link[2] not in copies}
    assert {("torch_to_npu", *row) for row in torch} == wanted
    host = con.execute("SELECT s(name), startNs, endNs, type, callchainId FROM PYTORCH_API").fetchall()
    kinds = {
        "python": 50003,
        "enqueue": 50002,
        "dequeue": 50002,
        "cpu_op": 50001,
        "annotation": 50001,
        "step_mark": 50001,
    }
    spans = [s for s in record.spans if s.kind in kinds]
    assert sorted(row[:4] for row in host) == sorted(
        (s.name, str(s.ts_ns), str(s.end_ns), kinds[s.kind]) for s in spans
    )
    stack = next(s.detail.stack for s in spans if s.name == "aten::gelu" and isinstance(s.detail, HostOp))
    chain = next(row[4] for row in host if row[0] == "aten::gelu")
    found = con.execute("SELECT s(stack) FROM PYTORCH_CALLCHAINS WHERE id = ? ORDER BY stackDepth", [chain])
    assert tuple(row[0] for row in found) == stack and stack[-1] == "/workspace/train/main.py(412): <module>"


def test_analysis_db_and_metadata(record: RankRecord, both: Path) -> None:
    con = sqlite3.connect(both / "ASCEND_PROFILER_OUTPUT/analysis.db")
    steps = con.execute("SELECT deviceId, step, computing, free, stage FROM StepTraceTime").fetchall()
    wanted = db_step_times(record)
    assert steps == [(4, str(r.step), r.computing / 1000, r.free / 1000, r.stage / 1000) for r in wanted]
    for table in ("CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
        assert con.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    metadata = json.loads((both / "profiler_metadata.json").read_text())
    groups = metadata["parallel_group_info"]
    assert sorted((g["group_name"], tuple(g["global_ranks"])) for g in groups.values()) == [
        ("dp", (0, 2)),
        ("tp", (2, 3)),
    ]
    stored = dict(database(both, RANK).execute("SELECT name, value FROM META_DATA"))
    assert json.loads(stored["parallel_group_info"]) == groups and stored["SCHEMA_VERSION"].count(".") == 2
    info = json.loads((both / f"profiler_info_{RANK}.json").read_text())
    assert info["config"]["experimental_config"]["_export_type"] == ["db", "text"] and info["rank_id"] == RANK
