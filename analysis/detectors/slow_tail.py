"""The same kernel on the same shape is sometimes much slower.

## What it measures

Kernels of one kind (type, core, shapes, types, block count) against the median of their kind on their rank. Where one
rank has too few it is the median of all ranks. A kernel is an outlier when it exceeds the median by a share, several
robust standard deviations (MAD) and an absolute minimum. What it takes beyond the median is the excess. What the clock
explains is taken off first (`frequency_drop`), and so is a step in which every kernel is slower (`step_jitter`).

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
contention. If more than 40 % of a kind are slow there are two modes, not a tail.

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
from npulens.analysis.device.kernels import Kernels, compared, evidence, kernels, usual
from npulens.analysis.device.tail import DEVIATIONS, LEAST_NS, LEAST_SHARE, TAIL_SHARE, Bounds, overlapping, tail
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

NEEDS = ("kernels",)


@dataclass(frozen=True)
class Limits(limits.Limits):
    least_share: float = limits.limit(LEAST_SHARE, "share of the median", "healthy kernels vary by a few per cent")
    deviations: float = limits.limit(DEVIATIONS, "robust standard deviations", "beyond chance for thousands of kernels")
    least_ns: float = limits.limit(LEAST_NS, "ns", "device stamps have steps of 20 ns, launches jitter by 1 us")
    tail_share: float = limits.limit(TAIL_SHARE, "share of a kind's kernels", "more is a second mode, not a tail")


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {count} kernels are slow at times, {excess_ns} of each step over the median of their kind. "
            "Worst {type} ({worst_ns} instead of {median_ns})",
            "See what else uses the device at those moments: another process, a collective or copy"
            "[[npu|cuda|rocm: , ECC repair]]. If the kernel's work depends on its data, balance the data. Types that "
            "show it: {types}.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：{count} 个算子偶发变慢，每步比同类中位数多 {excess_ns}，最严重的是 {type}"
            "（{worst_ns}，正常 {median_ns}）",
            "请查看这些时刻设备上还有什么：其他进程、同时进行的通信或拷贝[[npu|cuda|rocm: 、ECC 修复]]。"
            "若耗时取决于数据，请均衡数据。涉及类型：{types}。",
        )
    },
}


def _excess(run: Run, limits: Limits) -> Ints:
    return tail(run, Bounds(limits.least_share, limits.deviations, limits.least_ns, limits.tail_share))


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every, normal, excess = run.get(kernels), run.get(usual), _excess(run, limits)
    rows = np.flatnonzero(excess)
    if not len(rows):
        compared(run)
        return
    beside = overlapping(run)
    for ranks, those in by_rank(every.rank[rows], excess[rows]):
        mine = rows[those]
        worst = int(mine[np.argmax(excess[mine])])
        contended = 2 * excess[mine[beside[mine]]].sum() > excess[mine].sum()
        yield Candidate(
            "slow_tail", "found",
            {
                "ranks": said(ranks), "count": len(mine),
                "excess_ns": int(excess[mine].sum()) // run.step_count // len(ranks),
                "type": every.kinds[every.kind[worst]].type,
                "shapes": spoken(every.kinds[every.kind[worst]].input_shapes),
                "worst_ns": int(every.dur[worst]), "median_ns": int(normal.median[worst]),
                "types": _types(every, mine, excess),
            },
            evidence(every, mine, excess[mine]), Change(tasks=every.span_id[mine], task_ns=excess[mine]),
            "low" if contended else "high" if run.step_count > 2 else "medium",
            measured_ns=int(excess[mine].sum()) // len(ranks),
        )  # fmt: skip


def _types(every: Kernels, rows: Ints, excess: Ints) -> list[str]:
    """The five operator types that lose most."""
    lost: dict[str, int] = {}
    for row in rows:
        name = every.kinds[every.kind[row]].type
        lost[name] = lost.get(name, 0) + int(excess[row])
    return sorted(lost, key=lambda name: -lost[name])[:5]
