"""What another tool's tables state, and whether that is what a sentence of the judged corpus asks for.

The rules lean towards the other tool: a number that stands in one of its tables counts as said, even where nothing
points at it; `place` (first, second) is not asked of a tool that puts nothing in an order. What only an interface of
npulens can hold (`sql`, `runs`, `outcome`, and `text` about advice that must be absent) is not asked.

`tables` are rows as the tool wrote them. Times become nanoseconds; a share is a part of the recorded time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Row = dict[str, Any]
Tables = dict[str, list[Row]]

#: Off by more than this factor a stated time is wrong.
FACTOR = 2
#: A rank that comes last in more of the collectives than this is called late.
MOSTLY = 50.0
#: Lower shares of a critical path blame nothing.
BLAMES = 0.1
COPIED = re.compile(r"DtoD|Device -> Device|d2d", re.I)
ALLOCATED = re.compile(r"(?:cuda|hip)(?:Malloc|Free)\b")
#: Bounds of a critical path, and causes.
BOUNDS = {
    "cpu_bound": "host_late",
    "data_loading": "dataloader",
    "gpu_kernel_launch_overhead": "launch_overhead",
    "gpu_kernel_kernel_overhead": "launch_overhead",
}
#: "idle 75.816 ms of 87.413 ms"
WINDOW = re.compile(r"idle [\d.]+ ms of ([\d.]+) ms")
#: What a tool's own words call a precision; "tensor core" and its like stand in the sentence itself.
ALSO = {"tf32": ("fp32",)}


@dataclass(frozen=True)
class Statement:
    """That a cause costs time: `share` of the recorded time or one of `ns`, where the tool says so much."""

    cause: str
    share: float | None = None
    ns: tuple[float, ...] = ()
    rank: int | None = None


@dataclass(frozen=True)
class Answer:
    """What a tool states of one run."""

    #: By rank and step; the step None is all that was recorded. A field may have several numbers.
    splits: dict[tuple[int, str | None], dict[str, tuple[float, ...]]]
    statements: tuple[Statement, ...]
    words: str


# ---------------------------------------------------------------- what tables state


def _us(value: Any) -> float:
    return float(value) * 1e3


def _shared(ns: float, total: float) -> float:
    return ns / total if total > 0 else 0.0


def traceinsight(tables: Tables) -> Answer:
    splits: dict[tuple[int, str | None], dict[str, tuple[float, ...]]] = {}
    found: list[Statement] = []
    totals: dict[int, float] = {}
    for row in tables.get("temporal", []):
        rank, total, idle = int(row["rank"]), _us(row["kernel_time(us)"]), _us(row["idle_time(us)"])
        totals[rank] = total
        # Without a type of its own, communication may lie bare for all that is not computing.
        splits[rank, None] = {
            "computing_ns": (_us(row["compute_time(us)"]),), "idle_ns": (idle,),
            "communication_not_overlapped_ns": (_us(row["non_compute_time(us)"]),), "total_ns": (total,),
        }  # fmt: skip
        found.append(Statement("idle_unexplained", _shared(idle, total), (idle,), rank))
    if len(totals) == 1:
        split = splits[next(iter(totals)), None]
        types = {row["kernel_type"]: _us(row["sum"]) for row in tables.get("kernel_types", [])}
        bare = sum(ns for kind, ns in types.items() if "COMMUNICATION" in kind and "COMPUTATION" not in kind)
        split["communication_not_overlapped_ns"] += (bare,)
        computing = sum(ns for kind, ns in types.items() if "COMPUTATION" in kind)
        split["computing_ns"] += (computing,) if types else ()
    found += _waits(tables.get("idle", []), totals)
    for row in tables.get("path", []):
        if row["bound"] in BOUNDS and row["share"] / 100 >= BLAMES:
            found.append(Statement(BOUNDS[row["bound"]], row["share"] / 100, (), int(row["rank"])))
    for row in tables.get("launches", []):
        lasts, rank = _us(row["cpu_duration"]), int(row["rank"])
        found.append(Statement("first_use", _shared(lasts, totals.get(rank, 0)), (lasts,), rank))
    found += [Statement("late_rank", None, (), int(row["rank"])) for row in tables.get("stragglers", [])]
    for row in tables.get("kernels", []):
        if COPIED.search(str(row["name"])):
            ns, rank = _us(row["sum (us)"]), int(row["rank"])
            found.append(Statement("device_copies", _shared(ns, totals.get(rank, 0)), (ns,), rank))
    return Answer(splits, tuple(found), json.dumps(tables))


def _waits(rows: list[Row], totals: dict[int, float]) -> Iterator[Statement]:
    """Waits for the host on the stream that rests least: another stream rests while this one works."""
    streams: dict[tuple[int, Any], dict[str, float]] = {}
    for row in rows:
        waits = streams.setdefault((int(row["rank"]), row["stream"]), {})
        waits[row["idle_category"]] = _us(row["idle_time"])
    for rank in sorted({rank for rank, _ in streams}):
        busiest = min((waits for (whose, _), waits in streams.items() if whose == rank), key=lambda w: sum(w.values()))
        ns = busiest.get("host_wait", 0.0)
        yield Statement("host_late", _shared(ns, totals.get(rank, 0)), (ns,), rank)


def tracelens(tables: Tables) -> Answer:
    """`gpu_timeline` and `kernel_summary` bear a `rank`; the others are of all ranks."""
    splits: dict[tuple[int, str | None], dict[str, tuple[float, ...]]] = {}
    found: list[Statement] = []
    lanes: dict[int, dict[str, float]] = {}
    for row in tables.get("gpu_timeline", []):
        lanes.setdefault(int(row["rank"]), {})[row["type"]] = float(row["time ms"]) * 1e6
    for rank, lane in lanes.items():
        splits[rank, None] = {
            "computing_ns": (lane["computation_time"],), "idle_ns": (lane["idle_time"],),
            "communication_not_overlapped_ns": (lane.get("exposed_comm_time", 0.0),),
            "communication_ns": (lane.get("total_comm_time", 0.0),), "total_ns": (lane["total_time"],),
        }  # fmt: skip
        idle, total = lane["idle_time"], lane["total_time"]
        found.append(Statement("idle_unexplained", _shared(idle, total), (idle,), rank))
        bare = lane.get("exposed_memcpy_time", 0.0)
        found.append(Statement("copy_exposed", _shared(bare, total), (bare,), rank))
    for row in tables.get("kernel_summary", []):
        if COPIED.search(str(row.get("Kernel name"))):
            rank, ns = int(row["rank"]), _us(row["Kernel duration (µs)_sum"])
            total = lanes.get(rank, {}).get("total_time", 0.0)
            found.append(Statement("device_copies", _shared(ns, total), (ns,), rank))
    skews = tuple(_us(row["skew in start time"]) for row in tables.get("nccl_implicit_sync", []))
    for row in tables.get("straggler_summary", []):
        if float(row["pct_arrived_last"]) > MOSTLY:
            found.append(Statement("late_rank", None, skews, int(row["rank"])))
    words = json.dumps(tables)
    if ALLOCATED.search(words):
        found.append(Statement("memory_alloc"))
    return Answer(splits, tuple(found), words)


#: Names of the advisor's sections, and causes.
SECTIONS = (
    (r"conjectured gc|^gc analysis|gc issue", "gc"),
    (r"dataloader", "dataloader"),
    (r"memory (?:operator|issue)|memory.*analysis", "memory_alloc"),
    (r"synchronize", "sync_stall"),
    (r"operator dispatch", "host_late"),
    (r"bandwidth contention", "comm_contention"),
)
#: "the max difference of Computing time has reached 15.741ms"
SLOW = re.compile(r"max difference of (\w+) time\s+has reached ([\d.]+)\s*ms", re.I)


def msprof(tables: Tables, text: str) -> Answer:
    """`steps` holds the rows of cluster_step_trace_time, times in us; `sections` the advisor's, with their words."""
    splits: dict[tuple[int, str | None], dict[str, tuple[float, ...]]] = {}
    found: list[Statement] = []
    total = 0.0
    for row in tables.get("steps", []):
        if row["type"] != "rank":
            continue
        fields = {
            f"{name}_ns": (_us(row[name]),)
            for name in ("computing", "communication", "communication_not_overlapped", "overlapped", "bubble")
        }
        free, rank = _us(row["free"]), int(row["index"])
        splits[rank, str(row["step"])] = {**fields, "idle_ns": (free,)}
        total = max(total, fields["computing_ns"][0] + fields["communication_not_overlapped_ns"][0] + free)
        found.append(Statement("idle_unexplained", _shared(free, total), (free,), rank))
        if (bubble := fields["bubble_ns"][0]) > 0:
            found.append(Statement("pipeline_bubble", _shared(bubble, total), (bubble,), rank))
    computing = [row["computing_ns"][0] for row in splits.values()]
    if len(computing) > 1:
        apart = max(computing) - min(computing)
        found.append(Statement("stage_balance", _shared(apart, total), (apart,)))
    for row in tables.get("sections", []):
        found += [Statement(cause) for like, cause in SECTIONS if re.search(like, row["name"], re.I)]
    for kind, ms in SLOW.findall(re.sub(r"[\s|]+", " ", text)):
        ns = float(ms) * 1e6
        cause = "stage_balance" if kind.lower().startswith("comput") else "late_rank"
        found.append(Statement(cause, _shared(ns, total), (ns,)))
    return Answer(splits, tuple(found), json.dumps(tables) + text)


