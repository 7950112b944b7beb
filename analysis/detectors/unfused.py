"""Neighbouring kernels pass data through memory that one kernel would keep.

## What it measures

Runs of neighbouring kernels on one stream, each of which reads what one before it wrote: written-out attention,
norms, activations, rotary embeddings and optimizers that a known operator does in one kernel
(analysis/device/fusions.toml), and any other chain of three or more kernels that are bound by memory. Two such
neighbours that no rule knows are not a finding: every network has them, between matrix products that are most of its
time. The fused kernel's cost is that of the tensors that come from outside and leave, at the bandwidth that the chain
itself reached, plus one kernel's fixed cost; of attention, the arithmetic of its products.

## Why it costs

A kernel bound by memory takes as long as its tensors take to be read and written. In a chain every tensor between two
kernels is written and read for nothing, and every kernel adds its launch and a gap of a microsecond or two.

## What to do

Call the operator that is named. Where none is, let a compiler fuse the chain: `torch.compile` (with torchair on
Ascend), or write one Triton kernel.

## Limits of the method

A ceiling. Which tensor a kernel reads is told by sizes, not by addresses; a tensor between two kernels that something
else needs later (the backward pass) must still be written. Needs shapes and types: Level1, or record_shapes on CUDA.

## References

Operators: torch_npu API list, and "fused operator API replacement" of msprof-analyze. Memory traffic as the cost of
element-wise work: Ivanov et al. 2021, "Data Movement Is All You Need", arXiv 2007.00072.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.conversion import conversion
from npulens.analysis.device.family import family
from npulens.analysis.device.fusions import Chain, Priced, chains, priced
from npulens.analysis.device.kernels import Kernels, kernels
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.issue import GRAPH_LAUNCH
from npulens.analysis.idle.origin import origin
from npulens.analysis.idle.pace import pace
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run

NEEDS = ("kernels",)

#: Between two tasks that are queued already a stream takes 1 to 2 us (real captures); more has another cause.
MOST_GAP_NS = 5_000
GENERIC = "torch.compile, or one Triton kernel"


class Limits(limits.Limits):
    pass


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {kernels} are separate kernels, {count} times a step: {chain_ns} that one kernel does in "
            "{fused_ns}",
            "Use {operator}. The tensors between these kernels are written and read for nothing, "
            "{between_bytes} in each step. Launched by {origin}. What is given back counts launches that go, too.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步 {count} 处 {kernels} 是分开的算子，共 {chain_ns}，融合后约 {fused_ns}",
            "请使用 {operator}。这些算子之间的张量每步白白读写 {between_bytes}。由 {origin} 下发。"
            "收益也包含省掉的下发时间。",
        )
    },
}


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    if len(every) and all(kind.bytes is None for kind in every.kinds):
        collect_with = "profiler_level=Level1" if run.get(family) == "npu" else "record_shapes=True"
        raise NotMeasured("no kernel has shapes", "算子未记录形状", collect_with)
    groups: dict[str, list[Chain]] = {}
    computes = every.of(conversion(kind) is None for kind in every.kinds)
    for chain in chains(every):
        if chain.rule is None and computes[chain.begin : chain.end].sum() < 2:
            continue  # what only converts around one kernel is layout_conversion's
        groups.setdefault(chain.rule.operator if chain.rule else GENERIC, []).append(chain)
    for operator, found in groups.items():
        prices = priced(every, found)
        if prices:
            at = np.concatenate([every.rank[one.rows[:, 0]] for one in prices])
            cut = np.concatenate([one.cut.sum(axis=1) for one in prices])
            for ranks, _ in by_rank(at, cut):
                mine = [(one, np.isin(every.rank[one.rows[:, 0]], ranks)) for one in prices]
                yield _candidate(run, every, operator, ranks, [
                    replace(one, rows=one.rows[here], cut=one.cut[here]) for one, here in mine if here.any()
                ])  # fmt: skip


def _candidate(run: Run, every: Kernels, operator: str, ranks: tuple[int, ...], prices: list[Priced]) -> Candidate:
    worst = max(prices, key=lambda one: int(one.cut.sum()))
    if worst.rule and run.get(family) != "npu":
        operator = worst.rule.cuda
    rows = np.concatenate([one.rows.ravel() for one in prices])
    cut = np.concatenate([one.cut.ravel() for one in prices])
    later = np.concatenate([one.rows[:, 1:].ravel() for one in prices])
    gaps = np.clip(every.ts[later] - every.end[later - 1], 0, MOST_GAP_NS)
    saved = np.concatenate([one.cut.sum(axis=1) for one in prices])
    ends = np.concatenate([one.rows[:, [0, -1]] for one in prices])[np.argsort(-saved, kind="stable")[:20]]
    per, spent = run.step_count * len(ranks), int(every.dur[rows].sum())
    between = sum(len(one.rows) * (one.cost.moved - one.cost.outside) for one in prices)
    return Candidate(
        "unfused", "found",
        {
            "ranks": said(ranks), "count": max(1, round(len(saved) / per)), "operator": operator,
            "between_bytes": between // per,
            "kernels": " + ".join(every.kinds[kind].type for kind in every.kind[worst.rows[0]]),
            "chain_ns": spent // per, "fused_ns": (spent - int(cut.sum())) // per,
            "origin": str(origin(run, int(every.span_id[worst.rows[0, 0]]))) or "a call that was not recorded",
        },
        tuple(
            Evidence(int(every.rank[first]), int(every.ts[first]), int(every.end[last] - every.ts[first]),
                     int(every.span_id[first]), operator)
            for first, last in ends
        ),
        Change(host=_launches(run, every.span_id[later]), tasks=every.span_id[rows], task_ns=cut,
               delays=every.span_id[later], delay_ns=gaps),
        "high" if worst.rule else "medium",
    )  # fmt: skip


def _launches(run: Run, tasks: Ints) -> dict[int, Intervals]:
    """The calls that launch the kernels which would be gone, each for as long as a launch usually takes."""
    found = run.get(_calls)
    gone = np.isin(found["task"], tasks)
    begins, ends = found["ts_ns"][gone].astype(np.int64), found["end_ns"][gone].astype(np.int64)
    ends = np.minimum(ends, begins + run.get(pace).ordinary_ns)
    ranks = found["rank"][gone]
    return {int(rank): Intervals.union_of(begins[ranks == rank], ends[ranks == rank]) for rank in np.unique(ranks)}


def _calls(run: Run) -> dict[str, Any]:
    """Every call that launches a kernel; one that launches a whole graph would stay."""
    return run.columns(
        "SELECT l.dst_span_id AS task, s.rank, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns FROM link l "
        "JOIN span s ON s.span_id = l.src_span_id JOIN span k ON k.span_id = l.dst_span_id "
        "WHERE s.kind IN ('runtime', 'enqueue', 'dequeue') AND k.kind = 'kernel' "
        f"AND NOT regexp_matches(s.name, '{GRAPH_LAUNCH}')"
    )
