"""Derives the sentences of docs/judged/ from raw files: `python -m tests.corpus.derive` writes them again.

It shares no code with npulens: JSON, CSV and SQLite are read here once more, whole and slowly, and time is added up
over sorted edges. A sentence is one that an expert with the raw file would insist on:

* the split of the recorded time, within half a percent;
* communication that lies bare for 5 % of the time or more is not clean, and idle time of 10 % or more is said;
* nothing gives back more idle time than there is;
* the rank for which all captured ones wait a tenth of the stage or more comes late;
* softmax and products in 16 bits that reach less than 0.3 of what their card can move and multiply are not clean;
* what the capture holds no trace of is not found, and a device of one family gets no advice for another's.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
OUT = ROOT / "docs" / "judged"

Json = dict[str, Any]
Spans = list[tuple[int, int]]

TALKS = re.compile(
    r"nccl|rccl|hccl|hcom_|multimem_|one_shot_all|two_shot_all|cross_device_reduce|ep::(?:inter|intra)node|nvshmem",
    re.I,
)
KERNELS, COPIES, SETS = {"kernel", "mtia_ccp_events"}, {"gpu_memcpy", "memcpy"}, {"gpu_memset", "memset"}
#: What a finding about idle time may blame.
IDLE = "host_late|sync_stall|launch_overhead|dataloader|gc|compile|memory_alloc|profiler_overhead|first_use|" \
       "shape_churn|idle_unexplained|environment|copy_exposed|late_rank|pipeline_bubble|stage_balance"  # fmt: skip
ALLOCATES = re.compile(r"(?:cuda|hip)(?:Malloc|Free|Host(?:Alloc|Malloc))|aclrt(?:Malloc|Free)|MemAlloc|(?:cu|hip)Mem")
FP32 = re.compile(r"sgemm|simt_\w*gemm|_s884gemm_fp32|f32f32_f32f32_(?!.*tf32)", re.I)
STEP = re.compile(r"ProfilerStep#|execute_(?:\d+_)?context_|execute_model$|step\[")
LOADS = re.compile(r"DataLoader|dataloader", re.I)


def union(spans: Iterable[tuple[int, int]]) -> Spans:
    """Disjoint intervals in order."""
    found: Spans = []
    for begin, end in sorted(spans):
        if end <= begin:
            continue
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def length(spans: Spans) -> int:
    return sum(end - begin for begin, end in spans)


def without(spans: Spans, other: Spans) -> int:
    """How much of the spans lies outside the other ones."""
    return length(union(spans + other)) - length(other)


def ns(value: Any) -> int:
    return int(Decimal(str(value)) * 1000)


# ---------------------------------------------------------------- torch.profiler

#: Of cards by their names: bytes per second of the memory and operations per second in 16 bits, by their data sheets.
CARDS = {"H100 80GB HBM3": (3.35e12, 989e12), "A100-SXM4-40GB": (1.555e12, 312e12), "MI300X": (5.3e12, 1307.4e12)}
SIZES = {"c10::bfloat16": 2, "c10::half": 2, "float": 4}
#: An operator below this share of its card loses time; calls of less are not told from what starting them takes.
SLOW, LEAST_NS = 0.3, 50_000


def events(path: Path) -> tuple[list[Json], Json]:
    """Complete events and the head of a Chrome trace."""
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode("utf-8", "replace")
    whole = json.loads(text, parse_float=Decimal, strict=False)
    if isinstance(whole, list):
        return [event for event in whole if isinstance(event, dict)], {}
    return whole.pop("traceEvents"), whole


def kineto(path: Path) -> Json | None:  # noqa: C901 (one loop over all events)
    """Sentences of one torch.profiler trace of one rank; None where it is none."""
    rows, head = events(path)
    kinds: dict[str, Spans] = {"compute": [], "comm": [], "copy": []}
    names, marks, d2d, fp32, mixed = Counter[str](), [], [], 0, False
    called: dict[Any, Json] = {}  # operators with their shapes, by the number that their kernels bear
    ran: Counter[Any] = Counter()
    calls = Counter[str]()
    for event in rows:
        if event.get("ph") != "X" or "ts" not in event:
            continue
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        begin, lasts = ns(event["ts"]), ns(event.get("dur", 0))
        span = (begin, begin + lasts)
        if category in KERNELS | SETS:
            kinds["comm" if TALKS.search(name) else "compute"].append(span)
            names[name] += lasts
            mixed |= category == "mtia_ccp_events"  # its copies bear no category of their own
            fp32 += lasts if FP32.search(name) else 0
            ran[(event.get("args") or {}).get("External id")] += lasts
        elif category in COPIES:
            kinds["copy"].append(span)
            if "DtoD" in name or "Device -> Device" in name:
                d2d.append(span)
        else:
            calls[name] += 1
            told = event.get("args") or {}
            if category == "cpu_op" and any(key.lower() == "input dims" for key in told):
                called[told.get("External id")] = event
            if STEP.match(name) and category != "gpu_user_annotation":
                marks.append(span)
    if not names:
        return None
    distributed = head.get("distributedInfo") or {}
    computing, talking, copying = (union(kinds[kind]) for kind in ("compute", "comm", "copy"))
    work = union(computing + talking + copying)
    edges = [edge for span in (*work, *marks) for edge in span]
    window = max(edges) - min(edges)
    return {"facts": list(_of_a_gpu(
        int(distributed.get("rank", 0)), int(distributed.get("world_size", 1)), window, length(computing),
        without(talking, computing), length(talking), window - length(work), length(union(d2d)),
        mixed, fp32 if _has_tf32(head) and fp32 >= 0.2 * sum(names.values()) else 0, calls,
        bool(kinds["copy"]) or bool(kinds["comm"]),
    )) + list(_efficiency(window, called, ran, head))}  # fmt: skip


def _efficiency(window: int, called: dict[Any, Json], ran: Counter[Any], head: Json) -> Iterator[Json]:
    if not called:
        yield _fact("unshaped", "no operator tells shapes: nothing is known of how near its roof it comes", "must_not",
                    {"finding": {"cause": "low_efficiency", "min_share": 0.0}}, "arguments of operators")  # fmt: skip
    named = [str(device.get("name", "")) for device in head.get("deviceProperties") or ()]
    card = next((peaks for name, peaks in CARDS.items() if named and name in named[0]), None)
    lost = 0.0
    for number, event in called.items():
        least = _least_ns(event, *card) if card else None
        if least is not None and ran[number] > LEAST_NS and least < SLOW * ran[number]:
            lost += ran[number] - least / 0.7
    if lost >= 0.03 * window:
        yield _fact("slow", f"{_ms(int(lost))} of softmax and products lie beyond 0.7 of what the card can do", "must",
                    {"outcome": {"detector": "low_efficiency", "not": ["clean", "not_measured", "failed"]}},
                    "shapes of operators, their kernels by External id, the card's data sheet")  # fmt: skip


def _least_ns(event: Json, memory: float, peak: float) -> float | None:
    """The time that a softmax or a product needs at least, by the card's data sheet; None for any other operator."""
    told = {key.lower(): value for key, value in event["args"].items()}
    sides, kinds = told["input dims"], [str(kind).lower() for kind in told.get("input type") or ()]
    size = SIZES.get(kinds[0] if kinds else "", 0)
    if event["name"] == "aten::_softmax" and size:
        return 2 * _product(sides[0]) * size * 1e9 / memory
    if event["name"] in ("aten::mm", "aten::bmm") and size == 2:
        left, right = sides[0], sides[1]
        out = _product(left[:-1]) * right[-1]
        moved = (_product(left) + _product(right) + out) * size
        return max(moved * 1e9 / memory, 2 * out * left[-1] * 1e9 / peak)
    return None


