"""The engine stops: one iteration, or the time between two, takes many times as long as its kind.

## What it measures
Iterations far above what the run's own fit says of their tokens, and gaps of the same size between iterations. The
export of a profiler is told apart and does not count.

## Why it costs
Every request that the engine holds gets no token meanwhile. Those that arrive queue up, and have to be served together
when it goes on.

## What to do
Look at what the engine's process did in these moments. It may be garbage collection, compiling, a checkpoint or a
weight update. It may also be another process on its cores, or memory of the host that was swapped out.

## Limits of the method
A stall is at least 8 times the fit of its iteration, and 10 iterations of decoders. The saving is a replay without all
of them. What stops the engine is said only where spans of the host were recorded.

## References
vLLM `--enable-logging-iteration-details`; issues on slow iterations (vllm#39979).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Evidence, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import Edit
from npulens.analysis.serving.served import enough

NEEDS = ("requests", "iterations")
_MOST = 20

TEXT = {
    "en": {
        "found": Words(
            "The engine stops {stalls} times, {stall_ns} on average and {longest_ns} at most",
            "Look at what its process did then: garbage collection (gc.freeze() after start-up), compiling, another "
            "process on its cores, swapping. Without these stops: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "引擎停顿 {stalls} 次，平均 {stall_ns}，最长 {longest_ns}",
            "请查看引擎进程当时在做什么：垃圾回收（启动后调用 gc.freeze()）、编译、争抢 CPU 核的其他进程、内存换出。"
            "消除停顿后：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all stalls."""
    stalls = enough(run).model.stalls
    if not stalls:
        return
    longest = sorted(stalls, key=lambda stall: -stall.dur_ns)
    whole = sum(stall.dur_ns for stall in stalls)
    numbers: dict[str, Value] = {
        "stalls": len(stalls), "stall_ns": whole // len(stalls), "longest_ns": longest[0].dur_ns, "whole_ns": whole,
    }  # fmt: skip
    evidence = tuple(Evidence(run.ranks[0], stall.ts_ns, stall.dur_ns) for stall in longest[:_MOST])
    yield Candidate(
        "engine_stall", "found", numbers, evidence, Change(), edit=Edit(stalls=frozenset(range(len(stalls))))
    )
