"""What a capture can answer: one entry per thing a detector may need.

The tables' coverage says what a profiler recorded. A column may still be empty (op types at Level0, bytes of copies
below Level2). Each entry asks the tables themselves, per rank. Where the answer is no, it says why and which setting
records it. That is a setting of torch_npu's profiler for an NPU, else of torch.profiler, which has none for some data.
Nothing recorded is never "no problem".

Having one row is not having it: what is there holds for a share of the time a detector speaks of (`held`). A detector
that found nothing says "clean" only from `COVERED` on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from npulens.analysis.device.evident import instead, levels, msprof_was, only_sums
from npulens.analysis.device.family import by_msprof, by_msprof_op, on_npu
from npulens.analysis.idle.ahead import ahead
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import Intervals
from npulens.analysis.limits import COVERED
from npulens.analysis.run import Run
from npulens.analysis.split import ELSEWHERE
from npulens.ingest.messages import Message, joined, render, restored


@dataclass(frozen=True)
class Capability:
    """One thing a capture may be able to show."""

    name: str
    means: tuple[str, str]  # what it is, in English and Chinese
    table: str  # whose coverage says why it is missing
    sql: str | None  # ranks that have it, where the table's status alone does not say; rows of (rank,)
    npu: str  # the setting of torch_npu.profiler that records it
    torch: str | None  # that of torch.profiler; None: it has none
    level: int = 0  # torch_npu records it from this profiler level on
    #: Rows of (rank, ns it is known for, ns there are), where a part of the rows may lack it.
    shares: str | None = None
    of: str | None = None  # the kind of run that has it; None: any


@dataclass(frozen=True)
class Has:
    """Whether this run can show a capability, and if not, why."""

    capability: Capability
    ranks: tuple[int, ...]  # the ranks that have it
    lacking: tuple[int, ...]
    why: str | None  # why the others do not
    why_zh: str | None
    collect_with: str | None  # what would record it; None where it is there, and where nothing records it
    applies: bool = True  # a job of this kind can have it

    @property
    def status(self) -> str:
        return "recorded" if not self.lacking else "partial" if self.ranks else "absent"


def held(run: Run, name: str) -> float:
    """For which share of the time it is about a capability is there, all ranks together.

    It is 1 where there is no such time.

    Where the rows themselves do not tell, it is the share of the ranks that have it.
    """
    shares: dict[str, float] = run.get(_shares)
    return shares[name]


def _shares(run: Run) -> dict[str, float]:
    has = run.get(capabilities)
    return {name: _share(run, one) for name, one in has.items()}


def _share(run: Run, has: Has) -> float:
    if has.capability.name in ("comm_tasks", "peer_waits") and has.ranks:
        return min(_share_of_rows(run, has), run.get(_parts_told))
    return _share_of_rows(run, has)


def _share_of_rows(run: Run, has: Has) -> float:
    if has.capability.shares is None:
        return len(has.ranks) / max(1, len(run.ranks))
    known, whole = run.get(_times)[has.capability.shares]
    return known / whole if whole else len(has.ranks) / max(1, len(run.ranks))


def _times(run: Run) -> dict[str, tuple[float, float]]:
    """Of each query of shares the time that is known and all time, all of them in one statement."""
    queries = [one.shares for one in CAPABILITIES if one.shares is not None]
    parts = (f"SELECT {place} AS query, * FROM ({sql}) AS t(rank, known, whole)" for place, sql in enumerate(queries))
    found = dict.fromkeys(queries, (0.0, 0.0))
    for place, _, known, whole in run.con.execute(_TIMED_ONCE + " UNION ALL ".join(parts)).fetchall():
        before = found[queries[place]]
        found[queries[place]] = before[0] + known, before[1] + whole
    return found


def _parts_told(run: Run) -> float:
    """In which share of the time that collectives do not wait one of their parts was recorded; 1: there is none."""
    told = whole = 0
    for rank in run.ranks:
        rows = run.of_rank(_PARTS, rank)
        at, end, part = (rows[name].astype(np.int64) for name in ("ts_ns", "end_ns", "part"))
        moved, waited, operators = (Intervals.union_of(at[part == one], end[part == one]) for one in _OF_A_COLLECTIVE)
        moving = operators - waited
        told, whole = told + (moving & moved).total(), whole + moving.total()
    return told / whole if whole else 1.0


def setting(run: Run, name: str) -> str | None:
    """What would record it, in the profiler that made the capture."""
    return its_own(run, _setting(run, name), name)


#: What profiler_info.json calls a setting that is on, and the file that holds what it records.
_KEPT_IN = {
    "with_stack=True": ("with_stack", "trace_view.json"),
    "profile_memory=True": ("profile_memory", "memory_record.csv"),
}  # fmt: skip
#: What a trace of torch.profiler says of itself in its first lines.
_TOLD_BY_KINETO = {f"{key}=True": key for key in ("with_stack", "record_shapes", "profile_memory")}
_OF_THE_TRACE = ("activities=[CPU, NPU]", "profiler_level=Level1", "profiler_level=Level2")


def _gone(run: Run) -> dict[str, str]:
    """Settings that were on, and the file of each that the export lacks: to switch them on again brings nothing."""
    found = run.get(levels)
    for level, reason, told in run.con.execute(
        "SELECT profiler_level, coalesce(reason, ''), json_extract(settings, '$.common_config')::VARCHAR FROM rank "
        "WHERE json_valid(settings) ORDER BY rank LIMIT 1"
    ).fetchall():
        config = json.loads(told or "{}")
        if not isinstance(config, dict) or "the export lacks" not in reason:
            continue
        on = [text for text, (key, file) in _KEPT_IN.items() if config.get(key) is True and file in reason]
        found |= {text: _KEPT_IN[text][1] for text in on}
        activities = str(config.get("activities"))
        made = _OF_THE_TRACE[1:] if level == "Level2" else _OF_THE_TRACE[1:2] if level == "Level1" else ()
        if "CPU" in activities and "NPU" in activities and "trace_view.json" in reason:
            found |= dict.fromkeys((_OF_THE_TRACE[0], *made), "trace_view.json")
    return found


def _on(run: Run) -> frozenset[str]:
    """Settings that were on for every rank, as a trace says or its work of both sides shows: asking brings nothing."""
    asked = ", ".join(
        "coalesce(bool_and(CASE WHEN json_valid(settings) "
        f"THEN coalesce(json_extract_string(settings, '$.{key}'), '') IN ('1', 'true') ELSE false END), false)"
        for key in _TOLD_BY_KINETO.values()
    )
    (told,) = run.con.execute(f"SELECT {asked} FROM rank").fetchall()
    found = {text for text, on in zip(_TOLD_BY_KINETO, told, strict=True) if on}
    both = "SELECT count(DISTINCT rank) FROM span WHERE kind = "
    ((hosts_, devices),) = run.con.execute(f"SELECT ({both} 'cpu_op'), ({both} 'kernel')").fetchall()
    # Work of the device without a launch was launched before the recording, where both sides were recorded.
    return frozenset(found | ({_NPU, _CUDA} if hosts_ == devices == len(run.ranks) else set()))


def was_on(run: Run, name: str) -> bool:
    """Whether the setting that records something was on, and only its file is missing."""
    return name in BY_NAME and BY_NAME[name].npu in run.get(_gone)


def its_own(run: Run, text: str | None, name: str = "") -> str | None:
    """A setting of torch_npu's profiler as msprof has it, where that made the capture. `name`: what it would record.

    Detectors say settings in English. What is more than a name and its value becomes a message, which has its Chinese.
    """
    if text is None:
        return None
    if (left := instead(run, text, name)) != text:
        return left
    if gone := run.get(_gone).get(text):
        return Message("file_of_a_setting_is_not_here", {"file": gone, "setting": text})
    if text.removeprefix("torch.profiler.profile(").removesuffix(")") in run.get(_on):
        return None
    text = IN_WORDS.get(text, text)
    if run.get(by_msprof_op):  # it records one operator whatever its options are
        return Message("setting_of_torch_npu", {"setting": text}) if _of_torch_npu(text) else text
    if not run.get(by_msprof):
        return text
    known = OF_MSPROF.get(name) or _AS_OPTIONS.get(text)
    wanted = known or (Message("setting_of_torch_npu", {"setting": text}) if _of_torch_npu(text) else text)
    return _unless_on(run, wanted, name) if name or known else wanted


#: What only the timeline of msprof holds, of what tasks are recorded with.
_OF_THE_TIMELINE = ("frequency",)
_TIMELINE = "msprof_*.json"


def _unless_on(run: Run, option: str, name: str) -> str | None:
    """An option of msprof; where it was on, the file that lacks; None where that is here and holds nothing of it."""
    was = run.get(msprof_was)
    if option in (OF_MSPROF["launches"], OF_MSPROF["copies"]) and was.calls and not was.timeline:
        on = option if was.runtime else OF_MSPROF["launches"]
        return Message("file_of_a_setting_is_not_here", {"file": _TIMELINE, "setting": on})
    if option == OF_MSPROF["kernels"] and was.types and name in _OF_THE_TIMELINE and not was.timeline:
        return Message("file_of_a_setting_is_not_here", {"file": _TIMELINE, "setting": option})
    told = name in ("", *_OF_THE_TIMELINE) or name.startswith("kernel")
    return None if option == OF_MSPROF["kernels"] and was.types and told else option


def _of_torch_npu(text: str) -> bool:
    """Whether only torch_npu's profiler has it: msprof records nothing of Python or of a framework."""
    return "=" in text and not text.startswith(("msprof", "--", "torch_npu.")) or text.startswith("prof.step()")


