"""Between the roles of a step nothing runs: everybody waits for data, for a worker or for the controller.

## What it measures
Time between the stages of a step in which no role works. Of a log, what its generation takes beyond the longest
generation of a sample.

## Why it costs
All devices idle, whatever role they have.

## What to do
Look at what the controller does then: collecting answers, rewards, padding, moving data between workers. Start the
next role with what is there.

## Limits of the method
Only roles that were recorded count. One that was not looks like nothing. The saving is a step without these gaps: a
ceiling.

## References
verl role spans (RL-Insight); agent-lightning#82.
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
            "No role works for {lost_ns} of each step ({lost_share})[[; the longest gap is before {what}]]",
            "Look at what the controller does then: collecting answers, rewards, moving data; start the next "
            "role with what is there. Without the gaps: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "每步有 {lost_ns}（{lost_share}）没有任何角色在工作[[，最长的空隙在 {what} 之前]]",
            "请查看控制进程此时在做什么：收集回答、计算奖励、搬数据；用已有数据启动下一角色。没有空隙时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all steps together."""
    found = candidate(run, "role_idle")
    if found is None:
        raise NotMeasured(
            "no step tells of more than one stage",
            "没有任何一步记录了一个以上的阶段",
            "global_profiler.steps=[2,4], actor_rollout_ref.actor.profiler.enable=True",
        )
    yield found
