"""Kernels wait: the pipe that should be busy is not.

## What it measures

The hardware counters of PipeUtilization, kernel by kernel. Each pipe (mac or cube, vec, mte1 to mte3, fixpipe, scalar)
is busy for a part of the kernel's time. Pipes work side by side, so that the busiest one sets the pace of a good
kernel. A kernel is stalled in one of three ways. No pipe is busy for half of its time. Or only the scalar unit is,
which computes addresses and loops. Or a pipe that moves data is, and the cube is not, where the shapes say that
computing is the limit.

## Why it costs

A kernel whose pipes take turns needs the sum of their times instead of the longest. The device is occupied and does
little.

## What to do

Shapes that are multiples of 16, inner axes of 512 bytes and more, and larger batches leave less to addresses. Weights
in the format FRACTAL_NZ (`torch_npu.npu_format_cast`) spare the cube a conversion. A fused operator of torch_npu, a
newer CANN or another tiling (AOE) replaces the kernel. `msprof op` shows a kernel of one's own block by block; there
double buffering and larger copies let the pipes overlap.

## Limits of the method

A ceiling: the pipe that has to work is taken to be busy for 0.8 of the time, as in good kernels. Of a kernel whose
roof is known no more than that is taken. Cores that have no block, and lower clocks, are other findings and are left to
them. So are copies and changes of layout. Short kernels are launch-bound and not judged. One that was measured alone,
by `msprof op`, is judged whatever its length, by its busiest pipe. Counters are means over the cores: one slow core
among fast ones does not show. Other groups than PipeUtilization say nothing here.

## References

CANN: op_summary, PipeUtilization (aic_mac_ratio, aiv_vec_ratio and others); msprof-analyze advisor
`operator_bound_checker.py` (no pipe above 0.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.by_rank import by_rank
from npulens.analysis.detectors.idle_cores import by_type, communicates, shares, worst_of
from npulens.analysis.device.family import by_msprof_op
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import Floats, Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.kinds import Bools
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import look_up, origins
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import COVERED, limit
from npulens.analysis.run import Run
from npulens.analysis.say import number
from npulens.analysis.steady import steady_ns
from npulens.analysis.work.judged import most_of_a_rank
from npulens.analysis.work.operators import BUSY_ENDS, GOOD, PIPES, SHORT_NS, Operator, operators, surely_compute

NEEDS = ("kernels", "kernel_counters")

TEXT = {
    "en": {
        "idle": Words(
            "Rank {ranks}: {type} waits, none of its pipes is busy for more than {busy_share} of its time. {kernel_ns} "
            "of each step in {count} kernels[[, most on {shapes}]]",
            "Let its pipes overlap. Try larger shapes, inner axes of 512 bytes and more, a fused operator "
            "(torch_npu.npu_*), a newer CANN or another tiling (AOE). In a kernel of your own: double buffering and "
            "larger copies; see it with msprof op. The busiest pipe is {pipe}. Launched by {origin}.",
        ),
        "scalar": Words(
            "Rank {ranks}: the scalar unit holds {type} up, busy for {scalar_share} of its time, every other pipe for "
            "{busy_share} at most. {kernel_ns} of each step in {count} kernels[[, most on {shapes}]]",
            "Addresses and loops are computed one by one.[[ Give it sides that are multiples of {even} and long inner "
            "axes. Replace the operator by one that needs no index arithmetic, or try a newer CANN.]] In a kernel of "
            "your own: turn scalar loops into vector or cube instructions that take many values at once. Launched by "
            "{origin}.",
        ),
        "memory": Words(
            "Rank {ranks}: {type} moves data where it should multiply. {pipe} is busy for {pipe_share} of its time, "
            "the cube for {busy_share}. {kernel_ns} of each step in {count} kernels[[, most on {shapes}]]",
            "By its shapes the cube is the limit.[[ The cube works for {cube_ns} where the shapes need {need_ns}: "
            "write it as another operator, a convolution whose stride is its kernel as a linear layer.]] Let the sides "
            "be multiples of 16 (inner axes of 512 bytes).[[ Keep the weights in {weights} "
            "(torch_npu.npu_format_cast).]] Try another tiling: AOE, jit_compile, a newer CANN. Launched by {origin}.",
        ),
    },
    "zh": {
        "idle": Words(
            "rank {ranks}：{type} 在空等，没有一条流水的忙碌占比超过 {busy_share}；"
            "每步 {kernel_ns}，共 {count} 个[[，主要在 {shapes}]]",
            "让各流水并行起来：增大形状，内轴不少于 512 字节，改用融合算子（torch_npu.npu_*）、更新的 CANN 或其他 "
            "tiling（AOE）。自研算子请使用 double buffer 并加大单次搬运量，可用 msprof op 查看。最忙的流水是 {pipe}。"
            "由 {origin_zh} 下发。",
        ),
        "scalar": Words(
            "rank {ranks}：{type} 受限于 Scalar 单元，其忙碌占比为 {scalar_share}，其余流水至多 {busy_share}；"
            "每步 {kernel_ns}，共 {count} 个[[，主要在 {shapes}]]",
            "地址与循环在逐条计算。"
            "[[请让各边为 {even} 的倍数并加长内轴，换用不需要索引运算的算子，或尝试更新的 CANN。]]"
            "自研算子请把 Scalar 循环改写为一次处理多个数的 Vector 或 Cube 指令。由 {origin_zh} 下发。",
        ),
        "memory": Words(
            "rank {ranks}：{type} 本应受限于计算，却忙于搬运：{pipe} 忙碌占比 {pipe_share}，Cube 只有 {busy_share}；"
            "每步 {kernel_ns}，共 {count} 个[[，主要在 {shapes}]]",
            "按形状看瓶颈应是 Cube。"
            "[[Cube 工作了 {cube_ns}，而按形状只需 {need_ns}：请换一种写法，例如步长等于卷积核的卷积可写成线性层。]]"
            "请让各边为 16 的倍数（内轴 512 字节）。[[权重请使用 {weights} 格式（torch_npu.npu_format_cast）。]]"
            "并尝试其他 tiling：AOE、jit_compile、更新的 CANN。由 {origin_zh} 下发。",
        ),
    },
}

#: For which part of its time the pipe that has to work is busy in a good kernel.
REACHED = 0.8
#: A cube that multiplies for so many times what the shapes need works on padding, or on few channels at a time.
WASTES = 2.0
#: A kernel none of whose pipes is busy for so much of its time does what is not counted: it waits for something else.
_LEAST_BUSY = 0.05
#: What only moves is for the detectors of copies and layouts.
MOVING = ("copy", "layout")
_WAYS = ("idle", "scalar", "memory")
#: The layout of weights that products of matrices need no conversion from.
_NZ = "FRACTAL_NZ"
#: Sides that fill the units.
_EVEN = 16


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When a pipe counts as not busy."""

    least_ns: float = limit(10_000, "ns of a kernel", "a launch and the first and last accesses take some us of it")
    most_busy: float = limit(0.5, "share of the kernel's time", "good kernels of real captures: 0.55 to 0.99")