def _setting(run: Run, name: str) -> str | None:
    rows = run.con.execute("SELECT backend, formats FROM rank ORDER BY rank LIMIT 1").fetchall()
    npu = all(on_npu(backend, formats) for backend, formats in rows)
    return BY_NAME[name].npu if npu else BY_NAME[name].torch


#: What tells why a device idles, the most telling first.
_REASONS = ("launches", "host_ops", "runtime_calls", "python")


def explains(run: Run) -> str | None:
    """The settings that would record why the device idled, of those that this capture lacks; None: it has them all."""
    lacking = [name for name in _REASONS if held(run, name) < COVERED]
    wanted = dict.fromkeys(has for name in lacking if (has := setting(run, name)))
    return (joined(wanted) if any(isinstance(one, Message) for one in wanted) else ", ".join(wanted)) or None


def idle_untold(run: Run) -> tuple[str, str, str | None] | None:
    """Why nobody can say what idles: of too many ranks not all work was recorded. And what would record it."""
    if len(run.get(idle).ranks) >= COVERED * len(run.ranks):
        return None
    has = run.get(capabilities)
    lacking = (has[name].collect_with for name in ("kernels", "copies", "collectives") if has[name].lacking)
    return (
        "how long the device idled is not known: not all of its work was recorded",
        "设备空闲时长未知：设备上的任务没有全部采集", next(lacking, None),
    )  # fmt: skip


