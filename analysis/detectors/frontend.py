"""Requests are late before the engine sees them, or their tokens after it: the front end takes the time.

## What it measures
What a first token takes beyond the queue and the prefill that the engine counts, beyond the run's own floor. What is
left of the iteration under way when a request comes is the engine's, and is taken off.

## Why it costs
The engine has no part in it. Neither a faster device nor a free queue helps.

## What to do
Give the API server cores of its own (`--api-server-count`). Look at tokenizing, at its garbage collection and at what
stands before it: a router, TLS, a proxy.

## Limits of the method
The floor is the first decile of the run, so a front end that is always slow is not told. Where the engine's own times
were not recorded, nothing is.

## References
vllm#22454, vllm#9952.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import Edit
from npulens.analysis.serving.served import enough, spans

NEEDS = ("requests", "iterations", "request_states")

TEXT = {
    "en": {
        "found": Words(
            "The front end holds {late} requests up by {late_ns} on average, {longest_ns} at most; its floor "
            "is {floor_ns}",
            "Give the API server cores of its own, and look at tokenizing, its garbage collection and what "
            "stands before it. At its floor: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "前端使 {late} 个请求平均晚 {late_ns}，最长 {longest_ns}；其底线为 {floor_ns}",
            "请给 API server 单独的核，检查分词、其垃圾回收以及它前面的组件。回到底线时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: every request that came late to the engine."""
    found = enough(run)
    late = np.flatnonzero(found.late_ns > 0)
    if not len(late):
        return
    lost = found.late_ns[late]
    numbers: dict[str, Value] = {
        "late": len(late), "late_ns": int(lost.mean()), "longest_ns": int(lost.max()), "floor_ns": found.floor_ns,
    }  # fmt: skip
    edit = Edit(before_ns={at: int(found.load.before_ns[at] - found.late_ns[at]) for at in late.tolist()})
    yield Candidate("frontend", "found", numbers, spans(run, found, late, lost.astype(float)), Change(), edit=edit)