def _product(sides: list[int]) -> int:
    found = 1
    for side in sides:
        found *= int(side)
    return found


def _has_tf32(head: Json) -> bool:
    return any(int(device.get("computeMajor", 0)) >= 8 for device in head.get("deviceProperties") or ())


def _near(value: int, share: float = 0.005) -> list[int]:
    return [int(value * (1 - share)) - 1, int(value * (1 + share)) + 1]


def _ms(value: int) -> str:
    return f"{value / 1e6:.3f} ms"


def _fact(name: str, what: str, kind: str, test: Json, derived: str) -> Json:
    return {"id": name, "what": what, "kind": kind, "test": test, "derived": derived}


def _of_a_gpu(
    rank: int, world: int, window: int, computing: int, bare: int, talking: int, idle: int, d2d: int, mixed: bool,
    fp32: int, calls: Counter[str], complete: bool,
) -> Iterator[Json]:  # fmt: skip
    union_of = "union of the raw file's device events"
    split: Json = {"rank": rank, "step": None} | ({} if mixed else {"computing_ns": _near(computing)})
    if talking:
        split["communication_not_overlapped_ns"] = _near(bare, 0.01)
    if complete:
        split["idle_ns"] = _near(idle, 0.01)
    parts = f"computing {_ms(computing)}, bare communication {_ms(bare)}, idle {_ms(idle)} of {_ms(window)}"
    yield _fact("split", parts, "must", {"split": split}, union_of)
    if bare >= 0.05 * window:
        yield _fact("bare", f"{bare / window:.1%} of bare communication is not clean", "must",
                    {"outcome": {"detector": "comm_exposed", "not": ["clean", "failed"]}}, union_of)  # fmt: skip
    if not talking and world > 1:
        yield _fact("unseen", f"a job of {world} ranks, no communication in the file: nothing is known of it", "must",
                    {"outcome": {"detector": "comm_exposed", "not": ["clean", "found"]}},
                    "distributedInfo")  # fmt: skip
    if idle >= 0.1 * window:
        yield _fact("idle", f"{idle / window:.1%} of the time the device idles: something says so", "must",
                    {"finding": {"cause": IDLE, "min_share": 0.25 * idle / window}},
                    "window less the union")  # fmt: skip
    if idle < 0.05 * window and not talking:
        most = (idle + 0.002 * window) / window
        yield _fact("busy", f"only {idle / window:.1%} idles: no late host costs more than that", "must_not",
                    {"finding": {"cause": "host_late|sync_stall|idle_unexplained", "min_share": most}},
                    "window less the union")  # fmt: skip
    if d2d >= 0.03 * window:
        yield _fact("copies", f"{_ms(d2d)} of copies on the device are not clean", "must",
                    {"outcome": {"detector": "device_copies", "not": ["clean", "failed"]}}, union_of)  # fmt: skip
    if not any(ALLOCATES.match(name) for name in calls):
        yield _fact("alloc", "no call allocates device memory, so allocation costs nothing", "must_not",
                    {"finding": {"cause": "memory_alloc", "min_share": 0.0}}, "names of the host's calls")  # fmt: skip
    if not any(LOADS.search(name) for name in calls):
        yield _fact("loader", "nothing in the file loads data", "must_not",
                    {"finding": {"cause": "dataloader", "min_share": 0.0}}, "names of the host's events")  # fmt: skip
    if fp32 >= 0.02 * window:
        yield _fact("fp32", f"{_ms(fp32)} of the time is matrix work in fp32 by its kernels' names", "must",
                    {"outcome": {"detector": "full_precision", "not": ["clean", "failed"]}},
                    "names of kernels; a card of compute capability 8 or more")  # fmt: skip
    yield _fact("family", "no Ascend switch is advised on another device", "must",
                {"text": {"without": ["TASK_QUEUE_ENABLE", "torch_npu", "NpuFused", "aclnn", "CPU_AFFINITY_CONF"]}},
                "the file is torch.profiler's, of a GPU")  # fmt: skip


