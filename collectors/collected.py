"""Whether a collection worked: told from what lies on disk, never from a profiler's word.

torch_npu prints what goes wrong and goes on; it writes ``analyse.done`` even when the analysis failed. So the traces
are opened: steps, kernels and host operators are counted, and a collection without any is one that failed.
"""

from __future__ import annotations

import csv
import gzip
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from npulens.collectors import notes
from npulens.collectors.profilers.analysed import OUTPUT, recorded

_CHUNK = 1 << 22
_OVERLAP = 256
_STEP = re.compile(rb'"ProfilerStep#(\d+)"')
_KERNEL = re.compile(rb'"cat"\s*:\s*"(?:kernel|gpu_memcpy|gpu_memset)"')
_HOST_OP = re.compile(rb'"cat"\s*:\s*"cpu_op"')
#: Steps are unlike when the longest takes so many times as long as the shortest.
UNLIKE = 2
_ERROR = re.compile(r"\[ERROR\]|\bERROR\b")


@dataclass(frozen=True)
class Trace:
    """What one process left."""

    path: str
    steps: int
    host_ops: int
    kernels: int | None  # None: this kind of trace has no device
    bytes: int
    complaints: tuple[str, ...] = ()
    raw: bool = False  # torch_npu's, before its analysis


@dataclass(frozen=True)
class Collected:
    """What a collection left, and what its processes said about themselves."""

    status: str  # complete, partial, failed; deferred: raw, to be analysed later
    reason: str | None
    traces: tuple[Trace, ...]
    processes: tuple[dict[str, Any], ...] = field(default=())
    others: int = 0  # of those that collect into this directory and go on: theirs is not judged here

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def collected(
    directory: Path, backend: str, wanted_steps: int, since_ns: int = 0, *, deferred: bool = False,
    processes: Sequence[dict[str, Any]] | None = None, others: int = 0,
) -> Collected:  # fmt: skip
    """Looks at everything in a directory that is younger than ``since_ns``; ``deferred``: it may be raw.

    ``processes`` is what they noted, where that is known already. Where others collect into it too, only what those
    processes wrote is looked at.
    """
    said = gathered(directory, since_ns) if processes is None else processes
    return replace(_judged(directory, backend, wanted_steps, since_ns, deferred, tuple(said), others), others=others)


def _judged(
    directory: Path, backend: str, wanted_steps: int, since_ns: int, deferred: bool,
    processes: tuple[dict[str, Any], ...], others: int,
) -> Collected:  # fmt: skip
    whose = [f"{each['host']}_{each['pid']}" for each in processes] if others else None
    traces = tuple(_traces(directory, since_ns, whose))
    if deferred and any(trace.raw for trace in traces):
        short = [f"process {each['pid']}: {each['reason']}" for each in processes if each["state"] != "written"]
        return Collected("deferred", "; ".join(short[:5]) or None, traces, processes)
    reason = _failure(traces, processes, backend)
    if reason is not None:
        return Collected("failed", reason, traces, processes)
    short = [f"{trace.path}: {trace.steps} of {wanted_steps} steps" for trace in traces if trace.steps < wanted_steps]
    short += [complaint for trace in traces for complaint in trace.complaints]
    short += [f"process {each['pid']}: {each['reason']}" for each in processes if each["state"] != "written"]
    said, status = "; ".join(short[:5]) or None, "partial" if short else "complete"
    return Collected(status, said, traces, processes)


def notices(found: Collected, wanted_steps: int) -> list[dict[str, Any]]:
    """What somebody should know besides: names of texts and their values."""
    first = [each["first_start_ns"] for each in found.processes if each.get("first_start_ns")]
    own = [each for each in found.processes if each.get("own_profiler")]
    left_out = sorted({setting for each in found.processes for setting in each.get("left_out", ())})
    said: list[dict[str, Any]] = []
    if first:
        said.append({"name": "first_start", "values": {"ns": max(first)}})
    if own:
        traces = [path for each in own for path in each.get("own_traces", ())]
        said.append({"name": "own_profiler", "values": {"processes": len(own), "traces": traces}})
    if found.others:
        said.append({"name": "others", "values": {"others": found.others}})
    if left_out:
        said.append({"name": "left_out", "values": {"settings": left_out}})
    whole = [each for each in found.processes if each["state"] in ("written", "cut_short")]
    sliced = [each["slice_ns"] for each in whole if each.get("automatic")]
    if sliced:
        said.append({"name": "automatic_slices", "values": {"processes": len(sliced), "ns": max(sliced)}})
    return [*said, *_ended_early(found, wanted_steps), *_unlike(found, wanted_steps)]


def _ended_early(found: Collected, recorded: int) -> Iterator[dict[str, Any]]:
    """Which limits ended recordings, and what was kept at least."""
    reached: dict[str, list[dict[str, Any]]] = {}
    for each in found.processes:
        if each.get("limit"):
            reached.setdefault(each["limit"]["name"], []).append(each)
    for name, processes in reached.items():
        limit = max((each["limit"] for each in processes), key=lambda each: int(each["bytes"]))
        kept = min(max(0, each["steps"] - each["wanted"] + recorded) for each in processes)
        values = {"bytes": limit["bytes"], "limit_bytes": limit["limit"], "place": limit["place"]}
        yield {"name": f"limit_{name}", "values": {**values, "processes": len(processes), "kept": kept,
               "wanted": recorded}}  # fmt: skip