@dataclass(frozen=True)
class Stalled:
    """Per kernel; 0 and -1 where nothing is wrong."""

    cut: Ints  # what it would be shorter
    way: Ints  # the place in _WAYS
    busy: Floats  # of the pipe that should be busy
    counted: Bools  # whether its pipes were counted


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    least_ns = _least_ns(run, limits.least_ns)
    found = stalled(run, least_ns, limits.most_busy)
    slow = np.flatnonzero(found.cut)
    groups = [
        (text, ranks, rows[those]) for way, text in enumerate(_WAYS)
        for rows in by_type(every, slow[found.way[slow] == way])
        for ranks, those in by_rank(every.rank[rows], found.cut[rows])
    ]  # fmt: skip
    least = limits.min_share * run.get(steady_ns)
    if all(most_of_a_rank(every.rank[rows], found.cut[rows]) < least for *_, rows in groups):
        _measured(every, found, least_ns)
    look_up(run, [int(every.span_id[worst_of(every, rows, found.cut[rows])]) for *_, rows in groups])
    for text, ranks, rows in groups:
        yield _candidate(run, every, found, text, ranks, rows)


def stalled(run: Run, least_ns: float = Limits.least_ns, most_busy: float = Limits.most_busy) -> Stalled:
    """Which kernels wait, and for how long."""
    every, done, pipes = run.get(kernels), run.get(operators), run.get(busy_pipes)
    alone = run.get(by_msprof_op)  # then the busiest pipe is what bounds it
    none = np.zeros(len(every))
    side = {
        name: np.max([share for pipe, share in pipes.items() if PIPES[pipe] == name] or [none], axis=0)
        for name in ("compute", "memory", "scalar")
    }
    counted = np.max([*side.values(), none], axis=0) >= _LEAST_BUSY
    cube = np.max([pipes.get("mac", none), pipes.get("cube", none)], axis=0)
    rest = np.maximum(side["compute"], side["memory"])
    matrix = np.nan_to_num(done.every.columns.work.floats[:, 0]) != 0
    multiplies = (done.times.surely == "compute") & matrix
    moving = (side["memory"] > np.maximum(side["compute"], side["scalar"])) & multiplies[done.of]
    way = np.select(
        [np.maximum(rest, side["scalar"]) < most_busy, (side["scalar"] > rest) & ((rest < most_busy) | alone),
         moving & (cube < most_busy)], [0, 1, 2], -1,
    )  # fmt: skip
    busy = np.select([way == 0, way == 1, way == 2], [np.maximum(rest, side["scalar"]), rest, cube], 0.0)
    way[~(counted & (every.dur >= _least_ns(run, least_ns)) & _own(run))] = -1
    roof = np.where(np.isnan(done.times.share), 0.0, done.times.roof_ns)
    whole = every.dur * run.get(shares).used - run.get(clocked).cut
    needed = np.where((way == 2) & _wasted(whole * cube, roof[done.of]), 0.0, whole * busy / REACHED)
    left = np.maximum(np.maximum(needed, roof[done.of] / GOOD), SHORT_NS)
    cut = np.where(way >= 0, np.maximum(0, whole - left), 0).astype(np.int64)
    return Stalled(cut, np.where(cut > 0, way, -1), busy, counted)


