"""The device waits while its memory is allocated, freed or defragmented.

## What it measures
Gaps of the device while the host is in a call that allocates, frees, maps or unmaps device memory, or in `empty_cache`.
Frees that are followed at once by an allocation are the caching allocator's second try. It found no block, gave
everything back and asked again. They are counted as retries.

## Why it costs
The caching allocator makes allocation free of charge as long as a cached block fits. A call to the driver takes from
100 us to tens of ms, and a free waits until the device is done.

## What to do
Ascend: PYTORCH_NPU_ALLOC_CONF=expandable_segments:True; CUDA: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. No
`empty_cache()` inside a step, shapes that repeat, a batch that leaves memory free. Large buffers once, at the start.

## Limits of the method
Needs runtime calls (Level1). Allocations of the first steps are normal: a capture should begin after them.

## References
torch_npu: PYTORCH_NPU_ALLOC_CONF; PyTorch's "CUDA semantics", memory management; aclrtMalloc, aclrtFree in CANN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Value, Words
from npulens.analysis.idle.blame import everywhere
from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.host_names import special
from npulens.analysis.limits import limit
from npulens.analysis.run import Run

NEEDS = ("kernels", "runtime_calls")

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while its memory is allocated or "
            "freed. {calls} calls in a step[[, {retries} of them right after a free]]. {code_share} of the time "
            "in {code}",
            "Let the allocator grow its segments (expandable_segments:True in the environment variable"
            "[[npu:  PYTORCH_NPU_ALLOC_CONF]][[cuda:  PYTORCH_CUDA_ALLOC_CONF]][[rocm:  PYTORCH_HIP_ALLOC_CONF]] "
            "of the allocator). Remove empty_cache() from the step and keep shapes the same.[[ The {retries} "
            "allocations right after a free may be second tries. The memory is full, and a smaller batch or "
            "recomputation gives room.]]",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：申请或释放设备内存时设备每步空闲 {idle_ns}（{idle_share}）；每步 {calls} 次调用"
            "[[，其中 {retries} 次紧跟释放之后]]，{code_share} 的时间在 {code}",
            "让分配器使用可扩展段（在分配器的环境变量[[npu:  PYTORCH_NPU_ALLOC_CONF]][[cuda:  PYTORCH_CUDA_ALLOC_CONF]]"
            "[[rocm:  PYTORCH_HIP_ALLOC_CONF]] 中设 expandable_segments:True），训练步内不要调用 empty_cache()，"
            "保持形状不变。"
            "[[紧跟释放的 {retries} 次申请可能是内存已满后的重试：减小批量或开启重计算。]]",
        )
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """What counts as a second try."""

    retry_ns: float = limit(1e6, "ns from a free to the allocation", "both are in one call of the allocator")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that lose most."""
    seen = everywhere(run, "memory_alloc")
    if seen is None:
        return
    found, change = seen
    counted = [_calls(run, rank, limits.retry_ns) for rank in found.ranks]
    calls, retries = (max(column) for column in zip(*counted, strict=True))
    numbers: dict[str, Value] = {**found.numbers, "calls": calls, "retries": retries or None}
    yield Candidate("memory_alloc", "found", numbers, found.evidence, change, measured_ns=found.measured_ns)


def _calls(run: Run, rank: int, near_ns: float) -> tuple[int, int]:
    """Calls that allocate or free, and allocations that follow a free at once."""
    spans = run.get(special)[rank]
    mine = spans.of("memory_alloc")
    known = names(run, spans.ids[mine])
    frees = np.array(["Free" in known[span] or "Unmap" in known[span] for span in spans.ids[mine].tolist()], bool)
    near = spans.starts[mine][1:] - spans.ends[mine][:-1] <= near_ns
    after = frees[:-1] & ~frees[1:] & near
    window, starts = run.window(rank), spans.starts[mine]
    inside = np.zeros(len(starts), bool) if window is None else (starts >= window[0]) & (starts < window[1])
    return round(int(inside.sum()) / run.step_count), round(int((after & inside[1:]).sum()) / run.step_count)
