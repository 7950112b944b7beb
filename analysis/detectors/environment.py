"""A setting of the environment costs time, and another figure of the capture shows how much.

## What it measures
The variables that the profiler recorded, each against the idle time that only it explains. ASCEND_LAUNCH_BLOCKING=1,
CUDA_LAUNCH_BLOCKING=1 and AMD_SERIALIZE_KERNEL=3: idle after calls that wait. On CUDA and ROCm the launches tell it
too, where those of long kernels return only after them. TASK_QUEUE_ENABLE=0: idle while the script's own thread is in
calls of CANN. ACLNN_CACHE_LIMIT lowered or left at 10,000 entries: idle in the first phase of aclnn operators.
HOST_CACHE_CAPACITY unset: idle in aclop calls of dynamic shapes. ASCEND_GLOBAL_LOG_LEVEL 0 or 1: idle in calls of CANN.

## Why it costs
A launch that waits takes the host's lead away. After each kernel the device idles until the host has come back and
launched the next. Without the task queue the script prepares each launch itself. Small caches prepare operators again.

## What to do
Remove the variable or set it as named, then compare two runs (`npulens compare`). Blocking launches are for finding
errors only.

## Limits of the method
A variable that was not recorded is not judged, and one without idle time that it explains is not a finding. That idle
time is a ceiling. Overrides of HCCL, core binding and the processor's clock are not judged: no figure of a capture
proves what they cost. Settings of the allocator are told by memory_alloc and memory_pressure.

## References
CANN: environment variables ACLNN_CACHE_LIMIT, HOST_CACHE_CAPACITY, ASCEND_GLOBAL_LOG_LEVEL; torch_npu:
TASK_QUEUE_ENABLE, ASCEND_LAUNCH_BLOCKING; CUDA: CUDA_LAUNCH_BLOCKING; ROCm: AMD_SERIALIZE_KERNEL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits as limits_
from npulens.analysis.device.kernels import kernels
from npulens.analysis.finding import Candidate, Change, Confidence, Evidence, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said, similar_ranks
from npulens.analysis.idle.host_names import SYNC_OPS, names, special
from npulens.analysis.idle.issue import RUNTIME
from npulens.analysis.idle.launch_costs import kernel_calls
from npulens.analysis.idle.pieces import CODE, idle
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.limits import limit
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run

NEEDS = ("kernels", "launches")

_WINDOWS = 20
_LATE = ("host_late", "launch_overhead")
_ANY_CALL = ""  # every call into CANN
_DEFAULT_ENTRIES = 10_000  # ACLNN_CACHE_LIMIT where it is not set

TEXT = {
    "en": {
        "blocking": Words(
            "Rank {ranks}: {setting} makes every launch wait for its kernel. The device idles {idle_ns} of each step "
            "({idle_share}) until the host has come back",
            "Remove {setting} from the environment of the job: it is for finding errors. Then compare the two runs.",
        ),
        "seen": Words(
            "Rank {ranks}: {waiting_share} of the launches of long kernels return only after them, as with {setting}. "
            "The device idles {idle_ns} of each step ({idle_share}) until the host has come back",
            "Look whether {setting} is set for the job and remove it: it is for finding errors. A debugger or a "
            "checker of memory errors makes launches wait, too.",
        ),
        "queue": Words(
            "Rank {ranks}: {setting} switches the task queue off. The device idles {idle_ns} of each step "
            "({idle_share}) while the script itself is in calls of CANN",
            "Set TASK_QUEUE_ENABLE=1, or 2 for both stages, so that a thread of its own prepares and launches.",
        ),
        "aclnn": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) in the first phase of aclnn "
            "operators (GetWorkspaceSize). {setting} limits what of it is kept",
            "If shapes vary much, set ACLNN_CACHE_LIMIT=100000 (about 2 KB of host memory an entry and thread) and "
            "compare the two runs. Fewer distinct shapes help as well.",
        ),
        "host_cache": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) in aclop calls of dynamic shapes. "
            "{setting} keeps none of what they compute on the host",
            "Set HOST_CACHE_CAPACITY=20 and compare the two runs; better, use operators with an aclnn form.",
        ),
        "log": Words(
            "Rank {ranks}: {setting} makes CANN write detailed logs. The device idles {idle_ns} of each step "
            "({idle_share}) while the host is in calls of CANN",
            "Set ASCEND_GLOBAL_LOG_LEVEL=3 (errors only) and compare the two runs.",
        ),
    },
    "zh": {
        "blocking": Words(
            "rank {ranks}：{setting} 使每次下发都等算子执行完；设备每步空闲 {idle_ns}（{idle_share}），"
            "等主机返回后再下发",
            "从任务的环境变量中去掉 {setting}，它只用于定位错误；去掉后对比两次运行。",
        ),
        "seen": Words(
            "rank {ranks}：{waiting_share} 的长算子在执行完后下发调用才返回，与设置 {setting} 时相同；"
            "设备每步空闲 {idle_ns}（{idle_share}），等主机返回后再下发",
            "检查任务是否设置了 {setting} 并去掉，它只用于定位错误。调试器或内存检查工具也会使下发变为同步。",
        ),
        "queue": Words(
            "rank {ranks}：{setting} 关闭了任务队列；脚本线程自己在调用 CANN 时，"
            "设备每步空闲 {idle_ns}（{idle_share}）",
            "设置 TASK_QUEUE_ENABLE=1，或设为 2 开启两级流水，由单独的线程准备并下发算子。",
        ),
        "aclnn": Words(
            "rank {ranks}：aclnn 算子第一阶段（GetWorkspaceSize）期间设备每步空闲 {idle_ns}（{idle_share}），"
            "而 {setting} 限制了可缓存的条目",
            "若形状变化很多，设置 ACLNN_CACHE_LIMIT=100000（每线程每条约占 2 KB 主机内存）并对比两次运行；"
            "减少形状种类同样有效。",
        ),
        "host_cache": Words(
            "rank {ranks}：动态形状的 aclop 调用期间设备每步空闲 {idle_ns}（{idle_share}），"
            "而 {setting} 时主机侧不缓存计算结果",
            "设置 HOST_CACHE_CAPACITY=20 并对比两次运行；更好的做法是改用有 aclnn 形式的算子。",
        ),
        "log": Words(
            "rank {ranks}：{setting} 使 CANN 输出详细日志；主机调用 CANN 时设备每步空闲 {idle_ns}（{idle_share}）",
            "设置 ASCEND_GLOBAL_LOG_LEVEL=3（仅错误）并对比两次运行。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When launches themselves say that they wait."""

    waiting_share: float = limit(0.9, "share of the launches", "the rest launch graphs or several kernels at once")
    launches: float = limit(20, "launches of long kernels", "fewer may all be waited for by chance")
    kernel_ns: float = limit(200_000, "ns of a kernel", "a launch on a slow driver takes as long without waiting")


