"""The device waits between iterations: the engine's host code takes time that no iteration counts.

## What it measures
The time from the end of an iteration to the beginning of the next while decoders wait. What is beyond the run's own
floor counts.

## Why it costs
Every request in the engine waits for it, token by token.

## What to do
Schedule the next iteration while this one runs (`--async-scheduling`). Leave the interpreter to fewer threads, and
look at sampling, at logging and at structured output.

## Limits of the method
The floor is the first quartile of the gaps, so that a gap that is always there is not told. Iterations have to be
known to better than half of one. Gaps of 10 iterations and more are stalls (engine_stall).

## References
vllm-ascend#9404, vllm-ascend#6972.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Evidence, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.fitting import STALL_MORE
from npulens.analysis.serving.replay import Edit
from npulens.analysis.serving.served import enough

NEEDS = ("requests", "iterations", "exact_iterations")

#: Gaps that have a floor; those that are shown.
_ENOUGH, _SHOWN = 8, 20

TEXT = {
    "en": {
        "found": Words(
            "Between iterations {gap_ns} pass on average, {excess_ns} above the run's own floor of "
            "{floor_ns} ({share_share} of the time of iterations)",
            "Schedule the next iteration while this one runs (--async-scheduling), and look at sampling, "
            "logging and threads that hold the interpreter. At the floor: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "两次迭代之间平均相隔 {gap_ns}，比本次运行的底线 {floor_ns} 多 {excess_ns}（占迭代时间 {share_share}）",
            "请在本次迭代执行时调度下一次（--async-scheduling），并检查采样、日志和占用解释器的线程。回到"
            "底线时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """When gaps are worth a replay."""

    gap_share: float = limits_.limit(0.05, "share of the time of iterations", "less is within what stamps scatter")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all gaps, brought to their floor."""
    found = enough(run)
    rows = found.rows
    gaps = np.flatnonzero((rows.gap_ns > 0) & (rows.gap_ns < STALL_MORE * np.median(rows.dur_ns)))
    if len(gaps) < _ENOUGH:
        return
    length = rows.gap_ns[gaps]
    floor = float(np.percentile(length, 25))
    excess = np.maximum(0.0, length - floor)
    share = float(excess.sum() / rows.dur_ns.sum())
    if share < limits.gap_share:
        return
    numbers: dict[str, Value] = {
        "gap_ns": int(length.mean()), "excess_ns": int(excess.mean()), "floor_ns": int(floor), "share_share": share,
    }  # fmt: skip
    heavy = gaps[np.argsort(-excess, kind="stable")][:_SHOWN].tolist()
    evidence = tuple(
        Evidence(run.ranks[0], int(rows.ts_ns[row] + rows.dur_ns[row]), int(rows.gap_ns[row])) for row in heavy
    )
    rests = tuple(replace(rest, gap_ns=tuple(min(gap, floor) for gap in rest.gap_ns)) for rest in found.model.rests)
    yield Candidate("iteration_gap", "found", numbers, evidence, Change(), edit=Edit(model={"rests": rests}))