def unexplained(run: Run) -> dict[int, tuple[int, int, int]]:
    """Per rank whose idle time could be measured: idle ns that nothing recorded explains, and all idle ns.

    The first is only time for which no launch is known. After a launch the host was not late, whatever it did.
    """
    found = run.get(idle)
    every = found.pick("unknown")
    left, unknown = found.totals(every & ~ahead(run)), found.totals(every)
    whole = found.totals(np.ones(len(found.rank), np.bool_))
    return {rank: (left[rank], unknown[rank], whole[rank]) for rank in found.ranks}


#: What records something and is said in words, by its English.
IN_WORDS: dict[str, Message] = {str(said): said for said in map(Message, (
    "setting_mark_steps", "setting_more_steps", "setting_profile_of_more_steps", "setting_start_and_later",
    "setting_every_rank", "setting_every_rank_same_steps", "setting_expert_ranks", "setting_rank_of_each_stage",
    "setting_more_ranks", "setting_larger_collectives", "setting_data_loader", "setting_device",
    "setting_entry_of_device", "setting_flops_of_device", "setting_peaks_of_device", "setting_name_of_work",
    "setting_line_of_library", "setting_later_torch_npu", "setting_whole_export",
))}  # fmt: skip
_LEVEL1, _LEVEL2 = "profiler_level=Level1", "profiler_level=Level2"
_NPU, _CUDA = "activities=[CPU, NPU]", "activities=[CPU, CUDA]"
#: The option of msprof that records what a detector may need. What is not here it does not record, nor operators.
OF_MSPROF = {
    **dict.fromkeys(("kernels", "kernel_types", "kernel_cores", "kernel_shapes", "kernel_blocks", "collectives",
                     "comm_tasks", "peer_waits", "frequency"), "msprof --task-time=l1"),
    "kernel_counters": "msprof --task-time=l1 --aic-metrics=PipeUtilization",
    **dict.fromkeys(("launches", "compiling"), "msprof --ascendcl=on"),
    "host_ops": f"torch_npu.profiler: {_NPU}",
    **dict.fromkeys(("runtime_calls", "copies", "copy_bytes"), "msprof --ascendcl=on --runtime-api=on"),
}  # fmt: skip
_COUNTERS = f"{_LEVEL1}, aic_metrics=PipeUtilization"
_AS_OPTIONS = {
    _LEVEL1: OF_MSPROF["kernels"], _LEVEL2: OF_MSPROF["copies"], _COUNTERS: OF_MSPROF["kernel_counters"],
}  # fmt: skip
_RECORDED = "SELECT rank FROM coverage WHERE status <> 'absent' AND table_name = "
_SPANS = "SELECT rank FROM span_kind WHERE kind = "
# A rank of which no device work was recorded cannot be known to have run no collective.
_WORKED = (
    "rank IN (SELECT rank FROM span_kind WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op') "
    "UNION SELECT rank FROM comm)"
)
# A rank that ran no collective has no part of one that could be missing.
_NO_COLLECTIVE = (
    "UNION SELECT rank FROM rank WHERE rank NOT IN (SELECT rank FROM span_kind WHERE kind = 'comm_op' "
    f"UNION SELECT rank FROM comm WHERE op_span_id = span_id) AND {_WORKED}"
)
# Ranks whose work is all there, of a job of several, and none of it was told to be communication.
_UNTOLD = (
    "SELECT rank FROM device_time WHERE step IS NULL AND communication_ns IS NULL AND idle_ns IS NOT NULL "
    f"AND rank NOT IN (SELECT rank FROM coverage WHERE {ELSEWHERE})"
)
# A table that was recorded and is empty has nothing whose column could be missing.
_FILLED = (
    "SELECT rank FROM rank WHERE rank NOT IN (SELECT rank FROM {table} {where}) "
    "UNION SELECT rank FROM {table} WHERE {column} IS NOT NULL {and_}"
)