@dataclass(frozen=True)
class Rule:
    """A variable, when it costs time, and which idle time only it explains."""

    variable: str
    backend: str
    text: str
    costs: Callable[[str], bool]  # the value, empty where it is not set
    calls: str  # names of the host's calls (RE2) in which the idle time lies
    causes: tuple[str, ...]
    dynamic: bool = False  # only idle time that ends with a kernel of dynamic shapes
    confidence: Confidence = "low"


def _below(entries: int) -> Callable[[str], bool]:
    return lambda value: value == "" or (value.isdigit() and int(value) <= entries)


RULES = (
    Rule("TASK_QUEUE_ENABLE", "npu", "queue", lambda value: value == "0", _ANY_CALL, _LATE, confidence="medium"),
    Rule("ACLNN_CACHE_LIMIT", "npu", "aclnn", _below(_DEFAULT_ENTRIES), r"aclnn\w+GetWorkspaceSize$", ("host_late",)),
    Rule("HOST_CACHE_CAPACITY", "npu", "host_cache", _below(0), r"aclop(CompileAndExecute|ExecuteV)\w*$",
         ("compile", "host_late"), dynamic=True),
    Rule("ASCEND_GLOBAL_LOG_LEVEL", "npu", "log", lambda value: value in ("0", "1"), _ANY_CALL, _LATE),
)  # fmt: skip
#: Variables that make launches wait; the first of a backend is named where only the launches say so.
BLOCKING: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "npu": {"ASCEND_LAUNCH_BLOCKING": ("1",)},
    "cuda": {"CUDA_LAUNCH_BLOCKING": ("1",)},
    "rocm": {"AMD_SERIALIZE_KERNEL": ("2", "3"), "HIP_LAUNCH_BLOCKING": ("1",), "CUDA_LAUNCH_BLOCKING": ("1",)},
}


