"""Iterations of decoders run without a graph, though other numbers of decoders have one.

## What it measures
Iterations of decoders alone that were launched one operator at a time, beside others that replayed a graph. The fit
says what they take more.

## Why it costs
Without a graph the host launches every operator of every layer. With few tokens the device waits for it.

## What to do
Capture graphs for these numbers of requests (`--cuda-graph-sizes`, `cudagraph_capture_sizes`), with numbers in the
right stride. Or keep the numbers of running requests among those that have one.

## Limits of the method
The mode of an iteration has to be recorded. A run in which nothing replays a graph has nothing to compare with, and
is told nothing.

## References
vllm-ascend#16049, vllm-ascend#9404.
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
from npulens.analysis.serving.served import enough, windows

NEEDS = ("requests", "iterations", "graph_modes")

TEXT = {
    "en": {
        "found": Words(
            "{count} iterations ({count_share}) of {sizes} decoders run without a graph and take {eager_ns} more each",
            "Capture graphs for these numbers of requests (cudagraph_capture_sizes), or keep to numbers that "
            "have one. With graphs: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "解码请求数为 {sizes} 的 {count} 次迭代（{count_share}）没有使用图，每次多用 {eager_ns}",
            "请为这些请求数捕获图（cudagraph_capture_sizes），或使用已有图的请求数。使用图时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all iterations of decoders without a graph."""
    found = enough(run)
    rows = found.rows
    lone = np.flatnonzero(rows.eager & (rows.context == 0))
    if not len(lone) or not found.model.eager_ns:
        return
    numbers: dict[str, Value] = {
        "count": len(lone), "count_share": len(lone) / len(rows.ts_ns), "sizes": sorted(found.model.eager),
        "eager_ns": int(found.model.eager_ns),
    }  # fmt: skip
    evidence = windows(run, found, lone, rows.dur_ns[lone])
    yield Candidate("graph_miss", "found", numbers, evidence, Change(), edit=Edit(model={"eager": frozenset()}))
