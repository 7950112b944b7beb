"""Compute and communication run at once and take memory bandwidth from each other.

## What it measures
Kernels of one kind and shape while a transfer runs beside them, against the same while none does. Beside is a quarter
of their time or more. Also transfers of one kind and size beside compute, against those alone. Both need 5 samples of
each, medians that differ by a tenth (transfers: by a fifth), and quartiles that lie apart. Where a rank has too few
kernels of a kind, those of other ranks that are as long alone count as well. The excess of the slower ones is what
contention takes. What meets the other side for a shorter time counts by its excess, too.

## Why it costs
A device has one memory and one fabric: a transfer reads and writes the memory that a kernel waits for. Overlap
still pays, but hides less than it seems to.

## What to do
Let transfers run beside work that is bound by computing, as large matrix products, not beside kernels bound by
memory. Fewer bytes: reduce in bf16, compress. Fewer communication cores (HCCL_OP_EXPANSION_MODE=AIV takes vector cores,
NCCL_MAX_NCHANNELS takes multiprocessors).

## Limits of the method
Kernels whose work depends on their data look the same. Where only whole operators were recorded, their waits
count as transfers, and the difference looks smaller.

## References
msprof-analyze advisor: bandwidth contention (SDMA beside a matrix product, below 14.4 of 18 GB/s).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits as limits_
from npulens.analysis.device.kernels import Floats, evidence, identity, kernels
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.limits import COVERED, limit
from npulens.analysis.ranks.packets import Faster, faster, packets
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run, steady_ns

NEEDS = ("collectives", "kernels")
#: Share of its time in which the other runs beside a task: it is beside from the first on, alone up to the second.
_BESIDE, _ALONE = 0.25, 0.05

TEXT = {
    "en": {
        "found": Words(
            "Kernels take {times} times as long beside a transfer as alone: {lost_ns} of each step ({lost_share}) on "
            "rank {rank}",
            "{count} kernels a step, most in {kernels}.[[ Transfers beside compute move {rate_bytes_per_s} instead of "
            "{usual_bytes_per_s}.]] Start the transfers where large matrix products run, not kernels bound by memory. "
            "Send fewer bytes (reduce in bf16); give communication fewer cores ({switch}).",
        ),
    },
    "zh": {
        "found": Words(
            "有传输同时进行时，算子耗时是单独运行时的 {times} 倍：rank {rank} 每步损失 {lost_ns}（{lost_share}）",
            "每步 {count} 个算子，多为 {kernels}。[[与计算同时进行的传输带宽为 {rate_bytes_per_s}，"
            "单独时为 {usual_bytes_per_s}。]]请让传输与大矩阵乘重叠，而不是与受访存限制的算子重叠；"
            "减少传输字节（用 bf16 规约）；减少通信占用的核（{switch}）。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When the two fight."""

    least_times: float = limit(1.1, "times the same alone", "healthy kernels of one shape stay within some per cent")
    least_link_times: float = limit(
        1.2, "times the same alone", "msprof-analyze: below 80 % of the usual bandwidth beside a matrix product"
    )
    least_count: float = limit(5, "samples of each", "quartiles of fewer say nothing")


@dataclass(frozen=True)
class _Compared:
    """Tasks of several kinds, beside the other side and alone."""

    less: Ints  # per task: what it takes above the median of its like alone; 0 where nothing is wrong
    usual: Floats
    compared: NDArray[np.bool_]  # whether its kind had samples enough


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the kernels that transfers slow down, and the other way round."""
    every, same, beside = run.get(kernels), run.get(identity), _beside(run)
    if not len(every) or beside.max(initial=0.0) < _BESIDE:
        return
    mine = _of_any_rank(every.dur, same, every.rank, beside, limits)
    found = run.get(packets)
    hidden = 1 - found.bare / np.maximum(found.dur, 1)
    kind = (found.what * 64 + found.size) * (int(found.rank.max(initial=0)) + 1) + found.rank
    needs = 1e6 / np.maximum(found.rate, 1e-9)  # ns per MB: sizes of one class differ
    theirs = _compared(needs, kind, hidden, limits.least_link_times, limits.least_count)
    less = (theirs.less / np.maximum(needs, 1e-9) * found.dur).astype(np.int64)
    if mine.less.any():
        yield _candidate(run, mine, less, theirs, faster(run, found, less))
        return
    both = every.dur * beside
    if both[~mine.compared].sum() > max((1 - COVERED) * both.sum(), limits.min_share * run.get(steady_ns)):
        raise NotMeasured(
            "too few kernels of one kind ran both beside a transfer and alone",
            "同类算子中，与传输同时运行的和单独运行的都太少",
            "a profile of more steps",
        )  # fmt: skip


def _beside(run: Run) -> Floats:
    """Which share of each kernel's time a transfer runs beside it."""
    every, found = run.get(kernels), run.get(packets)
    share = np.zeros(len(every))
    for rank in run.ranks:
        rows, mine = found.rank == rank, every.on(rank)
        moving = Intervals.union_of(found.ts[rows], found.end[rows]) if rows.any() else None
        busy = moving or run.activity(rank).communication or EMPTY
        begin, length = every.ts[mine], every.dur[mine]
        share[mine] = busy.within(begin, begin + length) / np.maximum(length, 1)
    return share