# What several questions ask is read once for all of them.
_COLUMNS = ("op_type", "core", "input_shapes", "block_num")
_READ_ONCE = f"""
    WITH span_kind AS MATERIALIZED (SELECT DISTINCT rank, kind FROM span),
    link_route AS MATERIALIZED (SELECT DISTINCT rank, route FROM link),
    kernel_has AS MATERIALIZED (
        SELECT rank, {", ".join(f"any_value({column}) AS {column}" for column in _COLUMNS)} FROM kernel GROUP BY rank
    )
"""
_TIMED_ONCE = f"""
    WITH kernel_time AS MATERIALIZED (
        SELECT s.rank, sum(s.dur_ns)::DOUBLE AS whole, {
    ", ".join(f"coalesce(sum(s.dur_ns) FILTER (k.{column} IS NOT NULL), 0)::DOUBLE AS {column}" for column in _COLUMNS)
}
        FROM span s LEFT JOIN kernel k USING (span_id) WHERE s.kind = 'kernel' GROUP BY s.rank
    )
"""
# Kernels whose column is filled, weighed by their time.
_KERNEL_TIME = "SELECT rank, {column}, whole FROM kernel_time"
_OPERATOR_TIME = (
    "SELECT s.rank, coalesce(sum(s.dur_ns) FILTER (s.span_id IN (SELECT op_span_id FROM comm WHERE {which})), 0)"
    "::DOUBLE, sum(s.dur_ns)::DOUBLE FROM span s WHERE s.kind = 'comm_op' "
    "OR s.kind = 'kernel' AND s.span_id IN (SELECT span_id FROM comm WHERE op_span_id = span_id) GROUP BY s.rank"
)
#: Collectives and their parts: what moves or tells something, what waits, and the whole.
_MOVES, _WAITS, _WHOLE = _OF_A_COLLECTIVE = range(3)
_PARTS = (
    "SELECT rank, ts_ns, end_ns, part FROM (SELECT rank, ts_ns, end_ns, "
    f"(CASE WHEN part = 'wait' THEN {_WAITS} ELSE {_MOVES} END)::UTINYINT AS part FROM comm_task UNION ALL "
    f"SELECT rank, ts_ns, ts_ns + dur_ns, {_WHOLE} FROM span WHERE kind = 'comm_op' "
    "OR kind = 'kernel' AND span_id IN (SELECT span_id FROM comm WHERE op_span_id = span_id)) "
    "WHERE rank BETWEEN ? AND ?"
)
_LAUNCHED_TIME = (
    "SELECT rank, coalesce(sum(dur_ns) FILTER (span_id IN (SELECT dst_span_id FROM link WHERE route <> 'fwdbwd')), 0)"
    "::DOUBLE, sum(dur_ns)::DOUBLE FROM span WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op') GROUP BY rank"
)
#: Ranks whose device is the CPU: their tasks are operators themselves.
_ON_CPU = "SELECT rank FROM link_route WHERE route = 'itself'"
_COPY_TIME = (
    "SELECT s.rank, coalesce(sum(s.dur_ns) FILTER (t.bytes IS NOT NULL), 0)::DOUBLE, sum(s.dur_ns)::DOUBLE "
    "FROM span s LEFT JOIN transfer t USING (span_id) WHERE s.kind = 'memcpy' GROUP BY s.rank"
)