def _least_ns(run: Run, least_ns: float) -> float:
    """From which length on a kernel is judged: whatever it is where the capture was made to look at this kernel."""
    return 0.0 if run.get(by_msprof_op) else least_ns


def _wasted(cube_ns: Floats, need_ns: Floats) -> Bools:
    """Whether the cube works for several times what the shapes need."""
    return np.asarray((need_ns > 0) & (cube_ns > WASTES * need_ns))


def bound(one: Operator) -> str | None:
    """What limits an operator, also where the bandwidth of the memory is not known and its work leaves no doubt."""
    least = one.least
    if least is None or least.ns is None:
        return None
    if least.bound is not None:
        return least.bound
    work = one.work
    sure = least.matrix and work.matrix and work.bytes and work.matrix >= surely_compute(one.precision) * work.bytes
    return "compute" if sure else None


_CORES = ("", "aic_", "aiv_")


def busy_pipes(run: Run) -> Mapping[str, Floats]:
    """Per pipe and kernel: for which part of its time it was busy, of its two kinds of cores the busier."""
    every = run.get(kernels)
    order = np.argsort(every.span_id, kind="stable")
    found: dict[str, Floats] = {}
    metrics = [f"{core}{pipe}{end}" for pipe in PIPES for core in _CORES for end in BUSY_ENDS]
    told = run.columns(
        "SELECT span_id, value, list_position($1::VARCHAR[], metric)::UTINYINT AS place FROM pmu "
        "WHERE list_contains($1::VARCHAR[], metric) AND isfinite(value)", [metrics],
    )  # fmt: skip
    if not len(told["span_id"]) or not len(every):
        return found
    of_pipe = (told["place"].astype(np.int64) - 1) // (len(_CORES) * len(BUSY_ENDS))
    spans, value = told["span_id"].astype(np.int64), np.clip(told["value"].astype(np.float64), 0.0, 1.0)
    at = np.minimum(np.searchsorted(every.span_id[order], spans), len(order) - 1)
    there = every.span_id[order][at] == spans
    for place, pipe in enumerate(PIPES):
        mine = of_pipe == place
        if mine.any():
            share = np.zeros(len(every))
            np.maximum.at(share, order[at[mine & there]], value[mine & there])
            found[pipe] = share
    return found


