"""Data parallel engines have unequal work and wait for the busiest in every iteration.

## What it measures
Tokens of each data parallel engine, iteration by iteration, and dummy iterations of those that have none.

## Why it costs
With experts spread over the engines, each iteration takes as long as on the engine that has most to do.

## What to do
Send requests to the engine with the fewest tokens, not in turn. Keep long prompts apart, and let the load balancer
see the queues.

## Limits of the method
The saving is a replay with the requests spread evenly by their tokens, in order of arrival. It holds for engines that
begin their iterations together.

## References
ROCm/ATOM#1210, sglang#13206.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import Edit, Load
from npulens.analysis.serving.served import enough, windows

NEEDS = ("requests", "iterations", "dp_ranks")

TEXT = {
    "en": {
        "found": Words(
            "Engine {busiest} of {engines} has {busiest_share} of all tokens; the others wait for it in "
            "{waiting_share} of the time of iterations",
            "Send requests to the engine with the fewest tokens, and let the load balancer see the queues. "
            "Spread evenly: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "{engines} 个引擎中，引擎 {busiest} 承担了 {busiest_share} 的 token；其他引擎有 "
            "{waiting_share} 的迭代时间在等它",
            "请把请求发给 token 最少的引擎，并让负载均衡器看到各队列。均匀分配后：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """When engines are uneven."""

    uneven: float = limits_.limit(
        1.1, "times the mean of the engines", "requests differ, so engines never have the same"
    )


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the requests spread evenly."""
    found = enough(run)
    ranks = np.array([-1 if one.dp_rank is None else one.dp_rank for one in found.iterations])
    known = np.unique(ranks[ranks >= 0])
    if len(known) < 2:
        return
    rows, load = found.rows, found.load
    work = np.array([float((rows.context + rows.decoders)[ranks == rank].sum()) for rank in known])
    busiest = int(known[np.argmax(work)])
    said = np.array([found.said_ns[ranks == rank].sum() for rank in known])
    numbers: dict[str, Value] = {
        "engines": len(known), "busiest": busiest, "busiest_share": float(work.max() / max(1.0, work.sum())),
        "waiting_share": float(1 - said.mean() / max(1.0, said.max())),
    }  # fmt: skip
    if work.max() < limits.uneven * work.mean():
        return
    mine = np.flatnonzero(ranks == busiest)
    evidence = windows(run, found, mine, rows.dur_ns[mine])
    yield Candidate("dp_imbalance", "found", numbers, evidence, Change(), edit=Edit(engine=_evened(load)))


def _evened(load: Load) -> dict[int, int]:
    """Each request goes to the engine that has been given the fewest tokens."""
    given = dict.fromkeys(np.unique(load.engine).tolist(), 0)
    placed = {}
    for at in range(len(load.ids)):
        engine = min(given, key=lambda one: (given[one], one))
        placed[at] = engine
        given[engine] += int(load.prompt[at] - load.cached[at] + load.output[at])
    return placed
