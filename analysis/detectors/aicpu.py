"""Operators that run on the AI CPU instead of the AI cores.

## What it measures

Every kernel whose core is the AI CPU, by operator type, and how long the device was at it. With it stand the shapes and
types it ran on. Kernels of the same type may also have run on AI cores in this capture. What those took for as many
bytes is then what such a kernel would still take. Else nothing is known of it and the whole time counts.

## Why it costs

The AI CPU is a handful of ARM cores beside the AI cores. It has neither vector nor matrix units. An operator that falls
back to it takes ten to a thousand times longer, and the stream waits.

## What to do

Almost always a data type is the reason. AI cores do not compute in DOUBLE, and many operators have no INT64 or COMPLEX
kernel. Cast the inputs (float64 to float32, int64 to int32) before the operator, and keep index and mask tensors in
int32. Or replace the operator by one that has an AI core kernel, or move it out of the step.

## Limits of the method

A ceiling: the operator's own time on an AI core is only known where its like ran there. Level0 of torch_npu may file
kernels of both cores under one name of core. Then nothing is found that is not named so.

## References

CANN, AI CPU operators: https://www.hiascend.com/document/detail/en/CANNCommunityEdition/910/opdevg/aicpuopdevg/aicpu.html;
msprof-analyze advisor `aicpu_checker.py` (types per CANN version).
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.kernels import Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.tensors import dtype
from npulens.analysis.finding import Candidate, Change, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origin
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

NEEDS = ("kernels", "kernel_cores")

#: Types without AI core kernels for many operators, and what to cast them to (msprof-analyze, aicpu_rules.yaml).
CASTS = {"DOUBLE": "FLOAT", "FLOAT64": "FLOAT", "INT64": "INT32", "INT16": "INT32", "UINT64": "INT32",
         "COMPLEX128": "COMPLEX64"}  # fmt: skip
NO_CAST = ("Its data types have AI core kernels for most operators: look for the operator itself.",
           "其数据类型通常有 AI Core 实现，请检查算子本身。")  # fmt: skip


class Limits(limits.Limits):
    pass


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {type} runs on the AI CPU, {kernel_ns} of each step in {count} kernels"
            "[[ on {shapes}]][[ ({dtypes})]]",
            "{cast} Launched by {origin}. If no data type helps, use an operator that has an AI core kernel or move it "
            "out of the step. This is the most it can give back: what the operator takes on an AI core remains.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：{type} 运行在 AI CPU 上，每步 {kernel_ns}，共 {count} 个[[，形状 {shapes}]][[（{dtypes}）]]",
            "{cast_zh}由 {origin} 下发。若与数据类型无关，请换用有 AI Core 实现的算子，或移出训练步。"
            "以上为收益上限：算子在 AI Core 上仍需耗时。",
        )
    },
}


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    slow = every.of(every.kinds.each(lambda kind: kind.on_aicpu, "core").flags())
    for name in sorted({every.kinds[kind].type for kind in np.unique(every.kind[slow])}):
        rows = np.flatnonzero(slow & every.of(every.kinds.types.equal(name)))
        cut = np.maximum(0, every.dur[rows] - _elsewhere(every, rows, name))
        for ranks, those in by_rank(every.rank[rows], cut):
            yield _candidate(run, every, name, said(ranks), rows[those], cut[those])


def _candidate(run: Run, every: Kernels, name: str, ranks: str, rows: Ints, cut: Ints) -> Candidate:
    worst = int(rows[np.argmax(cut)])
    kind = every.kinds[every.kind[worst]]
    types = sorted({dtype(one) for one in (kind.input_dtypes or "").split(";") if one})
    casts = ", ".join(f"{one} to {CASTS[one]}" for one in types if one in CASTS)
    casts_zh = "、".join(f"{one} 转 {CASTS[one]}" for one in types if one in CASTS)
    return Candidate(
        "aicpu", "found",
        {
            "type": name, "ranks": ranks, **of_a_step(run, every, rows),
            "shapes": kind.input_shapes or None, "dtypes": kind.input_dtypes or None,
            "origin": str(origin(run, int(every.span_id[worst]))) or kind.name,
            "cast": f"Cast its inputs first: {casts}." if casts else NO_CAST[0],
            "cast_zh": f"请先转换输入：{casts_zh}。" if casts else NO_CAST[1],
        },
        evidence(every, rows, cut), Change(tasks=every.span_id[rows], task_ns=cut),
    )  # fmt: skip


def _elsewhere(every: Kernels, rows: Ints, name: str) -> Ints:
    """What each kernel would take on an AI core: ns per byte of the same type there; 0 where there is none."""
    aicpu = every.kinds.each(lambda kind: kind.on_aicpu, "core").flags()
    like = np.flatnonzero(every.of(every.kinds.types.equal(name) & ~aicpu))
    sizes = np.maximum(every.kinds.bytes, 0)
    bytes_there = sizes[every.kind[like]]
    rates = every.dur[like][bytes_there > 0] / bytes_there[bytes_there > 0]
    if not len(like):
        return np.zeros(len(rows), np.int64)
    rate = float(np.median(rates)) if len(rates) else 0.0
    found: Ints = np.maximum(int(every.dur[like].min()), rate * sizes[every.kind[rows]]).astype(np.int64)
    return found