# ---------------------------------------------------------------- torch_npu


def ascend(folder: Path) -> Json | None:
    """Sentences of the rank directories in a folder, from the profiler's own files."""
    facts: list[Json] = []
    ranks = sorted(folder.glob("*_ascend_pt")) or [folder]
    for place in ranks:
        rank = int(re.sub(r"\D", "", place.name.split("_ascend")[0]) or 0)
        output = place / "ASCEND_PROFILER_OUTPUT"
        facts += _steps(rank, output) if output.is_dir() else ()
    if not facts:
        return None
    facts += _awaited([place / "ASCEND_PROFILER_OUTPUT" for place in ranks])
    facts.append(_fact("family", "no CUDA switch is advised on an NPU", "must",
                       {"text": {"without": ["cudaGraph", "CUDA_LAUNCH_BLOCKING", "cudnn.", "TF32", "NCCL_"]}},
                       "the files are torch_npu's"))  # fmt: skip
    return {"facts": facts}


def _steps(rank: int, output: Path) -> Iterator[Json]:
    text = output / "step_trace_time.csv"
    rows: list[Json] = []
    if text.is_file():
        rows = list(csv.DictReader(text.open(encoding="utf-8")))
        source = "step_trace_time.csv"
    else:
        for name in ("analysis.db", *(path.name for path in output.glob("ascend_pytorch_profiler*.db"))):
            rows = rows or _table(output / name, "StepTraceTime")
        source = "StepTraceTime"
    for row in rows[:1]:
        named = {str(key).lower().replace("(not overlapped)", "_not_overlapped").replace(" ", "_"): value
                 for key, value in row.items()}  # fmt: skip
        step = int(named["step"]) if str(named.get("step") or "").isdigit() else None
        own = {part: ns(named[name]) for part, name in (
            ("computing_ns", "computing"), ("communication_ns", "communication"),
            ("communication_not_overlapped_ns", "communication_not_overlapped"), ("overlapped_ns", "overlapped"),
        ) if named.get(name) not in (None, "")}  # fmt: skip
        yield _fact(f"own{rank}", f"rank {rank}: the profiler's own split is reproduced", "must",
                    {"profiler": {"rank": rank, "step": step}
                     | {part: [value - 3, value + 3] for part, value in own.items()}}, source)  # fmt: skip
        stage = ns(named.get("stage") or 0)
        bare = own.get("communication_not_overlapped_ns", 0)
        if stage and bare >= 0.05 * stage:
            yield _fact(f"bare{rank}", f"rank {rank}: {bare / stage:.0%} of bare communication is not clean", "must",
                        {"outcome": {"detector": "comm_exposed", "not": ["clean", "failed"]}}, source)  # fmt: skip
    kernels = output / "kernel_details.csv"
    if kernels.is_file() and (output / "trace_view.json").is_file():
        table = csv.DictReader(kernels.open(encoding="utf-8"))
        count = sum(1 for _ in table)
        if not any("_ratio" in column for column in table.fieldnames or ()):
            yield _fact(f"pipes{rank}", f"rank {rank}: no pipe was counted, so none is told to stall", "must_not",
                        {"finding": {"cause": "pipe_stall", "min_share": 0.0}},
                        "columns of kernel_details.csv")  # fmt: skip
        query = f"SELECT count(*) FROM span WHERE rank = {rank} AND kind IN ('kernel', 'comm_op')"
        yield _fact(f"kernels{rank}", f"rank {rank}: {count} operators, as kernel_details lists", "must",
                    {"sql": {"query": query, "range": [round(count * 0.98), round(count * 1.02)]}},
                    "rows of kernel_details.csv")  # fmt: skip