def _filled(table: str, column: str, where: str = "") -> str:
    return _FILLED.format(table=table, column=column, where=where and f"WHERE {where}", and_=where and f"AND {where}")


_DISTRIBUTED = Message("torch_distributed_initialised_before_profiling")

CAPABILITIES: tuple[Capability, ...] = (
    Capability("steps", ("the steps of the job", "训练步"), "step", None,
               "prof.step() after each step", "prof.step() after each step"),
    Capability("kernels", ("what the device computed", "设备上的计算任务"), "kernel", None, _NPU, _CUDA),
    Capability("kernel_types", ("operator types of kernels", "算子类型"), "kernel",
               _filled("kernel_has", "op_type"), _LEVEL1, None, 1, _KERNEL_TIME.format(column="op_type")),
    Capability("kernel_cores", ("which core a kernel ran on", "算子所在的核"), "kernel",
               _filled("kernel_has", "core"), _LEVEL1, None, 1, _KERNEL_TIME.format(column="core")),
    Capability("kernel_shapes", ("shapes and types of kernels", "算子的形状与数据类型"), "kernel",
               _filled("kernel_has", "input_shapes"), _LEVEL1, None, 1, _KERNEL_TIME.format(column="input_shapes")),
    Capability("kernel_blocks", ("how many cores a kernel used", "算子使用的核数"), "kernel",
               _filled("kernel_has", "block_num"), _LEVEL1, None, 1, _KERNEL_TIME.format(column="block_num")),
    Capability("kernel_counters", ("hardware counters of kernels", "算子的硬件计数器"), "pmu", None,
               _COUNTERS, None, 1),
    Capability("launches", ("which host call launched a task", "主机下发到设备的连线"), "link",
               "SELECT rank FROM link_route WHERE route <> 'fwdbwd'", _NPU, _CUDA, 0, _LAUNCHED_TIME),
    Capability("host_ops", ("the framework's operators on the host", "主机侧框架算子"), "host_op",
               _SPANS + "'cpu_op'", _NPU, _CUDA),
    Capability("runtime_calls", ("calls into the runtime library", "运行时库调用"), "span",
               _SPANS + "'runtime'", _LEVEL1, _CUDA, 1),
    Capability("compiling", ("calls and marks of compilers", "编译调用与标记"), "span",
               _SPANS + f"'runtime' UNION {_ON_CPU}", _LEVEL1, _CUDA, 1),
    Capability("python", ("Python functions and call stacks", "Python 函数与调用栈"), "stack",
               "SELECT rank FROM stack UNION SELECT rank FROM span_kind WHERE kind = 'python'",
               "with_stack=True", "with_stack=True"),
    Capability("copies", ("copies between host and device", "主机与设备间的拷贝"), "transfer",
               _RECORDED + "'transfer' "
               "UNION SELECT rank FROM span_kind WHERE kind = 'memcpy'", _NPU, _CUDA),
    Capability("copy_bytes", ("size and direction of copies", "拷贝的大小与方向"), "transfer",
               _filled("transfer", "bytes"), _LEVEL2, _CUDA, 2, _COPY_TIME),
    Capability("collectives", ("collective communication", "集合通信"), "comm",
               _RECORDED + f"'comm' AND {_WORKED} "
               "UNION SELECT rank FROM span_kind WHERE kind = 'comm_op'", _NPU, _CUDA),
    Capability("comm_tasks", ("the parts of a collective: transfers and waits", "集合通信内部的传输与等待"), "comm",
               "SELECT rank FROM comm WHERE task_type IS NOT NULL " + _NO_COLLECTIVE, _LEVEL1, None, 0,
               _OPERATOR_TIME.format(which="task_type IS NOT NULL")),
    Capability("peer_waits", ("for whom a collective waits", "集合通信在等哪张卡"), "comm",
               "SELECT rank FROM comm WHERE task_type IS NOT NULL AND coalesce(dst_local, dst_rank) IS NOT NULL "
               + _NO_COLLECTIVE, _LEVEL1, None, 1,
               _OPERATOR_TIME.format(which="task_type IS NOT NULL AND coalesce(dst_local, dst_rank) IS NOT NULL")),
    Capability("groups", ("which ranks communicate with each other", "通信域的成员"), "parallel_group",
               _RECORDED + "'parallel_group' " + _NO_COLLECTIVE,
               _DISTRIBUTED, _DISTRIBUTED),
    Capability("frequency", ("the clock of the AI cores", "AI Core 频率"), "sample",
               "SELECT DISTINCT rank FROM sample WHERE counter ILIKE '%freq%'", _LEVEL1, None, 1),
    Capability("gc", ("Python's garbage collections", "Python 垃圾回收"), "span",
               _SPANS + "'gc' UNION SELECT rank FROM rank WHERE settings LIKE '%gc_detect_threshold\": %' "
               "AND settings NOT LIKE '%gc_detect_threshold\": null%' OR settings LIKE '%\"python_gc\": true%'",
               "gc_detect_threshold=0",
               "with_stack=True, experimental_config=_ExperimentalConfig(record_python_gc_info=True)"),
    Capability("memory", ("the state of the memory pools", "内存池状态"), "memory_sample", None,
               "profile_memory=True", "profile_memory=True"),
    Capability("memory_events", ("each allocation of device memory", "每次设备内存申请"), "memory_event", None,
               "profile_memory=True", "profile_memory=True"),
)  # fmt: skip

