"""Whether the tasks that were read are only a small part of the job, by sums that its profiler made of the whole.

People cut kernel_details.csv to its first rows and keep op_statistic.csv and step_trace_time.csv beside it. What few
tasks show says little of the job then, and nothing may be called clean. The sums are still told, as what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npulens.analysis.limits import COVERED
from npulens.analysis.run import Run
from npulens.analysis.say import duration, number, share

#: Operators that are listed of a sum.
SHOWN = 5
#: Operators by their type, as the profiler added them up.
OPERATORS = "op_statistic"
_AI_CPU = "AI_CPU"
_WHOLE_FILES = "kernel_details.csv as the profiler wrote it, with all of its rows"


@dataclass(frozen=True)
class Part:
    """Of the rank of which the smallest part was read: what was, and what its profiler added up."""

    rank: int
    read_ns: int
    whole_ns: int
    source: str  # the file of the sum

    @property
    def share(self) -> float:
        return self.read_ns / self.whole_ns


def partly_read(run: Run) -> Part | None:
    """The rank of which least was read; None where sums and tasks agree, or nothing can be compared.

    Where two sums of a rank differ, the one that more of was read counts.
    """
    kernels = _sums(run, "SELECT rank, sum(dur_ns) FROM span WHERE kind IN ('kernel', 'memset') GROUP BY rank")
    computing = _sums(run, "SELECT rank, computing_ns FROM device_time WHERE step IS NULL AND computing_ns IS NOT NULL")
    added = _sums(run, f"SELECT rank, sum(total_ns) FROM summary WHERE source = '{OPERATORS}' GROUP BY rank")
    split = _sums(run, "SELECT rank, sum(computing_ns) FROM profiler_step GROUP BY rank")
    least = []
    for rank in run.ranks:
        pairs = ((kernels, added, f"{OPERATORS}.csv"), (computing, split, "step_trace_time.csv"))
        found = [Part(rank, read[rank], whole[rank], source) for read, whole, source in pairs
                 if read.get(rank) and whole.get(rank)]  # fmt: skip
        if found:
            least.append(max(found, key=lambda one: one.share))
    worst = min(least, key=lambda one: one.share, default=None)
    return worst if worst is not None and worst.share < COVERED else None


def _sums(run: Run, sql: str) -> dict[int, int]:
    return {int(rank): int(ns) for rank, ns in run.con.execute(sql).fetchall() if ns is not None and ns > 0}


def too_little(run: Run) -> tuple[str, str, str] | None:
    """Why nothing may be called clean, in English and Chinese, and what to load instead."""
    found = run.get(partly_read)
    if found is None:
        return None
    said = number("_share", found.share)
    return (
        f"the kernels read are {said} of what {found.source} adds up; the rest may have it",
        f"读到的算子只占 {found.source} 汇总时间的 {said}，其余部分可能存在该问题", _WHOLE_FILES,
    )  # fmt: skip


def told(run: Run) -> Iterator[tuple[str, str]]:
    """The same as something that may mislead, and then what the profiler's own sums say of the whole job."""
    found = run.get(partly_read)
    if found is None:
        return
    read, whole, said = duration(found.read_ns), duration(found.whole_ns), share(found.share)
    yield (
        f"rank {found.rank}: the kernels read take {read} of the {whole} that {found.source} adds up ({said}). All "
        "other figures here are of this part of the job",
        f"rank {found.rank}：读到的算子共 {read}，而 {found.source} 汇总为 {whole}（占 {said}）；"
        "这里的其他数字都只针对这一部分",
    )
    yield from _steps(run, found.rank)
    yield from _operators(run, found.rank)


def _steps(run: Run, rank: int) -> Iterator[tuple[str, str]]:
    rows = run.con.execute(
        "SELECT sum(computing_ns), sum(communication_not_overlapped_ns), sum(free_ns) FROM profiler_step "
        "WHERE rank = ? AND computing_ns IS NOT NULL AND communication_not_overlapped_ns IS NOT NULL "
        "AND free_ns IS NOT NULL", [rank],
    ).fetchall()  # fmt: skip
    parts = [int(ns or 0) for ns in rows[0]]
    if not sum(parts):
        return
    computing, bare, free = (f"{duration(ns)} ({share(ns / sum(parts))})" for ns in parts)
    yield (
        f"the profiler's own split of all {duration(sum(parts))} of rank {rank}: free {free}, communication that "
        f"nothing hides {bare}, computing {computing}",
        f"profiler 对 rank {rank} 全部 {duration(sum(parts))} 的划分："
        f"空闲 {free}，未被掩盖的通信 {bare}，计算 {computing}",
    )


def _operators(run: Run, rank: int) -> Iterator[tuple[str, str]]:
    rows = run.con.execute(
        "SELECT name, category, sum(total_ns) FROM summary WHERE source = ? AND rank = ? AND total_ns > 0 "
        "AND name NOT ILIKE 'total%' GROUP BY ALL ORDER BY 3 DESC, 1", [OPERATORS, rank],
    ).fetchall()  # fmt: skip
    total = sum(int(ns) for *_, ns in rows)
    if not total:
        return
    listed = ", ".join(f"{name} {duration(int(ns))} ({share(ns / total)})" for name, _, ns in rows[:SHOWN])
    slow = [(name, int(ns)) for name, core, ns in rows if core == _AI_CPU]
    en = zh = ""
    if slow:
        on, part, most = duration(sum(ns for _, ns in slow)), share(sum(ns for _, ns in slow) / total), slow[0]
        en = f". On the AI CPU: {on} ({part}), most of it {most[0]} ({duration(most[1])})"
        zh = f"；其中 AI CPU 上 {on}（{part}），最多的是 {most[0]}（{duration(most[1])}）"
    yield (
        f"the profiler's own sum of all operators of rank {rank}, {duration(total)}: {listed}{en}",
        f"profiler 对 rank {rank} 全部算子的汇总，共 {duration(total)}：{listed}{zh}",
    )
