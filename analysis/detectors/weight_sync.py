"""Bringing new weights to the replicas that generate takes a large share of the step.

## What it measures
Stages that update, send or load the weights of the replicas, in each step.

## Why it costs
Nobody generates and nobody trains meanwhile.

## What to do
Send weights from device to device instead of through files or the host, in larger pieces. Send only what changed, or
send it while the last answers still come.

## Limits of the method
The saving is a step without the update: a ceiling. Where a framework counts it in another stage it cannot be told.

## References
verl `timing_s/update_weights`; marin#8936, verl#3114.
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
            "Updating the weights of the replicas takes {lost_ns} of each step ({lost_share})",
            "Send weights from device to device, in larger pieces, only what changed, or while the last "
            "answers still come. Without it: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "每步更新副本权重耗时 {lost_ns}（{lost_share}）",
            "请在设备之间直接传输、使用更大的块、只传变化的部分，或与最后的回答重叠。去掉之后：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all steps together."""
    found = candidate(run, "weight_sync")
    if found is None:
        raise NotMeasured(
            "no step tells of an update of weights",
            "没有任何一步记录了权重更新",
            "global_profiler.steps=[2,4]",
        )
    yield found