# ---------------------------------------------------------------- whether a sentence is said


def asked(fact: Json) -> bool:
    """Whether another tool could say such a sentence at all."""
    ((what, test),) = fact["test"].items()
    return what in ("split", "profiler", "finding") or (what == "text" and "with" in test)


def says(fact: Json, answers: list[Answer]) -> bool:
    """Whether the tool says this of a run; of every run where the sentence asks so."""
    ((what, test),) = fact["test"].items()
    met = [_TESTS[what](_windowed(fact, test), answer) for answer in answers]
    return bool(met) and (all(met) if test.get("each_run") else any(met))


def wrong(fact: Json, answers: list[Answer]) -> bool:
    """It says what must not be said, or gives a time that is off by more than double."""
    ((what, test),) = fact["test"].items()
    if fact["kind"] == "must_not":
        return says(fact, answers)
    return what in ("split", "profiler") and any(_far(_windowed(fact, test), answer) for answer in answers)


def _windowed(fact: Json, test: Json) -> Json:
    """With the window of a split in ns, where the sentence says it."""
    window = WINDOW.search(fact["what"]) if "split" in fact["test"] else None
    return test | {"window": float(window.group(1)) * 1e6} if window else test


def _bounds(test: Json) -> Iterable[tuple[str, float, float]]:
    return [(name, *test[name]) for name in test if name.endswith("_ns")]