#: What only runs of a kind have: a serving engine has requests, reinforcement learning has stages.
KINDS = ("requests", "stages")
_OTLP, _ITERATIONS = "--otlp-traces-endpoint URL", "--enable-logging-iteration-details"


def _any(table: str, where: str = "") -> str:
    """Every rank, where a table of the whole run has such a row."""
    return f"SELECT rank FROM rank WHERE EXISTS (SELECT 1 FROM {table} {where and 'WHERE ' + where})"


_STEP_LOG = "SELECT 1 FROM serving_sample WHERE name LIKE 'timing_s/%'"
_REQUESTS = ("the requests of a serving engine", "推理服务的请求")
#: (name, what it is, its table, which rows, what records it)
_OF_SERVING: tuple[tuple[str, tuple[str, str], str, str, str], ...] = (
    ("requests", _REQUESTS, "request", "", _OTLP),
    ("iterations", ("the iterations of a serving engine", "推理引擎的迭代"), "iteration", "dur_ns > 0", _ITERATIONS),
    ("request_states", ("when a request was queued and scheduled", "请求入队与被调度的时间"), "request",
     "queue_ns IS NOT NULL AND prefill_ns IS NOT NULL", _OTLP),
    ("members", ("which requests an iteration held", "每次迭代包含哪些请求"), "member", "", f"{_OTLP}, {_ITERATIONS}"),
    ("kv_use", ("how much of the KV cache was used", "KV 缓存使用率"), "iteration", "kv_used IS NOT NULL",
     _ITERATIONS),
    ("exact_iterations", ("when an iteration began and ended", "每次迭代的起止时间"), "iteration",
     "ts_ns IS NOT NULL AND coalesce(ts_error_ns, 0) <= dur_ns / 20", "/start_profile, /stop_profile"),
    ("graph_modes", ("which iterations replayed a graph", "哪些迭代使用了图"), "iteration", "graph IS NOT NULL",
     "--cudagraph-metrics"),
    ("padded_tokens", ("how many tokens a graph pads to", "图填充后的 token 数"), "iteration",
     "padded_tokens IS NOT NULL", "--cudagraph-metrics"),
    ("cached_tokens", ("prompt tokens found in the cache", "命中前缀缓存的 token 数"), "request",
     "cached_tokens IS NOT NULL", "--enable-prompt-tokens-details"),
    ("speculation", ("tokens drafted and accepted", "投机解码的草稿与接受 token 数"), "serving_sample",
     "name LIKE '%spec_decode_num_draft%' OR name LIKE '%accept%'", "--per-request-spec-decode-metrics detailed"),
    ("transfers", ("transfers of the KV cache", "KV 缓存的传输"), "request_event", "kind = 'transfer'",
     'domain="Request; KVCache; Communication"'),
    ("dp_ranks", ("iterations of each data parallel engine", "各数据并行引擎的迭代"), "iteration",
     "dp_rank IS NOT NULL", 'domain="Request; BatchSchedule; ModelExecute"'),
    ("stages", ("the stages of reinforcement learning", "强化学习的各阶段"), "stage", "",
     "global_profiler.tool=npu, global_profiler.steps=[2,4]"),
)  # fmt: skip
CAPABILITIES += tuple(
    Capability(
        name,
        means,
        table,
        _any(table, where) + (f" OR EXISTS ({_STEP_LOG})" if name == "stages" else ""),
        setting_,
        setting_,
        of=name if name in KINDS else "requests",
    )
    for name, means, table, where, setting_ in _OF_SERVING
)

