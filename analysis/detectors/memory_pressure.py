"""Device memory is nearly full, in pieces, or fuller with every step, and the allocator pays for it with time.

## What it measures
The most that any pool of a rank reserves, against the memory of its device. The most that is reserved against the most
that is allocated, which is how much lies between blocks. Whether the least that is allocated in a step rises from step
to step. Then what that costs: gaps of the device in the allocator's second tries. A try lasts from the wait for the
device before the first free to the end of the last allocation. Where memory only grows: gaps in calls that allocate.

## Why it costs
With no block that fits, the caching allocator waits for the device, gives back what is unused, and asks the driver
again. Each round takes from 1 ms to tens of ms. In it the host issues nothing, and its lead is gone after it.

## What to do
Full: a smaller batch, recomputation, or sharded parameters and optimizer states. In pieces: expandable segments
(PYTORCH_NPU_ALLOC_CONF on Ascend, PYTORCH_CUDA_ALLOC_CONF on CUDA), few distinct shapes, no empty_cache() in the step.
Growing: keep no tensors from step to step (append loss.item() or loss.detach(), not the loss); the Memory page names
what stays.

## Limits of the method
Needs the state of the pools and the driver's calls. The memory of the device comes from the capture's own device
properties or from the table of devices. Where neither says it, a full device is not told. Memory that is full, in
pieces or growing but costs no time is not a finding. Second tries that no gap follows are free of charge.

## References
PyTorch: "CUDA semantics", memory management, and the allocator's "num_alloc_retries"; torch_npu:
PYTORCH_NPU_ALLOC_CONF.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits as limits_
from npulens.analysis.device.abilities import memory_bytes
from npulens.analysis.finding import Candidate, Change, Evidence, Value, Words
from npulens.analysis.idle.blame import said, similar_ranks
from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.host_names import special
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.limits import limit
from npulens.analysis.run import Run

NEEDS = ("kernels", "runtime_calls", "memory")

#: Idle time that the allocator can be behind: its calls, the wait before them, and the lead that both cost.
_CAUSES = ("memory_alloc", "sync_stall", "host_late")
#: Evidence: so many windows.
_WINDOWS = 20
_VARIABLES = {"npu": "PYTORCH_NPU_ALLOC_CONF", "rocm": "PYTORCH_HIP_ALLOC_CONF"}

TEXT = {
    "en": {
        "full": Words(
            "Rank {ranks}: device memory is full, {peak_bytes} of {device_bytes} ({full_share}). The device idles "
            "{idle_ns} of each step while the allocator gives memory back and asks again ({cycles} in the run)",
            "Make room: a smaller batch, recomputation, or sharded optimizer states. Expandable segments "
            "({setting}=expandable_segments:True) help where blocks of many sizes are asked for.",
        ),
        "fragmented": Words(
            "Rank {ranks}: device memory lies in pieces, {peak_bytes} reserved for at most {allocated_bytes}. The "
            "device idles {idle_ns} of each step while the allocator gives memory back and asks again ({cycles} in "
            "the run)",
            "Set {setting}=expandable_segments:True, keep shapes the same or round them up to a few sizes, and take "
            "empty_cache() out of the step.",
        ),
        "growing": Words(
            "Rank {ranks}: allocated memory grows by {growth_bytes} in each of {steps} steps. The device idles "
            "{idle_ns} of each step while more is asked for",
            "Find what is kept from step to step: a loss without .item() or .detach(), outputs in a list, caches "
            "without a limit. The Memory page names what stays allocated.",
        ),
    },
    "zh": {
        "full": Words(
            "rank {ranks}：设备内存已满，{device_bytes} 中用了 {peak_bytes}（{full_share}）；"
            "全程 {cycles} 次释放后重新申请，设备每步空闲 {idle_ns}",
            "腾出内存：减小批量、开启重计算或切分优化器状态。若申请的块大小不一，"
            "可设置 {setting}=expandable_segments:True。",
        ),
        "fragmented": Words(
            "rank {ranks}：设备内存碎片化，预留 {peak_bytes}，最多只分配 {allocated_bytes}；"
            "全程 {cycles} 次释放后重新申请，设备每步空闲 {idle_ns}",
            "设置 {setting}=expandable_segments:True，固定形状或归并为少数几档，训练步内不要调用 empty_cache()。",
        ),
        "growing": Words(
            "rank {ranks}：连续 {steps} 步，每步已分配内存增长 {growth_bytes}，申请内存时设备每步空闲 {idle_ns}",
            "找出跨步保留的张量：未加 .item() 或 .detach() 的 loss、存入列表的输出、没有上限的缓存。"
            "“内存”页列出了未释放的块。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """What counts as full, in pieces and growing."""

    full_share: float = limit(0.95, "share of the device's memory", "above it the next larger batch does not fit")
    spread: float = limit(1.3, "most reserved by most allocated", "below it, rounding of blocks explains the rest")
    steps: float = limit(5, "steps in a row", "fewer may be a warm-up")
    growth_share: float = limit(0.05, "share of the most allocated", "less may be caches that fill up once")
    retry_ns: float = limit(1e6, "ns between two calls", "both are in one call of the allocator")


@dataclass(frozen=True)
class _Pool:
    """What one rank's pools hold at most."""

    peak: int  # reserved
    allocated: int  # by the pool that reserves most of those that say it
    reserved: int  # by that pool
    at_ns: int  # of the peak
    lows: tuple[int, ...]  # the least allocated in each step


