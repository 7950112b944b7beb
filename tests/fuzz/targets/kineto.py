"""torch.profiler traces from file to tables; no complete event is lost without being counted."""

from __future__ import annotations

import json
import tempfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import change
from tests.fuzz.reading import read
from tests.fuzz.targets.events import elements
from tests.hostile_capture import write as hostile
from tests.kineto_files import flow, task, x

#: A file may be called anything; what the name says of rank and worker is read as well.
NAMES = (
    "trace.pt.trace.json", "rank3.json", "host_12.1736408883000.pt.trace.json", "worker7.json", "a\nb'\"<x>.json",
    "\udcff\udce9.json", "%2e%2e?x#.json",
)  # fmt: skip
_NS_2025 = 1_736_408_883_000_000


def seeds() -> list[bytes]:
    base = _NS_2025
    host = [
        x("user_annotation", "ProfilerStep#1", base, 1000),
        x("cpu_op", "aten::mm", base + 10, 50, {"External id": 7, "Input Dims": [[2, 3], [3]], "Sequence number": 4}),
        x("cuda_runtime", "cudaLaunchKernel", base + 20, 10, {"correlation": 9, "External id": 7}),
        x("python_function", "train.py(3): step", base + 5, 100, {"Python id": 1, "Python parent id": None}),
        x("user_annotation", "ProfilerStep#2", base + 1000, 500),
    ]
    device = [
        task("gemm", base + 60, 30.125, {"correlation": 9, "grid": [1, 2, 3], "registers per thread": 32}),
        task("Memcpy HtoD", base + 100, 5, {"correlation": 10, "bytes": 64}, cat="gpu_memcpy"),
        task("ncclDevKernel_AllReduce", base + 200, 5, {"Collective name": "allreduce", "In msg nelems": 4,
             "dtype": "Float", "Group size": 2, "Process Group Ranks": "[0, 1]"}),
    ]  # fmt: skip
    links = [flow("s", "ac2g", 9, base + 21), flow("f", "ac2g", 9, base + 60, tid=7, pid=0)]
    rest = [
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": base, "args": {"name": "python"}},
        {"ph": "C", "name": "power", "pid": 0, "ts": base, "args": {"value": 7.5}},
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 1, "ts": base + 3,
         "args": {"Bytes": 512, "Total Allocated": 1024, "Device Id": 0, "Device Type": 1, "Addr": 7}},
        {"ph": "B", "name": "b", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": base + 1},
        {"ph": "E", "name": "b", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": base + 9},
        {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": base + 2, "s": "g"},
    ]  # fmt: skip
    header = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
              "deviceProperties": [{"id": 0, "name": "GPU", "totalGlobalMem": 1}]}  # fmt: skip
    relative = [dict(event, ts=round(event["ts"] - base, 3)) for event in (*host, *device)]
    return [
        json.dumps(header | {"traceEvents": [*host, *device, *links, *rest]}).encode(),
        json.dumps(header | {"baseTimeNanoseconds": base * 1000, "traceEvents": relative}).encode(),
        json.dumps({"schemaVersion": 1, "traceEvents": [*host[:3], *rest]}).encode(),
        hostile_bytes(),
    ]


def hostile_bytes() -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        return hostile(Path(file.name)).read_bytes()


def mutate(data: bytes, draw: Random) -> bytes:
    return change.json_text(data, draw)


def check(data: bytes, scratch: Path) -> None:
    path = scratch / NAMES[zlib.crc32(data) % len(NAMES)]
    path.write_bytes(data)
    done = read([path], scratch)
    events = elements(data)
    for part in done.parts if events is not None else ():
        lost = next(row["dropped"] for row in part.coverage if row["table"] == "span")
        least, most = _spans(events or [])
        kept = part.rows["span"]
        assert kept + lost >= least, f"{kept} spans and {lost} lost of at least {least}"
        assert kept <= most, f"{kept} spans of at most {most}"


def _spans(events: list[Any]) -> tuple[int, int]:
    """How many events must be spans or lost, and how many can be spans: an instant with bytes may be memory's."""
    kinds = [event for event in events if isinstance(event, dict) and event.get("ph") in ("X", "i", "I", "B")]
    certain = [e for e in kinds if e["ph"] in "XB" or not (isinstance(e.get("args"), dict) and "Bytes" in e["args"])]
    return len(certain), len(kinds)