def _row(test: Json, answer: Answer) -> dict[str, tuple[float, ...]]:
    """The row of the rank; a tool that knows no steps is asked for all that was recorded.

    A tool whose window runs from the first to the last device event gives less idle time: what lies outside is added.
    """
    step = None if test["step"] is None else str(test["step"])
    whole = answer.splits.get((test["rank"], None), {})
    row = answer.splits.get((test["rank"], step), whole)
    if "window" not in test or not (totals := row.get("total_ns")):
        return row
    idle = row.get("idle_ns", ())
    return row | {"idle_ns": (*idle, *(ns + test["window"] - total for ns in idle for total in totals))}


def _split(test: Json, answer: Answer) -> bool:
    row = _row(test, answer)
    return all(any(low <= ns <= high for ns in row.get(name, ())) for name, low, high in _bounds(test))


def _far(test: Json, answer: Answer) -> bool:
    row = _row(test, answer)
    return any(
        row.get(name) and all(not low / FACTOR <= ns <= high * FACTOR for ns in row[name])
        for name, low, high in _bounds(test)
    )


def _finding(test: Json, answer: Answer) -> bool:
    if test.get("text", "").lower() not in answer.words.lower():
        return False
    cause = test["cause"]
    causes = set(cause.split("|")) if isinstance(cause, str) else set(cause)
    return any(_fits(test, said) for said in answer.statements if said.cause in causes)


def _fits(test: Json, said: Statement) -> bool:
    low, high = test.get("saving_ns", (0, float("inf")))
    return (
        ("saving_ns" not in test or any(low <= ns <= high for ns in said.ns))
        and (said.share is None or test.get("min_share", 0) <= said.share <= test.get("max_share", float("inf")))
        and ("rank" not in test or said.rank == test["rank"])
    )


def _text(test: Json, answer: Answer) -> bool:
    words = [word.lower() for word in test["with"]]
    words += [other for word in words for other in ALSO.get(word, ())]
    return any(word in answer.words.lower() for word in words)


_TESTS = {"split": _split, "profiler": _split, "finding": _finding, "text": _text}