@dataclass(frozen=True)
class Calls:
    """Host spans of one kind by start."""

    begin: Ints
    end: Ints
    ids: Ints


@dataclass(frozen=True)
class _Paid:
    """What the allocator's work cost one rank."""

    cycles: int
    windows: Intervals
    idle: Intervals
    syncs: Ints


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each kind of pressure and each group of ranks that pay for it alike."""
    pools = run.get(_pools)
    signs = {rank: sign for rank, pool in pools.items() if (sign := _sign(run, rank, pool, limits)) is not None}
    for kind in dict.fromkeys(kind for kind, _ in signs.values()):
        paid = {rank: _paid(run, rank, limits, kind) for rank, (own, _) in signs.items() if own == kind}
        for ranks in similar_ranks({rank: one.idle.total() for rank, one in paid.items()}):
            worst = max(ranks, key=lambda rank: paid[rank].idle.total())
            yield _candidate(run, kind, {rank: paid[rank] for rank in ranks}, signs[worst][1], pools)


def _sign(run: Run, rank: int, pool: _Pool, limits: Limits) -> tuple[str, dict[str, Value]] | None:
    """Which pressure a rank is under, and the figures that say so."""
    there = memory_bytes(run, rank)
    if there and pool.peak >= limits.full_share * there:
        return "full", {"peak_bytes": pool.peak, "device_bytes": there, "full_share": pool.peak / there}
    if pool.allocated and pool.reserved >= limits.spread * pool.allocated:
        return "fragmented", {"peak_bytes": pool.reserved, "allocated_bytes": pool.allocated}
    lows = np.array(pool.lows, np.int64)
    grown = int(lows[-1] - lows[0]) if len(lows) else 0
    if len(lows) >= limits.steps and (np.diff(lows) > 0).all() and grown >= limits.growth_share * pool.allocated:
        return "growing", {"growth_bytes": grown // (len(lows) - 1), "steps": len(lows)}
    return None


def _candidate(
    run: Run, kind: str, paid: Mapping[int, _Paid], figures: Mapping[str, Value], pools: Mapping[int, _Pool]
) -> Candidate:
    lost, ranks = max(one.idle.total() for one in paid.values()), tuple(sorted(paid))
    numbers: dict[str, Value] = {
        "ranks": said(ranks), "idle_ns": lost // run.step_count, "cycles": max(one.cycles for one in paid.values()),
        "setting": _setting(run, ranks[0]), **figures,
    }  # fmt: skip
    evidence = [
        Evidence(rank, int(begin), int(end - begin))
        for rank, one in paid.items() for begin, end in zip(one.windows.starts, one.windows.ends, strict=True)
    ]  # fmt: skip
    evidence.sort(key=lambda one: -one.dur_ns)
    change = Change(
        host={rank: one.idle for rank, one in paid.items() if len(one.idle.starts)},
        syncs=np.concatenate([one.syncs for one in paid.values()]),
    )
    shown = tuple(evidence[:_WINDOWS]) or tuple(Evidence(rank, pools[rank].at_ns, 0) for rank in ranks)
    return Candidate("memory_pressure", kind, numbers, shown, change, "medium", measured_ns=lost)


def _paid(run: Run, rank: int, limits: Limits, kind: str) -> _Paid:
    """The calls of the allocator that the pressure explains, and the device's idle time in them."""
    spans = run.get(special).get(rank)
    if spans is None:
        return _Paid(0, EMPTY, EMPTY, np.zeros(0, np.int64))
    calls, waits = (Calls(*(column[spans.of(cause)] for column in (spans.starts, spans.ends, spans.ids)))
                    for cause in ("memory_alloc", "sync_stall"))  # fmt: skip
    gone = EMPTY
    for cause in _CAUSES:
        gone = gone | run.get(idle).windows(rank, cause)
    if kind == "growing":
        windows = Intervals.union_of(calls.begin, calls.end)
        return _Paid(0, windows, gone & windows, np.zeros(0, np.int64))
    begin, end, syncs = _cycles(calls, _frees(run, calls.ids), waits, limits.retry_ns)
    windows = Intervals.union_of(begin, end)
    return _Paid(len(begin), windows, gone & windows, syncs)


