"""The profiler itself makes the device wait.

## What it measures
Gaps of the device while the host does the profiler's own work. That is its `step`, `start` and `stop`, and calls into
aclprof, CUPTI or roctracer. It is also what Kineto files as overhead (buffers requested and flushed). With
l2_cache=True the counters are read after every kernel. That is a pause of nearly the same length before each next one,
though it was queued long before.

## Why it costs
What the profiler takes is not there without it. The step is really shorter than the capture says, and a comparison with
another capture is one of profilers.

## What to do
Believe the other findings' shares, not this time. Record less: Level0 or Level1, with_stack=False,
record_shapes=False, profile_memory=False, fewer active steps; leave out the first active step.

## Limits of the method
Only work that has a span of its own is seen. What recording costs each operator (1 to 10 us with stacks) is spread over
all of them. It cannot be told from them.

## References
torch_npu.profiler documentation (levels and their overhead); Kineto's overhead activities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.idle.blame import blames, windows
from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.pieces import Idle, idle
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

NEEDS = ("kernels", "host_ops")

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while the profiler works",
            "The step is shorter without the profiler. Record less ([[npu: profiler_level=Level1 or Level0, "
            "]]with_stack=False, "
            "record_shapes=False, profile_memory=False) and compare only captures taken alike.",
        ),
        "held": Words(
            "Rank {ranks}: after each kernel the device waits {pause_ns} for the profiler to read the counters of the "
            "L2 cache. {idle_ns} of each step ({idle_share})",
            "Record with l2_cache=False; the step is shorter without. Shares of other findings count more than this "
            "capture says. Record the L2 cache in a capture of its own.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：采集器自身工作时设备每步空闲 {idle_ns}（{idle_share}）",
            "不采集时训练步更短。减少采集内容（[[npu: profiler_level=Level1 或 Level0、]]with_stack=False、"
            "record_shapes=False、"
            "profile_memory=False），只比较采集方式相同的数据。",
        ),
        "held": Words(
            "rank {ranks}：每个算子之后设备等待采集器读取 L2 缓存计数器 {pause_ns}，每步共 {idle_ns}（{idle_share}）",
            "用 l2_cache=False 采集；不采集时训练步更短，其他结论的占比实际更大。L2 缓存请单独采集一次。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks that are held up alike."""
    pieces = run.get(idle)
    for found in blames(run, "profiler_overhead"):
        held = found.pieces[pieces.host[found.pieces] == NONE]
        text = "held" if 2 * _ns(pieces, held) > _ns(pieces, found.pieces) else "found"
        change = Change(
            host=windows(pieces, found.ranks, np.setdiff1d(found.pieces, held)),
            delays=pieces.task[held], delay_ns=(pieces.end - pieces.start)[held],
        )  # fmt: skip
        numbers: dict[str, Value] = {**found.numbers, "pause_ns": _ns(pieces, held) // max(1, len(held))}
        yield Candidate(
            "profiler_overhead", text, numbers, found.evidence, change, measured_ns=found.measured_ns
        )  # fmt: skip


def _ns(pieces: Idle, which: Ints) -> int:
    return int((pieces.end - pieces.start)[which].sum())