def _own(run: Run) -> Bools:
    """Kernels that neither wait for peers nor only move."""
    every, done = run.get(kernels), run.get(operators)
    rows = run.columns("SELECT DISTINCT span_id FROM comm WHERE op_span_id = span_id OR op_span_id IS NULL")
    silent = ~np.isin(every.span_id, rows["span_id"].astype(np.int64))
    computes = every.of(~every.kinds.memset & ~every.kinds.column("name").map(communicates).flags())
    moves = done.every.columns.work.each(lambda one: one.family in MOVING).flags()
    return silent & computes & ~moves[done.of]


def _measured(every: Kernels, found: Stalled, least_ns: float) -> None:
    """Raises where the pipes of too little of the time were counted. Kernels too short to judge are not counted."""
    cores = every.kinds.column("core").map(lambda core: (core or "").startswith(("AI_CORE", "AI_VECTOR", "MIX")))
    on_cores = every.of(~every.kinds.memset & cores.flags())
    if int(every.dur[on_cores & found.counted].sum()) < COVERED * int(every.dur[on_cores].sum()):
        raise NotMeasured(
            "how busy the pipes were was not counted for most kernels", "大部分算子没有采集流水的忙碌占比",
            "profiler_level=Level1, aic_metrics=PipeUtilization",
        )  # fmt: skip
    long = on_cores & found.counted & (every.dur >= least_ns)
    whole = int(every.dur[on_cores].sum())
    judged, short = int(every.dur[long].sum()), int(every.dur[on_cores & (every.dur < least_ns)].sum())
    if judged < COVERED * whole:
        least, said_ = number("_ns", int(least_ns)), number("_share", judged / whole)
        if 2 * short > whole:
            raise NotMeasured(
                f"most of the time is in kernels of less than {least}, too short to judge by their counters",
                f"大部分时间在短于 {least} 的算子中，过短，无法用计数器判断", None,
            )  # fmt: skip
        raise NotMeasured(
            f"kernels of {least} and more whose pipes were counted have only {said_} of the time",
            f"时长不短于 {least} 且采集了流水忙碌占比的算子只占 {said_} 的时间", None,
        )  # fmt: skip


def _unheard_of(one: Operator) -> bool:
    """Whether nothing but its name is known: what is built into CANN has a type of its own and shapes."""
    return one.work.family == "unknown" and not one.kind.input_shapes and one.kind.op_type in (None, one.kind.name)


def _candidate(
    run: Run, every: Kernels, found: Stalled, text: str, ranks: tuple[int, ...], rows: Ints
) -> Candidate:  # fmt: skip
    cut, pipes = found.cut[rows], run.get(busy_pipes)
    worst = worst_of(every, rows, cut)
    alike = rows[every.kind[rows] == every.kind[worst]]
    weight = every.dur[alike]
    kind = every.kinds[every.kind[worst]]
    mean = {pipe: float(np.average(share[alike], weights=weight)) for pipe, share in pipes.items()}
    one = run.get(operators).every[int(run.get(operators).of[worst])]
    need_ns = one.roof_ns or 0.0
    cube_ns = every.dur[worst] * found.busy[worst]
    wasted = text == "memory" and 0 < WASTES * need_ns < cube_ns
    moving = {pipe: share for pipe, share in mean.items() if text != "memory" or PIPES[pipe] == "memory"}
    pipe = max(moving, key=lambda name: moving[name])
    return Candidate(
        "pipe_stall", text,
        {
            "ranks": said(ranks), "type": kind.type, **of_a_step(run, every, rows),
            "busy_share": float(np.average(found.busy[alike], weights=weight)), "pipe": pipe,
            "pipe_share": moving[pipe], "scalar_share": mean.get("scalar", 0.0),
            "shapes": spoken(kind.input_shapes) or None, **origins(run, int(every.span_id[worst])),
            "cube_ns": int(cube_ns) if wasted else None, "need_ns": int(need_ns),
            "even": None if _unheard_of(one) else _EVEN,
            "weights": _NZ if one.work.family == "matmul" and _NZ not in (kind.input_formats or "") else None,
        },
        evidence(every, rows, cut), Change(tasks=every.span_id[rows], task_ns=cut), "medium",
        measured_ns=most_of_a_rank(every.rank[rows], cut),
    )  # fmt: skip
