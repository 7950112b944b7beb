"""Packets are lost on the network and sent again; a transfer then takes as long as the time-out.

## What it measures
Transfers by RDMA that take at least 4 s, or at least 20 times the median of those of their size. The excess over that
median is lost. Collectives that HCCL itself ran again (`retry`) are judged too, against the shortest of their kind and
size.

## Why it costs
A lost packet is noticed only when its time-out is over, and the whole group waits.

## What to do
Look for losses: `hccn_tool -i N -stat -g` (retransmissions, out of order, PFC), the switch's drop and ECN counters,
optical modules. Check PFC and the traffic class of the job, HCCL_RDMA_TC and HCCL_RDMA_SL, and HCCL_RDMA_TIMEOUT.

## Limits of the method
A transfer that waits for a congested port looks the same. Losses that cost less than 20 times are not told apart from
congestion. Where a capture has no RDMA there is nothing to be lost. Tasks are recorded from Level1 on.

## References
msprof-analyze and MindStudio Insight: communication retransmission, RDMA transit of 4 s (HCCL's default time-out).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.intervals import combined
from npulens.analysis.limits import limit
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.exposure import shown as operators_shown
from npulens.analysis.ranks.packets import faster, medians, packets, shown
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run

NEEDS = ("comm_tasks",)

TEXT = {
    "en": {
        "sent": Words(
            "{count} transfers by RDMA take {times} times as long as their likes: {worst_ns} instead of {usual_ns}, "
            "{lost_ns} of each step ({lost_share})",
            "Packets are probably sent again after a time-out. Most are between rank {rank} and rank {peer}. Look at "
            "hccn_tool -stat, the drop and ECN counters of the switch and the optical modules; check PFC, "
            "HCCL_RDMA_TC, HCCL_RDMA_SL and HCCL_RDMA_TIMEOUT.",
        ),
        "again": Words(
            "{count} collectives were run again by HCCL (retry): {lost_ns} of each step ({lost_share})",
            "The longest is {operator} on rank {rank}, {worst_ns} instead of {usual_ns}. Its first attempt failed: "
            "look at the device's and the switch's error counters (hccn_tool -stat) and at HCCL's log for that time.",
        ),
    },
    "zh": {
        "sent": Words(
            "{count} 次 RDMA 传输的耗时是同类的 {times} 倍：{worst_ns}，同类为 {usual_ns}，"
            "每步 {lost_ns}（{lost_share}）",
            "很可能是超时后重传。多发生在 rank {rank} 与 rank {peer} 之间。请查看 hccn_tool -stat、"
            "交换机的丢包和 ECN 计数以及光模块；检查 PFC、HCCL_RDMA_TC、HCCL_RDMA_SL 和 HCCL_RDMA_TIMEOUT。",
        ),
        "again": Words(
            "HCCL 重新执行了 {count} 次集合通信（retry）：每步 {lost_ns}（{lost_share}）",
            "最长的是 rank {rank} 上的 {operator}：{worst_ns}，正常为 {usual_ns}。首次执行失败，"
            "请查看设备和交换机的误码计数（hccn_tool -stat）以及当时的 HCCL 日志。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When a transfer was sent again."""

    least_ns: float = limit(4e9, "ns", "HCCL's unit of the RDMA time-out; msprof-analyze uses the same")
    least_times: float = limit(20, "times its like", "congestion makes transfers several times slower, not 20 times")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for slow transfers, one for collectives that ran again."""
    found = run.get(packets)
    usual = medians(found.dur.astype(np.float64), found.what * 64 + found.size, found.rdma)
    usual = np.where(np.isnan(usual), found.dur, usual)
    again = found.rdma & (found.dur >= np.minimum(limits.least_ns, limits.least_times * usual))
    if again.any():
        # Where most are that long, what they should take is what their bytes took at the best rate of the capture.
        best = float(found.rate[found.rdma].max())
        usual = np.where(found.dur >= limits.least_times * usual, usual, found.bytes / best)
        rows = np.flatnonzero(again)
        less = np.zeros(len(found), np.int64)
        less[rows] = np.maximum(0, found.dur[rows] - usual[rows]).astype(np.int64)
        gain, worst = faster(run, found, less), int(rows[less[rows].argmax()])
        numbers: dict[str, Value] = {
            "count": len(rows), "worst_ns": int(found.dur[worst]), "usual_ns": int(usual[worst]),
            "times": int(found.dur[worst] / max(1, usual[worst])), "rank": int(found.rank[worst]),
            "peer": int(found.peer[worst]) if found.peer[worst] >= 0 else "?", **_lost(run, gain.lost_ns),
        }  # fmt: skip
        yield Candidate(
            "retransmission", "sent", numbers, shown(found, rows, less), gain.change, "medium",
            gain.lost_ns, gain.lost_ns,
        )  # fmt: skip
    yield from _again(run)


def _lost(run: Run, ns: int) -> dict[str, Value]:
    return {"lost_ns": ns // run.step_count, "lost_share": of_run(run, ns)}


def _again(run: Run) -> Iterator[Candidate]:
    """Operators with `retry`, against the shortest of their kind, group and size that had none."""
    operators = run.get(collectives)
    rows = run.columns("SELECT span_id FROM comm WHERE op_span_id = span_id AND retry > 0 ORDER BY span_id")
    at = operators.at(np.asarray(rows["span_id"]).astype(np.int64))
    at = at[at >= 0]
    if not len(at):
        return
    length = operators.end - operators.ts
    plain = ~np.isin(np.arange(len(operators)), at)
    _, alike = np.unique(combined(operators.team, operators.kind, operators.bytes), return_inverse=True)
    alike = alike.ravel()
    shortest = np.full(int(alike.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, alike[plain], length[plain])
    usual = np.minimum(shortest[alike[at]], length[at])
    less = length[at] - usual
    lost = max(int(less[operators.rank[at] == rank].sum()) for rank in np.unique(operators.rank[at]))
    worst = int(at[less.argmax()])
    numbers: dict[str, Value] = {
        "count": len(at), "operator": str(operators.name[worst]), "rank": int(operators.rank[worst]),
        "worst_ns": int(length[worst]), "usual_ns": int(usual[less.argmax()]), **_lost(run, lost),
    }  # fmt: skip
    change = Change(tasks=operators.span_id[at], task_ns=less)
    yield Candidate("retransmission", "again", numbers, operators_shown(operators, at, less), change, "medium",
                    lost, lost)  # fmt: skip
