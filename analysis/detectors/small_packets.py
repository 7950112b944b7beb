"""Collectives move packets that are too small for their link or not a multiple of 512 bytes, or go one by one.

## What it measures
The transfers inside collectives by size. Below 16 MB over HCCS and PCIe (SDMA) and below 1 MB over RDMA a link does not
reach its bandwidth. The loss is their time above what large packets of the same capture need for the same bytes. Where
all are small, those at least 4 times as large are the comparison. Unaligned packets are compared with aligned ones of
their size. What counts is the time with nothing computed beside it.

Where a host launches 32 or more collectives in a row, count and time alone tell that too. They are of one kind and
group, and short: half of them take less than 50 us. Between two of them it launches a few copies or casts at most.
More than half of that time the device idles.

## Why it costs
Each packet pays for its start and its notifications, whatever its size.

## What to do
Fewer and larger collectives: a larger bucket_cap_mb, several tensors in one all-reduce, no all-gather per parameter.
A packet is the collective's part for one rank, so smaller groups help too. Pad buffers to 512 bytes. Collectives
that are launched one by one become one: buckets, tensors flattened into one, a coalescing manager.

## Limits of the method
The task sizes are recorded from Level1 on. Latency that no larger packet could avoid counts as lost here as well.
Of collectives in a row nobody knows whether one needs the result of the one before. Their saving is a replay without
the host's time from the first launch to the last. All but the first are shorter in it by what the shortest takes.
Copies into one tensor cost a little of it again.

## References
torch.nn.parallel.DistributedDataParallel (bucket_cap_mb). torch._utils._flatten_dense_tensors.
torch.distributed._coalescing_manager. msprof-analyze advisor: communication packets (16 MB, 1 MB, 20 %) and byte
alignment (512 bytes); HCCL_BUFFSIZE in the HCCL user guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.device.kernels import Floats
from npulens.analysis.device.kinds import Bools
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import limit
from npulens.analysis.ranks.collectives import Collectives, collectives
from npulens.analysis.ranks.one_by_one import Stretches, one_by_one
from npulens.analysis.ranks.packets import Packets, faster, lacking, medians, packets, shown
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run, steady_ns

NEEDS = ("collectives",)
#: Sizes apart by this factor tell what size does; a class of sizes needs so many transfers.
_LARGER, _ENOUGH = 4, 3
#: Stretches that a finding shows.
_MOST = 20

TEXT = {
    "en": {
        "small": Words(
            "{time_share} of the time of transfers is in packets too small for their link: {rate_bytes_per_s} instead "
            "of {usual_bytes_per_s}. That costs {lost_ns} of each step ({lost_share})",
            "{count} packets a step on rank {rank}, most of {size_bytes}. Make collectives fewer and larger: a larger "
            "bucket_cap_mb, several tensors in one operator, smaller groups. All of them, hidden ones included, "
            "take {whole_ns} longer than large ones.",
        ),
        "one_by_one": Words(
            "Rank {ranks}: {count} {collective} operators of each step are launched one by one. Each takes "
            "{median_ns}, the host {host_ns} from one to the next; the device idles {idle_ns} ({idle_share}) "
            "between them",
            "Let one operator carry many tensors[[; these have {median_bytes} each]]. DistributedDataParallel does so "
            "with buckets (bucket_cap_mb). In a loop of your own, flatten them into one "
            "(torch._utils._flatten_dense_tensors)[[cuda|rocm: , or run the loop within "
            "torch.distributed._coalescing_manager]]. This helps unless one needs the result of the one before. The "
            "host is through earlier then, so that later gaps may close as well.",
        ),
        "unaligned": Words(
            "{time_share} of the time of transfers is in packets whose size is no multiple of 512 bytes: "
            "{rate_bytes_per_s} instead of {usual_bytes_per_s}. That costs {lost_ns} of each step ({lost_share})",
            "{count} packets a step on rank {rank}, most of {size_bytes}. Pad the buffers so that each rank's part is "
            "a multiple of 512 bytes. All of them, hidden ones included, take {whole_ns} longer than aligned ones.",
        ),
    },
    "zh": {
        "small": Words(
            "传输时间中有 {time_share} 花在对链路而言过小的包上：带宽 {rate_bytes_per_s}，"
            "大包为 {usual_bytes_per_s}，每步损失 {lost_ns}（{lost_share}）",
            "rank {rank} 每步 {count} 个包，多为 {size_bytes}。请减少集合通信次数并增大每次的数据量："
            "增大 bucket_cap_mb，把多个张量合并到一个算子，缩小通信域。含被掩盖的在内，共比大包多用 {whole_ns}。",
        ),
        "one_by_one": Words(
            "rank {ranks}：每步有 {count} 个 {collective} 算子被逐个下发，在设备上各用 {median_ns}，"
            "而主机每隔 {host_ns} 才下发一个；其间设备空闲 {idle_ns}（{idle_share}）",
            "请用一个算子传输多个张量[[（目前每个 {median_bytes}）]]：DistributedDataParallel 用分桶实现"
            "（bucket_cap_mb）；自己写的循环可先把张量展平拼成一个（torch._utils._flatten_dense_tensors）"
            "[[cuda|rocm: ，或放进 torch.distributed._coalescing_manager]]。前提是后一个不依赖前一个的结果。"
            "主机此后下发更早，后面的空隙也可能缩小。",
        ),
        "unaligned": Words(
            "传输时间中有 {time_share} 花在大小不是 512 字节整数倍的包上：带宽 {rate_bytes_per_s}，"
            "对齐的为 {usual_bytes_per_s}，每步损失 {lost_ns}（{lost_share}）",
            "rank {rank} 每步 {count} 个包，多为 {size_bytes}。请填充缓冲区，使每张卡的部分为 512 字节的整数倍。"
            "含被掩盖的在内，共比对齐的包多用 {whole_ns}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When packets are small."""

    sdma_bytes: float = limit(16e6, "bytes", "msprof-analyze: below 16 MB SDMA does not reach its bandwidth")
    rdma_bytes: float = limit(1e6, "bytes", "msprof-analyze: below 1 MB RDMA does not reach its bandwidth")
    aligned_bytes: float = limit(512, "bytes", "msprof-analyze: SDMA moves whole lines of 512 bytes fastest")
    least_time: float = limit(0.2, "share of the time of transfers", "msprof-analyze: more than 20 % of small packets")
    least_row: float = limit(32, "collectives in a row", "fewer, of 0.3 ms each, cost the host less than 10 ms")
    short_ns: float = limit(50_000, "ns on the device", "what starting one costs; longer ones move data or wait")
    least_idle: float = limit(0.5, "share of the time between them", "below, the device has other work in that time")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """What goes one by one, by kind and group. Of packets at most two candidates: too small, and unaligned."""
    found, lacks = list(_one_by_one(run, limits)), run.get(lacking)
    if lacks is None or lacks.some:
        found += _of_packets(run, limits, bool(found))
    if lacks is not None and all((one.measured_ns or 0) < limits.min_share * run.get(steady_ns) for one in found):
        raise lacks.why
    yield from found


