"""Operators that run on the AI CPU instead of the AI cores.

## What it measures

Every kernel whose core is the AI CPU, by operator type, and how long the device was at it. With it stand the shapes and
types it ran on. Kernels of the same type may also have run on AI cores in this capture. What those took for as many
bytes is then what such a kernel would still take. Else nothing is known of it and the whole time counts.

A fused operator may have a part on the AI CPU that schedules its parts on AI cores. Those run meanwhile and are not the
same work elsewhere. Of such a part counts the time in which no kernel runs on the AI cores.

## Why it costs

The AI CPU is a handful of ARM cores beside the AI cores. It has neither vector nor matrix units. An operator that falls
back to it takes ten to a thousand times longer, and the stream waits.

## What to do

Almost always a data type is the reason. AI cores do not compute in DOUBLE, and many operators have no INT64 or COMPLEX
kernel. Cast the inputs (float64 to float32, int64 to int32) before the operator, and keep index and mask tensors in
int32. Or replace the operator by one that has an AI core kernel, or move it out of the step. Where the AI CPU only
schedules, give each launch more to do, or use a version that schedules on the AI cores.

## Limits of the method

A ceiling: the operator's own time on an AI core is only known where its like ran there. Level0 of torch_npu may file
kernels of both cores under one name of core. Then nothing is found that is not named so.

## References

CANN, AI CPU operators: https://www.hiascend.com/document/detail/en/CANNCommunityEdition/910/opdevg/aicpuopdevg/aicpu.html;
msprof-analyze advisor `aicpu_checker.py` (types per CANN version).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.kernels import Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.kinds import Bools
from npulens.analysis.device.tensors import dtype
from npulens.analysis.finding import Candidate, Change, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origin
from npulens.analysis.intervals import Intervals, Ints
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
        ),
        "part": Words(
            "Rank {ranks}: parts of {type} run on the AI CPU, {alone_ns} of each step beside no AI core ({count}, "
            "{kernel_ns})",
            "The AI CPU schedules this operator: its parts there run while its other parts run on AI cores. Give each "
            "launch more to do, or launch the next before this one ends. A version that schedules on the AI cores also "
            "helps. Launched by {origin}. This is the most it can give back.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：{type} 运行在 AI CPU 上，每步 {kernel_ns}，共 {count} 个[[，形状 {shapes}]][[（{dtypes}）]]",
            "{cast_zh}由 {origin} 下发。若与数据类型无关，请换用有 AI Core 实现的算子，或移出训练步。"
            "以上为收益上限：算子在 AI Core 上仍需耗时。",
        ),
        "part": Words(
            "rank {ranks}：{type} 有一部分运行在 AI CPU 上，每步有 {alone_ns} 只有这部分在运行，AI Core 空闲"
            "（共 {count} 个，{kernel_ns}）",
            "该算子由 AI CPU 调度：AI CPU 上的部分与 AI Core 上的部分同时运行。请增大每次下发的工作量，"
            "或在本次结束前就下发下一次，或改用在 AI Core 上调度的版本。由 {origin} 下发。以上为收益上限。",
        ),
    },
}


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    on_aicpu = every.of(every.kinds.each(lambda kind: kind.on_aicpu, "core").flags())
    cores = {rank: _spans(every, np.flatnonzero(~on_aicpu & (every.rank == rank))) for rank in run.ranks}
    for name in sorted({every.kinds[kind].type for kind in np.unique(every.kind[on_aicpu])}):
        same = every.of(every.kinds.types.equal(name))
        rows, like = np.flatnonzero(on_aicpu & same), np.flatnonzero(~on_aicpu & same)
        part = _beside(every, rows, like)
        alone, parts = rows[~part], rows[part]
        like = like[~_beside(every, like, parts)]
        cut = np.maximum(0, every.dur[alone] - _elsewhere(every, alone, like))
        for ranks, those in by_rank(every.rank[alone], cut):
            yield _candidate(run, every, name, said(ranks), alone[those], cut[those])
        bare = every.dur[parts] - _covered(every, parts, cores)
        for ranks, those in by_rank(every.rank[parts], bare):
            yield _scheduling(run, every, name, ranks, (parts[those], bare[those]), cores)


def _spans(every: Kernels, rows: Ints) -> Intervals:
    return Intervals.union_of(every.ts[rows], every.ts[rows] + every.dur[rows])


def _covered(every: Kernels, rows: Ints, by: Mapping[int, Intervals]) -> Ints:
    """How much of each kernel lies in intervals of its rank."""
    found = np.zeros(len(rows), np.int64)
    for rank, spans in by.items():
        mine = every.rank[rows] == rank
        begins = every.ts[rows[mine]]
        found[mine] = spans.within(begins, begins + every.dur[rows[mine]])
    return found


def _beside(every: Kernels, rows: Ints, others: Ints) -> Bools:
    """Which kernels run while one of the others does, on the same rank: parts of one launch."""
    ranks = np.unique(every.rank[rows]).tolist()
    return _covered(every, rows, {rank: _spans(every, others[every.rank[others] == rank]) for rank in ranks}) > 0


def _scheduling(run: Run, every: Kernels, name: str, ranks: tuple[int, ...], found: tuple[Ints, Ints],
                cores: Mapping[int, Intervals]) -> Candidate:  # fmt: skip
    """Parts of launches; several of one launch may run at once, and the time without AI cores counts once."""
    rows, bare = found
    alone = {rank: (_spans(every, rows[every.rank[rows] == rank]) - cores[rank]).total() for rank in ranks}
    worst = int(rows[np.argmax(bare)])
    return Candidate(
        "aicpu", "part",
        {
            "type": name, "ranks": said(ranks), **of_a_step(run, every, rows),
            "alone_ns": max(alone.values()) // run.step_count,
            "origin": str(origin(run, int(every.span_id[worst]))) or every.kinds[every.kind[worst]].name,
        },
        evidence(every, rows, bare), Change(tasks=every.span_id[rows], task_ns=bare),
        ceiling_ns=max(alone.values()), measured_ns=max(alone.values()),
    )  # fmt: skip


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


def _elsewhere(every: Kernels, rows: Ints, like: Ints) -> Ints:
    """What each kernel would take on an AI core, by the bytes of its type there; 0 where there is none."""
    sizes = np.maximum(every.kinds.bytes, 0)
    bytes_there = sizes[every.kind[like]]
    rates = every.dur[like][bytes_there > 0] / bytes_there[bytes_there > 0]
    if not len(like):
        return np.zeros(len(rows), np.int64)
    rate = float(np.median(rates)) if len(rates) else 0.0
    found: Ints = np.maximum(int(every.dur[like].min()), rate * sizes[every.kind[rows]]).astype(np.int64)
    return found
