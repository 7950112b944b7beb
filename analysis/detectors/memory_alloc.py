"""The device waits while its memory is allocated, freed or defragmented.

## What it measures
Gaps of the device while the host is in a call that allocates, frees, maps or unmaps device memory, or in `empty_cache`.
Calls for pinned memory of the host are told apart. Frees that are followed at once by an allocation may be the caching
allocator's second try. It found no block, gave everything back and asked again. They are counted, unless the pools are
known to have had room. Nearly as many frees as allocations, and an allocation for every few kernels: then no allocator
keeps what is freed. Allocations, and neither a free nor `empty_cache`: then memory only grows.

## Why it costs
The caching allocator makes allocation free of charge as long as a cached block fits. A call to the driver takes from
100 us to tens of ms, and a free waits until the device is done.

## What to do
Ascend: PYTORCH_NPU_ALLOC_CONF=expandable_segments:True; CUDA: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. No
`empty_cache()` inside a step, shapes that repeat, a batch that leaves memory free. Large buffers once, at the start.
Where nothing keeps freed memory: turn the caching allocator on again. Where memory only grows: record later steps, and
see whether it still does. Pinned memory of the host: allocate it once, or in the data loader's own thread.

## Limits of the method
Needs runtime calls (Level1). Allocations of the first steps are normal: a capture should begin after them.

## References
torch_npu: PYTORCH_NPU_ALLOC_CONF; PyTorch's "CUDA semantics", memory management, PYTORCH_NO_CUDA_MEMORY_CACHING;
aclrtMalloc, aclrtFree in CANN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.device.abilities import memory_bytes
from npulens.analysis.finding import Candidate, Value, Words
from npulens.analysis.idle.blame import Blame, everywhere
from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.first_use import first_use
from npulens.analysis.idle.host_names import FREE_CALLS, LAYER, PINNED_CALLS, PINNED_FREES, special
from npulens.analysis.idle.issue import KERNEL, tasks
from npulens.analysis.idle.pieces import idle
from npulens.analysis.limits import limit
from npulens.analysis.run import Run

NEEDS = ("kernels", "runtime_calls")
_GIVES = re.compile(rf"{LAYER}(?:{FREE_CALLS})$|empty_cache$")
_PINNED = re.compile(rf"{LAYER}(?:{PINNED_CALLS}|{PINNED_FREES})$")

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while its memory is allocated or "
            "freed. {calls} calls in a step[[; allocations right after a free, in the whole run: {retries}]]"
            "[[. {code_share} of the time in {code}]]",
            "Let the allocator grow its segments (expandable_segments:True in the environment variable"
            "[[npu:  PYTORCH_NPU_ALLOC_CONF]][[cuda:  PYTORCH_CUDA_ALLOC_CONF]][[rocm:  PYTORCH_HIP_ALLOC_CONF]] "
            "of the allocator). Remove empty_cache() from the step and keep shapes the same.[[ Allocations right after "
            "a free ({retries}) may be second tries. If so, the memory is full or in pieces, and a smaller batch or "
            "recomputation gives room.]]",
        ),
        "grows": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while memory is allocated for it. "
            "{calls} calls in a step, and none gives memory back: it only grows"
            "[[. {code_share} of the time in {code}]]",
            "The first steps of a job fill the pools, and then that ends by itself: record later steps, "
            "schedule(wait=5, warmup=1, active=5). Where it goes on, shapes change from step to step, or something "
            "keeps tensors. Then keep shapes the same, and see what is kept. expandable_segments:True in "
            "[[npu: PYTORCH_NPU_ALLOC_CONF]][[cuda: PYTORCH_CUDA_ALLOC_CONF]][[rocm: PYTORCH_HIP_ALLOC_CONF]] lets "
            "segments grow instead of adding new ones.",
        ),
        "pinned": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while pinned memory of the host is "
            "allocated or freed. {calls} calls in a step[[. {code_share} of the time in {code}]]",
            "Allocate pinned memory once before the steps that count, and use it again. Let the data loader pin "
            "batches in its own thread (pin_memory=True).",
        ),
        "uncached": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while its memory is allocated or "
            "freed. {calls} calls in a step for {kernels} kernels: nothing keeps freed memory for the next tensor"
            "[[. {code_share} of the time in {code}]]",
            "Use the caching allocator: nearly every tensor is asked of the driver and given back to it. Unset "
            "[[npu: PYTORCH_NO_NPU_MEMORY_CACHING]][[cuda|rocm: PYTORCH_NO_CUDA_MEMORY_CACHING]], and give an "
            "allocator of your own a pool.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：申请或释放设备内存时设备每步空闲 {idle_ns}（{idle_share}）；每步 {calls} 次调用"
            "[[，全程有 {retries} 次申请紧跟释放之后]][[，{code_share} 的时间在 {code}]]",
            "让分配器使用可扩展段（在分配器的环境变量[[npu:  PYTORCH_NPU_ALLOC_CONF]][[cuda:  PYTORCH_CUDA_ALLOC_CONF]]"
            "[[rocm:  PYTORCH_HIP_ALLOC_CONF]] 中设 expandable_segments:True），训练步内不要调用 empty_cache()，"
            "保持形状不变。"
            "[[紧跟释放的 {retries} 次申请可能是重试；若是，则内存已满或碎片化，请减小批量或开启重计算。]]",
        ),
        "grows": Words(
            "rank {ranks}：申请设备内存时设备每步空闲 {idle_ns}（{idle_share}）；每步 {calls} 次调用，无一释放，"
            "占用的内存只增不减[[，{code_share} 的时间在 {code}]]",
            "作业最初几步会把内存池撑到所需大小，之后这类申请自然消失：请采集更靠后的步，schedule(wait=5, warmup=1, "
            "active=5)。若后续步中仍然出现，说明形状逐步变化，或有张量一直未释放：请固定形状，并查清哪些张量被保留。"
            "[[npu: PYTORCH_NPU_ALLOC_CONF]][[cuda: PYTORCH_CUDA_ALLOC_CONF]][[rocm: PYTORCH_HIP_ALLOC_CONF]] 中设 "
            "expandable_segments:True，可让已有段扩展，而不是另开新段。",
        ),
        "pinned": Words(
            "rank {ranks}：申请或释放锁页主机内存时设备每步空闲 {idle_ns}（{idle_share}）；每步 {calls} 次调用"
            "[[，{code_share} 的时间在 {code}]]",
            "请在正式步之前一次性申请锁页内存并重复使用，或让 DataLoader 在自己的线程里完成锁页（pin_memory=True）。",
        ),
        "uncached": Words(
            "rank {ranks}：申请或释放设备内存时设备每步空闲 {idle_ns}（{idle_share}）；每步 {calls} 次调用，"
            "{kernels} 个算子：释放的内存没有留给后续张量复用[[，{code_share} 的时间在 {code}]]",
            "请使用缓存分配器：目前几乎每个张量都直接向驱动申请并归还。取消环境变量"
            "[[npu:  PYTORCH_NO_NPU_MEMORY_CACHING]][[cuda|rocm:  PYTORCH_NO_CUDA_MEMORY_CACHING]]，"
            "自定义分配器请加内存池。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """What counts as a second try, and as an allocator that keeps nothing."""

    retry_ns: float = limit(1e6, "ns from a free to the allocation", "both are in one call of the allocator")
    full_share: float = limit(0.95, "share of the device's memory", "below it an allocation finds room")
    freed_share: float = limit(0.5, "frees by allocations", "a caching allocator frees only when memory is full")
    per_kernel: float = limit(0.25, "allocations by kernels", "a cache that is emptied in each step: below 0.1")
    enough: float = limit(10, "allocations", "fewer show no habit")


@dataclass(frozen=True)
class _Calls:
    """Calls of the allocator in one rank's window."""

    allocations: int
    frees: int
    retries: int  # allocations that follow a free at once
    gives: bool  # something is given back, or the cache is emptied


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that lose most."""
    seen = everywhere(run, "memory_alloc")
    if seen is None:
        return
    found, change = seen
    counted = {rank: _calls(run, rank, limits.retry_ns) for rank in found.ranks}
    kernels = {rank: _kernels(run, rank) for rank in found.ranks}
    uncached = all(
        one.frees >= limits.freed_share * one.allocations
        and one.allocations >= max(limits.enough, limits.per_kernel * kernels[rank])
        for rank, one in counted.items()
    )
    calls = max(one.allocations + one.frees for one in counted.values())
    retries = max(0 if _roomy(run, rank, limits) else one.retries for rank, one in counted.items())
    numbers: dict[str, Value] = {
        **found.numbers, "calls": round(calls / run.step_count),
        "kernels": round(max(kernels.values()) / run.step_count), "retries": retries or None,
    }  # fmt: skip
    grows = not any(one.gives for one in counted.values())
    text = "pinned" if _pinned(run, found) else "uncached" if uncached else "grows" if grows else "found"
    yield Candidate("memory_alloc", text, numbers, found.evidence, change, measured_ns=found.measured_ns)


def _pinned(run: Run, found: Blame) -> bool:
    """Whether most of the time is in calls for pinned memory of the host."""
    pieces = run.get(idle)
    length, host = (pieces.end - pieces.start)[found.pieces], pieces.host[found.pieces]
    known = names(run, host)
    mine = [span in known and _PINNED.search(known[span]) is not None for span in host.tolist()]
    return bool(2 * length[mine].sum() > length.sum())


def _calls(run: Run, rank: int, near_ns: float) -> _Calls:
    spans = run.get(special)[rank]
    mine = spans.of("memory_alloc")
    known = names(run, spans.ids[mine])
    frees = np.array(["Free" in known[span] or "Unmap" in known[span] for span in spans.ids[mine].tolist()], bool)
    near = spans.starts[mine][1:] - spans.ends[mine][:-1] <= near_ns
    after = frees[:-1] & ~frees[1:] & near
    window, starts = run.window(rank), spans.starts[mine]
    inside = np.zeros(len(starts), bool) if window is None else (starts >= window[0]) & (starts < window[1])
    if (once := run.get(first_use).get(rank)) is not None:  # a library builds its context with a free
        inside &= once.times.within(starts, starts + 1) == 0
    retried = after & inside[1:] & inside[:-1]
    gives = any(_GIVES.search(known[span]) for span in spans.ids[mine][inside].tolist())
    return _Calls(int((inside & ~frees).sum()), int((inside & frees).sum()), int(retried.sum()), gives)


def _kernels(run: Run, rank: int) -> int:
    """Kernels in one rank's window."""
    did, window = run.get(tasks)[rank], run.window(rank)
    mine = did.starts[did.kinds == KERNEL]
    return 0 if window is None else int(((mine >= window[0]) & (mine < window[1])).sum())


def _roomy(run: Run, rank: int, limits: Limits) -> bool:
    """Whether the device is known to have had room all the time."""
    there, most = memory_bytes(run, rank), run.get(_reserved).get(rank)
    return bool(there and most and most < limits.full_share * there)


def _reserved(run: Run) -> dict[int, int]:
    """The most that the pools of each rank's device reserve."""
    rows = run.con.execute(
        "SELECT rank, max(reserved_bytes) FROM memory_sample WHERE coalesce(device, '') NOT ILIKE 'cpu%' "
        "AND reserved_bytes > 0 GROUP BY rank"
    ).fetchall()
    return dict(rows)