@dataclass(frozen=True)
class _Rank:
    rank: int
    backend: str
    variables: Mapping[str, str] | None  # None: not recorded


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each setting and each group of ranks that it costs alike."""
    ranks, found = list(_ranks(run)), False
    for candidate in _blocking(run, ranks, limits):
        found = True
        yield candidate
    for rule in RULES:
        yield from _explained(run, rule, [one for one in ranks if one.backend == rule.backend])
    if not found and all(one.variables is None for one in ranks):
        npu = any(one.backend == "npu" for one in ranks)
        raise NotMeasured(
            "environment variables: they were not recorded", "环境变量：未采集",
            "torch_npu 2.1.0.post8 or later (profiler_metadata.json)" if npu
            else 'prof.add_metadata_json("environment", json.dumps(dict(os.environ)))',
        )  # fmt: skip


def _ranks(run: Run) -> Iterator[_Rank]:
    """Each rank with what was recorded of its environment: by its profiler, or by the job itself in Kineto's header."""
    rows = run.con.execute(
        "SELECT rank, coalesce(backend, ''), coalesce(environment, json_extract(settings, '$.environment')::VARCHAR) "
        "FROM rank ORDER BY rank"
    ).fetchall()
    for rank, backend, text in rows:
        told = json.loads(text) if text else None
        known = {str(name): str(value) for name, value in told.items()} if isinstance(told, dict) else None
        yield _Rank(rank, backend, known)


@dataclass(frozen=True)
class _Waits:
    """How a rank's launches wait for their kernels."""

    share: float  # of the launches of long kernels return only after their kernel
    launches: int  # of long kernels
    inside: Intervals  # the host's time in those calls once their kernel runs
    syncs: Ints  # synchronising calls that read nothing
    calls: Ints  # everything that waits: those launches and those calls

    @property
    def recorded(self) -> bool:
        return bool(len(self.inside.starts) or len(self.syncs))


def _blocking(run: Run, ranks: list[_Rank], limits: Limits) -> Iterator[Candidate]:
    """Launches that wait: as a variable says, or as nearly all launches show."""
    of: dict[tuple[str, str], dict[int, _Waits]] = {}
    for one in ranks:
        named, known = BLOCKING.get(one.backend, {}), one.variables or {}
        setting = next((f"{name}={known[name]}" for name, bad in named.items() if known.get(name) in bad), None)
        waits = _waits(run, one.rank, limits.kernel_ns)
        if setting is not None:
            of.setdefault(("blocking", setting), {})[one.rank] = waits
        elif named and waits.launches >= limits.launches and waits.share >= limits.waiting_share:
            name, bad = next(iter(named.items()))
            of.setdefault(("seen", f"{name}={bad[-1]}"), {})[one.rank] = waits
    for (text, setting), seen in of.items():
        idle_of = {rank: _idle(run, rank, (*_LATE, "sync_stall")) for rank in seen}
        for group in similar_ranks({rank: gone.total() for rank, gone in idle_of.items()}):
            numbers: dict[str, Value] = {"waiting_share": min(seen[rank].share for rank in group)}
            syncs = [seen[rank].syncs for rank in group] if text == "blocking" else []
            # Where the calls that wait were not recorded, the host's time in the gaps after them is all that is known.
            host = {rank: seen[rank].inside if seen[rank].recorded else idle_of[rank] for rank in group}
            change = Change(
                host={rank: time for rank, time in host.items() if len(time.starts)},
                syncs=np.concatenate([np.zeros(0, np.int64), *syncs]),
            )
            mine = {rank: idle_of[rank] for rank in group}
            found = _candidate(run, text, setting, mine, change, numbers, "high")
            yield replace(found, evidence=_with_calls(run, found.evidence, seen))


