"""Kernels are shorter than the cost of launching them.

## What it measures
Runs of 8 or more kernels in a row, each shorter than the fastest launches of this job. Between them the device idles.
Per launch it counts what a launch usually costs the host of this job, and the launch's way to the device. What the host
takes beyond that is host_late. Other kernels before which the device idles from their launch on are counted apart.

## Why it costs
A launch takes the host 5 to 50 us whatever the kernel does. Kernels of 2 us leave the device idle nine tenths of the
time, however fast they are.

## What to do
Launch them together: fused or foreach operators (`foreach=True`, NpuFusedAdamW), or torch.compile with torchair or
Inductor. Or use a captured graph (torch.npu.NPUGraph, CUDA graphs), TASK_QUEUE_ENABLE=2, or a larger batch.

## Limits of the method
The saving is what one launch instead of the run's would give back, with what a kernel costs that does nothing. It is a
ceiling, and never more than the device idles in all. Nodes of a captured graph have no launch of their own and do not
count. What fusing saves in memory traffic is `unfused`.

On a CPU nothing is launched: calling an operator and computing it are one. There runs of operators count whose work, by
their shapes, is less than half of their time. One call for all of them would give back the rest, and the pauses between
them. Work is counted at a tenth of what a core does, and calls cost more while a profiler records them.

## References
Launch cost against kernel length: HTA "short kernels"; CUDA graphs and ACL graph documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits as limits_
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.kernels import evidence, kernels
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import blame, said, similar_ranks
from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.issue import RUNTIME, Tasks, tasks
from npulens.analysis.idle.launch_costs import kernel_calls, launch_costs
from npulens.analysis.idle.origin import origins
from npulens.analysis.idle.pieces import Idle, idle
from npulens.analysis.idle.small_operators import SmallOperators, small_operators
from npulens.analysis.intervals import Intervals, Ints, combined
from npulens.analysis.limits import limit
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns

NEEDS = ("kernels", "launches")

#: A call that launches several kernels launches a graph: its nodes cost no launch each.
TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {kernels} kernels of each step, {kernel_ns} each, are shorter than their launches "
            "({launch_ns}). The device idles {idle_ns} ({idle_share}) between them[[, {code_share} of that in {code}]]",
            "Launch them together: foreach or fused operators[[npu:  (NpuFusedAdamW, torch_npu.npu_*)]], torch.compile"
            "[[npu:  (torchair)]][[cuda|rocm:  (mode='reduce-overhead')]], or a captured graph[[npu:  (NPUGraph)]]"
            "[[cuda:  (CUDA graphs)]][[rocm:  (HIP graphs)]]. [[npu: TASK_QUEUE_ENABLE=2 makes each launch cheaper. ]]"
            "A larger batch makes each kernel worth its launch.",
        ),
        "apart": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) between launches and their kernels, "
            "{launch_ns} before each of {kernels}",
            "Nothing was queued when the host launched them, so each pays the way to the device. Let the host run "
            "ahead: fewer synchronising calls and reads of values, larger pieces of work, or a captured graph"
            "[[npu:  (NPUGraph)]][[cuda:  (CUDA graphs)]][[rocm:  (HIP graphs)]].",
        ),
        "called": Words(
            "Rank {ranks}: calling {kernels} small operators costs {called_ns} of each step; each takes {kernel_ns}, "
            "its work {work_ns} at most",
            "Compute more in each call: whole tensors instead of rows in a Python loop, a larger batch, foreach or "
            "fused operators, torch.compile. Most of it is {type}[[ on {shapes}]], called by {origin}.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步有 {kernels} 个算子（平均 {kernel_ns}）比下发开销（{launch_ns}）还短，"
            "其间设备空闲 {idle_ns}（{idle_share}）[[，其中 {code_share} 在 {code}]]",
            "合并下发：foreach 或融合算子[[npu: （NpuFusedAdamW、torch_npu.npu_*）]]、torch.compile[[npu: "
            "（torchair）]]"
            "[[cuda|rocm: （mode='reduce-overhead'）]]、图捕获[[npu: （NPUGraph）]][[cuda: （CUDA graphs）]]"
            "[[rocm: （HIP graphs）]]。[[npu: TASK_QUEUE_ENABLE=2 可降低单次下发开销。]]更大的批量使算子更长。",
        ),
        "apart": Words(
            "rank {ranks}：从下发到算子开始之间，设备每步空闲 {idle_ns}（{idle_share}）；共 {kernels} 个算子，每个之前 "
            "{launch_ns}",
            "主机下发时队列已空，每个算子都要等下发到达设备。请让主机跑在前面：减少同步调用和取值、增大每次下发的工作量，"
            "或使用图捕获[[npu: （NPUGraph）]][[cuda: （CUDA graphs）]][[rocm: （HIP graphs）]]。",
        ),
        "called": Words(
            "rank {ranks}：每步调用 {kernels} 个小算子的开销为 {called_ns}；"
            "每个耗时 {kernel_ns}，其中计算最多 {work_ns}",
            "让每次调用多算一些：用整个张量代替 Python 循环里的逐行计算、增大 batch、使用 foreach 或融合算子、"
            "torch.compile。最多的是 {type}[[，形状 {shapes}]]，由 {origin_zh} 调用。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """What a kernel costs that does nothing."""

    empty_ns: float = limit(2_000, "ns of a kernel that does nothing", "shortest of the real captures: 1.5 to 2.5 us")


#: So many kernels of a rank in a step that idle apart are no accident.
_SEVERAL = 8


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks whose kernels are short alike."""
    small = run.get(small_operators)
    yield from _called(run, small, limits)
    pieces, rhythm = run.get(idle), run.get(launch_costs)
    every = {rank: did for rank, did in run.get(tasks).items() if not np.isin(did.ids, small.on_cpu).any()}
    graphs = _graphs(run)
    short = {
        rank: rhythm.short_run(every[rank]) & ~np.isin(every[rank].source, graphs)
        for rank in pieces.ranks if rank in every
    }  # fmt: skip
    mine = _in_runs(pieces, every, short)
    totals = {rank: ns for rank, ns in pieces.totals(mine).items() if rank in short and ns}
    least = limits.min_share * run.get(steady_ns)
    if max(totals.values(), default=0) < least <= _hidden(pieces, every, short):
        raise NotMeasured(
            "between short kernels the device waits for the profiler, which hides what launching costs",
            "短算子之间设备在等采集器，看不出下发开销", "l2_cache=False",
        )  # fmt: skip
    for ranks in similar_ranks(totals):
        found = blame(run, pieces, ranks, mine)
        own = np.concatenate([(every[rank].ends - every[rank].starts)[short[rank]] for rank in ranks])
        count = max(int(short[rank].sum()) for rank in ranks)
        numbers: dict[str, Value] = {
            **found.numbers, "kernels": -(-count // run.step_count), "kernel_ns": int(own.mean()),
            "launch_ns": rhythm.ordinary_ns,
        }  # fmt: skip
        ids = np.concatenate([every[rank].ids[short[rank]] for rank in ranks])
        change = Change(
            host={rank: _launches(every[rank], short[rank], rhythm.ordinary_ns) for rank in ranks},
            tasks=ids,
            task_ns=np.minimum(own, int(limits.empty_ns)),
            delays=ids,
            delay_ns=np.concatenate([_latency(every[rank], short[rank]) for rank in ranks]),
        )
        ceiling = max(_idle(pieces, rank) for rank in ranks)
        yield Candidate(
            "launch_overhead", "found", numbers, found.evidence, change, ceiling_ns=ceiling,
            measured_ns=found.measured_ns,
        )  # fmt: skip
    yield from _apart(run, pieces, pieces.pick("launch_overhead") & ~mine)


def _apart(run: Run, pieces: Idle, mine: NDArray[np.bool_]) -> Iterator[Candidate]:
    """One candidate for each group of ranks whose other kernels start as long after their launch."""
    totals = {rank: ns for rank, ns in pieces.totals(mine).items() if ns}
    for ranks in similar_ranks(totals):
        here = np.flatnonzero(mine & np.isin(pieces.rank, ranks) & (pieces.task != NONE))
        ids, of = np.unique(pieces.task[here], return_inverse=True)
        wait = np.zeros(len(ids), np.int64)
        np.add.at(wait, of.ravel(), (pieces.end - pieces.start)[here])
        if len(ids) < _SEVERAL * run.step_count * len(ranks):
            continue
        found = blame(run, pieces, ranks, mine)
        numbers: dict[str, Value] = {
            **{name: value for name, value in found.numbers.items() if not name.startswith("code")},
            "kernels": -(-len(ids) // (run.step_count * len(ranks))), "launch_ns": int(wait.mean()),
        }  # fmt: skip
        yield Candidate(
            "launch_overhead", "apart", numbers, found.evidence, Change(delays=ids, delay_ns=wait),
            measured_ns=found.measured_ns,
        )  # fmt: skip


def _graphs(run: Run) -> Ints:
    """Calls that launch several kernels."""
    found = run.get(kernel_calls)
    mine = found["vague"] == RUNTIME
    source, task = found["source"][mine].astype(np.int64), found["task"][mine].astype(np.int64)
    _, once = np.unique(combined(source, task), return_index=True)
    called, count = np.unique(source[once], return_counts=True)
    return called[count > 1]


def _called(run: Run, small: SmallOperators, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks on a CPU whose operators are small alike."""
    least = limits.min_share * run.get(steady_ns)
    if not len(small.ids) and max(small.untold_ns.values(), default=0) / run.step_count >= least:
        raise NotMeasured(
            "how much the short operators have to compute: their shapes were not recorded",
            "短算子的计算量：未采集形状", "record_shapes=True",
        )  # fmt: skip
    every, steps = run.get(kernels), run.step_count
    for ranks, mine in by_rank(small.rank, small.fixed_ns):
        ids, fixed = small.ids[mine], small.fixed_ns[mine]
        rows = np.flatnonzero(np.isin(every.span_id, ids))
        kind = np.bincount(every.kind[rows], every.dur[rows]).argmax()
        longest = rows[every.kind[rows] == kind]
        lost = {
            rank: int(small.fixed_ns[small.rank == rank].sum()) + small.pauses[rank].total() for rank in ranks
        }  # fmt: skip
        worst = max(lost, key=lambda rank: lost[rank])
        numbers: dict[str, Value] = {
            "ranks": said(ranks), "kernels": -(-int((small.rank == worst).sum()) // steps),
            "called_ns": lost[worst] // steps, "kernel_ns": int(small.ns[mine].mean()),
            "work_ns": int((small.ns[mine] - fixed).mean()), "type": every.kinds[kind].type,
            "shapes": spoken(every.kinds[kind].input_shapes), **origins(run, int(every.span_id[longest[0]])),
        }  # fmt: skip
        host = {rank: small.pauses[rank] for rank in ranks}
        yield Candidate(
            "launch_overhead", "called", numbers, evidence(every, rows, every.dur[rows]),
            Change(host=host, tasks=ids, task_ns=fixed), measured_ns=lost[worst],
        )  # fmt: skip


def _idle(pieces: Idle, rank: int) -> int:
    """A launch less gives back idle time and nothing else."""
    own = pieces.on(rank)
    return int((pieces.end[own] - pieces.start[own]).sum())


def _hidden(pieces: Idle, every: dict[int, Tasks], short: dict[int, NDArray[np.bool_]]) -> int:
    """Of the rank that has most: time in which the profiler holds the device up before a kernel of a run."""
    mine = _in_runs(pieces, every, short, "profiler_overhead") & (pieces.host == NONE)
    totals = pieces.totals(mine)
    return max((totals[rank] for rank in short), default=0)


def _in_runs(
    pieces: Idle, every: dict[int, Tasks], short: dict[int, NDArray[np.bool_]], cause: str = "launch_overhead"
) -> NDArray[np.bool_]:
    """The pieces with a cause before a kernel of a run."""
    mine = pieces.pick(cause)
    ids = [every[rank].ids[of] for rank, of in short.items()]
    return mine & np.isin(pieces.task, np.concatenate(ids) if ids else np.zeros(0, np.int64))


def _launches(did: Tasks, short: NDArray[np.bool_], ordinary_ns: int) -> Intervals:
    """What launching the run's kernels took the host, each at most what a launch usually costs."""
    done = np.where(did.queued, did.issued, did.source_end)
    times = np.unique(done[did.linked])
    mine = done[short]
    before = times[np.maximum(np.searchsorted(times, mine) - 1, 0)]
    return Intervals.union_of(np.maximum(before, mine - ordinary_ns), mine)


def _latency(did: Tasks, short: NDArray[np.bool_]) -> Ints:
    """From launch to start, or to the end of the kernel before where that was later."""
    reach = np.maximum.accumulate(did.ends)
    free = np.maximum(did.source_start, np.concatenate((did.source_start[:1], reach[:-1])))
    late: Ints = np.maximum((did.starts - free)[short], 0)
    return late
