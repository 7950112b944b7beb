"""Kernels that only change the format, the order or the type of data.

## What it measures

The time of kernels that compute nothing. On Ascend: TransData (between formats such as NCHW and NC1HWC0), Transpose,
Cast and copies that only make data contiguous. On CUDA and ROCm: the layout kernels of cuDNN and the copies that casts
launch. Each kind of conversion is one finding, with the shapes that cost most and the kernel that follows.

## Why it costs

A conversion reads and writes every byte once and computes nothing. Convolutions that keep their private format on
the way in and out of every operator convert the same data again and again.

## What to do

TransData: keep the network in one format (`torch_npu.npu_format_cast` of the weights once before training). Use
`torch.npu.config.allow_internal_format = False` if conversions outweigh what the format gives. Cast: keep weights in
the type they are used in, autocast whole blocks rather than operators, avoid `.float()` on the way. Transpose: store
tensors in the order they are read in. An operator of CANN that converts its own result: take that as it is computed.
On CUDA: `memory_format=torch.channels_last` throughout.

## Limits of the method

A ceiling: the consumer may be slower on the format it is then given. Without operator types (Level0) names tell.

## References

CANN, data formats: https://www.hiascend.com/document/detail/en/CANNCommunityEdition/910/opdevg/Ascendcopdevg/atlas_ascendc_10_0099.html;
PyTorch channels last: https://pytorch.org/tutorials/intermediate/memory_format_tutorial.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.capability import setting
from npulens.analysis.device.conversion import CONVERSIONS, conversions, copied
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.kinds import Bools, Kind
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origin
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import COVERED
from npulens.analysis.run import Run
from npulens.analysis.say import number, on_device
from npulens.analysis.steady import steady_ns
from npulens.analysis.work.judged import most_of_a_rank

NEEDS = ("kernels",)


class Limits(limits.Limits):
    pass


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: kernels that only convert data ({conversion}) take {kernel_ns} of each step, {count} of them"
            "[[, most on {shapes}]][[ ({change})]]",
            "[[The next kernel is {consumer}. ]][[It converts what {producer} computed. ]][[Launched by {origin}. ]]"
            "{advice}",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：只做转换（{conversion}）的算子每步占 {kernel_ns}，共 {count} 个"
            "[[，主要在 {shapes}]][[（{change}）]]",
            "[[其后的算子是 {consumer}。]][[被转换的是 {producer} 的输出。]][[由 {origin} 下发。]]{advice_zh}",
        )
    },
}
#: An operator type that is none.
_UNTOLD = (None, "", "N/A")
#: What a conversion is called where the Ascend's word says nothing.
_ELSEWHERE = {"TransData": "NCHW/NHWC"}
ADVICE = {
    "TransData": ("Keep the network in one format[[npu: : cast weights once with torch_npu.npu_format_cast, or set "
                  "torch.npu.config.allow_internal_format = False]][[cuda|rocm: : channels_last throughout]].",
                  "请让全网保持同一格式[[npu: ：用 torch_npu.npu_format_cast 一次性转换权重，或设 "
                  "torch.npu.config.allow_internal_format = False]][[cuda|rocm: ：全程使用 channels_last]]。"),
    "Transpose": ("Store the tensor in the order it is read in, or hand the matrix product a transposed input"
                  "[[npu: , or fuse with torch_npu.npu_confusion_transpose]].",
                  "请按读取顺序存放张量，或让矩阵乘直接接收转置输入"
                  "[[npu: ，或用 torch_npu.npu_confusion_transpose 融合]]。"),
    "Cast": ("Keep the tensor in the type it is used in: autocast whole blocks, hold weights in that type, drop "
             ".float() on the way.",
             "请让张量保持使用时的类型：对整块使用 autocast，权重直接存为该类型，去掉中途的 .float()。"),
    "Contiguous": ("Let the operator read the strided tensor, or make it contiguous once where it is produced.",
                   "请让算子直接读取非连续张量，或在产生处一次性转为连续。"),
}  # fmt: skip


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    found = every.of(run.get(conversions).map(lambda one: one is not None).flags())
    groups = [
        (name, ranks, rows[those]) for name, _ in CONVERSIONS
        for rows in (np.flatnonzero(every.of(run.get(conversions).equal(name))),)
        for ranks, those in by_rank(every.rank[rows], every.dur[rows])
    ]  # fmt: skip
    least = limits.min_share * run.get(steady_ns)
    if all(most_of_a_rank(every.rank[rows], every.dur[rows]) < least for *_, rows in groups):
        _told(run, every, found, limits.min_share)
    for name, ranks, rows in groups:
        yield _candidate(run, every, name, ranks, rows)


def _told(run: Run, every: Kernels, found: Bools, min_share: float) -> None:
    """Raises where the types of too many kernels of an NPU were not recorded: any of them may convert.

    Names of aclnn kernels end with their type. Names that people give their own kernels say nothing.
    """
    if run.get(family) != "npu":
        return
    kinds = every.kinds
    told = kinds.column("op_type").map(lambda one: one not in _UNTOLD).flags() | kinds.there("op")
    named = kinds.column("name").map(lambda name: name.startswith("aclnn")).flags()
    aicpu = kinds.each(lambda kind: kind.on_aicpu, "core").flags()
    about = every.of(~kinds.memset & ~aicpu)
    left = about & ~every.of(told | named) & ~found
    known = 1 - int(every.dur[left].sum()) / max(1, int(every.dur[about].sum()))
    if known < COVERED and most_of_a_rank(every.rank[left], every.dur[left]) >= min_share * run.get(steady_ns):
        said_ = number("_share", known)
        raise NotMeasured(
            f"kernels whose type was recorded have only {said_} of the time: any other may convert data",
            f"记录了算子类型的 kernel 只占 {said_} 的时间，其余的都可能在做转换",
            setting(run, "kernel_types"),
        )


def _candidate(run: Run, every: Kernels, name: str, ranks: tuple[int, ...], rows: Ints) -> Candidate:
    worst = int(rows[np.argmax(np.bincount(every.kind[rows], every.dur[rows])[every.kind[rows]])])
    kind = every.kinds[every.kind[worst]]
    made_by = _producer(run, every, worst)
    advice, advice_zh = _advice(kind, name, made_by is not None)
    return Candidate(
        "layout_conversion", "found",
        {
            "conversion": _ELSEWHERE.get(name, name) if run.get(family) != "npu" else name, "ranks": said(ranks),
            **of_a_step(run, every, rows),
            "shapes": spoken(kind.input_shapes) or None, "change": _change(kind),
            "consumer": (_next(run, every, worst) if made_by is None else None) or None, "producer": made_by,
            "origin": str(origin(run, int(every.span_id[worst]))) or None,
            "advice": on_device(advice, run.get(family)), "advice_zh": on_device(advice_zh, run.get(family)),
        },
        evidence(every, rows, every.dur[rows]), Change(tasks=every.span_id[rows], task_ns=every.dur[rows]),
        measured_ns=int(every.dur[rows].sum()) // len(ranks),
    )  # fmt: skip


def _change(kind: Kind) -> str | None:
    """From what to what, where it is recorded."""
    for before, after in ((kind.input_formats, kind.output_formats), (kind.input_dtypes, kind.output_dtypes),
                          (kind.input_shapes, kind.output_shapes)):  # fmt: skip
        if before and after and before.split(";")[0] != after.split(";")[0]:
            return f"{before.split(';')[0]} -> {after.split(';')[0]}"
    if kind.op is None:
        return kind.input_dtypes or None
    written, read = copied(kind)
    return f"{read} -> {written}" if written != read else None


#: An operator of CANN that converts on its way, by the name of its kernel; and those that mean to move or multiply.
_WITHIN = re.compile(r"^aclnn([A-Z]\w*?)_")
_MEANT = re.compile(
    r"mm|mat|conv|(?<!bi)(?<!tri)linear|permute|transpose|contiguous|cast|copy|format|clone|slice|view", re.I
)
#: Kernels after a conversion that are looked at for one that computes.
_AHEAD = 8


def _advice(kind: Kind, name: str, of_output: bool) -> tuple[str, str]:
    """What to do: for the conversion, or for the operator of CANN that makes it itself."""
    found = _WITHIN.match(kind.name)
    if of_output and found is not None:
        within = f"aclnn{found[1]}"
        return (
            f"{within} converts its own result: take it in the order and type that is computed, or make it once "
            "outside the loop.",
            f"这是 {within} 对自身输出的转换：请直接按其计算所用的排布和类型取结果，或在循环外只生成一次。",
        )
    if found is None or _MEANT.search(found[1]):
        return ADVICE[name]
    within = f"aclnn{found[1]}"
    return (
        f"{within} converts by itself: give it its inputs in the order and type that it computes in, or let another "
        "operator do its work.",
        f"这是 {within} 内部的转换：请按该算子计算所用的排布和类型提供输入，或改用其他算子。",
    )


def _producer(run: Run, every: Kernels, row: int) -> str | None:
    """The kernel of the same call of CANN whose result this one converts; None where it converts an input.

    A call leaves its name before the names of its kernels. Calls of one name follow each other, so shapes and types
    tell on which side of the conversion its own kernel lies. Where they do not, the first of these kernels does.
    """
    found = _WITHIN.match(every.kinds[every.kind[row]].name)
    if found is None or _MEANT.search(found[1]):
        return None
    converts, mine = run.get(conversions), every.kinds[every.kind[row]]
    before, after = (_beside(every, row, found[0], way) for way in (-1, 1))
    if before is None or converts[int(every.kind[before])] is not None:
        return None
    first = every.kinds[every.kind[before]]
    wrote, read = first.outputs, mine.inputs
    if wrote and read and read[0] not in wrote:
        return None
    if after is None:
        return str(first.type)
    last = every.kinds[every.kind[after]]
    given, made = last.inputs, mine.outputs
    no_inputs = given is None and last.output_shapes is not None
    fed = bool(given and made and made[0] in given)
    told = no_inputs or bool(wrote and read and given and made)
    if converts[int(every.kind[after])] is not None or fed or not told:
        return None if _begins_converting(run, every, before, found[0]) else str(first.type)
    return str(first.type)


def _begins_converting(run: Run, every: Kernels, row: int, call: str) -> bool:
    """Whether the first of the kernels of such calls, one behind the other up to this one, converts."""
    for _ in range(_BACK):
        if (at := _beside(every, row, call, -1)) is None:
            break
        row = at
    return run.get(conversions)[int(every.kind[row])] is not None


#: Kernels before a conversion that are looked at for where calls of one name begin.
_BACK = 64


def _beside(every: Kernels, row: int, call: str, way: int) -> int | None:
    """The neighbour on the stream, memsets left out, if it is of a call of this name."""
    at = row + way
    while 0 <= at < len(every) and every.track[at] == every.track[row] and every.kinds.memset[every.kind[at]]:
        at += way
    if not 0 <= at < len(every) or every.track[at] != every.track[row]:
        return None
    return at if every.kinds[every.kind[at]].name.startswith(call) else None


def _next(run: Run, every: Kernels, row: int) -> str | None:
    """The first kernel that follows on the stream and does not convert itself."""
    converts = run.get(conversions)
    for at in range(row + 1, min(row + 1 + _AHEAD, len(every))):
        if every.track[at] != every.track[row]:
            return None
        if converts[int(every.kind[at])] is None and not every.kinds.memset[every.kind[at]]:
            return str(every.kinds[every.kind[at]].type)
    return None
