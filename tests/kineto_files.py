"""Kineto files read by hand, and read by the reader: what the tests of the reader compare."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from npulens.ingest.readers.kineto import read_kineto
from npulens.ingest.tables.draft import Draft, union

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
HTA = "facebookresearch+HolisticTraceAnalysis/tests/data/"
LENS = "AMD-AGI+TraceLens/tests/traces/"
OWNERS = ("AMD-AGI+TraceLens", "facebookresearch+", "pytorch+kineto")
REAL = sorted(p for owner in OWNERS for p in TRACES.glob(f"{owner}*/**/*.json.gz"))
NANO = HTA + "ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
NCCL = HTA + "nccl_parser_config/nccl_data.json.gz"
B200 = LENS + "b200/eager_trace.json.gz"
RESNET = "pytorch+kineto@hist-234cf25d/tb_plugin/samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz"

HTA_CPU = (
    "facebookresearch+HolisticTraceAnalysis@hist-05cd72fe/tests/data/cpu_only/"
    "rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"
)
REAL_CPU = (TRACES / HTA_CPU, TRACES.parent / "traces_serving/made+vllm-0.32.0-cpu/E_profiled/rank0.pt.trace.json.gz")


@lru_cache(maxsize=3)
def document(name: str) -> dict[str, Any]:
    return dict(json.loads(gzip.decompress((TRACES / name).read_bytes()), parse_float=Decimal))


def ns(microseconds: Decimal | int | str) -> int:
    value = Decimal(microseconds) * 1000
    assert value == int(value), "a stamp below a nanosecond"
    return int(value)


HOST_KINDS = {"cpu_op": "cpu_op", "Operator": "cpu_op", "user_annotation": "annotation", "python_function": "python",
              "cuda_runtime": "runtime", "cuda_driver": "runtime", "Runtime": "runtime", "mtia_runtime": "runtime",
              "Trace": "host_other", "overhead": "host_other"}  # fmt: skip
DEVICE_KINDS = {"kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
    "gpu_memset": "memset",
                "Memset": "memset", "gpu_user_annotation": "device_annotation", "cuda_sync": "wait",
                "cuda_profiler_range": "device_other"}  # fmt: skip
MTIA = {"dma_request": "memcpy", "event_wait": "wait", "event_record": "device_other"}


def kind(event: dict[str, Any]) -> str | None:
    """What an event must become; None: no span."""
    cat, name = event.get("cat"), event["name"]
    if event["ph"] == "i":
        return None if name == "[memory]" else "host_other"
    if event["ph"] != "X":
        return None
    if name.startswith(("ProfilerStep#", "execute_context_")) and cat in ("user_annotation", "Operator"):
        return "step_mark"
    if cat in ("kernel", "Kernel") and (
        "nccl" in name.lower() or "multimem_all_reduce" in name or "Collective name" in event["args"]
    ):
        return "comm_op"
    if cat == "mtia_ccp_events":
        return MTIA.get(name, "kernel")
    if cat == "mtia_runtime" and event["pid"] == 17:  # the device's own process
        return "wait"
    return {**HOST_KINDS, **DEVICE_KINDS}[cat]


#: Operators of aten that move nothing; the ones that real files hold.
MOVE_NOTHING = re.compile(
    r"(alias|as_strided|as_strided_|broadcast_to|chunk|contiguous|detach|detach_|diagonal|empty|empty_like|"
    r"empty_strided|expand|expand_as|flatten|is_nonzero|item|lift_fresh|_local_scalar_dense|narrow|new_empty|permute|"
    r"_reshape_alias|reshape|resize_|resolve_conj|resolve_neg|result_type|select|slice|split|split_with_sizes|squeeze|"
    r"squeeze_|t|tensor_split|to|_to_copy|transpose|type_as|unbind|unfold|_unsafe_view|unsqueeze|unsqueeze_|view|"
    r"view_as)$"
)


def outermost(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The work of a job on a CPU: what computes and has no such operator, loader, compiler or collective around it."""

    def role(event: dict[str, Any]) -> str | None:
        cat, name = event.get("cat"), str(event["name"])
        if name.startswith(("enumerate(DataLoader)", "entire_")):
            return "host"
        if cat == "user_annotation":
            return "work" if name.startswith(("gloo:", "## Call CompiledFxGraph ")) else None
        space, colons, operator = name.partition("::")
        marks = ("autograd", "torch", "profiler", "c10d")
        if cat != "cpu_op" or not colons or not space.isidentifier() or space in marks:
            return None
        return None if space == "aten" and MOVE_NOTHING.match(operator) else "work"

    until: dict[tuple[Any, Any], Any] = {}
    found = []
    for event in sorted((e for e in events if e["ph"] == "X" and e["dur"] > 0), key=lambda e: (e["ts"], -e["dur"])):
        lane = event["pid"], event["tid"]
        if (what := role(event)) is None or event["ts"] < until.get(lane, 0):
            continue
        until[lane] = event["ts"] + event["dur"]
        if what == "work":
            found.append(event)
    return found


def merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def clipped(intervals: Iterable[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    return [(max(a, begin), min(b, end)) for a, b in intervals if min(b, end) > max(a, begin)]


def length(intervals: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in merged(intervals))


class Loaded:
    """A draft that a trace was read into."""

    def __init__(self, path: Path, scratch: Path) -> None:
        claim = read_kineto.sniff(path)
        assert claim is not None, f"{path.name} was not recognised"
        self.claim, self.draft = claim, Draft(scratch, claim.facts.rank or 0)
        read_kineto.read(claim, self.draft)

    def rows(self, table: str, what: str = "*", where: str = "true") -> list[tuple[Any, ...]]:
        if table not in self.draft.selects:
            return []
        return self.draft.con.execute(
            f"SELECT {what} FROM ({union(self.draft.selects[table])}) WHERE {where} ORDER BY ALL"
        ).fetchall()

    def one(self, table: str, what: str, where: str = "true") -> Any:
        (row,) = self.rows(table, what, where)
        return row[0] if len(row) == 1 else row

    def dropped(self, table: str = "span") -> dict[str, int]:
        return dict(self.draft.covers[table].dropped)


# --- made up ---------------------------------------------------------------------------------------------------------

Event = dict[str, Any]


def x(cat: str, name: str, ts: float, dur: float, args: Event | None = None, tid: Any = 1, pid: Any = 100) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args or {}}


def task(name: str, ts: float, dur: float, args: Event | None = None, cat: str = "kernel") -> Event:
    return x(cat, name, ts, dur, {"stream": 7, "device": 0, **(args or {})}, tid=7, pid=0)


def flow(ph: str, cat: str, id_: object, ts: float, tid: Any = 1, pid: Any = 100) -> Event:
    return {"ph": ph, "cat": cat, "id": id_, "name": cat, "pid": pid, "tid": tid, "ts": ts}


class Maker:
    """Reads traces made of the given events."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._made: list[Loaded] = []

    def __call__(self, events: list[Any], header: Event | None = None, name: str = "t.json") -> Loaded:
        path = self._scratch / name
        path.write_text(json.dumps({"schemaVersion": 1, **(header or {}), "traceEvents": events}), "utf-8")
        self._made.append(Loaded(path, self._scratch / f"draft{len(self._made)}"))
        return self._made[-1]

    def close(self) -> None:
        for loaded in self._made:
            loaded.draft.close()
