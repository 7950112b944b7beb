"""Where no work of a device or no call was recorded, but its profiler added something up: what these sums say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from npulens.analysis.device.conversion import of_type
from npulens.analysis.device.evident import only_sums, summed_calls
from npulens.analysis.device.step_points import told as step_points
from npulens.analysis.idle.blame import said as ranges
from npulens.analysis.idle.host_names import PATTERNS
from npulens.analysis.run import Run
from npulens.analysis.say import duration, share

#: Names that are listed of sums alone.
SUMS_SHOWN = 5
#: Sums over work of the device; those over calls of the host hold each other.
OF_THE_DEVICE = (
    "op_statistic", "kernel_details", "communication_statistic", "cluster_communication", "aicore_intermediate_type",
    "aicore_intermediate_detail",
)  # fmt: skip
#: MindSpore's operators one by one, and the same added up by type.
_ONE_BY_ONE, _BY_TYPE = "aicore_intermediate_detail", "aicore_intermediate_type"
_AICPU = "upper(replace(category, '_', '')) IN ('AICPU', 'KERNELAICPU')"
_TYPE_OF_NAME = r"regexp_replace(regexp_replace(name, '^.*/', ''), '-op\d+$', '')"


def told(run: Run) -> Iterator[tuple[str, str]]:
    """What the sums say, in English and Chinese. No detector can judge them."""
    yield from _of_the_device(run)
    yield from step_points(run)
    yield from _of_the_host(run)


def _of_the_host(run: Run) -> Iterator[tuple[str, str]]:
    """The largest sums of calls, where no call was recorded by itself."""
    if "runtime_calls" not in run.get(only_sums) or not (named := summed_calls(run, "", SUMS_SHOWN)):
        return
    en = f"calls of the host were only added up, and they hold each other. The longest in api_statistic: {named}"
    zh = f"主机调用只有汇总，且相互包含。api_statistic 中最长的是：{named}"
    if not run.con.execute("SELECT 1 FROM kernel LIMIT 1").fetchall():
        for cause, what, what_zh in _ALSO:
            if also := summed_calls(run, PATTERNS[cause], SUMS_SHOWN):
                en, zh = f"{en}. {what}: {also}", f"{zh}。{what_zh}：{also}"
    yield en, zh


#: Where no detector of these can say it: what was spent on them.
_ALSO = (("memory_alloc", "Memory", "内存"), ("compile", "Compiling", "编译"))


def _of_the_device(run: Run) -> Iterator[tuple[str, str]]:
    if any(run.window(rank) is not None for rank in run.ranks):
        return
    found: dict[str, list[tuple[str, int]]] = {}
    single, on_aicpu = set(), Counter[str]()
    for source, name, ns, counted, aicpu_ns in run.con.execute(
        f"SELECT source, CASE WHEN source = '{_ONE_BY_ONE}' THEN {_TYPE_OF_NAME} ELSE name END AS name, sum(total_ns), "
        f"count(count) > 0, coalesce(sum(total_ns) FILTER ({_AICPU}), 0) FROM summary "
        "WHERE total_ns > 0 AND list_contains(?, source) AND name NOT ILIKE 'total%' "
        "GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2", [OF_THE_DEVICE],
    ).fetchall():  # fmt: skip
        found.setdefault(source, []).append((name, int(ns)))
        on_aicpu[source] += int(aicpu_ns)
        single |= {source} if source == _ONE_BY_ONE and not counted else set()
    if _BY_TYPE in found:
        found.pop(_ONE_BY_ONE, None)
    for source, rows in found.items():
        total = sum(ns for _, ns in rows)
        listed = ", ".join(f"{name} {duration(ns)} ({share(ns / total)})" for name, ns in rows[:SUMS_SHOWN])
        also, also_zh = _worth_a_word(rows, on_aicpu[source], total)
        once, once_zh = (", one execution of each", "（每个算子按执行一次计）") if source in single else ("", "")
        yield (
            f"only the profiler's sums were recorded. Of {duration(total)} in {source}{once}: {listed}{also}",
            f"只采集到 profiler 的汇总。{source} 共 {duration(total)}{once_zh}，其中：{listed}{also_zh}",
        )  # fmt: skip
    yield from _of_steps(run)


#: From this share of all on, it is told how much only converts data, and how much ran on the AI CPU.
_WORTH_A_WORD = 0.01


def _worth_a_word(rows: Sequence[tuple[str, int]], aicpu_ns: int, total: int) -> tuple[str, str]:
    """What conversions add up to, whose types may each be small, and the AI CPU."""
    en = zh = ""
    conversions = [(name, ns) for name, ns in rows if of_type(name) is not None]
    if (ns := sum(ns for _, ns in conversions)) >= _WORTH_A_WORD * total:
        names = [name for name, _ in conversions[:SUMS_SHOWN]]
        en += f". {duration(ns)} ({share(ns / total)}) only convert data: {', '.join(names)}"
        zh += f"。只做数据转换的共 {duration(ns)}（{share(ns / total)}）：{'、'.join(names)}"
    if aicpu_ns >= _WORTH_A_WORD * total:
        en += f". {duration(aicpu_ns)} ({share(aicpu_ns / total)}) ran on the AI CPU"
        zh += f"。在 AI CPU 上执行的共 {duration(aicpu_ns)}（{share(aicpu_ns / total)}）"
    return en, zh


def _of_steps(run: Run) -> Iterator[tuple[str, str]]:
    """What the profiler's own split says of all ranks, and which rank computes longest."""
    rows = run.con.execute(
        "SELECT rank, sum(computing_ns), sum(communication_not_overlapped_ns), sum(free_ns), count(*) "
        "FROM profiler_step "
        "WHERE computing_ns IS NOT NULL AND communication_not_overlapped_ns IS NOT NULL AND free_ns IS NOT NULL "
        "GROUP BY 1 ORDER BY 1"
    ).fetchall()
    parts = [int(sum(row[at] for row in rows)) for at in (1, 2, 3)]
    if not sum(parts):
        return
    computing, bare, free = (share(part / sum(parts)) for part in parts)
    rank, longest = max(((int(row[0]), int(row[1]) // row[4]) for row in rows), key=lambda one: one[1])
    ranks, usual = ranges(tuple(int(row[0]) for row in rows)), int(median([int(row[1]) // row[4] for row in rows]))
    who = f". Rank {rank} computes longest: {duration(longest)} a step, the median {duration(usual)}"
    who_zh = f"。rank {rank} 的计算时间最长：每步 {duration(longest)}，中位数为 {duration(usual)}"
    yield (
        f"only the profiler's split was recorded, of rank {ranks}: computing {computing}, communication that nothing "
        f"hides {bare}, free {free}" + (who if len(rows) > 1 else ""),
        f"只采集到 rank {ranks} 的 profiler 时间划分：计算 {computing}，未被掩盖的通信 {bare}，空闲 {free}"
        + (who_zh if len(rows) > 1 else ""),
    )  # fmt: skip
