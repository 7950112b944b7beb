"""What the files of a capture show of its profiler's settings, where no note of these settings is here.

Only some settings write some files: a file that is here shows that its setting was on. To ask for it again brings
nothing. What lacks is another file of the same capture.
"""

from __future__ import annotations

from dataclasses import dataclass

from npulens.analysis.device.family import by_msprof
from npulens.analysis.idle.host_names import PATTERNS
from npulens.analysis.run import Run
from npulens.analysis.say import duration
from npulens.ingest.messages import Message

Pair = tuple[str, str]
#: Calls of each kind that a reason names.
_NAMED = 4
_NO_TYPE = "('', 'N/A')"


@dataclass(frozen=True)
class MsprofWas:
    """What a capture of msprof shows of its options."""

    types: bool  # l0 records no type of any kernel
    calls: bool  # calls of AscendCL are summed up
    runtime: bool  # those of the runtime are
    timeline: bool


def msprof_was(run: Run) -> MsprofWas:
    """Of a run that msprof alone recorded."""
    summed = "EXISTS (SELECT 1 FROM summary WHERE source = 'api_statistic' AND category = '{}')"
    ((types, calls, runtime, none),) = run.con.execute(
        "SELECT EXISTS (SELECT 1 FROM kernel WHERE op_type IS NOT NULL), "
        f"{summed.format('acl')}, {summed.format('runtime')}, "
        "EXISTS (SELECT 1 FROM coverage WHERE table_name = 'sample' AND status = 'absent' AND reason = ?)",
        [str(Message("there_is_no_msprof_json"))],
    ).fetchall()  # fmt: skip
    return MsprofWas(bool(types), bool(calls), bool(runtime), not none)


@dataclass(frozen=True)
class Was:
    """What a capture of torch_npu's profiler without its timeline shows of its settings, of every rank."""

    level: int = 0  # profiler_level, or higher; 0: nothing tells
    device: bool = False  # activities held the NPU
    kernels: bool = False  # each kernel is here, not only sums of them


#: Only Level2 adds calls of the runtime up. Level0 adds no calls up and knows no type of an operator.
_OF_A_RANK = f"""
    SELECT r.rank,
        CASE WHEN r.rank IN (SELECT rank FROM summary WHERE source = 'api_statistic' AND category = 'runtime') THEN 2
            WHEN r.rank IN (
                SELECT rank FROM summary WHERE source = 'api_statistic'
                UNION SELECT rank FROM summary
                    WHERE source = 'op_statistic' AND coalesce(category, '') NOT IN {_NO_TYPE}
                UNION SELECT rank FROM kernel WHERE coalesce(op_type, '') NOT IN {_NO_TYPE} UNION SELECT rank FROM pmu
            ) THEN 1 ELSE 0 END AS level,
        r.rank IN (
            SELECT rank FROM summary WHERE source = 'op_statistic' UNION SELECT rank FROM kernel
            UNION SELECT rank FROM profiler_step WHERE computing_ns > 0
        ) AS device,
        r.rank IN (SELECT rank FROM kernel) AS kernels
    FROM rank r
"""
_WITHOUT_TIMELINE = """
    SELECT bool_and(formats = ['torch_npu_text'] AND rank IN (
        SELECT rank FROM coverage WHERE table_name = 'host_op' AND status = 'absent' AND reason = ?)) FROM rank
"""


def was(run: Run) -> Was:
    """What the tables beside a timeline that is not here show; nothing where there is one."""
    ((alone,),) = run.con.execute(_WITHOUT_TIMELINE, [str(Message("there_is_no_trace_view"))]).fetchall()
    if not alone or run.get(by_msprof):
        return Was()
    ((level, device, kernels),) = run.con.execute(
        f"SELECT min(level), bool_and(device), bool_or(kernels) FROM ({_OF_A_RANK})"
    ).fetchall()
    return Was(int(level), bool(device), bool(kernels))


_NPU = "activities=[CPU, NPU]"
_TRACE, _KERNELS = "trace_view.json", "kernel_details.csv"


def levels(run: Run) -> dict[str, str]:
    """Levels that were on, and the file that holds what they record."""
    return {f"profiler_level=Level{level}": _TRACE for level in range(1, run.get(was).level + 1)}


def instead(run: Run, text: str, name: str) -> str | None:
    """What is to be said where a setting evidently was on, in part at least. `name`: what it would record.

    Where nothing shows that it was, the setting itself.
    """
    found, counters = run.get(was), text.endswith(_METRICS)
    about_kernels = name.startswith("kernel") or counters
    if found.level and counters:
        return _METRICS if found.kernels else Message("file_or_setting", {"file": _KERNELS, "setting": _METRICS})
    if found.level and found.kernels and about_kernels and text == "profiler_level=Level1":
        return None  # each kernel is here, and its row holds nothing of it
    if text == _NPU and found.device:
        if name in _OF_THE_HOST:
            return Message("file_or_setting", {"file": _TRACE, "setting": _NPU})
        file = _KERNELS if about_kernels and not found.kernels else _TRACE
        return Message("file_of_a_setting_is_not_here", {"file": file, "setting": "activities=[NPU]"})
    return text


_METRICS = "aic_metrics=PipeUtilization"
#: What the activity CPU records.
_OF_THE_HOST = ("host_ops",)


def only_sums(run: Run) -> dict[str, Pair]:
    """Why a capture lacks what only its profiler's sums tell of, by what it lacks, in English and Chinese."""
    found: dict[str, Pair] = {}
    ((tasks, split, calls),) = run.con.execute(
        "SELECT EXISTS (SELECT 1 FROM summary WHERE source = 'op_statistic'), "
        "EXISTS (SELECT 1 FROM profiler_step WHERE computing_ns > 0), "
        "EXISTS (SELECT 1 FROM summary WHERE source = 'api_statistic') "
        "AND NOT EXISTS (SELECT 1 FROM span WHERE kind = 'runtime')"
    ).fetchall()
    if source := "op_statistic" if tasks else "step_trace_time" if split else None:
        found["kernels"] = (f"only sums of it were recorded, in {source}", f"只采集到其汇总（{source}）")
    if calls:
        found["compiling"] = _calls(run, "compile", "that compiles", "编译调用")
        found["runtime_calls"] = _calls(run, "memory_alloc", "that allocates or frees", "内存申请与释放调用")
    return found


def _calls(run: Run, cause: str, which: str, which_zh: str) -> Pair:
    en, zh = "only sums of them were recorded, in api_statistic", "只采集到其汇总（api_statistic）"
    named = summed_calls(run, PATTERNS[cause], _NAMED)
    if not named:
        return f"{en}, and no call {which} is in it", f"{zh}，其中没有{which_zh}"
    return f"{en}: {named}", f"{zh}：{named}"


def summed_calls(run: Run, pattern: str, most: int) -> str:
    """The calls of the host whose sums are the largest, of all ranks together. `pattern`: of their names."""
    rows = run.con.execute(
        "SELECT name, sum(total_ns), sum(count) FROM summary WHERE source = 'api_statistic' AND total_ns > 0 "
        "AND regexp_matches(name, ?) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?", [pattern, most],
    ).fetchall()  # fmt: skip
    return ", ".join(f"{name} {duration(int(ns))} ({int(count or 0):,}x)" for name, ns, count in rows)