def _awaited(outputs: list[Path]) -> Iterator[Json]:
    """The rank for which every captured rank waits the longest: a tenth of the stage, and twice the next one."""
    waits = [_waits(output) for output in outputs]
    if not all(waits):
        return
    most = [max(peers, key=lambda rank: peers[rank]) for peers in waits]
    others = [max((ns for rank, ns in peers.items() if rank != late), default=0)
              for peers, late in zip(waits, most, strict=True)]  # fmt: skip
    lengths = [peers[late] for peers, late in zip(waits, most, strict=True)]
    stages = [_stage(output) for output in outputs]
    if len(set(most)) == 1 and all(
        stage and wait >= 0.1 * stage and wait >= 2 * other
        for wait, other, stage in zip(lengths, others, stages, strict=True)
    ):
        yield _fact("late", f"every captured rank waits the longest for rank {most[0]}: "
                    f"{', '.join(_ms(wait) for wait in lengths)}", "must",
                    {"finding": {"cause": "late_rank", "rank": most[0]}},
                    "union of Notify_Wait by the rank that it waits for")  # fmt: skip


def _stage(output: Path) -> int:
    text = output / "step_trace_time.csv"
    rows: list[Json] = list(csv.DictReader(text.open(encoding="utf-8"))) if text.is_file() else []
    rows = rows or _table(output / "analysis.db", "StepTraceTime")
    return max((ns(row.get("Stage") or row.get("stage") or 0) for row in rows), default=0)


