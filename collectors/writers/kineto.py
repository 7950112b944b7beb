"""Writes a simulated job as torch.profiler exports it: one Kineto trace per rank, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from npulens.collectors.simulator.job import Job, RankRecord
from npulens.collectors.writers.json_text import write_joined
from npulens.collectors.writers.kineto_events import KinetoView
from npulens.collectors.writers.kineto_names import Device, Spelling
from npulens.collectors.writers.torch_npu_text import chosen

_PID = re.compile(r'"pid": (?:"([^"]*)"|(\d+))')
#: What a category is called in 2020; what is not here did not exist.
_CATEGORIES = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "Trace": "Trace",
}


def of_rank(text: str, rank: int) -> str:
    """An event as a file of several ranks holds it: the process says whose it is."""
    return _PID.sub(lambda found: f'"pid": "[TP{rank:02d}] {found[1] or found[2] or ""}"', text, count=1)


def of_2020(texts: Iterator[str], zero: int) -> Iterator[str]:
    """Events in whole microseconds since 1970, with threads named by strings and the ids of old."""
    for text in texts:
        event: dict[str, Any] = json.loads(text)
        if event["ph"] == "M" or (event["ph"] == "i" and "Start" in event["name"]):
            yield json.dumps(_placed(event, zero))
        elif event["ph"] == "X" and event["cat"] in _CATEGORIES:
            yield json.dumps(_placed(event | {"cat": _CATEGORIES[event["cat"]], "args": _args(event)}, zero))
        elif event["ph"] in "sf" and event["cat"] == "ac2g":
            yield json.dumps(_placed(event | {"cat": "async", "name": "launch"}, zero))


def _placed(event: dict[str, Any], zero: int) -> dict[str, Any]:
    placed = event | {"ts": zero // 1_000 + int(event["ts"])}
    if "dur" in event:
        placed["dur"] = int(event["dur"])
    on_device = "stream" in event.get("args", {})
    if isinstance(event["tid"], int) and event["tid"]:
        placed["tid"] = f"stream {event['tid']}" if on_device or event["pid"] < 1_000 else str(event["tid"])
    return placed


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = dict(event["args"])
    if event["cat"] in ("cpu_op", "user_annotation"):
        none: list[Any] = []
        old = {"Input dims": args.get("Input Dims", none), "Input type": args.get("Input type", none)}
        old |= {"Input names": none, "Output dims": none, "Output type": none, "Output names": none, "Device": 0}
        old |= {"External id": args["External id"], "Extra arguments": none, "Trace name": "PyTorch Profiler"}
        return old | {"Trace iteration": 0}
    if "External id" in args:
        args["external id"] = args.pop("External id")
    return args


def write_kineto(
    job: Job, directory: Path, device: Device = "cuda", gz: bool = False, ranks: Iterable[int] | None = None
) -> list[Path]:
    """Writes one trace per chosen rank. Best with ``task_queue=False``: no other backend has such a thread."""
    directory.mkdir(parents=True, exist_ok=True)
    records, ending = chosen(job, ranks), ".json" + (".gz" if gz else "")
    if job.config.dialect == "merged":
        path = directory / f"merged-{job.config.start_ns // 10**9}.trace{ending}"
        with open_text(path, gz) as file:
            _write_merged(job, records, Spelling(device), file)
        return [path]
    paths = []
    for record in records:
        if job.config.dialect == "bare_list":
            paths.append(directory / f"worker{record.rank}.pt.trace{ending}")
            with open_text(paths[-1], gz) as file:
                _write_list(job, record, Spelling(device), file)
            continue
        name = f"{record.host}_{record.pid}.{job.config.start_ns // 10**6}.pt.trace.json" + (".gz" if gz else "")
        paths.append(directory / name)
        with open_text(paths[-1], gz) as file:
            write_trace(job, record, Spelling(device), file)
    return paths


def open_text(path: Path, gz: bool) -> TextIO:
    """A text file; gzipped, it holds no time and no name, so that the same trace gives the same bytes."""
    if not gz:
        return path.open("w", encoding="utf-8")
    return io.TextIOWrapper(_Gzip(path), encoding="utf-8")


class _Gzip(gzip.GzipFile):
    """Closes the file below it, too."""

    def __init__(self, path: Path) -> None:
        self._raw = path.open("wb")
        super().__init__(filename="", mode="wb", compresslevel=6, fileobj=self._raw, mtime=0)

    def close(self) -> None:
        super().close()
        self._raw.close()


def base_time(job: Job) -> int:
    """The zero of all stamps in the file."""
    return (job.config.start_ns // 10**9 - 3_600) * 10**9


def write_trace(job: Job, record: RankRecord, spelling: Spelling, file: TextIO) -> None:
    view = KinetoView(job, record, spelling, base_time(job))
    file.write(header(job, record, spelling))
    write_joined(file, view.all(), ",\n")
    file.write(footer(job, record))


def _write_merged(job: Job, records: list[RankRecord], spelling: Spelling, file: TextIO) -> None:
    """All ranks in the envelope of the first."""
    file.write(header(job, records[0], spelling))
    views = [(record.rank, KinetoView(job, record, spelling, base_time(job))) for record in records]
    write_joined(file, (of_rank(text, rank) for rank, view in views for text in view.all()), ",\n")
    file.write(footer(job, records[0]))


def _write_list(job: Job, record: RankRecord, spelling: Spelling, file: TextIO) -> None:
    zero = base_time(job)
    file.write("[\n")
    write_joined(file, of_2020(KinetoView(job, record, spelling, zero).all(), zero), ",\n")
    file.write("\n]\n")


def header(job: Job, record: RankRecord, spelling: Spelling) -> str:
    config = job.config
    facts: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": spelling.properties(config.ranks),
        "distributedInfo": _distributed(job, record, spelling),
        "record_shapes": int(config.shapes),
        "with_stack": int(config.frames),
        "with_modules": int(config.frames),
        "profile_memory": int(config.memory),
        "with_flops": 0,
    }
    if spelling.device == "cuda":
        facts |= {"cupti_version": 24, "cuda_runtime_version": 12060, "cuda_driver_version": 12060}
    if spelling.device == "rocm":
        facts |= {"hip_runtime_version": 60342, "hip_driver_version": 60342}
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items())
    return "\n{\n" + lines + ',\n  "traceEvents": [\n'


def _distributed(job: Job, record: RankRecord, spelling: Spelling) -> dict[str, Any]:
    groups = [
        {
            "pg_name": str(number),
            "pg_desc": "default_pg" if len(group.ranks) == job.config.ranks else group.kind,
            "backend_config": f"{'npu' if spelling.device == 'npu' else 'cuda'}:{spelling.backend}",
            "pg_size": len(group.ranks),
            "ranks": list(group.ranks),
        }
        for number, group in enumerate(job.groups_of(record.rank))
    ]
    facts: dict[str, Any] = {"backend": spelling.backend, "rank": record.rank, "world_size": job.config.ranks}
    if job.config.dialect != "custom_comm":
        facts |= {"pg_count": len(groups), "pg_config": groups}
    return facts if spelling.device == "npu" else facts | {"nccl_version": "2.21.5"}


def footer(job: Job, record: RankRecord) -> str:
    name = json.dumps(f"/tmp/trace_rank{record.rank}.json")
    zero = base_time(job)
    return f'\n  ],\n  "traceName": {name},\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {zero}\n}}'


def trace_events(job: Job, record: RankRecord, spelling: Spelling) -> Iterator[str]:
    return KinetoView(job, record, spelling, base_time(job)).events()