@dataclass(frozen=True)
class _Launching:
    """Calls that launch kernels, each once, by rank."""

    rank: Ints
    call: Ints  # its span
    begin: Ints  # of the first of its kernels
    end: Ints  # of the call
    kernel_ns: Ints  # how long its longest kernel takes
    waits: NDArray[np.bool_]  # it returns only when its kernels are done


def _launching(run: Run) -> _Launching:
    found, every = run.get(kernel_calls), run.get(kernels)
    mine = found["vague"] == RUNTIME
    row = found["row"][mine]
    _, first, which = np.unique(found["source"][mine], return_index=True, return_inverse=True)
    rank, end = (found[name][mine][first].astype(np.int64) for name in ("rank", "end_ns"))
    which = which.ravel()
    begin = np.full(len(first), np.iinfo(np.int64).max)
    longest, done = np.zeros(len(first), np.int64), np.full(len(first), np.iinfo(np.int64).min)
    np.minimum.at(begin, which, every.ts[row])
    np.maximum.at(longest, which, every.dur[row])
    np.maximum.at(done, which, every.ts[row] + every.dur[row])
    order = np.argsort(rank, kind="stable")
    call = found["source"][mine][first]
    return _Launching(rank[order], call[order], begin[order], end[order], longest[order], (end >= done)[order])


def _waits(run: Run, rank: int, long_ns: float) -> _Waits:
    """How the rank's launches of kernels wait; a call that launches several counts once."""
    found = run.get(_launching)
    own = slice(*np.searchsorted(found.rank, [rank, rank + 1]).tolist())
    waits, long = found.waits[own], found.kernel_ns[own] >= long_ns
    inside = Intervals.union_of(found.begin[own][waits], found.end[own][waits])
    share = float(waits[long].mean()) if long.any() else 0.0
    syncs = _after_launches(run, rank)
    return _Waits(share, int(long.sum()), inside, syncs, np.concatenate((found.call[own][waits], syncs)))


def _after_launches(run: Run, rank: int) -> Ints:
    """The rank's synchronising calls but for those of operators that read a number."""
    spans = run.get(special).get(rank)
    if spans is None:
        return np.zeros(0, np.int64)
    reads = run.of_rank(
        "SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE rank BETWEEN ? AND ? AND kind = 'cpu_op' "
        f"AND name IN (SELECT name FROM {run.get(names)} WHERE kind = 'cpu_op' AND regexp_matches(name, ?))", rank,
        SYNC_OPS,
    )  # fmt: skip
    mine = spans.of("sync_stall")
    begin = spans.starts[mine]
    inside = Intervals.union_of(reads["ts_ns"], reads["end_ns"]).within(begin, begin + 1) > 0
    return spans.ids[mine][~inside]


def _explained(run: Run, rule: Rule, ranks: list[_Rank]) -> Iterator[Candidate]:
    """Ranks whose variable has a value that costs, with the idle time that it explains."""
    of: dict[str, dict[int, Intervals]] = {}
    for one in ranks:
        value = None if one.variables is None else one.variables.get(rule.variable)
        if value is None or not rule.costs(value):
            continue
        gone = _idle(run, one.rank, rule.causes, rule.dynamic) & _calls(run, one.rank, rule.calls)
        if len(gone.starts):
            setting = f"{rule.variable}={value}" if value else f"{rule.variable} (unset)"
            of.setdefault(setting, {})[one.rank] = gone
    for setting, idle_of in of.items():
        for group in similar_ranks({rank: gone.total() for rank, gone in idle_of.items()}):
            mine = {rank: idle_of[rank] for rank in group}
            yield _candidate(run, rule.text, setting, mine, Change(host=mine), {}, rule.confidence)


