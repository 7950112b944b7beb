"""What a reader should find in the files of a simulated job, in the words of the tables.

The record of the job is the truth; here stands what each format keeps of it and how it spells it.
"""

from __future__ import annotations

import csv
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from npulens.collectors.simulator.job import Copy, HostOp, Kernel, RankRecord, Runtime, Span, Task
from npulens.collectors.simulator.simulated import Job, SimConfig, simulate

TORCH_NPU_TEXT = "torch_npu_text"
TORCH_NPU_DB = "torch_npu_db"
KINETO = "kineto"

_LEVELS = {"acl": "AscendCL", "node": "Node", "hccl": "Communication", "runtime": "Runtime"}


class Expected(NamedTuple):
    kind: str
    name: str
    ts_ns: int
    dur_ns: int
    step: int | None


class Transfer(NamedTuple):
    ts_ns: int
    direction: str
    bytes: int


@cache
def job(
    ranks: int = 4, steps: int = 2, layers: int = 2, tensor_parallel: int = 1, task_queue: bool = True, seed: int = 5
) -> Job:
    """A clean job; the same one for everybody who asks for it."""
    return simulate(
        SimConfig(
            seed=seed,
            ranks=ranks,
            steps=steps,
            layers=layers,
            tensor_parallel=tensor_parallel,
            task_queue=task_queue,
            devices=(0, 1, 4, 5),
            clock_offsets_ns=(0, 1_500, -2_700, 40_000),
            negative_latency_rate=0.05,
        )
    )


def expected_spans(record: RankRecord, fmt: str, level: str = "Level1") -> list[Expected]:
    """Every span of the rank that the format holds, without the profiler's own lanes (see _profiler_rules.lanes)."""
    rows = []
    for span in record.spans:
        found = _kineto(span) if fmt == KINETO else _ascend(span, fmt, level)
        if found is not None:
            rows.append(Expected(*found, span.ts_ns, span.dur_ns, span.step))
    return sorted(rows, key=lambda row: (row.ts_ns, row.dur_ns, row.kind, row.name))


def _ascend(span: Span, fmt: str, level: str) -> tuple[str, str] | None:
    """torch_npu files annotations as operators, and a memset kernel among the kernels."""
    if isinstance(span.detail, Runtime):
        call = span.detail
        if call.level == "runtime" and level != "Level2" or fmt == TORCH_NPU_TEXT and level == "Level0":
            return None
        name = "launch" if call.level == "node" else "Launch" if call.level == "hccl" else call.item
        return "runtime", f"{_LEVELS[call.level]}@{name}"
    kind = {"annotation": "cpu_op", "memset": "kernel"}.get(span.kind, span.kind)
    return kind, span.name


def _kineto(span: Span) -> tuple[str, str] | None:
    """CUDA: no task queue, no event tasks, no parts of a collective; the launches are those of the runtime."""
    detail = span.detail
    if isinstance(detail, Runtime):
        calls = {"aclrtMemcpyAsync": "MemcpyAsync", "aclrtRecordEvent": "EventRecord"}
        calls |= {"aclrtStreamWaitEvent": "StreamWaitEvent", "aclrtSynchronizeDevice": "DeviceSynchronize"}
        calls |= {"aclrtSynchronizeStreamWithTimeout": "StreamSynchronize"}
        calls |= {"aclrtMallocAlign32": "Malloc", "aclrtFree": "Free"}
        if detail.level == "node":
            return "runtime", "cudaLaunchKernelExC" if detail.item.startswith("hcom") else "cudaLaunchKernel"
        return ("runtime", f"cuda{calls[detail.item]}") if detail.level == "acl" and detail.item in calls else None
    if isinstance(detail, Task) or span.kind in ("enqueue", "dequeue", "comm_task"):
        return None
    if isinstance(detail, HostOp) and span.name.startswith(("acl", "Hccl", "record_event", "wait_event")):
        return None
    if isinstance(detail, Copy):
        return "memcpy", {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "d2d": "Memcpy DtoD"}[detail.direction]
    return span.kind, "Python GC" if span.kind == "gc" else span.name


def expected_links(record: RankRecord, *routes: str) -> set[tuple[str, int, int]]:
    """(route, start of the source, start of the target) of every link of these routes."""
    return {
        (link.route, record.by_id[link.src].ts_ns, record.by_id[link.dst].ts_ns)
        for link in record.links
        if link.route in routes
    }


def expected_transfers(record: RankRecord) -> list[Transfer]:
    return sorted(
        Transfer(span.ts_ns, span.detail.direction, span.detail.bytes)
        for span in record.spans
        if isinstance(span.detail, Copy)
    )


def launched(record: RankRecord) -> list[Span]:
    """Device spans that an operator must have launched."""
    return [span for span in record.spans if isinstance(span.detail, Kernel | Copy) or span.kind == "comm_op"]


# -- reading files by hand ---------------------------------------------------------------------------------------


def ns(text: str) -> int:
    whole, _, part = text.strip().partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def database(root: Path, rank: int) -> sqlite3.Connection:
    path = root / f"ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_{rank}.db"
    con = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    con.create_function("s", 1, dict(con.execute("SELECT id, value FROM STRING_IDS")).get, deterministic=True)
    return con


def processes(trace: list[dict[str, Any]]) -> dict[int, str]:
    return {e["pid"]: e["args"]["name"] for e in trace if e["ph"] == "M" and e["name"] == "process_name"}
