"""Operators stay far below the roof of their own device.

## What it measures

Each operator's least time against the time of its calls. The least time is that of its work, from shapes and types, at
the peaks of the device (docs/roofline.md). The time is that of a quick call, one of the fastest fifth on its rank. So
what comes and goes (a slow tail, a transfer beside it) is left to others. What a low clock or idle cores explain, and
what fusing would give back, is taken off first. Kernels with stalled pipes belong to `pipe_stall`. An operator below
the limit is told with what bounds it: computing or memory. The saving is what 0.7 of the roof would give.

## Why it costs

A device that multiplies at a third of its peak needs three times as long for the same result. No log says so.

## What to do

Bound by computing: sides that are multiples of 16, better of 128. Where a side is short, a larger batch. bf16 or fp16
instead of fp32. Attention by the newest kernel there is (`scaled_dot_product_attention`, FlashAttention,
`npu_fusion_attention`). Bound by memory: contiguous inputs of one layout. A fused operator or torch.compile in place of
several passes. Small tensors are better not spread over large ones along the inner axis. Otherwise a newer library, or
tuning (AOE, `torch.backends.cudnn.benchmark`, TunableOp).

## Limits of the method

A ceiling. It needs both roofs, that of the matrix units and that of memory. Where the memory's is not known, products
with more than 1000 operations for each byte are bound by computing on every device. A roof counts each tensor once, and
shapes do not tell strides or what lay in a cache. Calls under 10 us are not judged, and 5 us of each are left to
starting and ending. Copies, layouts, lookups, collectives, what Inductor fused and what runs on the AI CPU are not
judged. Neither is fp32 on a device with a faster precision: that is `full_precision`.

## References

Williams, Waterman, Patterson 2009: Roofline, doi:10.1145/1498765.1498785.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.by_rank import by_rank
from npulens.analysis.detectors.full_precision import claimed
from npulens.analysis.detectors.idle_cores import shares
from npulens.analysis.detectors.pipe_stall import MOVING, bound, most_of_a_rank, stalled
from npulens.analysis.detectors.unfused import fused
from npulens.analysis.device.abilities import UNNAMED, title
from npulens.analysis.device.family import family
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import NO_HOST, Floats, Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.kinds import Bools
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import COVERED, limit
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns
from npulens.analysis.work.call import Tensor, Unmodelled, arguments, flat
from npulens.analysis.work.operators import GOOD, SHORT_NS, Operator, Operators, operators

NEEDS = ("kernels",)

TEXT = {
    "en": {
        "compute": Words(
            "Rank {ranks}: {type} reaches {roof_share} of what its device can compute, {kernel_ns} of each step in "
            "{count} kernels[[, most on {shapes}]]",
            "A call takes {call_ns}, its work {roof_ns} at the peak of {precision}.[[ Sides that are no multiples of "
            "{even}: {odd}; pad them.]][[ A side of {short} leaves the matrix units half empty: give it a larger batch "
            "or several products at once.]][[ Try the newest attention kernel: {attention}.]] Try a newer library or "
            "its tuning[[npu:  (AOE)]][[cuda:  (torch.backends.cudnn.benchmark, max-autotune)]][[rocm:  (TunableOp)]]. "
            "Launched by {origin}.",
        ),
        "memory": Words(
            "Rank {ranks}: {type} reaches {roof_share} of what its memory can move, {kernel_ns} of each step in "
            "{count} kernels[[, most on {shapes}]]",
            "A call takes {call_ns}, moving its {moved_bytes} once takes {roof_ns}.[[ Sides that are no multiples of "
            "{even}: {odd}; pad them.]][[ A side of {short} leaves the matrix units half empty: give it a larger batch "
            "or several products at once.]][[ Rows of {row} values are short: fuse it with its neighbours.]]"
            "[[ {spread} is spread over the larger input: see that both are contiguous.]][[ Try the newest attention "
            "kernel: {attention}.]] See that its inputs are contiguous (.contiguous() once, channels_last), and fuse "
            "it: [[npu: torch_npu.npu_*]][[cuda|rocm|cpu: torch.compile]] or a fused operator. Launched by {origin}.",
        ),
    },
    "zh": {
        "compute": Words(
            "rank {ranks}：{type} 只达到设备算力上限的 {roof_share}，每步 {kernel_ns}，共 {count} 个"
            "[[，主要在 {shapes}]]",
            "单次调用耗时 {call_ns}，按 {precision} 峰值只需 {roof_ns}。[[这些边不是 {even} 的倍数：{odd}，请补齐。]]"
            "[[有一边只有 {short}，矩阵单元填不满：请增大 batch，或合并多个矩阵乘。]]"
            "[[请试用最新的注意力算子：{attention}。]]可尝试更新的算子库或其调优"
            "[[npu: （AOE）]][[cuda: （torch.backends.cudnn.benchmark、max-autotune）]][[rocm: （TunableOp）]]。"
            "由 {origin_zh} 下发。",
        ),
        "memory": Words(
            "rank {ranks}：{type} 只达到显存带宽上限的 {roof_share}，每步 {kernel_ns}，共 {count} 个"
            "[[，主要在 {shapes}]]",
            "单次调用耗时 {call_ns}，把 {moved_bytes} 搬一遍只需 {roof_ns}。"
            "[[这些边不是 {even} 的倍数：{odd}，请补齐。]]"
            "[[有一边只有 {short}，矩阵单元填不满：请增大 batch，或合并多个矩阵乘。]]"
            "[[每行只有 {row} 个值，太短：请与相邻算子融合。]][[{spread} 被广播到更大的输入上：请确认两者都连续。]]"
            "[[请试用最新的注意力算子：{attention}。]]请确认输入连续（只做一次 .contiguous()，或用 channels_last），"
            "并融合该算子：[[npu: torch_npu.npu_*]][[cuda|rocm|cpu: torch.compile]]或其他融合算子。"
            "由 {origin_zh} 下发。",
        ),
    },
}

#: Of the calls of an operator on a rank, so many are at least as quick as the one that is judged.
QUICK = 0.2
#: What is another detector's, or known too little of: how rows lie in a table, what a fused kernel computes.
OTHERS = (*MOVING, "embedding", "fused", "collective")
#: Sides of matrices: multiples of this fill the units; below that a side leaves them half empty.
EVEN, SHORT_SIDE = 16, 64
#: A row of a norm or softmax with fewer values keeps a block of threads from working in full.
SHORT_ROW = 256
_ATTENTION = {
    "npu": "torch_npu.npu_fusion_attention", "cuda": "scaled_dot_product_attention, FlashAttention 3",
    "rocm": "scaled_dot_product_attention, AITER",
}  # fmt: skip


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """How far below its roof an operator is."""

    most_share: float = limit(0.4, "share of the roof", "good kernels of real captures reach 0.45 to 0.9 of it")
    least_ns: float = limit(10_000, "ns of a call", "a launch and the first and last accesses take some us of it")


@dataclass(frozen=True)
class _Calls:
    """Calls of operators; a call is a host operator with all its kernels, or a kernel of its own."""

    of: Ints  # per kernel: its call
    operator: Ints  # per call
    rank: Ints
    ns: Floats  # what others leave of it


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every, done = run.get(kernels), run.get(operators)
    judged = ~np.isnan(done.times.share) & (done.times.surely != "") & ~_theirs(done)
    mine = judged[done.of] & ~run.get(claimed) & (run.get(stalled).way < 0) & (every.dur > 0)
    found, quick, cut = _cuts(run, every, mine, limits)
    rows = np.flatnonzero(cut)
    if most_of_a_rank(every.rank[rows], cut[rows]) < limits.min_share * run.get(steady_ns):
        _measured(run, judged)
    called = done.of[rows]
    place = {name: at for at, name in enumerate(sorted({done.names[one] for one in np.unique(called).tolist()}))}
    number = np.array([place.get(name, -1) for name in done.names], np.int64)[called]
    for at in range(len(place)):
        those = rows[number == at]
        for ranks, here in by_rank(every.rank[those], cut[those]):
            yield _candidate(run, every, ranks, those[here], cut[those[here]], quick[found.of])


def _theirs(done: Operators) -> Bools:
    """The operators that are for others to judge."""
    return done.every.columns.work.each(lambda one: one.family in OTHERS).flags()


def _cuts(run: Run, every: Kernels, mine: Bools, limits: Limits) -> tuple[_Calls, Floats, Ints]:
    """Calls, how long a quick one of each takes, and per kernel what it would be shorter."""
    done = run.get(operators)
    theirs = run.get(clocked).cut + run.get(fused)
    left = np.where(mine, np.maximum(0.0, every.dur * run.get(shares).used - theirs), 0.0)
    calls = _calls(every, done.of, left)
    group = calls.operator * (int(every.rank.max(initial=0)) + 1) + calls.rank
    quick = _quick(calls.ns, group)
    roof = np.nan_to_num(done.times.roof_ns, nan=0.0)[calls.operator]
    low = (quick >= limits.least_ns) & (roof < limits.most_share * (quick - SHORT_NS))
    lost = np.where(low, np.maximum(0, np.minimum(quick, calls.ns) - roof / GOOD - SHORT_NS), 0.0)
    share = np.divide(lost, calls.ns, out=np.zeros(len(lost)), where=calls.ns > 0)
    cut: Ints = np.where(mine, left * share[calls.of], 0).astype(np.int64) if len(every) else np.zeros(0, np.int64)
    return calls, quick, cut


def _calls(every: Kernels, of: Ints, left: Floats) -> _Calls:
    kinds = every.kinds
    alone = every.of(kinds.there("op_type") | ~kinds.there("op")) | (every.host == NO_HOST)
    _, caller = np.unique(np.where(alone, -every.span_id - 2, every.host), return_inverse=True)
    key = caller.ravel().astype(np.int64) * (int(of.max(initial=0)) + 1) + of
    _, first, call = np.unique(key, return_index=True, return_inverse=True)
    call = call.ravel().astype(np.int64)
    return _Calls(call, of[first], every.rank[first], np.bincount(call, left, len(first)).astype(np.float64))


def _quick(ns: Floats, group: Ints) -> Floats:
    """Per call: how long one of the quickest fifth of its group takes."""
    order = np.lexsort((ns, group))
    _, first, where, count = np.unique(group[order], return_index=True, return_inverse=True, return_counts=True)
    found = np.zeros(len(ns))
    found[order] = ns[order][first + (QUICK * (count - 1)).astype(np.int64)][where.ravel()] if len(ns) else 0.0
    return found


def _measured(run: Run, judged: Bools) -> None:
    """Raises where the roofs of too little of the time are known."""
    done, of = run.get(operators), run.get(family)
    own, theirs = done.every.columns, _theirs(done)
    unshaped = own.work.each(lambda one: one.reason in ("no_shapes", "no_types", "no_values", "no_operator")).flags()
    modelled = own.work.each(lambda one: not one.reason).flags()
    ns = {
        "all": int(own.ns[~theirs].sum()), "known": int(own.ns[judged].sum()),
        "unshaped": int(own.ns[unshaped].sum()),
        "unknown": int(own.ns[~theirs & modelled & ~judged].sum()),
    }  # fmt: skip
    if ns["known"] >= COVERED * ns["all"]:
        return
    if ns["unshaped"] >= max(1, ns["unknown"]):
        raise NotMeasured(
            "shapes of operators were not recorded", "未采集算子的形状",
            "profiler_level=Level1" if of == "npu" else "record_shapes=True",
        )  # fmt: skip
    if ns["unknown"] >= (1 - COVERED) * ns["all"]:
        names = sorted({title(run, rank) for rank in run.ranks})
        chinese = "、".join("未知设备" if name == UNNAMED else name for name in names)
        raise NotMeasured(
            f"the peaks of {', '.join(names)} are not all known", f"{chinese} 的峰值不全",
            "npulens doctor --roofs" if of == "cpu" else
            "flops and memory_bytes_per_s of the device in analysis/device/device_facts.toml",
        )  # fmt: skip
    raise NotMeasured(
        "the work of most operators is not known", "大部分算子的工作量未知", "a name in analysis/work/families.toml"
    )


def _candidate(run: Run, every: Kernels, ranks: tuple[int, ...], rows: Ints, cut: Ints, quick: Floats) -> Candidate:
    done = run.get(operators)
    lost = np.bincount(done.of[rows], cut)
    place = int(np.argmax(lost))
    one, worst = done.every[place], int(rows[done.of[rows] == place][0])
    text = bound(one) or "memory"
    call_ns, roof = float(quick[worst]), one.roof_ns or 0.0
    numbers: dict[str, Value] = {
        "ranks": said(ranks), "type": one.name.removeprefix("aten::"), **of_a_step(run, every, rows),
        "roof_share": roof / call_ns, "call_ns": round(call_ns), "roof_ns": round(roof),
        "precision": one.precision or "fp32", "moved_bytes": one.work.bytes,
        "shapes": spoken(one.kind.input_shapes) or None, **_hints(one, run.get(family)),
        **origins(run, int(every.span_id[worst])),
    }  # fmt: skip
    return Candidate(
        "low_efficiency", text, numbers, evidence(every, rows, cut), Change(tasks=every.span_id[rows], task_ns=cut),
        "medium", measured_ns=most_of_a_rank(every.rank[rows], cut),
    )  # fmt: skip


def _hints(one: Operator, of: str) -> dict[str, Value]:
    """What the shapes themselves show; None where they show nothing."""
    kind = one.kind
    try:
        tensors = flat(arguments(kind.input_shapes, kind.input_dtypes, kind.input_formats, kind.name))
    except Unmodelled:
        tensors = ()
    sides = _sides(tensors) if one.work.family == "matmul" else []
    odd = sorted({side for side in sides if side > EVEN and side % EVEN})
    short = min(sides, default=EVEN)
    spread = _spread(tensors) if one.work.family == "elementwise" else None
    row = tensors[0].shape[-1] if one.work.family in ("norm", "softmax") and tensors and tensors[0].shape else None
    return {
        "even": EVEN if odd else None, "odd": [str(side) for side in odd[:3]] if odd else None,
        "short": short if sides and short < SHORT_SIDE else None,
        "attention": _ATTENTION.get(of) if one.work.family == "attention" else None,
        "spread": spread, "row": row if row is not None and row < SHORT_ROW else None,
    }  # fmt: skip


def _sides(tensors: Sequence[Tensor]) -> list[int]:
    """The sides of the matrices among them, as the operator sees them."""
    return [side for tensor in tensors if len(tensor.logical) >= 2 for side in tensor.logical[-2:]]


def _spread(tensors: Sequence[Tensor]) -> str | None:
    """An input with fewer values than the largest, but not a single one."""
    most = max((tensor.values for tensor in tensors), default=0)
    smaller = [tensor for tensor in tensors if 1 < tensor.values < most]
    return "x".join(map(str, max(smaller, key=lambda tensor: tensor.values).shape)) if smaller else None