def _waits(output: Path) -> dict[int, int]:
    """How long this rank waits for each other one, by the hardware's own tasks."""
    spans: dict[int, Spans] = {}
    if (output / "trace_view.json").is_file():
        for event in events(output / "trace_view.json")[0]:
            args = event.get("args") or {}
            if event.get("name") == "Notify_Wait" and event.get("ph") == "X" and "dst rank" in args:
                begin = ns(event["ts"])
                spans.setdefault(int(args["dst rank"]), []).append((begin, begin + ns(event["dur"])))
    else:
        query = "(SELECT c.dstRank AS peer, t.startNs AS begin, t.endNs AS ending FROM COMMUNICATION_TASK_INFO c " \
                "JOIN TASK t ON t.globalTaskId = c.globalTaskId JOIN STRING_IDS s ON s.id = c.taskType " \
                "WHERE s.value = 'Notify_Wait')"  # fmt: skip
        for path in sorted(output.glob("ascend_pytorch_profiler*.db")):
            for row in _table(path, query):
                spans.setdefault(int(row["peer"]), []).append((int(row["begin"]), int(row["ending"])))
    return {rank: length(union(each)) for rank, each in spans.items() if 0 <= rank < 1 << 16}


def _table(path: Path, name: str) -> list[Json]:
    if not path.is_file():
        return []
    con = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        con.row_factory = sqlite3.Row
        return [dict(row) for row in con.execute(f"SELECT * FROM {name}")]
    except sqlite3.OperationalError:
        return []
    finally:
        con.close()


# ---------------------------------------------------------------- everything

#: Directories that are judged as a whole by hand: ranks of one job, or several captures side by side.
WHOLE = ("pytorch+torchrec", "mindspore-ai", "msprof-analyze", "full_db")


def captures(top: Path) -> Iterator[tuple[str, Json | None]]:
    """Every capture of a shared set that can be derived by itself."""
    for path in sorted([*top.rglob("*.json.gz"), *top.rglob("*.json")]):
        name = path.relative_to(top).as_posix()
        if "ascend_pt" in name or "/" not in name or any(part in name for part in WHOLE):
            continue
        try:
            yield name, kineto(path)
        except (ValueError, KeyError, AttributeError, TypeError):
            continue  # some other JSON
    for folder in sorted({path.parent.parent.parent for path in top.rglob("ASCEND_PROFILER_OUTPUT/*")}):
        yield folder.relative_to(top).as_posix(), ascend(folder)


def main() -> int:
    OUT.mkdir(exist_ok=True)
    for top in (SHARED / "traces", SHARED / "traces_2"):
        found = {name: entry for name, entry in captures(top) if entry}
        (OUT / f"{top.name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{top.name}: {len(found)} captures, {sum(len(entry['facts']) for entry in found.values())} sentences")
    return 0


if __name__ == "__main__":
    sys.exit(main())
