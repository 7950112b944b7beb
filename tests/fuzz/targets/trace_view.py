"""trace_view.json of torch_npu from file to tables, beside the other files of its rank."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.fuzz import change
from tests.fuzz.reading import read
from tests.fuzz.targets.events import elements
from tests.text_export import (
    CANN,
    HARDWARE,
    HOST,
    KERNEL,
    L1,
    OVERLAP,
    ROOT,
    at,
    comm_lanes,
    comm_op,
    comm_task,
    flow,
    named,
    processes,
    span,
    task,
    write,
)  # fmt: skip


def events() -> list[dict[str, object]]:
    """A step with a launch, a kernel, a copy, a collective, a stack, counters and arrows."""
    return [
        *processes(), *comm_lanes(), named(HOST, "Thread 7", 7, "thread_name"),
        {"ph": "M", "name": "process_sort_index", "pid": HOST, "tid": 0, "args": {"sort_index": 3}},
        span(HOST, 7, "ProfilerStep#3", 0, 20_000, cat="user_annotation"),
        span(HOST, 7, "aten::mm", 100, 700, {"Sequence number": 4, "Fwd thread id": 0, "Input Dims": "32,3;4",
             "Input type": "float;int", "Call stack": "a.py(1): f;\r\nb.py(2): g"}, cat="cpu_op"),
        span(CANN, 7, "AscendCL@aclrtLaunch", 200, 100, {"Thread Id": 7, "Mode": "ACL", "level": "acl", "id": "x",
             "connection_id": 11}),
        task("MatMul1", 1000, 2001, "KERNEL_AICORE", connection_id=11),
        task("MEMCPY_ASYNC", 4000, 500, "MEMCPY_ASYNC",
             **{"size(B)": 64, "bandwidth(GB/s)": 1.5, "operation": "host to device"}),
        task("EVENT_WAIT", 5000, 500, "EVENT_WAIT", stream=3),
        comm_op("hcom_allReduce__210_0_1", 6000, 900), comm_task("Notify_Wait", 6000, 400, 0),
        comm_task("Memcpy", 6400, 500, 1),
        span(OVERLAP, 0, "Computing", 1000, 2001), span(OVERLAP, 1, "Free", 3001, 999),
        flow("s", "async_npu", "11", HOST, 7, 200), flow("f", "async_npu", "11", HARDWARE, 2, 1000),
        flow("s", "HostToDevice", 47244640256, CANN, 7, 210), flow("f", "HostToDevice", 47244640256, HARDWARE, 2, 1000),
        {"ph": "C", "name": "AI Core Freq", "pid": 600, "tid": 0, "ts": at(10), "args": {"MHz": 1800}},
        {"ph": "C", "name": "NPU MEM", "pid": 600, "tid": 0, "ts": at(20), "args": {"KB": 512, "odd": "7.5"}},
        {"ph": "C", "name": "LLC", "pid": 600, "tid": 0, "ts": at(30), "args": {"Hit Rate(%)": 50.5, "acc_id": 1}},
        {"ph": "i", "name": "mark", "pid": HOST, "tid": 7, "ts": at(40), "s": "t"},
    ]  # fmt: skip


def seeds() -> list[bytes]:
    whole = events()
    numbers = [event | ({"ts": float(str(event["ts"]))} if "ts" in event else {}) for event in whole]
    return [
        json.dumps(whole).encode(),
        json.dumps({"schemaVersion": 1, "traceEvents": numbers}).encode(),
        json.dumps(whole[:12]).encode(),
        json.dumps(whole[::-1]).encode(),
    ]


def mutate(data: bytes, draw: Random) -> bytes:
    return change.json_text(data, draw)


def check(data: bytes, scratch: Path) -> None:
    root = write(scratch / ROOT, trace_view_json=data, kernel_details_csv=f"{L1}\n{KERNEL}\n")
    done = read([root], scratch)
    found = elements(data)
    for part in done.parts if found is not None else ():
        spans = sum(event.get("ph") in ("X", "i", "I") for event in found or () if isinstance(event, dict))
        lost = next(row["dropped"] for row in part.coverage if row["table"] == "span")
        kept = part.rows["span"]
        # Where the trace does not show the one kernel that kernel_details has, its line is a span of its own.
        assert kept - 1 <= spans <= kept + lost, f"{kept} spans and {lost} lost of {spans}"
