"""A pipeline stage waits for the activations or gradients of its neighbour.

## What it measures
Sends, receives and batches of both (`hcom_send`, `hcom_receive`, `hcom_batchSendRecv`, NCCL's SendRecv). What counts is
the time in which they wait for the other side and nothing is computed. Where the capture does not tell waiting from
transferring, both count; otherwise transfers are told by comm_exposed. The profiler's own "Bubble" counts
`hcom_receive` only and is 0 for batches.

Where a job on CPUs computes no layer of a model, only its sends and receives are told. They may be a collective that
somebody wrote by hand.

One process may drive several devices and spread a model's layers over them. Then what counts is the time in which the
device that works most does not, and another does.

## Why it costs
The stage's device stands still. With p stages and m micro-batches that is at least (p - 1) / (m + p - 1) of the step in
a plain schedule. It is more where stages are unequal.

## What to do
More micro-batches, an interleaved schedule, layers spread so that all stages take the same time.

## Limits of the method
Part of the bubble belongs to every schedule. Where all stages were captured the saving is the wait of the stage that
waits least: what else it does stays. What it waits after its last step is in no exchange. It counts where the clocks
tell when the last stage was done. Where they do not, or stages are unequal, the saving is what stages wait on average.
What equal stages alone give back (stage_balance) is taken off. A host may be late behind a wait. So it is never more
than a replay gives in which no rank waits. Where a stage was not captured, filling and draining cannot be told from
waiting for a slow stage. The saving is then that of a replay without these waits. Context parallelism in a ring sends
and receives too. Of several devices in one process the saving is an upper end: all of them work at once.

## References
Narayanan et al., SC 2021 (arXiv:2104.04473), section 2.2: the bubble of 1F1B and of interleaved
schedules; Megatron-LM --num-layers-per-virtual-pipeline-stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.kinds import TYPED
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Words
from npulens.analysis.limits import limit
from npulens.analysis.ranks.collectives import POINT_TO_POINT, collectives
from npulens.analysis.ranks.exposure import between_stages
from npulens.analysis.ranks.several_devices import devices, in_turn, worked
from npulens.analysis.ranks.stages import bubble_ns
from npulens.analysis.replay import whatif
from npulens.analysis.replay.critical import STILL, unmovable
from npulens.analysis.run import Run
from npulens.analysis.say import duration
from npulens.analysis.steady import of_step, steady_ns

NEEDS = ("collectives", "kernels")
#: Operators on a CPU that layers of a model are made of.
_LAYERS = re.compile(
    r"mm(?:_|$)|bmm|matmul|linear|einsum|conv|attention|embedding|norm|pool|softmax|rnn|lstm|gru|backward", re.I
)
#: Windows a finding shows.
_MOST = 20

TEXT = {
    "en": {
        "found": Words(
            "Rank {rank}'s pipeline stage waits {bubble_ns} of each step ({bubble_share}) for its neighbours",
            "{count} sends and receives a step. Use more micro-batches (a smaller micro-batch-size), an interleaved "
            "schedule (--num-layers-per-virtual-pipeline-stage). Balance the layers of the stages: first and last "
            "also hold embedding and loss. Profile the neighbouring stages too, to see which one is slow.",
        ),
        "exchange": Words(
            "Rank {rank} waits {bubble_ns} of each step ({bubble_share}) in sends and receives for other ranks",
            "{count} sends and receives a step, and the rank computes no layer of a model beside them. If they are a "
            "collective made by hand, such as a ring, let one call do it (all_reduce, all_gather). If they are a "
            "pipeline's, use more micro-batches. Profile the other ranks too, to see which one is late.",
        ),
        "in_turn": Words(
            "Rank {rank}'s {count} devices take turns: for {bubble_ns} of each step ({bubble_share}) the busiest waits "
            "while another works",
            "Work of each device: {devices}. Layers that one process spreads over devices (device_map, .to() for "
            "each layer) run on one device at a time. Run one process for each device: data or tensor parallel, or a "
            "pipeline with micro-batches. If the model fits, use one device. This is the most that it gives back: all "
            "devices work at once.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {rank} 的流水线阶段每步有 {bubble_ns}（{bubble_share}）在等相邻阶段",
            "每步有 {count} 次收发。请增加 micro batch 数（减小 micro-batch-size），使用交错调度"
            "（--num-layers-per-virtual-pipeline-stage），并均衡各阶段的层数：首尾阶段还有 embedding 和 loss。"
            "同时采集相邻阶段，可看出哪个阶段慢。",
        ),
        "exchange": Words(
            "rank {rank} 每步有 {bubble_ns}（{bubble_share}）停在收发中等其他 rank",
            "每步有 {count} 次收发，且该 rank 没有计算任何模型层。若这是自己实现的集合通信（如环形），"
            "请改用一次 all_reduce 或 all_gather；若是流水线，请增加 micro batch 数。"
            "同时采集其他 rank，可看出哪个 rank 迟到。",
        ),
        "in_turn": Words(
            "rank {rank} 的 {count} 个设备轮流工作：每步有 {bubble_ns}（{bubble_share}）最忙的设备在等其他设备",
            "各设备的工作时间：{devices}。在一个进程中把模型各层分到多个设备（device_map 或逐层 .to()）时，"
            "同一时刻只有一个设备在工作。请为每个设备启动一个进程，使用数据并行、张量并行，"
            "或带 micro batch 的流水线并行；模型放得下时只用一个设备。这是收益上限：所有设备同时工作。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When a stage's waiting is worth telling."""

    least_share: float = limit(0.02, "share of the step", "a transfer between two stages alone takes up to 1 to 2 %")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """The stage that waits most, and the rank whose devices take turns most."""
    least = limits.least_share * run.get(steady_ns)
    lost, rank = max(((in_turn(worked(run, rank)).total(), rank) for rank in run.get(devices)), default=(0, -1))
    if lost and lost >= least:
        yield _in_turn(run, rank)
    found = run.get(between_stages)
    if found is None and (operators := _nameless(run)):
        raise NotMeasured(
            f"the capture does not say of {operators:,} operators of communication what they do; they may send and "
            "receive",
            f"有 {operators:,} 个通信算子未说明其类型，可能是收发",
            "profiler_level=Level1" if run.get(family) == "npu" else None,
        )  # fmt: skip
    if found is None or found.longest_ns < least:
        return
    step = found.longest_ns // run.step_count
    numbers = {
        "rank": found.worst, "bubble_ns": step, "bubble_share": of_step(run, step),
        "count": found.count // run.step_count,
    }  # fmt: skip
    bubble = run.get(bubble_ns)
    if bubble is not None and run.get(unmovable) <= STILL:
        bubble = min(bubble, _without_others(run))
    layers = _layers(run, found.worst)
    yield Candidate(
        "pipeline_bubble", "found" if layers else "exchange", numbers, found.evidence, found.change,
        "high" if layers else "medium",
        min(found.longest_ns if bubble is None else bubble, found.longest_ns), found.longest_ns,
        replayed=bubble is None,
    )  # fmt: skip


