"""Operators meet new shapes step after step, and each time they are compiled, given memory or planned anew.

## What it measures
Kernels whose operator ran in an earlier step with other shapes and meets these for the first time. Then the device's
gaps that end with such a kernel, as far as the host compiled or allocated in them. They also count if they took at
least 5 times as long before that operator as it takes at shapes it knows. An operator counts from 2 new shapes after
its first step on.

## Why it costs
What was prepared for a shape (a compiled kernel, a plan, a cached block of memory) serves that shape only. An input
whose length differs from step to step makes the host prepare everything again, from 0.1 ms to seconds an operator.

## What to do
Pad or bucket inputs to a few lengths, and drop the last short batch. Warm up each bucket before the steps that count.
Ascend: torch.npu.set_compile_mode(jit_compile=False). torch.compile: mark_dynamic, see TORCH_LOGS=recompiles. CUDA and
ROCm: torch.backends.cudnn.benchmark=False where sizes vary. Expandable segments for memory.

## Limits of the method
Needs marked steps, at least 3 of them, and shapes. What is new in the first step cannot be told from a warm-up. Shapes
that vary and cost nothing are no finding. The same gaps are also told by compile and memory_alloc, which say what
happened; this says why it comes back.

## References
PyTorch: torch.compile's dynamic shapes, torch.backends.cudnn.benchmark; torch_npu: set_compile_mode; msprof-analyze's
"dynamic shape" rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits as limits_
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import Kernels, kernels, middle
from npulens.analysis.device.kinds import TYPED
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import evidence, said, similar_ranks, windows
from npulens.analysis.idle.pieces import Idle, idle
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.limits import COVERED, limit
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run

NEEDS = ("steps", "kernels", "launches")

#: What the host may be at that a new shape explains by itself.
_PREPARES = ("compile", "memory_alloc")
_NAMED = 5  # operators that a sentence can hold
_GAPS = 10

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: new shapes step after step at {operators} ({shapes} in the run). The device idles "
            "{idle_ns} of each step ({idle_share}) while they are compiled, given memory or planned anew",
            "Pad or bucket the inputs to a few shapes and warm up each of them before the steps that count"
            "[[; {ascend}]][[; {cudnn}]]. torch.compile: mark_dynamic, or padded shapes (TORCH_LOGS=recompiles).",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：{operators} 每步都遇到新形状（全程 {shapes} 种）；"
            "重新编译、申请内存或规划期间，设备每步空闲 {idle_ns}（{idle_share}）",
            "把输入填充或分档到少数几种形状，并在正式步之前逐一预热[[；{ascend}]][[；{cudnn}]]。"
            "torch.compile：mark_dynamic 或填充形状（TORCH_LOGS=recompiles）。",
        )
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """What counts as ever new shapes, and as time that a new shape explains."""

    steps: float = limit(3, "steps", "with 2 nobody knows whether the second is the odd one")
    new_shapes: float = limit(2, "new shapes of an operator after its first step", "one may be the last short batch")
    times: float = limit(5, "times what the host takes before the operator at known shapes", "less is its usual spread")
    least_ns: float = limit(100_000, "ns of a gap", "shorter ones are launches")


@dataclass(frozen=True)
class _Shapes:
    """Per kernel: its operator, and whether its shapes are new to that operator, which ran in a step before."""

    operator: Ints
    new: NDArray[np.bool_]
    names: tuple[str, ...]


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks that prepare alike."""
    every = run.get(kernels)
    _able(run, every, limits)
    shapes, pieces = _shapes(every, limits), run.get(idle)
    mine = _caused(every, shapes, pieces, limits)
    length = pieces.end - pieces.start
    totals = pieces.totals(mine)
    backends: Mapping[int, str | None] = dict(run.con.execute("SELECT rank, backend FROM rank").fetchall())
    for ranks in similar_ranks({rank: ns for rank, ns in totals.items() if ns}):
        at = np.flatnonzero(mine & np.isin(pieces.rank, ranks))
        at = at[np.argsort(-length[at], kind="stable")]
        lost, npu = max(totals[rank] for rank in ranks), backends[ranks[0]] == "npu"
        numbers: dict[str, Value] = {
            "ranks": said(ranks), "idle_ns": lost // run.step_count, "idle_share": of_run(run, lost), "gaps": len(at),
            "operators": _operators(every, shapes, pieces, mine & np.isin(pieces.rank, ranks)),
            "shapes": max(int((shapes.new & (every.rank == rank)).sum()) for rank in ranks),
            "ascend": "torch.npu.set_compile_mode(jit_compile=False)" if npu else None,
            "cudnn": None if npu else "torch.backends.cudnn.benchmark=False",
        }  # fmt: skip
        change = Change(host=windows(pieces, ranks, at))
        yield Candidate(
            "shape_churn", "found", numbers, evidence(run, pieces, at[:_GAPS]), change, "medium", measured_ns=lost
        )


