"""In the place of CANN's msprof: exports the invented layer in the formats that msprof has.

torch_npu's analysis calls it by its name and its options; what it then makes of the export is torch_npu's own work.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.npu.layer import TYPES, Task, kind, lanes, tasks

CANN, HARDWARE, GROUPS, OVERLAP = 3201, 3202, 3203, 3204
PROCESSES = {
    CANN: ("CANN", "CPU"), HARDWARE: ("Ascend Hardware", "NPU 0"), GROUPS: ("Communication", "NPU 0"),
    OVERLAP: ("Overlap Analysis", "NPU 0"),
}  # fmt: skip
NONE = 4294967295
STAMP = "20260101000000"
#: The moments of the launches, beside the raw data: job.py writes them.
PLAN = "launched.json"


def us(ns: int) -> str:
    """Microseconds with the nanoseconds as decimals: the way of CANN's timeline."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def planned(prof: Path) -> list[Task]:
    """The layer of the recording that a PROF directory belongs to, in ns since 1970."""
    began = json.loads((prof / "host/start_info").read_text())
    launched = json.loads((prof.parents[1] / PLAN).read_text())
    shift = int(began["collectionTimeBegin"]) * 1000 - int(began["clockMonotonicRaw"])
    return tasks([(step, moment) for step, moment in launched], shift)


def timeline(layer: Sequence[Task]) -> Iterator[dict[str, Any]]:
    for pid, (name, label) in PROCESSES.items():
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        yield {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}}
    for number, task in enumerate(layer):
        call = {"Thread Id": 1, "Mode": "launch", "level": "node", "id": kind(task), "item_id": "0",
                "connection_id": number}  # fmt: skip
        yield _span(CANN, 1, "Node@launch", task.launched, 5_000, call)
        pid, tid = (HARDWARE, task.stream) if task.computes else (GROUPS, 0)
        yield _span(pid, tid, task.name, task.start, task.dur, _about(task, number))
        arrow = {"cat": "HostToDevice", "name": f"HostToDevice{number}", "id": str(number)}
        yield {**arrow, "ph": "s", "pid": CANN, "tid": 1, "ts": us(task.launched)}
        yield {**arrow, "ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": us(task.start)}
    for lane, (name, intervals) in enumerate(lanes(layer)):
        yield {"ph": "M", "name": "thread_name", "pid": OVERLAP, "tid": lane, "args": {"name": name}}
        for start, end in intervals:
            yield _span(OVERLAP, lane, name, start, end - start, {})
    yield {"ph": "M", "name": "thread_name", "pid": GROUPS, "tid": 0, "args": {"name": "Group 1 Communication"}}
    yield {"ph": "M", "name": "thread_name", "pid": HARDWARE, "tid": 2, "args": {"name": "Stream 2"}}


def _about(task: Task, number: int) -> dict[str, Any]:
    if not task.computes:
        return {"connection_id": number, "data_type": "FP32", "alg_type": "RING", "count": 1024}
    return {
        "Model Id": NONE, "Task Type": TYPES[kind(task)], "Physic Stream Id": task.stream, "Task Id": number,
        "Batch Id": 0, "Subtask Id": NONE, "connection_id": number,
    }  # fmt: skip


def _span(pid: int, tid: int, name: str, start: int, dur: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": us(start), "dur": dur / 1000, "args": args}


def summary(layer: Sequence[Task]) -> Iterator[dict[str, Any]]:
    for number, task in enumerate(layer):
        yield {
            "Device_id": 0, "Model ID": NONE, "Task ID": number, "Stream ID": task.stream, "Op Name": task.name,
            "OP Type": kind(task), "OP State": "dynamic",
            "Task Type": TYPES[kind(task)] if task.computes else "COMMUNICATION",
            "Task Start Time(us)": us(task.start) + "\t", "Task Duration(us)": task.dur / 1000, "Task Wait Time(us)": 0,
            "Block Num": 24, "Mix Block Num": 0, "HF32 Eligible": "NO", "Input Shapes": '"4,16"',
            "Input Data Types": "FLOAT", "Input Formats": "ND", "Output Shapes": '"4,16"',
            "Output Data Types": "FLOAT", "Output Formats": "ND", "Context ID": "N/A",
            "aicore_time(us)": round(task.dur / 2000, 3), "aic_mac_ratio": 0.25,
        }  # fmt: skip


def statistic(layer: Sequence[Task]) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys(kind(task) for task in layer if task.computes):
        durs = [task.dur / 1000 for task in layer if task.computes and kind(task) == name]
        yield {
            "Device_id": 0, "OP Type": name, "Core Type": TYPES[name], "Count": len(durs),
            "Total Time(us)": round(sum(durs), 3), "Min Time(us)": min(durs),
            "Avg Time(us)": round(sum(durs) / len(durs), 3), "Max Time(us)": max(durs), "Ratio(%)": 0,
        }  # fmt: skip


def export(prof: Path) -> None:
    layer = planned(prof)
    out = prof / "half"
    out.mkdir()
    (out / f"msprof_{STAMP}.json").write_text(json.dumps(list(timeline(layer))))
    _table(out / f"op_statistic_{STAMP}.csv", list(statistic(layer)))
    _table(out / f"op_summary_{STAMP}.csv", list(summary(layer)))
    out.rename(prof / "mindstudio_profiler_output")  # all at once: torch_npu begins to read at the first table
    # Its analysis looks for a table ten times a second, and ends without most of its files if msprof ended before it
    # looked. CANN's takes seconds, so that nobody has met this.
    time.sleep(1)


def _table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main(arguments: Sequence[str]) -> int:
    if "--help" in arguments:
        print("--export --analyze --type --output")  # it knows --type: the database may be asked for
        return 0
    (output,) = (each.partition("=")[2] for each in arguments if each.startswith("--output="))
    if "--export=on" in arguments and "--type=db" not in arguments:
        export(Path(output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