def _layers(run: Run, rank: int) -> bool:
    """Whether a rank may compute layers of a model, as a stage does. Of devices nothing is known to the contrary."""
    if run.get(family) != "cpu":
        return True
    every = run.get(kernels)
    layer = every.of(every.kinds.each(lambda kind: _LAYERS.search(kind.type) is not None, *TYPED).flags())
    return bool(layer[every.rank == rank].any())


def _without_others(run: Run) -> int:
    """How much shorter the run is at most if stages pass nothing on.

    A host that is late behind a wait still is.
    """
    operators = run.get(collectives)
    passed = operators.of_kinds(POINT_TO_POINT)
    nothing = Change(tasks=operators.span_id[passed], task_ns=(operators.end - operators.ts)[passed])
    return max(0, run.wall_ns - whatif.alone_ns(run, nothing))


def _in_turn(run: Run, rank: int) -> Candidate:
    every = worked(run, rank)
    waits = in_turn(every)
    lost, longest = waits.total(), np.argsort(waits.starts - waits.ends, kind="stable")[:_MOST].tolist()
    step = lost // run.step_count
    return Candidate(
        "pipeline_bubble", "in_turn",
        {
            "rank": rank, "count": len(every), "bubble_ns": step, "bubble_share": of_step(run, step),
            "devices": [f"{name} {duration(one.total() / run.step_count)}" for name, one in every.items()],
        },
        tuple(Evidence(rank, int(waits.starts[i]), int(waits.ends[i] - waits.starts[i])) for i in longest),
        Change(), "medium", lost, lost, replayed=False,
    )  # fmt: skip


def _nameless(run: Run) -> int:
    """How many operators of communication there are, where the capture says of none of them what it does."""
    operators = run.get(collectives)
    nameless = operators.of_kinds(frozenset({""}))
    return int(nameless.sum()) if nameless.all() else 0
