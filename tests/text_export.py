"""Text exports for tests: loading one, and writing one by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from npulens.ingest.readers.ascend import read_torch_npu_text
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.finish import Part, finish

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"

HOST, CANN, HARDWARE, HCCL, OVERLAP = 100, 200, 300, 400, 500
PROCESSES = {HOST: "Python", CANN: "CANN", HARDWARE: "Ascend Hardware", HCCL: "Communication",
    OVERLAP: "Overlap Analysis"}
#: A group and the number that one real database holds for its name.
GROUP, GROUP_HASH = "90.91.105.46%enp189s0f0_60000_0_1736410538306028", "17148521525495523210"
ROOT = "rank2_ascend_pt"
#: 2025-01-09 in microseconds; a float would lose the last digits.
BASE_US = 1736408883000000

Event = dict[str, Any]


@dataclass(frozen=True)
class Loaded:
    """A rank's contract tables, and a connection that sees them."""

    part: Part
    con: duckdb.DuckDBPyConnection

    @property
    def origin(self) -> int:
        return self.part.origin_ns

    def all(self, query: str) -> list[tuple[Any, ...]]:
        return self.con.execute(query).fetchall()

    def one(self, query: str) -> Any:
        return self.all(query)[0][0]

    def cover(self, table: str) -> dict[str, Any]:
        return next(row for row in self.part.coverage if row["table"] == table)


def load(path: Path, scratch: Path, rank: int | None = None) -> Loaded:
    claim = read_torch_npu_text.sniff(path)
    assert claim is not None
    draft = Draft(scratch / "draft", claim.facts.rank or 0 if rank is None else rank)
    read_torch_npu_text.read(claim, draft)
    part = finish(draft, scratch / "tables")
    draft.close()
    con = duckdb.connect()
    for table in part.rows:
        con.execute(f"CREATE VIEW {table} AS FROM '{scratch / 'tables' / table}.parquet'")
    return Loaded(part, con)


def at(ns: int) -> str:
    """A stamp as torch_npu writes it: a string of microseconds with three decimals."""
    whole = BASE_US * 1000 + ns
    return f"{whole // 1000}.{whole % 1000:03d}"


def span(pid: int, tid: int | str, name: str, ts: int, dur: int, args: Mapping[str, Any] | None = None,
    cat: str = "") -> Event:
    event: Event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": at(ts), "dur": dur / 1000}
    return event | ({"args": dict(args)} if args else {}) | ({"cat": cat} if cat else {})


def task(name: str, ts: int, dur: int, kind: str, stream: int = 2, number: int = 1, **more: Any) -> Event:
    args = {"Model Id": 4294967295, "Task Type": kind, "Physic Stream Id": stream, "Task Id": number, "Batch Id": 0,
            "Subtask Id": 4294967295, "connection_id": 4294967295} | more  # fmt: skip
    return span(HARDWARE, stream, name, ts, dur, args)


def named(pid: int, name: str, tid: int | str = 0, what: str = "process_name") -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def flow(letter: str, cat: str, number: object, pid: int, tid: int | str, ts: int) -> Event:
    name = {"async_npu": "torch_to_npu", "async_task_queue": "enqueue_to_dequeue"}.get(cat, f"{cat}{number}")
    return {"ph": letter, "cat": cat, "name": name, "id": number, "pid": pid, "tid": tid, "ts": at(ts), "bp": "e"}


def processes() -> list[Event]:
    return [named(pid, name) for pid, name in PROCESSES.items()]


def write(directory: Path, events: Sequence[Event] | None = None, **files: str | bytes) -> Path:
    """A rank directory with these events and files; ``kernel_details_csv`` names kernel_details.csv."""
    output = directory / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True, exist_ok=True)
    if events is not None:
        (output / "trace_view.json").write_text(json.dumps(events))
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        path = (directory if stem.startswith("profiler_") else output) / f"{stem}.{ending}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def comm_task(name: str, ts: int, dur: int, plane: int, **args: Any) -> Event:
    told = {
        "notify_id": "7", "stream id": 4, "task id": 9, "context id": 1, "task type": name, "src rank": 1,
        "dst rank": 0, "transport type": "SDMA", "size(Byte)": 64, "data type": "FP32", "link type": "HCCS",
        "bandwidth(GB/s)": 2.5,
    }  # fmt: skip
    return span(HCCL, plane + 1, name, ts, dur, told | args)


def comm_op(name: str, ts: int, dur: int, tid: int = 0) -> Event:
    return span(HCCL, tid, name, ts, dur, {"connection_id": 70, "data_type": "FP16", "alg_type": "RING", "count": 10})


def comm_lanes(group: str = GROUP_HASH) -> list[Event]:
    """One group with two planes."""
    names = (f"Group {group} Communication", "Plane 0", "Plane 1")
    return [named(HCCL, name, tid, "thread_name") for tid, name in enumerate(names)]


#: kernel_details at Level1, and a row of it: a kernel, and a communication operator of some core.
SHAPES = '"""32,3;4""",FLOAT;INT32,ND;ND,"""32""",FLOAT,ND'
TENSORS = "Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats"
L1 = (
    "Step Id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),"
    f"Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,{TENSORS},Context ID,aic_mac_ratio"
)
KERNEL = f"5,4294967295,1,2,MatMul1,MatMulV2,dynamic,AI_CORE,{at(1000)}\t,2.001,0.5,24,0,NO,{SHAPES},N/A,0.25"
OP = f"5,4294967295,N/A,N/A,hcom_send__210_0_1,hcom_send_,N/A,{{}},{at(9000)}\t,7,0,0{',N/A' * 10}"