def _of_packets(run: Run, limits: Limits, more: bool) -> Iterator[Candidate]:
    """The candidates of packets; `more`: there is another."""
    found = run.get(packets)
    if found.bare_ns < limits.min_share * run.get(steady_ns) or not len(found):
        return
    small = found.bytes < np.where(found.rdma, limits.rdma_bytes, limits.sdma_bytes)
    odd = ~found.rdma & (found.bytes > limits.aligned_bytes) & (found.bytes % int(limits.aligned_bytes) != 0)
    aligned = medians(found.rate, found.what * 64 + found.size, ~odd)
    known = [
        (text, some, usual)
        for text, some, usual in (("unaligned", odd, aligned), ("small", small, _large(found, small)))
        if _much(found, some, limits) and not np.isnan(usual[some]).all()
    ]  # fmt: skip
    for text, some, usual in known:
        yield _candidate(run, found, some, usual, text)
    if not known and not more and _much(found, small, limits):
        raise NotMeasured(
            "all packets of this capture are small and of about one size: none shows what the link can do",
            "本次采集的包都很小且大小相近，无法得知链路的能力",
            "a step with larger collectives, e.g. a larger bucket_cap_mb",
        )


def _one_by_one(run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each kind and group of collectives that are short, launched one by one, with gaps between."""
    operators, steps = run.get(collectives), run.step_count
    for found in one_by_one(run, int(limits.least_row)):
        if np.median(found.took_ns) >= limits.short_ns:
            continue
        if found.idle_ns.sum() <= limits.least_idle * found.between_ns.sum():
            continue
        idle_ns, count = found.by_rank(found.idle_ns), found.by_rank(found.count)
        worst = max(idle_ns, key=lambda rank: (idle_ns[rank], -rank))
        sized = operators.bytes[found.row][operators.bytes[found.row] >= 0]
        numbers: dict[str, Value] = {
            "ranks": said(tuple(idle_ns)), "rank": worst, "count": count[worst] // steps, "collective": found.kind,
            "median_ns": int(np.median(found.took_ns)), "host_ns": int(np.median(found.host_ns)),
            "idle_ns": idle_ns[worst] // steps, "idle_share": of_run(run, idle_ns[worst]),
            "median_bytes": int(np.median(sized)) if len(sized) else None,
        }  # fmt: skip
        least, rest = int(found.took_ns.min()), ~found.first
        change = Change(
            host={rank: found.windows(rank) for rank in idle_ns},
            tasks=operators.span_id[found.row[rest]], task_ns=np.full(int(rest.sum()), least, np.int64),
        )  # fmt: skip
        ceiling = max(found.known_ns[rank] + least * count[rank] for rank in idle_ns)
        yield Candidate(
            "small_packets", "one_by_one", numbers, _rows_shown(operators, found), change, "medium", ceiling,
            idle_ns[worst],
        )  # fmt: skip


def _rows_shown(operators: Collectives, found: Stretches) -> tuple[Evidence, ...]:
    """The stretches that idle most."""
    first = found.row[found.first]
    end = np.maximum.reduceat(operators.end[found.row], np.flatnonzero(found.first))
    return tuple(
        Evidence(
            int(found.rank[one]), int(operators.ts[first[one]]), int(end[one] - operators.ts[first[one]]),
            int(operators.span_id[first[one]]), str(operators.name[first[one]]),
        )
        for one in np.argsort(-found.idle_ns, kind="stable")[:_MOST].tolist()
    )  # fmt: skip


def _much(found: Packets, some: Bools, limits: Limits) -> bool:
    takes = _usually(found, np.ones(len(found), np.bool_))
    return bool(takes[some].sum() > limits.least_time * takes.sum())


def _usually(found: Packets, some: Bools) -> Floats:
    """What packets take, at most the median of their likes.

    What one takes above that has another cause (a slow link, a packet sent again).
    """
    like = medians(found.rate, found.what * 64 + found.size, some)
    return np.asarray(np.minimum(found.dur, found.bytes / like))


def _large(found: Packets, small: Bools) -> Floats:
    """The rate of large packets of the same kind; where there are none, of the largest in the capture."""
    usual = medians(found.rate, found.what, ~small)
    for what in np.unique(found.what[np.isnan(usual)]).tolist():
        rows = np.flatnonzero(found.what == what)
        top = rows[found.size[rows] == found.size[rows].max()]
        if len(top) >= _ENOUGH:
            fits = rows[found.bytes[rows] * _LARGER <= found.bytes[top].min()]
            usual[fits] = np.median(found.rate[top])
    return usual


def _candidate(run: Run, found: Packets, some: Bools, usual: Floats, text: str) -> Candidate:
    less = np.zeros(len(found), np.int64)
    rows = np.flatnonzero(some & ~np.isnan(usual))
    less[rows] = np.maximum(0, _usually(found, some)[rows] - found.bytes[rows] / usual[rows]).astype(np.int64)
    gain, steps = faster(run, found, less), run.step_count
    mine = rows[found.rank[rows] == gain.rank] if (found.rank[rows] == gain.rank).any() else rows
    numbers: dict[str, Value] = {
        "rank": gain.rank, "time_share": float(found.dur[some].sum() / found.dur.sum()), "count": len(mine) // steps,
        "size_bytes": int(np.median(found.bytes[some])), "lost_ns": gain.lost_ns // steps,
        "lost_share": of_run(run, gain.lost_ns), "whole_ns": gain.whole_ns // steps,
        "rate_bytes_per_s": _pace(found, mine) * 1e9,
        "usual_bytes_per_s": float(np.median(usual[mine])) * 1e9 if len(mine) else None,
    }  # fmt: skip
    return Candidate(
        "small_packets", text, numbers, shown(found, mine, less), gain.change, "medium", gain.lost_ns, gain.lost_ns
    )


def _pace(found: Packets, rows: Ints) -> float:
    return float(found.bytes[rows].sum() / max(1, found.dur[rows].sum()))