def _idle(run: Run, rank: int, causes: tuple[str, ...], dynamic: bool = False) -> Intervals:
    """When the rank's device idled for one of these causes."""
    pieces = run.get(idle)
    own = pieces.on(rank)
    mine = np.isin(pieces.cause[own], [CODE[cause] for cause in causes])
    if dynamic:
        sql = "SELECT rank, span_id FROM kernel WHERE rank BETWEEN ? AND ? AND lower(op_state) = 'dynamic'"
        mine = mine & np.isin(pieces.task[own], run.of_rank(sql, rank)["span_id"])
    return Intervals.union_of(pieces.start[own][mine], pieces.end[own][mine])


def _calls(run: Run, rank: int, pattern: str) -> Intervals:
    """When the rank's host was in calls of these names."""
    rows = run.of_rank(
        "SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE rank BETWEEN ? AND ? AND kind = 'runtime' "
        f"AND name IN (SELECT name FROM {run.get(names)} WHERE kind = 'runtime' AND regexp_matches(name, ?))", rank,
        pattern,
    )  # fmt: skip
    return Intervals.union_of(rows["ts_ns"], rows["end_ns"]) if len(rows["ts_ns"]) else EMPTY


def _candidate(
    run: Run, text: str, setting: str, idle_of: Mapping[int, Intervals], change: Change, more: Mapping[str, Value],
    confidence: Confidence,
) -> Candidate:  # fmt: skip
    lost = max(gone.total() for gone in idle_of.values())
    numbers: dict[str, Value] = {
        "ranks": said(tuple(sorted(idle_of))), "setting": setting, "idle_ns": lost // run.step_count,
        "idle_share": of_run(run, lost), **more,
    }  # fmt: skip
    evidence = [
        Evidence(rank, int(begin), int(end - begin), note=setting)
        for rank, gone in idle_of.items() for begin, end in zip(gone.starts, gone.ends, strict=True)
    ]  # fmt: skip
    evidence.sort(key=lambda one: -one.dur_ns)
    shown = tuple(evidence[:_WINDOWS]) or tuple(Evidence(rank, 0, 0, note=setting) for rank in sorted(idle_of))
    proved = None if confidence == "low" else lost
    return Candidate("environment", text, numbers, shown, change, confidence, ceiling_ns=lost, measured_ns=proved)


def _with_calls(run: Run, seen: Sequence[Evidence], waits: Mapping[int, _Waits]) -> tuple[Evidence, ...]:
    """Each from the beginning of the call that waited last before it: there the host fell behind.

    Where those calls were not recorded, it is from the kernel that the setting lets them wait for.
    """
    every, ranks = run.get(kernels), sorted({one.rank for one in seen})
    calls = np.concatenate([
        waits[rank].calls if waits[rank].recorded else every.span_id[every.on(rank)] for rank in ranks
    ])  # fmt: skip
    if not len(calls):
        return tuple(seen)
    rows = run.con.execute(
        "SELECT place, span_id, ts_ns FROM (SELECT unnest(?) AS place, unnest(?) AS rank, unnest(?) AS at_ns) AS gap "
        "ASOF JOIN (SELECT span_id, rank, ts_ns FROM span WHERE list_contains(?, span_id)) AS call "
        "ON call.rank = gap.rank AND call.ts_ns <= gap.at_ns",
        [list(range(len(seen))), [one.rank for one in seen], [one.ts_ns for one in seen], calls.tolist()],
    ).fetchall()
    call = {place: (span, ts) for place, span, ts in rows}
    return tuple(
        replace(one, ts_ns=call[at][1], dur_ns=one.ts_ns + one.dur_ns - call[at][1], span_id=call[at][0])
        if at in call else one
        for at, one in enumerate(seen)
    )  # fmt: skip