def _compared(values: Ints | Floats, group: Ints, share: Floats, times: float, count: float) -> _Compared:
    """Of each group those beside the other side against those alone."""
    less, usual, compared = np.zeros(len(values), np.int64), np.full(len(values), np.nan), np.zeros(len(values), bool)
    _, which = np.unique(group, return_inverse=True)
    enough = np.minimum(np.bincount(which.ravel(), share <= _ALONE), np.bincount(which.ravel(), share >= _BESIDE))
    mine = np.flatnonzero((enough[which.ravel()] >= max(count, 1)) & (group >= 0))
    if not len(mine):
        return _Compared(less, usual, compared)
    _, of = np.unique(group[mine], return_inverse=True)
    of = of.ravel()
    fast = _Ranked.of(values, mine, of, share[mine] <= _ALONE)
    slow = _Ranked.of(values, mine, of, share[mine] >= _BESIDE)
    compared[mine] = True
    median, most = fast.median(), fast.quantile(0.75)
    usual[mine] = median[of]
    clearly = (slow.quantile(0.25) > most) & (slow.median() >= times * median)
    # Of a kind that is slower for sure, those that the other side meets for a short time take a part of that.
    partly = (share[mine] > _ALONE) & (values[mine] > most[of])
    beside = clearly[of] & ((share[mine] >= _BESIDE) | partly)
    less[mine[beside]] = np.maximum(0, values[mine[beside]] - median[of[beside]]).astype(np.int64)
    return _Compared(less, usual, compared)


def _of_any_rank(values: Ints, same: Ints, rank: Ints, share: Floats, limits: Limits) -> _Compared:
    """By the samples of each rank. Where a rank has too few, by all ranks' that are alike alone.

    A rank that has none alone may be a slower one, and is not compared with others.
    """
    of_rank = np.where(same >= 0, same * (int(rank.max()) + 1) + rank, -1)
    own = _compared(values, of_rank, share, limits.least_times, limits.least_count)
    every = _compared(values, same, share, limits.least_times, limits.least_count)
    alone = share <= _ALONE
    _, which = np.unique(of_rank, return_inverse=True)
    which = which.ravel()
    samples = np.maximum(np.bincount(which, alone), 1)
    mean = (np.bincount(which, np.where(alone, values, 0)) / samples)[which]
    like = (mean * limits.least_times >= every.usual) & (mean <= every.usual * limits.least_times)
    theirs = ~own.compared & every.compared & like
    return _Compared(
        np.where(theirs, every.less, own.less), np.where(theirs, every.usual, own.usual), own.compared | theirs
    )


@dataclass(frozen=True)
class _Ranked:
    """Values of several groups, each group's in order; every group has some."""

    values: Ints | Floats
    first: Ints
    count: Ints

    @staticmethod
    def of(values: Ints | Floats, rows: Ints, group: Ints, which: NDArray[np.bool_]) -> _Ranked:
        """Of some rows, and the group of each, those that are wanted."""
        chosen, of = values[rows[which]], group[which]
        count = np.bincount(of, minlength=int(group.max()) + 1)
        return _Ranked(chosen[np.lexsort((chosen, of))], np.cumsum(count) - count, count)

    def median(self) -> Floats:
        """The middle of each group, as numpy says it."""
        low, high = self.values[self.first + (self.count - 1) // 2], self.values[self.first + self.count // 2]
        return np.asarray((low.astype(np.float64) + high) / 2)

    def quantile(self, share: float) -> Floats:
        """A quantile of each group, as numpy says it."""
        place = (self.count - 1) * share
        low = np.floor(place).astype(np.int64)
        part = place - low
        before = self.values[self.first + low]
        after = self.values[self.first + np.minimum(low + 1, self.count - 1)]
        apart = after - before
        return np.asarray(np.where(part >= 0.5, after - apart * (1 - part), before + apart * part))


def _candidate(run: Run, mine: _Compared, moved: Ints, theirs: _Compared, gain: Faster) -> Candidate:
    every, found, steps = run.get(kernels), run.get(packets), run.step_count
    rows = np.flatnonzero(mine.less)
    ranks, of = np.unique(every.rank[rows], return_inverse=True)
    totals = np.bincount(of, mine.less[rows]).astype(np.int64)
    rank, lost, slow = int(ranks[totals.argmax()]), int(totals.max()), np.flatnonzero(moved)
    names: dict[str, int] = {}
    for row in rows.tolist():
        name = every.kinds[int(every.kind[row])].type
        names[name] = names.get(name, 0) + int(mine.less[row])
    backend = run.con.execute("SELECT any_value(backend) FROM rank").fetchall()[0][0]
    numbers: dict[str, Value] = {
        "rank": rank, "times": round(float(np.median(every.dur[rows] / mine.usual[rows])), 2),
        "count": int((every.rank[rows] == rank).sum()) // steps, "lost_ns": lost // steps,
        "lost_share": of_run(run, lost),
        "kernels": sorted(names, key=lambda name: -names[name])[:3],
        "rate_bytes_per_s": float(np.median(found.rate[slow])) * 1e9 if len(slow) else None,
        "usual_bytes_per_s": float(1e15 / np.median(theirs.usual[slow])) if len(slow) else None,
        "switch": "NCCL_MAX_NCHANNELS" if backend in ("cuda", "rocm") else "HCCL_OP_EXPANSION_MODE",
    }  # fmt: skip
    change = Change(tasks=every.span_id[rows], task_ns=mine.less[rows]) | gain.change
    return Candidate(
        "contention", "found", numbers, evidence(every, rows, mine.less[rows]), change, "medium",
        lost + gain.lost_ns, lost + gain.lost_ns,
    )  # fmt: skip
