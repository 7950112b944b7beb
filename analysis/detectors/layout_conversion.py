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
tensors in the order they are read in. On CUDA: `memory_format=torch.channels_last` throughout.

## Limits of the method

A ceiling: the consumer may be slower on the format it is then given. Without operator types (Level0) names tell.

## References

CANN, data formats: https://www.hiascend.com/document/detail/en/CANNCommunityEdition/910/opdevg/Ascendcopdevg/atlas_ascendc_10_0099.html;
PyTorch channels last: https://pytorch.org/tutorials/intermediate/memory_format_tutorial.html.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.conversion import CONVERSIONS, conversions, copied
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.kinds import Kind
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origin
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run
from npulens.analysis.say import on_device

NEEDS = ("kernels",)


class Limits(limits.Limits):
    pass


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: kernels that only convert data ({conversion}) take {kernel_ns} of each step, {count} of them"
            "[[, most on {shapes}]][[ ({change})]]",
            "[[The next kernel is {consumer}. ]][[Launched by {origin}. ]]{advice}",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：只做转换（{conversion}）的 kernel 每步占 {kernel_ns}，共 {count} 个"
            "[[，主要在 {shapes}]][[（{change}）]]",
            "[[其后的算子是 {consumer}。]][[由 {origin} 下发。]]{advice_zh}",
        )
    },
}
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
    for name, _ in CONVERSIONS:
        rows = np.flatnonzero(every.of(run.get(conversions).equal(name)))
        for ranks, those in by_rank(every.rank[rows], every.dur[rows]):
            yield _candidate(run, every, name, ranks, rows[those])


def _candidate(run: Run, every: Kernels, name: str, ranks: tuple[int, ...], rows: Ints) -> Candidate:
    worst = int(rows[np.argmax(np.bincount(every.kind[rows], every.dur[rows])[every.kind[rows]])])
    kind = every.kinds[every.kind[worst]]
    return Candidate(
        "layout_conversion", "found",
        {
            "conversion": _ELSEWHERE.get(name, name) if run.get(family) != "npu" else name, "ranks": said(ranks),
            **of_a_step(run, every, rows),
            "shapes": spoken(kind.input_shapes) or None, "change": _change(kind),
            "consumer": _next(every, worst) or None,
            "origin": str(origin(run, int(every.span_id[worst]))) or None,
            "advice": on_device(ADVICE[name][0], run.get(family)),
            "advice_zh": on_device(ADVICE[name][1], run.get(family)),
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


def _next(every: Kernels, row: int) -> str | None:
    """The kernel that follows on the stream."""
    ends = row + 1 >= len(every) or every.track[row + 1] != every.track[row]
    return None if ends else str(every.kinds[every.kind[row + 1]].type)