def _able(run: Run, every: Kernels, limits: Limits) -> None:
    """Steps and shapes, enough of both."""
    most = max((len(steps) for steps in run.steps.values()), default=0)
    if most < limits.steps:
        raise NotMeasured(
            f"too few steps ({most}) to tell new shapes from a warm-up", f"只有 {most} 个 step，无法区分新形状与预热",
            "schedule(active=5 or more)",
        )  # fmt: skip
    known = every.of(every.kinds.there("input_shapes") | every.kinds.memset)
    if every.dur[known].sum() < COVERED * every.dur.sum():
        raise NotMeasured(
            "shapes of kernels: they were not recorded",
            "算子形状：未采集",
            "record_shapes=True, profiler_level=Level1" if run.get(family) == "npu" else "record_shapes=True",
        )


def _shapes(every: Kernels, limits: Limits) -> _Shapes:
    """Which kernels meet shapes that are new to their operator."""
    texts = every.kinds.each(lambda kind: kind.op_type or kind.op or kind.name, *TYPED)
    named = sorted(set(texts.values))
    place = {name: at for at, name in enumerate(named)}
    of_kind = texts.map(lambda name: place[name]).ints()
    operator, shaped = of_kind[every.kind], every.of(every.kinds.there("input_shapes"))
    form = combined(of_kind, every.kinds.column("input_shapes").code)[every.kind]
    order = np.lexsort((every.ts, every.rank))
    order = order[shaped[order] & (every.step[order] >= 0)]
    first_form = _first(every.rank[order], form[order])
    _, group, at = np.unique(combined(every.rank[order], operator[order]), return_index=True, return_inverse=True)
    began = every.step[order][group][at.ravel()]  # the step in which the rank's operator ran first
    fresh = first_form & (every.step[order] > began)
    often = np.bincount(at.ravel(), weights=fresh)[at.ravel()] >= limits.new_shapes if len(order) else fresh
    new = np.zeros(len(every), np.bool_)
    new[order[fresh & often]] = True
    return _Shapes(operator, new, tuple(named))


def _first(rank: Ints, form: Ints) -> NDArray[np.bool_]:
    """Which of the rows are the first of their rank and form; rows are in the order of time."""
    found = np.zeros(len(rank), np.bool_)
    if len(rank):
        found[np.unique(combined(rank, form), return_index=True)[1]] = True
    return found


def _caused(every: Kernels, shapes: _Shapes, pieces: Idle, limits: Limits) -> NDArray[np.bool_]:
    """Pieces of idle time that end with a kernel of new shapes and that the new shapes explain."""
    found = np.zeros(len(pieces.task), np.bool_)
    at, row = _ending(every, pieces)
    prepares = np.logical_or.reduce([pieces.pick(cause) for cause in _PREPARES])[at]
    late = pieces.pick("host_late")[at]
    waited = np.zeros(len(every), np.int64)  # host time in the gap before each kernel
    np.add.at(waited, row[late], (pieces.end - pieces.start)[at[late]])
    old = np.flatnonzero(~shapes.new)
    usual = np.full(len(shapes.names), np.inf)
    usual[shapes.operator[old]] = middle(waited[old].astype(np.float64), shapes.operator[old])
    planned = (waited >= limits.least_ns) & (waited >= limits.times * usual[shapes.operator])
    found[at] = shapes.new[row] & (prepares | (late & planned[row]))
    return found


def _ending(every: Kernels, pieces: Idle) -> tuple[Ints, Ints]:
    """Pieces that end with a kernel, and the row of that kernel."""
    if not len(every):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(every.span_id, kind="stable")
    row = order[np.minimum(np.searchsorted(every.span_id[order], pieces.task), len(order) - 1)]
    at = np.flatnonzero(every.span_id[row] == pieces.task)
    return at, row[at]


def _operators(every: Kernels, shapes: _Shapes, pieces: Idle, mine: NDArray[np.bool_]) -> list[str]:
    """The operators that these pieces wait for, most time first."""
    at, row = _ending(every, pieces)
    row, ns = row[mine[at]], (pieces.end - pieces.start)[at[mine[at]]]
    spent = np.bincount(shapes.operator[row], weights=ns)
    most = np.argsort(-spent, kind="stable")[:_NAMED]
    return [shapes.names[operator].removeprefix("aten::") for operator in most if spent[operator] > 0]
