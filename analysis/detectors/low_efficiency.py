"""Operators stay far below the roof of their own device.

## What it measures

Each operator's least time against the time of its calls. The least time is that of its work, from shapes and types, at
the peaks of the device (docs/roofline.md). The time is that of a quick call, one of the fastest fifth on its rank. So
what comes and goes (a slow tail, a transfer beside it) is left to others. What a low clock or idle cores explain, and
what fusing would give back, is taken off first. Kernels with stalled pipes belong to `pipe_stall`. An operator below
the limit is told with what bounds it: computing or memory. The saving is what 0.7 of the roof would give.

On a CPU, convolutions of PyTorch's own code (`aten::_slow_conv2d_forward`) are told by their name, without any roof.
What is left of them is their work at the rate of the fastest other product of the capture. Where none is faster, the
saving is all of their time, and how much of it goes is not known.

## Why it costs

A device that multiplies at a third of its peak needs three times as long for the same result. No log says so.

## What to do

Bound by computing: sides that are multiples of 16, better of 128. Where a side is short, a larger batch. bf16 or fp16
instead of fp32. Attention in fp32 uses no flash kernel: its inputs are to be bf16 or fp16 first. Then the newest kernel
that the device has: `npu_fusion_attention`, `scaled_dot_product_attention`, AITER, FlashAttention 3 on Hopper. Bound by
memory: contiguous inputs of one layout. A fused operator or torch.compile in place of several passes. Small tensors are
better not spread over large ones along the inner axis. Otherwise a newer library, or tuning (AOE,
`torch.backends.cudnn.benchmark`, TunableOp).

## Limits of the method

A ceiling. It needs both roofs, that of the matrix units and that of memory. Where the memory's is not known, products
with more than 1000 operations for each byte are bound by computing on every device. A roof counts each tensor once, and
shapes do not tell strides or what lay in a cache. Calls under 10 us are not judged, and 5 us of each are left to
starting and ending. Copies, layouts, lookups, collectives, what Inductor fused and what runs on the AI CPU are not
judged. Nor is a kernel that communicates too (MC2): it may wait for another rank. Neither is fp32 on a device with a
faster precision: that is `full_precision`. For a single small image on one thread, PyTorch takes its own convolution by
choice.

## References

Williams, Waterman, Patterson 2009: Roofline, doi:10.1145/1498765.1498785.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.by_rank import by_rank
from npulens.analysis.capability import held, setting
from npulens.analysis.detectors.full_precision import claimed
from npulens.analysis.detectors.idle_cores import shares
from npulens.analysis.detectors.pipe_stall import MOVING, bound, stalled
from npulens.analysis.detectors.unfused import fused
from npulens.analysis.device.abilities import UNNAMED, Device, device, named_by, title
from npulens.analysis.device.family import family
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import NO_HOST, Floats, Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.kinds import LONGEST, Bools, shortened
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import COVERED, limit
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.run import Run
from npulens.analysis.say import number
from npulens.analysis.steady import of_run, steady_ns
from npulens.analysis.work.call import Tensor, Unmodelled, arguments, flat
from npulens.analysis.work.fallback import fallbacks
from npulens.analysis.work.judged import enough, most_of_a_rank, some
from npulens.analysis.work.operators import GOOD, SHORT_NS, Operator, Operators, operators
from npulens.ingest.messages import Message

NEEDS = ("kernels",)

TEXT = {
    "en": {
        "compute": Words(
            "Rank {ranks}: {type} reaches {roof_share} of what its device can compute, {kernel_ns} of each step in "
            "{count} kernels[[, most on {shapes}]]",
            "A call takes {call_ns}, its work {roof_ns} at the peak of {precision}.[[ Sides that are no multiples of "
            "{even}: {odd}; pad them.]][[ A side of {short} leaves the matrix units half empty: give it a larger batch "
            "or several products at once.]][[ Attention in {wide} uses no flash kernel: make its inputs {narrow} first"
            "[[; {flash} then takes one]].]][[ Try the newest attention kernel: {attention}.]] Try a newer library or "
            "its tuning[[npu:  (AOE)]][[cuda:  (torch.backends.cudnn.benchmark, max-autotune)]][[rocm:  (TunableOp)]]. "
            "Launched by {origin}.",
        ),
        "memory": Words(
            "Rank {ranks}: {type} reaches {roof_share} of what its memory can move, {kernel_ns} of each step in "
            "{count} kernels[[, most on {shapes}]]",
            "A call takes {call_ns}, moving its {moved_bytes} once takes {roof_ns}.[[ Sides that are no multiples of "
            "{even}: {odd}; pad them.]][[ A side of {short} leaves the matrix units half empty: give it a larger batch "
            "or several products at once.]][[ Rows of {row} values are short: fuse it with its neighbours.]]"
            "[[ {spread} is spread over the larger input: see that both are contiguous.]]"
            "[[ Attention in {wide} uses no flash kernel: make its inputs {narrow} first[[; {flash} then takes one]].]]"
            "[[ Try the newest attention kernel: {attention}.]] See that its inputs are contiguous (.contiguous() "
            "once, channels_last), and fuse it: [[npu: torch_npu.npu_*]][[cuda|rocm|cpu: torch.compile]] or a fused "
            "operator. Launched by {origin}.",
        ),
        "fallback": Words(
            "Rank {ranks}: {type} takes {kernel_ns} of each step ({kernel_share}) in {count} calls: PyTorch's own "
            "code for convolutions that no library takes",
            "Use a build of PyTorch with oneDNN: torch.backends.mkldnn.is_available() says whether this one has it. "
            "oneDNN takes contiguous or channels_last tensors in fp32 or bf16. See that the job does not switch it off "
            "(torch.backends.mkldnn.flags).[[ At the rate of {best}, its work would take {least_ns}.]]"
            "[[ How much of the {untold_ns} goes is not known: no other product of this capture is faster.]] Called by "
            "{origin}.",
        ),
    },
    "zh": {
        "compute": Words(
            "rank {ranks}：{type} 只达到设备算力上限的 {roof_share}，每步 {kernel_ns}，共 {count} 个"
            "[[，主要在 {shapes}]]",
            "单次调用耗时 {call_ns}，按 {precision} 峰值只需 {roof_ns}。[[这些边不是 {even} 的倍数：{odd}，请补齐。]]"
            "[[有一边只有 {short}，矩阵单元填不满：请增大 batch，或合并多个矩阵乘。]]"
            "[[{wide} 的注意力用不上 flash 算子：请先把输入转为 {narrow}[[，{flash} 便会使用它]]。]]"
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
            "[[{wide} 的注意力用不上 flash 算子：请先把输入转为 {narrow}[[，{flash} 便会使用它]]。]]"
            "[[请试用最新的注意力算子：{attention}。]]请确认输入连续（只做一次 .contiguous()，或用 channels_last），"
            "并融合该算子：[[npu: torch_npu.npu_*]][[cuda|rocm|cpu: torch.compile]] 或其他融合算子。"
            "由 {origin_zh} 下发。",
        ),
        "fallback": Words(
            "rank {ranks}：{type} 每步耗时 {kernel_ns}（{kernel_share}），调用 {count} 次："
            "这是没有加速库可用时 PyTorch 退回使用的卷积实现",
            "请使用带 oneDNN 的 PyTorch：torch.backends.mkldnn.is_available() 可查看当前版本是否带有。"
            "oneDNN 要求张量连续或为 channels_last，类型为 fp32 或 bf16。"
            "并确认作业没有关闭它（torch.backends.mkldnn.flags）。"
            "[[按 {best} 的速度，其计算量只需 {least_ns}。]]"
            "[[{untold_ns} 中能省下多少无法得知：本次采集中没有更快的其他矩阵运算。]]"
            "由 {origin_zh} 调用。",
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
#: Types that no flash kernel takes, what picks one for others, and operators that use one already.
_WIDE = ("fp32", "fp64")
_SDPA = "scaled_dot_product_attention"
_OF_FLASH = re.compile(r"flash|cudnn|aiter")
#: The only devices that FlashAttention 3 is written for, by their names.
_HOPPER = re.compile(r"\bG?H(?:20|100|200|800)\b")


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
    slow, least = list(_fallbacks(run)), limits.min_share * run.get(steady_ns)
    every, done = run.get(kernels), run.get(operators)
    if not _any(slow, least):
        some(~_theirs(run, done)[done.of] & every.of(~every.kinds.memset))
    judged = ~np.isnan(done.times.share) & (done.times.surely != "") & ~_theirs(run, done)
    mine = judged[done.of] & ~run.get(claimed) & (run.get(stalled).way < 0) & (every.dur > 0)
    if (known := run.get(fallbacks)) is not None:
        mine[known.rows] = False
    found, quick, cut = _cuts(run, every, mine, limits)
    rows = np.flatnonzero(cut)
    called = done.of[rows]
    place = {name: at for at, name in enumerate(sorted({done.names[one] for one in np.unique(called).tolist()}))}
    number = np.array([place.get(name, -1) for name in done.names], np.int64)[called]
    for at in range(len(place)):
        those = rows[number == at]
        for ranks, here in by_rank(every.rank[those], cut[those]):
            slow.append(_candidate(run, every, ranks, those[here], cut[those[here]], quick[found.of]))
    if not _any(slow, least):
        _measured(run, judged, limits)
    yield from slow


def _any(slow: list[Candidate], least: float) -> bool:
    """Whether one alone is worth telling: many that are not say nothing of the time that could not be judged."""
    return any((one.measured_ns or 0) >= least for one in slow)


def _fallbacks(run: Run) -> Iterator[Candidate]:
    """One candidate for each group of ranks on a CPU whose convolutions run without a library alike."""
    found, every = run.get(fallbacks), run.get(kernels)
    if found is None:
        return
    mine = np.flatnonzero(~run.get(claimed)[found.rows])  # oneDNN takes no float64
    for ranks, here in by_rank(every.rank[found.rows[mine]], found.ns[mine]):
        at = mine[here]
        rows, ns = found.rows[at], found.ns[at]
        left = np.minimum(found.least_ns[at], ns) if found.least_ns is not None else np.zeros(len(at), np.int64)
        worst = at[int(np.argmax(ns))]
        whole, per = most_of_a_rank(every.rank[rows], ns), max(1, run.step_count)
        numbers: dict[str, Value] = {
            "ranks": said(ranks), "type": found.name[worst], "count": of_a_step(run, every, rows)["count"],
            "kernel_ns": whole // per, "kernel_share": of_run(run, whole), "best": found.best,
            "least_ns": int(left.sum()) // per // len(ranks) if found.best else None,
            "untold_ns": None if found.best else whole // per,
            "shapes": spoken(every.kinds[every.kind[found.rows[worst]]].input_shapes) or None,
            **origins(run, int(every.span_id[found.rows[worst]])),
        }  # fmt: skip
        yield Candidate(
            "low_efficiency", "fallback", numbers, evidence(every, rows, ns),
            Change(tasks=every.span_id[rows], task_ns=ns - left), "medium" if found.best else "low", measured_ns=whole,
        )  # fmt: skip


def _theirs(run: Run, done: Operators) -> Bools:
    """The operators that are for others to judge. So are those that communicate too: they may wait for another rank."""
    meets = np.isin(run.get(kernels).span_id, run.get(collectives).span_id)
    mixed = np.bincount(done.of[meets], minlength=len(done.every)) > 0
    return np.asarray(done.every.columns.work.each(lambda one: one.family in OTHERS).flags() | mixed)


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


def _measured(run: Run, judged: Bools, limits: Limits) -> None:
    """Raises where too little of the time could be judged, with what has most of the rest."""
    done = run.get(operators)
    own, theirs = done.every.columns, _theirs(run, done)
    whole = int(own.ns[~theirs].sum())
    if int(own.ns[judged].sum()) >= COVERED * whole:
        _long(run, judged, limits)
        return
    left = ~judged & ~theirs
    why_of = own.work.each(lambda one: _UNTOLD.get(one.reason, "work") if one.reason else "peaks")
    lost = {why: left & why_of.equal(why) for why in ("shapes", "values", "operator", "work", "peaks")}
    ns = {why: int(own.ns[which].sum()) for why, which in lost.items()}
    most = max(ns, key=lambda why: ns[why])
    share = number("_share", ns[most] / max(1, int(own.ns.sum())))  # of all kernels, also those that others judge
    raise NotMeasured(*_untold(run, most, share, _first(run, lost[most])))


#: Why the work of an operator is not known, where the capture lacks something.
_UNTOLD = {"no_shapes": "shapes", "no_types": "shapes", "no_values": "values", "no_operator": "operator"}


def _first(run: Run, which: Bools) -> str:
    """The operator with most time among some."""
    done = run.get(operators)
    name = done.names[int(np.argmax(np.where(which, done.every.columns.ns, -1)))].removeprefix("aten::")
    return name if len(name) <= LONGEST else shortened(name)


def _untold(run: Run, why: str, share: str, first: str) -> tuple[str, str, str | None]:
    """What is not known of operators with most of the time that could not be judged, and what would record it."""
    of = run.get(family)
    if why == "shapes":
        return (
            f"shapes and types that operators with {share} of the time were called with: not recorded, most in {first}",
            f"占 {share} 时间的算子没有采集形状或数据类型，以 {first} 为最",
            "profiler_level=Level1" if of == "npu" else "record_shapes=True",
        )
    if why == "values":
        return (
            f"numbers such as strides that operators with {share} of the time were called with: not recorded, most in "
            f"{first}", f"占 {share} 时间的算子没有采集步幅等参数值，以 {first} 为最",
            None if of == "npu" else Message("pytorch_or_later", {"version": "2.1"}),
        )
    if why == "operator":
        return (
            f"which operator launched kernels with {share} of the time: not recorded, most in {first}",
            f"占 {share} 时间的 kernel 没有采集到下发它的算子，以 {first} 为最",
            setting(run, "host_ops") if held(run, "host_ops") < COVERED else None,
        )
    if why == "work":
        return (
            f"what operators with {share} of the time have to do is not known, most of it in {first}",
            f"占 {share} 时间的算子工作量未知，以 {first} 为最", "a name in analysis/work/families.toml",
        )
    names = sorted({title(run, rank) for rank in run.ranks})
    chinese = "、".join("未知设备" if name == UNNAMED else name for name in names)
    return (
        f"the peaks of {', '.join(names)} are not all known", f"{chinese} 的峰值不全",
        "npulens doctor --roofs" if of == "cpu" else named_by(run) or
        "flops and memory_bytes_per_s of the device in analysis/device/device_facts.toml",
    )  # fmt: skip


def _long(run: Run, judged: Bools, limits: Limits) -> None:
    """Raises where calls too short to be judged have too much of the time."""
    every, done = run.get(kernels), run.get(operators)
    calls = _calls(every, done.of, every.dur.astype(np.float64))
    long = judged[done.of] & (calls.ns >= limits.least_ns)[calls.of]
    least = number("_ns", int(limits.least_ns))
    enough(run, ~_theirs(run, done)[done.of], long, limits.min_share, (
        f"calls of {least} or more, the ones that can be judged,", f"不短于 {least}、可以判断的调用",
    ))  # fmt: skip


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
        "shapes": spoken(one.kind.input_shapes) or None, **_hints(one),
        **_attention(one, run.get(family), device(run, ranks[0])),
        **origins(run, int(every.span_id[worst])),
    }  # fmt: skip
    return Candidate(
        "low_efficiency", text, numbers, evidence(every, rows, cut), Change(tasks=every.span_id[rows], task_ns=cut),
        "medium", measured_ns=most_of_a_rank(every.rank[rows], cut),
    )  # fmt: skip


def _hints(one: Operator) -> dict[str, Value]:
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
        "spread": spread, "row": row if row is not None and row < SHORT_ROW else None,
    }  # fmt: skip


def _attention(one: Operator, of: str, here: Device | None) -> dict[str, Value]:
    """Which kernel attention could use on its device: flash kernels take 16 bits, and FlashAttention 3 wants Hopper."""
    found: dict[str, Value] = {"wide": None, "narrow": None, "flash": None, "attention": None}
    if one.work.family != "attention":
        return found
    if of == "npu":
        return {**found, "attention": "torch_npu.npu_fusion_attention"}
    if of not in ("cuda", "rocm"):
        return found
    peak = dict(here.flops) if here else {}
    if one.work.dtype in _WIDE:
        faster = [name for name in ("bf16", "fp16") if peak.get(name, 0.0) > peak.get(one.work.dtype, 0.0)]
        told = faster[0] if faster else None  # without bf16 it is older than Ampere, and has no flash kernel
        return {**found, "wide": one.work.dtype, "narrow": told, "flash": _SDPA if told == "bf16" else None}
    if _OF_FLASH.search(one.name) is None:
        return {**found, "attention": _SDPA if "bf16" in peak else None}
    if of == "rocm":
        return {**found, "attention": None if "aiter" in one.name else "AITER"}
    new = here is not None and _HOPPER.search(here.name) is not None and "flash_attn_3" not in one.name
    return {**found, "attention": "FlashAttention 3" if new else None}


def _sides(tensors: Sequence[Tensor]) -> list[int]:
    """The sides of the matrices among them, as the operator sees them."""
    return [side for tensor in tensors if len(tensor.logical) >= 2 for side in tensor.logical[-2:]]


def _spread(tensors: Sequence[Tensor]) -> str | None:
    """An input with fewer values than the largest, but not a single one."""
    most = max((tensor.values for tensor in tensors), default=0)
    smaller = [tensor for tensor in tensors if 1 < tensor.values < most]
    return "x".join(map(str, max(smaller, key=lambda tensor: tensor.values).shape)) if smaller else None
