"""The CSV files beside a trace: an input is the file's name on the first line, then the file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from random import Random

from tests.fuzz import change
from tests.fuzz.reading import Read, read
from tests.fuzz.targets.trace_view import events
from tests.text_export import KERNEL, L1, OP, ROOT, at, write

#: File -> the table that holds a row of it each; None where several rows make one, or none.
TABLES = {
    "kernel_details.csv": None,
    "memory_record.csv": "memory_sample",
    "operator_memory.csv": "memory_event",
    "step_trace_time.csv": "profiler_step",
    "op_statistic.csv": "summary",
    "api_statistic.csv": "summary",
    "operator_details.csv": None,
    "l2_cache.csv": None,
    "npu_module_mem.csv": "memory_sample",
    "data_preprocess.csv": None,
}
#: Without the kernel of kernel_details, and with it.
_TRACES = (json.dumps(events()[:12]), json.dumps(events()))
_CONTENTS = {
    "kernel_details.csv": f"{L1}\n{KERNEL}\n{OP.format('HCCL')}\n",
    "memory_record.csv": "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,"
    f"Device Type\nPTA,{at(10)}\t,1.5,2,0.25,7,NPU:0\nAPP,{at(20)}\t,N/A,512.00390625,,N/A,NPU:0\n",
    "operator_memory.csv": "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),"
    "Active Duration(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type\n"
    f"aten::empty,0.5,{at(10)}\t,{at(90)}\t,{at(90)}\t,0.08,0.08,1,2,1,0,2,0,7,NPU:0\n"
    f"aten::add,4,{at(20)}\t,,,,,1,2,1,,,,7,NPU:0\n",
    "step_trace_time.csv": "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
    "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing\n"
    "0,3,10.5,1,0.25,1.25,3,15,0,1,2.001\n,4,,,,,,,,,\n",
    "op_statistic.csv": "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),"
    "Ratio(%)\n"
    "0,MatMulV2,AI_CORE,2,4.002,1.5,2.001,2.502,99.5\n",
    "api_statistic.csv": "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\n"
    "0,acl,aclrtMemcpy,12.5,2,6.25,5,7.5,1.5\n",
    "operator_details.csv": "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),"
    'Device Self Duration(us)\naten::mm,"32,3;4","a.py(1): f;\r\nb.py(2): g",1.5,2,3\naten::mm,,,1,1,0\n',
    "l2_cache.csv": "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name\n2,1,0.5,0.25,MatMul1\n",
    "npu_module_mem.csv": f"Device_id,Component,Timestamp(us),Total Reserved(KB),Device\n0,HCCL,{at(5)}\t,1024,NPU:0\n",
}  # fmt: skip


def seeds() -> list[bytes]:
    return [f"{name}\n{text}".encode() for name, text in _CONTENTS.items()]


def mutate(data: bytes, draw: Random) -> bytes:
    name, _, text = data.partition(b"\n")
    return name + b"\n" + change.csv_text(text, draw)


def check(data: bytes, scratch: Path) -> None:
    first, _, text = data.partition(b"\n")
    name = first.decode("ascii", "replace")
    if name not in TABLES:
        name = sorted(TABLES)[len(first) % len(TABLES)]
    root = write(scratch / ROOT, trace_view_json=_TRACES[len(text) % 2])
    if name != "kernel_details.csv":
        write(root, kernel_details_csv=f"{L1}\n{KERNEL}\n")
    (root / "ASCEND_PROFILER_OUTPUT" / name).write_bytes(text)
    _no_row_lost(text, TABLES[name], read([root], scratch))


def _no_row_lost(text: bytes, table: str | None, done: Read) -> None:
    """Rows that the csv module reads without doubt are in their table, or counted."""
    rows = _rows(text)
    if table is None or rows is None:
        return
    for part in done.parts:
        told = next(row for row in part.coverage if row["table"] == table)
        assert told["rows"] + told["dropped"] >= rows or told["reason"], f"{told} of {rows} rows"
        assert told["rows"] <= rows, f"{told['rows']} rows of {rows} in {table}"


def _rows(text: bytes) -> int | None:
    """Data rows by the standard library; None where its reading is a matter of taste."""
    if b"\0" in text or b"\r" in text or text.count(b'"'):
        return None
    try:
        lines = list(csv.reader(io.StringIO(text.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return len([line for line in lines[1:] if any(cell.strip() for cell in line)]) if lines else None