def _unlike(found: Collected, recorded: int) -> Iterator[dict[str, Any]]:
    """Whose recorded steps are of unlike lengths: what is said of one of them does not hold for the next."""
    for each in found.processes:
        steps = sorted(each.get("steps_ns", [])[each["wanted"] - recorded :])
        if len(steps) > 1 and steps[-1] >= UNLIKE * steps[0]:
            who = {name: each[name] for name in ("rank", "pid", "steps_by")}
            yield {"name": "unlike_steps", "values": {**who, "shortest_ns": steps[0], "longest_ns": steps[-1]}}


def _failure(traces: tuple[Trace, ...], processes: tuple[dict[str, Any], ...], backend: str) -> str | None:
    """Why there is nothing to look at; None where there is."""
    if not traces:
        said = [str(each["reason"]) for each in processes if each["reason"]]
        if said:
            return said[0]
        if any(each["state"] == "recording" for each in processes):
            return "a process of the job ended before its recording did: it was killed, or left by os._exit"
        if processes:
            return "the job's processes began a recording, and none of them wrote a trace"
        return (
            "no process of the job made a step: no optimiser stepped, no module ran twice where nothing is trained, "
            "and torch did not go on computing until slices of time would have begun; --steps-by time:200ms begins "
            "them at once"
        )
    if not any(trace.steps or trace.host_ops or trace.kernels for trace in traces):
        return "the traces are there and empty: no step, no operator, no kernel"
    if backend in ("npu", "cuda") and not any(trace.kernels for trace in traces):
        return f"the traces hold no kernel, though the job ran on {backend}: the profiler did not see the device"
    return None


def gathered(directory: Path, since_ns: int = 0) -> list[dict[str, Any]]:
    """What the processes noted. Their notes go, because the manifest holds them; a process that records keeps its."""
    said = notes.read(directory / notes.PLACE, since_ns)
    if not any(each["state"] == "recording" for each in said):
        shutil.rmtree(directory / notes.PLACE, ignore_errors=True)
    return said


def _traces(directory: Path, since_ns: int, whose: list[str] | None) -> Iterator[Trace]:
    """The traces of all processes, or of those that profilers call by these names."""
    for path in sorted(directory.rglob("*.pt.trace.json*")):
        if path.stat().st_mtime_ns >= since_ns and not path.name.startswith(".") and _is_of(path, whose):
            yield _kineto(path)
    for path in recorded(directory):
        if path.stat().st_mtime_ns >= since_ns and _is_of(path, whose):
            yield _ascend(path)


def _is_of(path: Path, whose: list[str] | None) -> bool:
    return whose is None or any(path.name.startswith((f"{name}.", f"{name}_")) for name in whose)


def _kineto(path: Path) -> Trace:
    steps, host_ops, kernels = _count(path)
    return Trace(str(path), steps, host_ops, kernels, path.stat().st_size)


def _ascend(path: Path) -> Trace:
    """A directory of torch_npu: its text export, else its database."""
    out = path / OUTPUT
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    complaints = tuple(_complaints(path))
    if (out / "trace_view.json").is_file():
        steps, host_ops, _ = _count(out / "trace_view.json")
        return Trace(str(path), steps, host_ops, _rows(out / "kernel_details.csv"), size, complaints)
    for database in sorted(out.glob("ascend_pytorch_profiler*.db")):
        return Trace(str(path), *_tables(database), size, complaints)
    nothing = (f"{path.name}: the profiler's analysis left nothing", *complaints)
    return Trace(str(path), 0, 0, 0, size, nothing, raw=not out.exists())


def _count(path: Path) -> tuple[int, int, int]:
    """Distinct steps, host operators and device work of a JSON trace, read in pieces."""
    steps: set[bytes] = set()
    host_ops = kernels = 0
    rest = b""
    with _open(path) as stream:
        while chunk := stream.read(_CHUNK):
            text = rest + chunk
            cut = len(text) if len(chunk) < _CHUNK else len(text) - _OVERLAP
            steps.update(_STEP.findall(text))
            # A match that begins in the overlap is counted with the next piece.
            host_ops += sum(match.start() < cut for match in _HOST_OP.finditer(text))
            kernels += sum(match.start() < cut for match in _KERNEL.finditer(text))
            rest = text[cut:]
    return len(steps), host_ops + len(_HOST_OP.findall(rest)), kernels + len(_KERNEL.findall(rest))


def _open(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def _rows(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open(newline="", encoding="utf-8", errors="replace") as stream:
        return max(0, sum(1 for _ in csv.reader(stream)) - 1)


def _tables(database: Path) -> tuple[int, int, int]:
    """Steps, host operators and kernels of torch_npu's database; a table that is missing holds none."""
    con = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        known = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        counts = [
            con.execute(f"SELECT count(*) FROM {table}").fetchone()[0] if table in known else 0
            for table in ("STEP_TIME", "PYTORCH_API", "COMPUTE_TASK_INFO")
        ]
    finally:
        con.close()
    return counts[0], counts[1], counts[2]


def _complaints(path: Path) -> Iterator[str]:
    """The last error of each of the profiler's logs."""
    for log in sorted(path.glob("logs/*.log")):
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if _ERROR.search(line)]
        if lines:
            yield f"{log.name}: {lines[-1].strip()[:300]}"
