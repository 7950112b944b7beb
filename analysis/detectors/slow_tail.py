"""The same kernel on the same shape is sometimes much slower.

## What it measures

Kernels of one kind (type, core, shapes, types, block count) against the median of their kind on their rank. Where one
rank has too few it is the median of all ranks. A kernel is an outlier when it exceeds the median by a share, several
robust standard deviations (MAD) and an absolute minimum. What it takes beyond the median is the excess. What the clock
explains is taken off first (`frequency_drop`), and so is a step in which every kernel is slower (`step_jitter`).

Collectives count as well where all members were captured. What one takes after the other members have left is no
transfer: its device was held up.

## Why it costs

A stream runs kernels one after the other: each slow one delays all behind it, and with them every rank that waits.

## What to do

Look at what else touches the device when it happens: another process, ECC repair, a neighbour on a shared card. A
collective or a copy at the same time takes bandwidth. Kernels whose data decides their work (index, sort, MoE) vary by
themselves: balance the data. Otherwise collect once more with `aic_metrics=Memory` and compare the slow ones.

## Limits of the method

Fewer than five kernels of a kind say nothing. Without shapes (Level0) the n-th kernel of a name in every step is taken
for the same work. A place in the step that is slow in every step is no tail. It is that place's own cost, and is left
out. Where nearly all slow kernels overlap a collective, and kernels that overlap one are mostly slow, the cause is
contention. If more than 40 % of a kind are slow there are two modes, not a tail. Calls of a kind may differ too much
for that. Then more than 5 % of kernel time beyond the medians is "not measured". But in five steps or more, calls of
one shape may take three times what the quickest of them takes. Then what they take beyond it is told. Most of the
excess may be in the first kernels of their kinds, three of them at least. That is told as warm-up, which happens once.
Slow kernels of one rank may lie close together. A stretch is told where it has eight, three quarters of the excess,
and a quarter of the time.

## References

MAD and outliers: Leys et al. 2013, doi:10.1016/j.jesp.2013.03.013; NVIDIA nsys recipe `cuda_gpu_kern_hist`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import ENOUGH, Kernels, compared, evidence, identity, kernels, usual
from npulens.analysis.device.kinds import Bools
from npulens.analysis.device.tail import (
    DEVIATIONS,
    LEAST_NS,
    LEAST_SHARE,
    TAIL_SHARE,
    Bounds,
    overlapping,
    spread,
    tail,
)
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.exposure import UNNAMED, shown
from npulens.analysis.ranks.leaving import held_up, over_ns
from npulens.analysis.run import Run
from npulens.analysis.say import ONCE, share
from npulens.analysis.steady import steady_ns

NEEDS = ("kernels",)


@dataclass(frozen=True)
class Limits(limits.Limits):
    least_share: float = limits.limit(LEAST_SHARE, "share of the median", "healthy kernels vary by a few per cent")
    deviations: float = limits.limit(DEVIATIONS, "robust standard deviations", "beyond chance for thousands of kernels")
    least_ns: float = limits.limit(LEAST_NS, "ns", "device stamps have steps of 20 ns, launches jitter by 1 us")
    tail_share: float = limits.limit(TAIL_SHARE, "share of a kind's kernels", "more is a second mode, not a tail")
    vary_share: float = limits.limit(
        0.05, "share of the time in kernels", "more beyond the medians is no healthy spread"
    )


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {count} kernels are slow at times, {excess_ns} of each step over the median of their kind"
            "[[, {stretch_share} of that in one stretch of {stretch_ns} from {stretch_at_ns} on]]. "
            "Worst {type} ({worst_ns} instead of {median_ns})",
            "See what else uses the device at those moments: another process[[npu|cuda|rocm: , a collective or copy, "
            "ECC repair]]. If the kernel's work depends on its data, balance the data. Types that "
            "show it: {types}.",
        ),
        "first": Words(
            "Rank {ranks}: {count} slow kernels, most the first of their kind, take {excess_ns} of the recorded time "
            "over the median. Worst {type} ({worst_ns} instead of {median_ns})",
            "This looks like warm-up: libraries prepare and caches are cold. Later steps do not pay it; judge those. "
            "Record after some steps: schedule(wait=5, warmup=1, active=5). Types that show it: {types}.",
        ),
        "spread": Words(
            "Rank {ranks}: {count} calls take longer than the quickest of their kind, {excess_ns} of each step in all. "
            "The same {type}[[ on {shapes}]] takes {quickest_ns} to {worst_ns}",
            "The work is the same, so something else changes. Another process may share the device[[npu|cuda|rocm: , "
            "its clock may change, or a collective or copy may run beside]]. Measure alone and with a fixed clock. If "
            "the kernel's work depends on its data, balance the data. Types that show it: {types}.",
        ),
        "held": Words(
            "Rank {ranks}: the device stays in {count} collectives after their other members have left. That takes "
            "{excess_ns} of each step[[ (mean of {several} ranks)]], at most {worst_ns} in one",
            "This is no transfer: nothing can come or go any more, so no overlap gives it back. Something held up this "
            "device: another process that shares it, or the profiler. The other ranks then wait for it. Kernels and "
            "gaps at those moments may be long for the same reason. Collectives that show it: {types}.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：{count} 个算子偶发变慢，每步比同类中位数多 {excess_ns}"
            "[[，其中 {stretch_share} 集中在从 {stretch_at_ns} 起的 {stretch_ns} 内]]，最严重的是 {type}"
            "（{worst_ns}，正常 {median_ns}）",
            "请查看这些时刻设备上还有什么：其他进程[[npu|cuda|rocm: 、同时进行的通信或拷贝、ECC 修复]]。"
            "若耗时取决于数据，请均衡数据。涉及类型：{types}。",
        ),
        "first": Words(
            "rank {ranks}：{count} 个算子偏慢，多为同类中的第一个，采集时间中比同类中位数多 {excess_ns}，"
            "最严重的是 {type}（{worst_ns}，正常 {median_ns}）",
            "这像是预热：库在做准备，缓存尚未命中。后续步不再付出此开销，应以后续步评判："
            "先跑若干步再采集，如 schedule(wait=5, warmup=1, active=5)。涉及类型：{types}。",
        ),
        "spread": Words(
            "rank {ranks}：{count} 次调用比同类中最快的慢，每步共多 {excess_ns}；"
            "同样的 {type}[[（{shapes}）]]耗时从 {quickest_ns} 到 {worst_ns} 不等",
            "工作量相同，变化的是其他因素：共用设备的其他进程[[npu|cuda|rocm: 、频率、同时进行的通信或拷贝]]，"
            "或其他负载。请独占设备并固定频率后再测。若耗时取决于数据，请均衡数据。涉及类型：{types}。",
        ),
        "held": Words(
            "rank {ranks}：{count} 次集合通信在其他成员结束之后仍在继续，每步共 {excess_ns}"
            "[[（{several} 卡平均）]]，最长一次 {worst_ns}",
            "这不是传输：此时已没有数据可收发，掩盖通信也无济于事。是本设备被占住了：共用它的其他进程，或采集器；其他卡随后会等它。"
            "同一时刻的算子与空隙也可能因此变长。涉及的集合通信：{types}。",
        ),
    },
}

#: So many of the slow kernels must be the first of their kind to say that the process warmed up.
WARMING = 3
#: Where the calls of a kind differ too much to tell outliers, their spread is told of so many steps, and where the
#: slowest takes so many times as long as the quickest.
_STEPS, _TIMES = 5, 3
#: So many slow kernels with so much of the excess, within so much of the recorded time, are one stretch.
_TOGETHER, _MOST, _SHORT = 8, 0.75, 0.25


def _bounds(limits: Limits) -> Bounds:
    return Bounds(limits.least_share, limits.deviations, limits.least_ns, limits.tail_share)


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every, normal, excess = run.get(kernels), run.get(usual), tail(run, _bounds(limits))
    rows, held = np.flatnonzero(excess), list(_held(run))
    yield from held
    if not len(rows):
        if all((one.measured_ns or 0) < limits.min_share * run.get(steady_ns) for one in held):
            compared(run)
            yield from _varies(run, limits)
        return
    beside, first = overlapping(run), _first_of_a_kind(run)
    for ranks, those in by_rank(every.rank[rows], excess[rows]):
        mine = rows[those]
        worst = int(mine[np.argmax(excess[mine])])
        contended = 2 * excess[mine[beside[mine]]].sum() > excess[mine].sum()
        warming = len(mine[first[mine]]) >= WARMING and 2 * excess[mine[first[mine]]].sum() > excess[mine].sum()
        lost = int(excess[mine].sum()) // len(ranks)
        yield Candidate(
            "slow_tail", "first" if warming else "found",
            {
                "ranks": said(ranks), "count": len(mine), "excess_ns": lost if warming else lost // run.step_count,
                **({"per": ONCE} if warming else {}),
                "type": every.kinds[every.kind[worst]].type,
                "shapes": spoken(every.kinds[every.kind[worst]].input_shapes),
                "worst_ns": int(every.dur[worst]), "median_ns": int(normal.median[worst]),
                "types": _types(every, mine, excess), **({} if warming else _stretch(run, every, mine, excess[mine])),
            },
            evidence(every, mine, excess[mine]), Change(tasks=every.span_id[mine], task_ns=excess[mine]),
            "low" if contended else "high" if run.step_count > 2 else "medium",
            measured_ns=lost,
        )  # fmt: skip


def _held(run: Run) -> Iterator[Candidate]:
    """Collectives whose other members had left: one candidate for each group of ranks that are held up alike."""
    operators, found = run.get(collectives), run.get(held_up)
    for ranks, those in by_rank(operators.rank[found.rows], found.ns):
        mine, ns = found.rows[those], found.ns[those]
        of_kind = np.bincount(operators.kind[mine], ns, len(operators.kinds))
        kinds = [operators.kinds[kind] or UNNAMED for kind in np.argsort(-of_kind).tolist() if of_kind[kind]]
        lost, over = int(ns.sum()) // len(ranks), run.get(over_ns)[mine]
        yield Candidate(
            "slow_tail", "held",
            {
                "ranks": said(ranks), "count": len(mine), "excess_ns": lost // run.step_count,
                "worst_ns": int(ns.max()), "types": kinds, "several": len(ranks) if len(ranks) > 1 else None,
            },
            shown(operators, mine, ns, (over, operators.end[mine])), Change(tasks=operators.span_id[mine], task_ns=ns),
            "high" if run.step_count > 2 else "medium", measured_ns=lost,
        )  # fmt: skip


def _stretch(run: Run, every: Kernels, rows: Ints, excess: Ints) -> dict[str, Value]:
    """The shortest stretch of a rank with most of its excess, where that is a small part of the recorded time."""
    window, ranks = run.window(int(every.rank[rows[0]])), np.unique(every.rank[rows])
    if len(ranks) > 1 or window is None:
        return {}
    order = np.argsort(every.ts[rows], kind="stable")
    begin, end = every.ts[rows][order], np.maximum.accumulate(every.end[rows][order])
    until = np.concatenate((np.zeros(1, np.int64), np.cumsum(excess[order])))
    last = np.searchsorted(until, until[:-1] + _MOST * until[-1])  # one past the last that is needed
    first = np.flatnonzero(last < len(until))
    length = end[last[first] - 1] - begin[first]
    best = int(np.argmin(length))
    a, b = int(first[best]), int(last[first[best]])
    if b - a < _TOGETHER or length[best] > _SHORT * (window[1] - window[0]):
        return {}
    return {
        "stretch_share": int(until[b] - until[a]) / int(until[-1]), "stretch_ns": int(length[best]),
        "stretch_at_ns": int(begin[a]),
    }  # fmt: skip


def _first_of_a_kind(run: Run) -> Bools:
    """Kernels that are the first of their kind on their rank."""
    every, found = run.get(kernels), np.zeros(len(run.get(kernels)), np.bool_)
    order = np.lexsort((every.ts, every.rank))
    _, at = np.unique(combined(every.rank, run.get(identity))[order], return_index=True)
    found[order[at]] = True
    return found


def _varies(run: Run, limits: Limits) -> Iterator[Candidate]:
    """What calls of the same kind differ by where none of them is an outlier; raises where that cannot be told yet."""
    every, beyond = run.get(kernels), spread(run, _bounds(limits))
    whole = int(every.dur.sum())
    if beyond <= limits.vary_share * whole:
        return
    enough = run.step_count >= _STEPS
    found = list(_spread(run)) if enough else []
    yield from found
    if not found:
        more = share(beyond / whole)
        raise NotMeasured(
            f"calls of a kernel differ too much to tell outliers: {more} of kernel time is beyond the medians",
            f"同一算子的各次耗时差异过大，无法判断哪些偏慢：算子时间的 {more} 超出中位数",
            "aic_metrics=Memory" if run.get(family) == "npu" else None if enough else "schedule(active=5 or more)",
        )


def _spread(run: Run) -> Iterator[Candidate]:
    """Calls of one shape of which some take several times what the quickest takes: one candidate for alike ranks."""
    every, same = run.get(kernels), run.get(identity)
    group = combined(every.rank, same)
    _, where, count = np.unique(group, return_inverse=True, return_counts=True)
    where = where.ravel()
    least, most = np.full(len(count), np.iinfo(np.int64).max), np.zeros(len(count), np.int64)
    np.minimum.at(least, where, every.dur)
    np.maximum.at(most, where, every.dur)
    wide = (count >= ENOUGH) & (most >= _TIMES * least)
    excess = np.where((same >= 0) & wide[where], every.dur - least[where], 0)
    rows = np.flatnonzero(excess)
    for ranks, those in by_rank(every.rank[rows], excess[rows]):
        mine = rows[those]
        lost = np.bincount(where[mine], excess[mine])
        worst = int(mine[where[mine] == lost.argmax()][0])
        kind, total = every.kinds[every.kind[worst]], int(excess[mine].sum()) // len(ranks)
        yield Candidate(
            "slow_tail", "spread",
            {
                "ranks": said(ranks), "count": len(mine), "excess_ns": total // run.step_count, "type": kind.type,
                "shapes": spoken(kind.input_shapes), "worst_ns": int(most[where[worst]]),
                "quickest_ns": int(least[where[worst]]), "types": _types(every, mine, excess),
            },
            evidence(every, mine, excess[mine]), Change(tasks=every.span_id[mine], task_ns=excess[mine]), "low",
            measured_ns=total,
        )  # fmt: skip


def _types(every: Kernels, rows: Ints, excess: Ints) -> list[str]:
    """The five operator types that lose most."""
    lost: dict[str, int] = {}
    for row in rows:
        name = every.kinds[every.kind[row]].type
        lost[name] = lost.get(name, 0) + int(excess[row])
    return sorted(lost, key=lambda name: -lost[name])[:5]
