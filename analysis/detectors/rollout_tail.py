"""The last rollouts keep everybody else waiting: some replicas or samples are done long before.

## What it measures
When the replicas that generate end in each step, or the longest and the mean generation that the step's log counts.
What the last takes beyond the mean is the tail.

## Why it costs
The devices of those that are done idle until the last answer is there, and training waits for it.

## What to do
Spread long answers over the replicas, and cap their length. Hand requests out one by one instead of in equal shares.
Or train on what is there (partial or asynchronous rollout).

## Limits of the method
The saving is a step whose tail is spread evenly over all: a ceiling. Answers of unlike length belong to the job.

## References
verl `agent_loop/generate_sequences`; rllm#292, tinker-cookbook#822.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, NotMeasured, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.stages import candidate

NEEDS = ("stages",)

TEXT = {
    "en": {
        "found": Words(
            "The last rollout ends {lost_ns} after the mean one in each step ({lost_share} of the step)",
            "Spread long answers over the replicas, cap their length, hand requests out one by one, or train "
            "on what is there. Evenly spread: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "每步最后一个 rollout 比平均晚结束 {lost_ns}（占该步 {lost_share}）",
            "请把长回答分散到各副本、限制长度、逐个派发请求，或先用已有样本训练。均匀分配时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all steps together."""
    found = candidate(run, "rollout_tail")
    if found is None:
        raise NotMeasured(
            "no step tells when several replicas or samples were done",
            "没有任何一步记录了多个副本或样本的完成时间",
            "global_profiler.steps=[2,4], actor_rollout_ref.rollout.profiler.all_ranks=True",
        )
    yield found
