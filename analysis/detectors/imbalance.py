"""Ranks of one job have unequal work, and the others wait for the busiest.

## What it measures
The time of each rank's kernels in its steps, name by name. It is compared with the median of the other captured ranks
of its pipeline stage. Unequal work is more of the same: as many kernels with larger shapes, or more kernels of most
names. Kernels of the same shapes that merely run slower are no imbalance (see slow_tail, frequency_drop, late_rank).
Where shapes were not recorded, most names have to be longer. If all take one factor longer, the device may as well be
slower, and that is said. Kernels of experts are left out (expert_imbalance).

## Why it costs
Everybody meets in the next collective, so the step takes as long as the busiest rank.

## What to do
Give every rank the same: pack samples by their tokens.

## Limits of the method
Ranks that were not captured may be busier still. Stages that differ are another matter (stage_balance),
so a rank is only compared with its own stage's. The saving brings the busiest rank down to the
others; sharing its work out evenly gives a little less. Never more than others waited for it.

## References
Megatron-LM and MindSpeed: sequence packing; docs/views.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Confidence, Evidence, NotMeasured, Value, Words
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import limit
from npulens.analysis.ranks.collectives import POINT_TO_POINT, collectives
from npulens.analysis.ranks.experts import of_experts
from npulens.analysis.ranks.lateness import late_peers, told, waited_less
from npulens.analysis.ranks.stages import pipelines
from npulens.analysis.ranks.work import Work, work
from npulens.analysis.run import Run
from npulens.analysis.steady import of_step

NEEDS = ("kernels",)
_MOST = 20

TEXT = {
    "en": {
        "found": Words(
            "Rank {rank} computes {more_ns} of each step ({more_share}) longer than the other ranks: unequal work",
            "Most of it is in {kernels}. Give every rank as much to do: pack samples so that ranks get the same number "
            "of tokens. Shared out evenly over the captured ranks, the busiest would have {even_ns} less.",
        ),
        "slower": Words(
            "Rank {rank} computes {more_ns} of each step ({more_share}) longer than the other ranks: each of its "
            "kernels takes {times} times as long",
            "One factor for all kernels speaks for a slower device: see its clock, its power limit and what else uses "
            "it. More work for every kernel looks the same where shapes are not recorded; "
            "[[npu: profiler_level=Level1]][[cuda|rocm|cpu: record_shapes=True]] tells them apart.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {rank} 每步比其他卡多计算 {more_ns}（{more_share}）：负载不均",
            "主要在 {kernels}。请让每张卡的工作量相同：按 token 数打包样本。"
            "若在已采集的卡之间平均分配，最忙的卡可减少 {even_ns}。",
        ),
        "slower": Words(
            "rank {rank} 每步比其他卡多计算 {more_ns}（{more_share}）：每个算子的耗时都是 {times} 倍",
            "所有算子同幅变慢，多半是设备较慢：请查看其频率、功耗限制，以及是否有其他进程占用。"
            "未采集形状时，工作量更大也会是这样；采集 [[npu: profiler_level=Level1]]"
            "[[cuda|rocm|cpu: record_shapes=True]] 即可区分。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When ranks are unequal."""

    least_more: float = limit(
        0.02, "share of a rank's computing", "five times the 0.4 % by which two real ranks with the same work differ"
    )
    broad: float = limit(0.5, "share of a rank's computing", "unequal work shows in most of what a rank computes")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate per rank that has more to do than the others of its stage."""
    if any(run.activity(rank).untold for rank in run.ranks):
        raise NotMeasured("what computes cannot be told from what communicates", "计算与通信任务无法区分",
                          "a line for the library in comm_facts.toml")  # fmt: skip
    alike = [found for found in (run.get(work).of(ranks) for ranks in _stages(run)) if len(found.ranks) > 1]
    if not alike:
        if len(run.get(work).ranks) > 1:
            if len(run.get(pipelines)) * len(run.get(pipelines)[0]) < run.least_world:
                raise NotMeasured(
                    "only one rank of each pipeline stage was captured", "每个流水线阶段只采集了一张卡",
                    "a profile of every rank",
                )  # fmt: skip
        elif len(run.get(collectives)) or run.least_world > 1:
            raise NotMeasured("only one rank was captured", "只采集了一张卡", "a profile of every rank")
    for found in alike:
        yield from _busier(run, found, limits)


def _stages(run: Run) -> list[list[int]]:
    """Ranks with the same work: those of one stage, where the job is a pipeline."""
    place = {rank: number for one in run.get(pipelines) for number, rank in enumerate(one.ranks)}
    stages: dict[int, list[int]] = {}
    for rank in run.get(work).ranks:
        stages.setdefault(place.get(rank, -1), []).append(rank)
    return list(stages.values())


def _busier(run: Run, found: Work, limits: Limits) -> Iterator[Candidate]:
    for rank in found.ranks:
        more, typical = found.more_ns(rank, limits.broad), int(found.typical_ns(rank).sum())
        more[[of_experts(name) for name in found.names]] = 0  # tokens of experts: see expert_imbalance
        if typical and more.sum() > limits.least_more * typical:
            yield _candidate(run, found, rank, more)


def _candidate(run: Run, found: Work, rank: int, more: Ints) -> Candidate:
    row = found.ranks.index(rank)
    total, step = found.ns.sum(axis=1), int(more.sum()) // run.step_count
    ids, names, ts, ns = _kernels(run, rank)
    column = np.searchsorted(np.array(found.names), names)
    less = (ns * (more / np.maximum(found.ns[row], 1))[column]).astype(np.int64)
    largest = np.argsort(-less, kind="stable")[:_MOST]
    evidence = tuple(
        Evidence(rank, int(ts[i]), int(ns[i]), int(ids[i]), str(names[i])) for i in largest.tolist() if less[i] > 0
    )
    numbers: dict[str, Value] = {
        "rank": rank, "more_ns": step, "more_share": of_step(run, step),
        "kernels": [found.names[i] for i in np.argsort(-more)[:3].tolist() if more[i] > 0],
        "even_ns": max(0, int(total[row] - total.mean())) // run.step_count, "computing_ns": int(total[row]),
    }  # fmt: skip
    factor = None if found.shaped else found.one_factor(rank)
    if factor is not None:
        numbers["times"] = factor
    change = Change(tasks=ids[less > 0], task_ns=less[less > 0])
    for late in run.get(late_peers):  # where no event says so, the others' waits tie its kernels to its collectives
        change |= waited_less(run, late) if late.rank == rank else Change()
    confidence: Confidence = "high" if found.shaped else "medium"
    text = "found" if factor is None else "slower"
    return Candidate("imbalance", text, numbers, evidence, change, confidence, _most(run, rank, int(more.sum())))


def _most(run: Run, rank: int, more: int) -> int:
    """No more than it has to do, and than others waited for it or for one that the capture does not name."""
    operators, known = run.get(collectives), run.get(told)
    if not len(known) or not known.all() or operators.of_kinds(POINT_TO_POINT).any():
        return more
    return min(more, sum(late.gain_ns for late in run.get(late_peers) if late.rank in (rank, None)))


def _kernels(run: Run, rank: int) -> tuple[Ints, Ints, Ints, Ints]:
    rows = run.columns(
        "SELECT span_id, name, ts_ns, dur_ns FROM span WHERE rank = ? AND kind = 'kernel' "
        "AND (step IS NOT NULL OR rank NOT IN (SELECT rank FROM step))",
        [rank],
    )
    ids, ts, ns = (np.asarray(rows[name]).astype(np.int64) for name in ("span_id", "ts_ns", "dur_ns"))
    return ids, rows["name"].astype(str), ts, ns
