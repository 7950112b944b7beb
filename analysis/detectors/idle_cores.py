"""Kernels that leave cores of the device idle.

## What it measures

Each kernel's blocks against the cores of its kind. Those are cube cores for AI_CORE and MIX_AIC, vector cores for
AI_VECTOR_CORE and MIX_AIV, multiprocessors on CUDA and ROCm (grid). With fewer blocks than cores the rest is idle for
the whole kernel. Slightly more blocks than a multiple of the cores leave most idle in the last wave. The excess is
duration x (1 - cores used / cores), over long kernels only. Each operator type is one finding.

Level0 of CANN writes no block counts. Counters of the cores then tell how many worked: cycles / (time x clock). That is
a mean over the kernel, and said as such.

## Why it costs

A device's speed is the sum of its cores. A matrix product in 4 blocks on 24 cores runs at a sixth of what it could.

## What to do

Give the kernel more to divide: larger batches, longer sequences, several small products as one grouped or batched
product. Shapes that are multiples of 16 (of 256 along the inner axis) tile evenly. Check that nothing limits the
cores (`aicore_num`, `ASCEND_RT_VISIBLE...`, stream core limits), and try another tiling: newer CANN, `jit_compile`,
the AOE tuner. On CUDA look at split-K and at the tile size.

## Limits of the method

A ceiling. A kernel that is bound by memory may be as fast on fewer cores, and an operator that cannot be divided stays.
Kernels shorter than the limit are not judged: a launch is most of them. Where those that use few cores have more than a
fifth of the time, this is not measured. Communication that runs beside a kernel on CUDA and ROCm holds cores too.
Nobody records how many, so some count as held while it runs.

The number of cores is a fact of the device (analysis/device/device_facts.toml), told by its name. Without one, block
counts at which kernels pile up tell it, where a known device has so many cores. Kernels of few blocks tell nothing. A
name can stand for several devices: what is few on all of them is told, with the saving of the largest. Where nothing
is known, this is not measured.

## References

CANN platform_config/*.ini (ai_core_cnt, vector_core_cnt); msprof-analyze advisor `block_dim_checker.py`;
kineto tb_plugin, estimated SM efficiency.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.abilities import CUBE, VECTOR, Device, device, fewest, named_by
from npulens.analysis.device.cycles import working
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import Floats, Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.kinds import Bools, Kind
from npulens.analysis.device.tail import without_tail
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import look_up, origin
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import COVERED
from npulens.analysis.run import Run
from npulens.analysis.say import number
from npulens.analysis.steady import steady_ns
from npulens.analysis.work.judged import enough, most_of_a_rank, some

NEEDS = ("kernels",)

#: Kernels of communication use few multiprocessors on purpose.
COMMUNICATION = re.compile(r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.I)
#: What is known to run on cores, and what profilers call a kernel that they know too little of.
_ON_CORES = (*CUBE, *VECTOR, "Other", "N/A", "")
_SIDES = re.compile(r"\d+")
_MOST = 2**60  # blocks of a damaged grid


@dataclass(frozen=True)
class Limits(limits.Limits):
    least_ns: float = limits.limit(
        10_000, "ns", "a launch and the first and last accesses take some us; below this more cores change little"
    )
    most_used: float = limits.limit(
        0.9, "share of the cores", "43 of 48 cores are a good tiling of an odd shape: nothing to gain by hand"
    )
    held_cores: float = limits.limit(
        32, "cores", "communication beside a kernel holds so many at most: NCCL has up to 32 channels, DeepEP 20 cores"
    )


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {type} uses {blocks} of {cores} cores, {kernel_ns} of each step in {count} kernels"
            "[[, most on {shapes}]]",
            "Give it more to divide: a larger batch, several products as one grouped or batched product, dimensions "
            "that are multiples of 16. Check core limits and try another tiling. [[Launched by {origin}. ]]This is the "
            "most it can give back: a kernel bound by memory may need no more cores.",
        ),
        "derived": Words(
            "Rank {ranks}: by counted cycles {type} keeps {blocks} of {cores} cores busy, {kernel_ns} of each step in "
            "{count} kernels",
            "No block counts were recorded: launch it over more blocks if it has fewer than cores, or divide the work "
            "evenly. [[Launched by {origin}. ]]This is the most it can give back: a kernel bound by memory may need no "
            "more cores.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：{type} 只用了 {cores} 个核中的 {blocks} 个，每步 {kernel_ns}，"
            "共 {count} 个[[，主要在 {shapes}]]",
            "请增大可切分的工作量：更大的 batch，用 grouped 或 batched 矩阵乘合并小算子，维度取 16 的倍数；"
            "检查核数限制，尝试其他 tiling。[[由 {origin} 下发。]]以上为收益上限：受访存限制的算子用不了更多核。",
        ),
        "derived": Words(
            "rank {ranks}：按各核的 cycle 数推算，{type} 平均只有 {cores} 个核中的 {blocks} 个在工作，"
            "每步 {kernel_ns}，共 {count} 个",
            "本次采集没有记录 block 数：若 block 数少于核数，请增加 block 数，否则请均匀切分。"
            "[[由 {origin} 下发。]]以上为收益上限：受访存限制的算子用不了更多核。",
        ),
    },
}


def blocks(kind: Kind) -> int | None:
    """Into how many blocks a kernel was split; None where it does not run on such cores."""
    if kind.memset or communicates(kind.name):
        return None
    return (_in_grid(kind.grid) if kind.block_num is None else _on_cores(kind)) or None


def _on_cores(kind: Kind) -> int:
    return max(0, kind.block_num or 0) if kind.core in (*CUBE, *VECTOR) else 0


def _in_grid(grid: str | None) -> int:
    sides = [int(side) for side in _SIDES.findall(grid or "")]
    return min(prod(sides), _MOST) if sides else 0


@lru_cache(maxsize=65536)
def communicates(name: str) -> bool:
    return COMMUNICATION.search(name) is not None


def _counts(run: Run) -> Ints:
    """Per kind its blocks; 0 where it does not run on such cores."""
    kinds = run.get(kernels).kinds
    silent = kinds.memset | kinds.column("name").map(communicates).flags()
    told, grid = kinds.each(_on_cores, "block_num", "core").ints(), kinds.column("grid").map(_in_grid).ints()
    return np.where(silent, 0, np.where(kinds.there("block_num"), told, grid))


def _on_any(run: Run) -> Bools:
    """Per kind whether it runs on cores at all, as far as is known."""
    kinds = run.get(kernels).kinds
    silent = kinds.memset | kinds.column("name").map(communicates).flags()
    return ~silent & kinds.column("core").map(lambda core: core is None or core in _ON_CORES).flags()


def used(count: Ints, cores: Ints, waves: Bools) -> Floats:
    """The share of the cores that work while a kernel runs; 1 where one of both is not known (0).

    Blocks of a CUDA kernel share multiprocessors.
    """
    some = np.maximum(cores, 1)
    last = np.where(waves & (count <= 4 * cores), count / (np.maximum(1, np.ceil(count / some)) * some), 1.0)
    return np.where((count > 0) & (cores > 0), np.where(count < cores, count / some, last), 1.0)


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    about = every.of(run.get(_on_any))
    some(about)
    if run.get(family) == "cpu":
        raise NotMeasured(
            "how many threads an operator of the CPU used is not recorded", "未记录算子在 CPU 上使用的线程数", None
        )
    collect_with = "profiler_level=Level1" if run.get(family) == "npu" else "torch.profiler on the device"
    split = every.of(run.get(_counts) > 0)
    by_cycles = run.get(working)
    long = run.get(without_tail)
    derived = about & ~split & (by_cycles.cores > 0) & (long >= limits.least_ns)
    if not (split | derived).any():
        raise NotMeasured("no kernel says how many cores it used", "算子未记录所用核数", collect_with)
    found = run.get(shares)
    counted = split & found.judged | derived
    if not counted.any():
        raise _unknown(run, every, split)
    used = np.where(derived, by_cycles.count / np.maximum(1, by_cycles.cores), _beside(run, found, limits.held_cores))
    bad = (used <= limits.most_used) & (long >= limits.least_ns)
    groups = []
    for text, which in (("found", ~derived), ("derived", derived)):
        for rows in by_type(every, np.flatnonzero(bad & which)):
            cut = np.rint(long[rows] * (1 - used[rows])).astype(np.int64)
            groups += [(text, said(ranks), rows[of], cut[of]) for ranks, of in by_rank(every.rank[rows], cut)]
    least = limits.min_share * run.get(steady_ns)
    if all(most_of_a_rank(every.rank[rows], cut) < least for *_, rows, cut in groups):
        left = split & ~found.judged
        if most_of_a_rank(every.rank[left], every.dur[left]) >= least:
            raise _unknown(run, every, left)
        what = ("kernels that say how many cores they used", "记录了所用核数的算子")
        enough(run, about, counted, limits.min_share, what)
        _short(run, every, about, counted & (used <= limits.most_used) & (long < limits.least_ns), used, limits)
    look_up(run, [int(every.span_id[worst_of(every, rows, cut)]) for *_, rows, cut in groups])
    for text, ranks, rows, cut in groups:
        yield _candidate(run, every, text, ranks, rows, cut)


def _short(run: Run, every: Kernels, about: Bools, few: Bools, used: Floats, limits: Limits) -> None:
    """Raises where kernels that are too short to judge and use few cores have too much of the time."""
    share = int(every.dur[few].sum()) / max(1, int(every.dur[about].sum()))
    idle = np.rint(every.dur[few] * (1 - used[few])).astype(np.int64)
    if share > 1 - COVERED and most_of_a_rank(every.rank[few], idle) >= limits.min_share * run.get(steady_ns):
        least, of = number("_ns", int(limits.least_ns)), number("_share", share)
        raise NotMeasured(
            f"kernels of less than {least} that use few of the cores have {of} of the time: too short to judge",
            f"短于 {least} 且只用少数核的算子占 {of} 的时间，过短，无法判断", None, recordable=False,
        )  # fmt: skip


def _unknown(run: Run, every: Kernels, left: Bools) -> NotMeasured:
    """What is known of kernels on a device whose cores nobody counted. `left`: those that say their blocks."""
    count = np.where(left, every.of(run.get(_counts)), 0)
    most = int(count.max(initial=0))
    en = f"kernels have up to {most} block{'s' * (most != 1)}, but how many cores this device has is not known"
    zh = f"算子最多使用 {most} 个 block，但该设备的核数未知"
    if (few := _few(run, every, count)) is not None:
        en, zh = f"{en}. {few[0]}", f"{zh}。{few[1]}"
    return NotMeasured(en, zh, named_by(run) or "an entry in device_facts.toml")


def _few(run: Run, every: Kernels, count: Ints) -> tuple[str, str] | None:
    """Of an Ascend device without a name: kernels of fewer blocks than any known chip has cores."""
    if run.get(family) != "npu" or named_by(run) is None or not count.any():
        return None
    counts, which = np.unique(count, return_inverse=True)
    blocks = int(counts[np.argmax(np.bincount(which.ravel(), every.dur * (count > 0)))])
    rows = np.flatnonzero(count == blocks)
    worst = rows[np.argmax(every.dur[rows])]
    core = every.kinds[every.kind[worst]].core
    cores, clock = fewest(run, int(every.rank[worst]), core)
    alike = rows[every.kinds.column("core").equal(core)[every.kind[rows]]]
    if blocks >= cores:
        return None
    share = number("_share", int(every.dur[alike].sum()) / max(1, int(every.dur.sum())))
    at, at_zh = ("", "") if clock is None else (f" that runs at {clock:.0f} MHz", f"能运行在 {clock:.0f} MHz 的")
    return (
        f"Kernels with {share} of the time run on {blocks} block{'s' * (blocks != 1)}: no Ascend chip known here{at} "
        f"has fewer than {cores} cores for them",
        f"占 {share} 时间的算子只有 {blocks} 个 block，而{at_zh}已知昇腾芯片至少有 {cores} 个这类核",
    )


def by_type(every: Kernels, rows: Ints) -> Iterator[Ints]:
    """The rows of each operator type, by its name."""
    numbers: dict[str, int] = {}
    of = every.kinds.types.map(lambda name: numbers.setdefault(name, len(numbers))).ints()
    order = rows[np.argsort(of[every.kind[rows]], kind="stable")] if len(rows) else rows
    sorted_ = of[every.kind[order]] if len(rows) else rows
    for name in sorted(numbers):
        begin, end = np.searchsorted(sorted_, [numbers[name], numbers[name] + 1])
        if end > begin:
            yield order[begin:end]


@dataclass(frozen=True)
class Shares:
    """Per kernel: which share of its cores has something to do; 1 where that is not known."""

    used: Floats
    cores: Ints  # 0: not known; the most that a device may have
    judged: Bools  # whether that is known


def shares(run: Run) -> Shares:
    """How many cores each kernel uses."""
    every = run.get(kernels)
    found, cores, judged = np.ones(len(every)), np.zeros(len(every), np.int64), np.zeros(len(every), np.bool_)
    of_device: dict[int, tuple[Floats, Ints, Bools]] = {}  # ranks share theirs
    for rank in run.ranks:
        here = device(run, rank)
        if here is None:
            continue
        if id(here) not in of_device:
            of_device[id(here)] = _on(run, here)
        mine = every.on(rank)
        of_kind, most, sure = (column[every.kind[mine]] for column in of_device[id(here)])
        found[mine], cores[mine], judged[mine] = of_kind, most, sure
    return Shares(found, cores, judged)


def _on(run: Run, here: Device) -> tuple[Floats, Ints, Bools]:
    """Per kind on a device: the share of its cores, how many it has at most, and whether the share is known.

    Where it may be one of several, only kernels of few blocks on all of them are: their share of the largest.
    """
    every, count = run.get(kernels), run.get(_counts)
    cores = every.kinds.column("core").map(here.between)
    least = cores.map(lambda bounds: bounds[0] if bounds else 0).ints()
    most = cores.map(lambda bounds: bounds[1] if bounds else 0).ints()
    sure = least == most
    few = count <= Limits.most_used * least
    share = np.where(sure | few, used(count, most, every.kinds.there("block_num")), 1.0)
    return share, most, (count > 0) & (most > 0) & (sure | few)


def _beside(run: Run, found: Shares, held: float) -> Floats:
    """The share of the cores that work or are held by communication that runs beside the kernel."""
    share = found.used.copy()
    if run.get(family) not in ("cuda", "rocm"):
        return share
    every = run.get(kernels)
    for rank in run.ranks:
        mine, did = every.on(rank), run.activity(rank)
        if did.communication is None:
            continue
        beside = (did.communication - did.mixed).within(every.ts[mine], every.end[mine])
        free = np.minimum(1 - share[mine], held / np.maximum(1, found.cores[mine]))
        share[mine] += free * beside / np.maximum(1, every.dur[mine])
    return share


def worst_of(every: Kernels, rows: Ints, cut: Ints) -> int:
    """The first kernel of the kind that loses most."""
    return int(rows[np.argmax(np.bincount(every.kind[rows], cut)[every.kind[rows]])])


def _candidate(run: Run, every: Kernels, text: str, ranks: str, rows: Ints, cut: Ints) -> Candidate:
    worst = worst_of(every, rows, cut)
    kind, here = every.kinds[every.kind[worst]], device(run, int(every.rank[worst]))
    counts = np.unique(run.get(_counts)[every.kind[rows]])
    split: Value = blocks(kind) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
    fewest_, most = (here.between(kind.core) if here else None) or (0, 0)
    cores: Value = most if fewest_ == most else f"{fewest_}-{most}"
    if text == "derived":
        by_cycles = run.get(working)
        split, cores = round(float(np.median(by_cycles.count[rows]))), int(by_cycles.cores[worst])
    return Candidate(
        "idle_cores", text,
        {
            "type": kind.type, "ranks": ranks, "blocks": split, "cores": cores,
            **of_a_step(run, every, rows), "shapes": spoken(kind.input_shapes) or None,
            "origin": str(origin(run, int(every.span_id[worst]))) or None,
        },
        evidence(every, rows, cut), Change(tasks=every.span_id[rows], task_ns=cut), "medium",
        measured_ns=most_of_a_rank(every.rank[rows], cut),
    )  # fmt: skip