_NOT_TOLD = (
    "none of the device's work was told to be communication", "设备上没有任务被识别为通信",
    "a line for the library in comm_facts.toml",
)  # fmt: skip

#: What only a device beside the CPU has.
_OF_DEVICES = (
    "kernel_cores", "kernel_blocks", "kernel_counters", "runtime_calls", "frequency", "comm_tasks", "peer_waits",
)  # fmt: skip
_NOT_OF_THE_KIND: dict[str, tuple[str, str]] = {
    "requests": ("the run holds no requests", "本次运行没有请求数据"),
    "stages": ("the run holds no stages", "本次运行没有强化学习阶段数据"),
}
_A_CPU_HAS_NONE = ("the job ran on the CPU, which has none", "作业在 CPU 上运行，没有此项")

BY_NAME = {capability.name: capability for capability in CAPABILITIES}


@dataclass(frozen=True)
class _TableCoverage:
    """The coverage row of one table of one rank."""

    status: str = "absent"
    reason: str | None = None
    collect_with: str | None = None


def capabilities(run: Run) -> dict[str, Has]:
    """What this run has of everything a detector may need."""
    coverage = {
        (rank, table): _TableCoverage(status, restored(reason, said), restored(setting, phrase))
        for rank, table, status, reason, said, setting, phrase in run.con.execute(
            "SELECT rank, table_name, status, reason, said, collect_with, collect_said FROM coverage"
        ).fetchall()
    }
    made = {rank: (on_npu(backend, formats), level) for rank, backend, formats, level in run.con.execute(
        "SELECT rank, backend, formats, profiler_level FROM rank").fetchall()}  # fmt: skip
    asked = _asked(run, [_ON_CPU, _UNTOLD, *(each.sql for each in CAPABILITIES if each.sql is not None)])
    return {
        capability.name: _has(run, capability, coverage, made, asked[_UNTOLD], asked[_ON_CPU], asked)
        for capability in CAPABILITIES
    }