def _frees(run: Run, ids: Ints) -> NDArray[np.bool_]:
    """Which calls give memory back."""
    known, words = names(run, ids), ("Free", "Unmap", "empty_cache")
    return np.array([any(word in known[span] for word in words) for span in ids.tolist()], np.bool_)


def _cycles(calls: Calls, frees: NDArray[np.bool_], waits: Calls, near_ns: float) -> tuple[Ints, Ints, Ints]:
    """Begin and end of each second try, the wait before it included, and those waits."""
    none = np.zeros(0, np.int64)
    if len(calls.begin) < 2:
        return none, none, none
    reach = np.maximum.accumulate(calls.end)
    burst = np.concatenate(([0], np.cumsum(calls.begin[1:] - reach[:-1] > near_ns)))
    tried = np.unique(burst[1:][frees[:-1] & ~frees[1:] & (burst[1:] == burst[:-1])])
    heads = np.searchsorted(burst, np.arange(burst[-1] + 1))
    begin, end = calls.begin[heads][tried], np.maximum.reduceat(calls.end, heads)[tried]
    order = np.argsort(waits.end, kind="stable")
    at = np.searchsorted(waits.end[order], end, "right") - 1  # the last wait that was over by the end of the try
    waited = np.flatnonzero(at >= 0)
    mine = order[at[waited]]
    near = waits.end[mine] >= begin[waited] - near_ns
    waited, mine = waited[near], mine[near]
    begin[waited] = np.minimum(begin[waited], waits.begin[mine])
    return begin, end, waits.ids[mine]


def _pools(run: Run) -> dict[int, _Pool]:
    """What each rank's pools hold at most."""
    rows = run.con.execute(
        "SELECT rank, component, max(reserved_bytes), max(allocated_bytes), arg_max(ts_ns, reserved_bytes) "
        "FROM memory_sample WHERE coalesce(device, '') NOT ILIKE 'cpu%' AND reserved_bytes > 0 "
        "GROUP BY rank, component ORDER BY rank, max(reserved_bytes) DESC, component"
    ).fetchall()
    told: dict[int, tuple[str, int, int]] = {}  # the largest pool that says what of it is allocated
    for rank, component, peak, allocated, _ in rows:
        if allocated:
            told.setdefault(rank, (component, peak, allocated))
    lows = _lows(run) if told else {}
    found: dict[int, _Pool] = {}
    for rank, _, peak, _, at_ns in rows:
        component, reserved, allocated = told.get(rank, (None, 0, 0))
        found.setdefault(rank, _Pool(peak, allocated, reserved, at_ns, tuple(lows.get((rank, component), ()))))
    return found


def _lows(run: Run) -> dict[tuple[int, str | None], list[int]]:
    """The least that each pool has allocated in each step of its rank."""
    rows = run.con.execute(
        "SELECT s.rank, m.component, min(m.allocated_bytes) FROM memory_sample m ASOF JOIN step s "
        "ON m.rank = s.rank AND m.ts_ns >= s.ts_ns WHERE m.ts_ns < s.ts_ns + s.dur_ns "
        "AND m.component IS NOT NULL AND m.allocated_bytes IS NOT NULL "
        "GROUP BY s.rank, m.component, s.ts_ns ORDER BY s.rank, m.component, s.ts_ns"
    ).fetchall()
    found: dict[tuple[int, str | None], list[int]] = {}
    for rank, component, low in rows:
        found.setdefault((rank, component), []).append(low)
    return found


def _setting(run: Run, rank: int) -> str:
    """The variable of the rank's allocator."""
    ((backend,),) = run.con.execute("SELECT backend FROM rank WHERE rank = ?", [rank]).fetchall()
    return _VARIABLES.get(backend or "", "PYTORCH_CUDA_ALLOC_CONF")
