"""The stages of a pipeline have unequal work, and all others wait for the slowest.

## What it measures
What the captured ranks of each stage compute in a step. Also how long they sit in sends and receives with nothing
computed. Stages come from the groups of kind `pp`, or from who sends to whom. Part of the waiting belongs to every
schedule. Filling and draining take (p - 1) / m of a stage's work, with p stages and m micro-batches. The rest comes
from stages that are not equal.

## Why it costs
Every micro-batch passes every stage, so the slowest stage sets the pace. Each other stage waits for it
once per micro-batch.

## What to do
Move layers from the slow stage to the others. The last stage often holds the output layer and the
loss over the whole vocabulary: give it fewer layers. More micro-batches make filling and draining shorter.

## Limits of the method
Equal means the mean of the captured stages; layers can only be moved as a whole. With few micro-batches
equal stages alone give less, because the first stage then fills the pipeline later: that is the saving. It
follows from the stages' work; no replay can tell it, because layers move from rank to rank.
Several chunks of layers on one rank are one stage here.

## References
Narayanan et al., SC 2021 (arXiv:2104.04473), section 2.2; Megatron-LM
--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers, --pipeline-model-parallel-layout;
MindSpeed --num-layer-list, --noop-layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.device.family import on_npu
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Value, Words
from npulens.analysis.limits import limit
from npulens.analysis.ranks.stages import EVEN, Pipeline, Uneven, pipelines, stages, uneven
from npulens.analysis.run import Run
from npulens.analysis.say import duration
from npulens.analysis.say import share as said_share
from npulens.analysis.steady import steady_ns

NEEDS = ("collectives", "kernels")
_MOST, _NAMED = 20, 4

TEXT = {
    "en": {
        "found": Words(
            "Pipeline stages are unequal: stage {slow} computes {slow_ns} of each step, stage {fast} {fast_ns}; "
            "{waits} in sends and receives",
            "Stages compute {stages}. Move layers from stage {slow} to the others, until each computes about "
            "{even_ns}. The stage with the output layer and the loss over the vocabulary needs fewer layers "
            "(--decoder-last-pipeline-num-layers, --pipeline-model-parallel-layout)[[. {mindspeed} also has "
            "--num-layer-list and --noop-layers]]. [[With {micro_batches} micro-batches, {filling_ns} of the wait is "
            "filling and draining, and equal stages alone give back about {equal_ns}. More micro-batches give back "
            "more.]]",
        ),
    },
    "zh": {
        "found": Words(
            "流水线各阶段负载不均：阶段 {slow} 每步计算 {slow_ns}，阶段 {fast} 为 {fast_ns}；在收发中等待：{waits_zh}",
            "各阶段的计算时间：{stages}。请把阶段 {slow} 的部分层移到其他阶段，使每个阶段约为 {even_ns}。"
            "含输出层和整个词表上 loss 的阶段应少放几层"
            "（--decoder-last-pipeline-num-layers、--pipeline-model-parallel-layout）"
            "[[；{mindspeed} 还可用 --num-layer-list 和 --noop-layers]]。"
            "[[micro batch 数为 {micro_batches}，等待中有 {filling_ns} 是流水线的填充和排空，"
            "仅均衡各阶段约可省 {equal_ns}；增加 micro batch 数可省更多。]]",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When stages are unequal."""

    least_more: float = limit(EVEN, "share of the mean stage", "stages that differ by less are an even split of layers")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all stages above the mean come down to it."""
    every, found = run.get(pipelines), run.get(uneven)
    if not every:
        return
    if found is None:
        raise NotMeasured(
            "only one stage of the pipeline was captured", "只采集了流水线的一个阶段",
            "a profile of one rank of each stage, over the same steps",
        )  # fmt: skip
    waiting = [(waits.total(), rank, one) for one in every for rank, waits in one.waiting.items()]
    if found.slow.computing_ns <= (1 + limits.least_more) * found.mean_ns or not waiting:
        return
    yield _candidate(run, found, waiting)


def _candidate(run: Run, found: Uneven, waiting: list[tuple[int, int, Pipeline]]) -> Candidate:
    known, slow, mean = run.get(stages), found.slow, found.mean_ns
    wait, rank, pipeline = max(waiting, key=lambda found: found[:2])
    steps, micro = run.step_count, found.micro_batches
    fast = min(known, key=lambda stage: stage.computing_ns)
    share = run.get(steady_ns) or 1
    # Those of the fast stage wait for the slow one; all of them are named, the longest first.
    longest = sorted(waiting, key=lambda each: -each[0])
    waits = [(ns, one) for ns, one, _ in longest if one in fast.ranks] or [(wait, rank)]
    equal = None if micro is None else found.equal_ns
    filling = None if found.filling_ns is None else min(wait, found.filling_ns)
    backend, formats = run.con.execute("SELECT backend, formats FROM rank ORDER BY rank").fetchall()[0]
    numbers: dict[str, Value] = {
        "slow": slow.number, "slow_ns": slow.computing_ns // steps, "slow_ranks": list(slow.ranks),
        "fast": fast.number, "fast_ns": fast.computing_ns // steps, "fast_ranks": list(fast.ranks),
        "stages": [duration(stage.computing_ns / steps) for stage in known], "even_ns": mean // steps,
        "rank": rank, "wait_ns": wait // steps, "wait_share": wait / share,
        "waits": [f"rank {one} waits {duration(ns / steps)} ({said_share(ns / share)})" for ns, one in waits[:_NAMED]],
        "waits_zh": "、".join(
            f"rank {one} {duration(ns / steps)}（{said_share(ns / share)}）" for ns, one in waits[:_NAMED]
        ),
        "micro_batches": micro, "filling_ns": None if filling is None else filling // steps,
        "equal_ns": None if equal is None else equal // steps,
        "mindspeed": "MindSpeed" if on_npu(backend, formats) else None,
    }  # fmt: skip
    change = Change()
    for stage in known:
        for one in stage.ranks:
            change |= _lighter(run, one, 1 - mean / stage.computing_ns if stage.computing_ns > mean else 0.0)
    return Candidate(
        "stage_balance", "found", numbers, _evidence(pipeline, rank), change,
        "high" if len(known) == len(pipeline) else "medium", min(found.equal_ns, wait),
        max(0, wait - (filling or 0)), replayed=False,
    )  # fmt: skip


def _lighter(run: Run, rank: int, share: float) -> Change:
    """The rank's kernels, each shorter by this share."""
    if share <= 0:
        return Change()
    rows = run.columns("SELECT span_id, dur_ns FROM span WHERE rank = ? AND kind = 'kernel'", [rank])
    ids, less = np.asarray(rows["span_id"]).astype(np.int64), np.rint(np.asarray(rows["dur_ns"]) * share)
    return Change(tasks=ids, task_ns=less.astype(np.int64))


def _evidence(pipeline: Pipeline, rank: int) -> tuple[Evidence, ...]:
    """The longest waits of the rank that waits most."""
    found = pipeline.waiting[rank]
    longest = np.argsort(found.starts - found.ends, kind="stable")[:_MOST].tolist()
    return tuple(
        Evidence(rank, int(found.starts[i]), int(found.ends[i] - found.starts[i])) for i in longest
    )  # fmt: skip