def of_this_kind(run: Run, kind: str) -> bool:
    """Whether the run has requests, or stages."""
    return run.get(_kinds)[kind]


def _kinds(run: Run) -> dict[str, bool]:
    ((served, staged),) = run.con.execute(
        f"SELECT EXISTS (SELECT 1 FROM request), EXISTS (SELECT 1 FROM stage) OR EXISTS ({_STEP_LOG})"
    ).fetchall()
    return {"requests": served, "stages": staged}


def _asked(run: Run, queries: list[str]) -> dict[str, set[int]]:
    """The ranks that each query gives, all of them in one statement."""
    parts = (f"SELECT {place} AS query, rank FROM ({sql})" for place, sql in enumerate(queries))
    found: dict[str, set[int]] = {sql: set() for sql in queries}
    for place, rank in run.con.execute(_READ_ONCE + " UNION ALL ".join(parts)).fetchall():
        found[queries[place]].add(rank)
    return found


def _has(
    run: Run, capability: Capability, coverage: dict[tuple[int, str], _TableCoverage],
    made: dict[int, tuple[bool, str | None]], untold: set[int], on_cpu: set[int], asked: dict[str, set[int]],
) -> Has:  # fmt: skip
    def said(rank: int) -> _TableCoverage:
        return coverage.get((rank, capability.table), _TableCoverage())

    having = {rank for rank in run.ranks if said(rank).status != "absent"}
    if capability.sql is not None:
        # The tables answer for themselves where the question is about rows, not about a table's column.
        column = "NOT IN" in capability.sql and not capability.sql.startswith(_RECORDED)
        having = asked[capability.sql] & having if column else asked[capability.sql]
    lacking = tuple(rank for rank in run.ranks if rank not in having)
    if not lacking:
        return Has(capability, run.ranks, (), None, None, None)
    unknown = capability.table == "comm" and lacking[0] in untold  # it was recorded, and nobody knows it
    having_it = tuple(rank for rank in run.ranks if rank in having)
    if capability.of is not None and not of_this_kind(run, capability.of):
        return Has(capability, having_it, lacking, *_NOT_OF_THE_KIND[capability.of], capability.npu, False)
    if on_cpu.issuperset(lacking) and capability.name in _OF_DEVICES:
        return Has(capability, having_it, lacking, *_A_CPU_HAS_NONE, None, False)
    en, zh, text = _NOT_TOLD if unknown else _why(capability, said(lacking[0]), *made[lacking[0]])
    if not having_it:
        en, zh = run.get(only_sums).get(capability.name, (en, zh))
    return Has(capability, having_it, lacking, en, zh, its_own(run, text, capability.name))


def _why(capability: Capability, said: _TableCoverage, npu: bool, level: str | None) -> tuple[str, str, str | None]:
    """Why a rank lacks it and what records it.

    The table's own reason counts where it is about this. Then the table is missing as a whole, or a setting would fill
    it. Any other reason is about other rows or columns of the table.
    """
    setting = capability.npu if npu else capability.torch
    made = level if npu and level in ("Level_none", "Level0", "Level1", "Level2") else None
    if made is not None and capability.level and (made == "Level_none" or int(made[-1]) < capability.level):
        from_ = f"Level{capability.level}"
        return f"recorded from {from_} on; this is {made}", f"从 {from_} 起才采集，本次为 {made}", setting
    # What would fill sizes and groups of collectives does not take them apart.
    apart = setting is None and capability.table == "comm"
    meant = said.status == "absent" or (said.status == "partial" and said.collect_with is not None and not apart)
    if meant and said.reason and capability.table not in ("span", "stack"):
        return said.reason, f"未采集（{render(said.reason, 'zh')}）", said.collect_with or setting
    if setting is None:
        return "torch.profiler does not record it", "torch.profiler 不采集此项", None
    return "it was not recorded", "未采集", setting
