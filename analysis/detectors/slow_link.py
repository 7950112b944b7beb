"""One link is slower than its kind, and every collective that crosses it waits for it.

## What it measures
The transfers of collectives by link: bytes over time from one rank to another. They are compared with the other links
of the same kind (HCCS, PCIe, RDMA) for the same task and size. A link is slow if three of four of its transfers, of 5
at least, are at least 1.3 times slower. A few slow ones are told by retransmission. What counts is the time that
operators would be shorter with nothing computed beside them.

## Why it costs
A collective moves its parts over all links at once and is over when the last has arrived.

## What to do
Look at the link: `hccn_tool -i N -link -g` and its statistics, cables and optical modules, the switch's counters.
`npu-smi info -t topo` shows a path that leaves the fast link. See whether one device is at the end of all slow links.

## Limits of the method
Only links of captured ranks are seen, with their tasks (Level1). Where a kind has fewer than 3 links, nobody knows
which one is right. A link that is always shared by two streams looks slow. Where collectives were recorded as a whole
only, what the largest reaches is said instead.

## References
MindStudio Insight and msprof-analyze, slow link: differences of bandwidth above 5 % between ranks; HCCL's tasks
(CANN profiling guide: COMMUNICATION_TASK_INFO).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.capability import capabilities
from npulens.analysis.device.kernels import Floats
from npulens.analysis.device.kinds import Bools
from npulens.analysis.finding import Candidate, NotMeasured, Value, Words
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.limits import limit
from npulens.analysis.ranks.exposure import exposed
from npulens.analysis.ranks.packets import Packets, faster, lacking, medians, packets, shown
from npulens.analysis.run import Run
from npulens.analysis.say import number
from npulens.analysis.steady import steady_ns

NEEDS = ("collectives",)
_LINKS, _MOST = 3, 16  # of a kind, to tell which one is slow; findings at most

TEXT = {
    "en": {
        "found": Words(
            "The {link} link between rank {rank} and rank {peer} is {times} times slower than its kind: "
            "{rate_bytes_per_s} instead of {usual_bytes_per_s}",
            "{count} transfers of its size take {lost_ns} of each step longer, with nothing computed beside them. "
            "Check the link: hccn_tool for its state and error counters, npu-smi info -t topo for its path. Also "
            "check cable and "
            "optical module, the switch's port. {ranks}",
        ),
    },
    "zh": {
        "found": Words(
            "rank {rank} 与 rank {peer} 之间的 {link} 链路比同类慢 {times} 倍："
            "{rate_bytes_per_s}，同类为 {usual_bytes_per_s}",
            "{count} 次传输每步多用 {lost_ns}，且没有计算掩盖。请检查该链路：用 hccn_tool 查看状态和误码计数，"
            "用 npu-smi info -t topo 查看路径，并检查线缆、光模块和交换机端口。{ranks_zh}",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When a link is slow."""

    least_times: float = limit(1.3, "times its kind", "links of one kind agree within 10 % on real captures (8 x 910B)")
    least_count: float = limit(5, "transfers", "fewer can be slow by chance")
    least_part: float = limit(0.75, "share of its transfers", "where packets are sent again, the others are not slow")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate per slow link, the slowest first."""
    lacks = run.get(lacking)
    if lacks is not None and not lacks.some:
        raise _as_a_whole(run) or lacks.why
    slow = list(_slow(run, limits))
    if lacks is not None and all((one.measured_ns or 0) < limits.min_share * run.get(steady_ns) for one in slow):
        raise lacks.why
    yield from slow


def _as_a_whole(run: Run) -> NotMeasured | None:
    """Of a profiler that knows no parts of collectives: what the largest reaches as a whole; None: it has a setting."""
    sized = [(one.best, one.collective) for one in run.get(exposed) if one.best is not None]
    if run.get(capabilities)["comm_tasks"].collect_with is not None or not sized:
        return None
    best, name = max(sized, key=lambda one: (one[0].bytes, -one[0].ns))
    size, ns = number("_bytes", best.bytes), number("_ns", best.ns)
    rate = number("_bytes_per_s", best.bytes / best.ns * 1e9)
    return NotMeasured(
        f"collectives were recorded as a whole (the largest {name} moves {size} in {ns} or more: {rate}), "
        "not link by link",
        f"只采集到集合通信的整体（最大的 {name} 传输 {size}，至少用 {ns}，即 {rate}），没有逐条链路的数据", None,
    )  # fmt: skip


def _slow(run: Run, limits: Limits) -> Iterator[Candidate]:
    found = run.get(packets)
    known = found.peer >= 0
    if found.bare_ns < limits.min_share * run.get(steady_ns) or not known.any():
        return
    _, link = np.unique(combined(found.rank, found.peer, found.link), return_inverse=True)
    link = link.ravel()
    usual, enough = _usual(found, link)
    if not enough.any():
        raise NotMeasured(
            "no kind of link was used often enough by several ranks to compare its links",
            "没有哪类链路被多张卡足够多地使用，无法比较", "a profile of more ranks (profiler_level=Level1)",
        )  # fmt: skip
    with np.errstate(invalid="ignore"):
        times = usual / found.rate
    slow: dict[tuple[int, int], list[Ints]] = {}
    for rows in _often_slow(link, times, known & enough, limits):
        rank, peer = int(found.rank[rows[0]]), int(found.peer[rows[0]])
        slow.setdefault((min(rank, peer), max(rank, peer)), []).append(rows)
    shared = set.intersection(*(set(ends) for ends in slow)) if len(slow) > 1 else set()
    both = [np.concatenate(rows) for rows in slow.values()]
    for rows in sorted(both, key=lambda rows: -np.median(times[rows]))[:_MOST]:
        yield _candidate(run, found, rows, usual, float(np.median(times[rows])), shared)


def _often_slow(link: Ints, times: Floats, wanted: Bools, limits: Limits) -> Iterator[Ints]:
    """The wanted transfers of each link of which most are slow, by the number of the link."""
    count = np.bincount(link, wanted)
    slow = np.bincount(link, wanted & (times >= limits.least_times))
    picked = (count >= limits.least_count) & (slow >= limits.least_part * count)
    rows = np.flatnonzero(wanted & picked[link])
    rows = rows[np.argsort(link[rows], kind="stable")]
    return (part for part in np.split(rows, np.flatnonzero(np.diff(link[rows])) + 1) if len(part))


def _usual(found: Packets, link: Ints) -> tuple[Floats, Bools]:
    """The median of the links' median rates, same task, kind of link and size, and where there are enough links."""
    group = found.what * 64 + found.size
    per_link = medians(found.rate, group * (int(link.max()) + 1) + link, found.peer >= 0)
    usual, enough = np.full(len(found), np.nan), np.zeros(len(found), np.bool_)
    for one in np.unique(group).tolist():
        rows = np.flatnonzero((group == one) & (found.peer >= 0))
        _, first = np.unique(link[rows], return_index=True)
        usual[rows], enough[rows] = np.median(per_link[rows[first]]), len(first) >= _LINKS
    return usual, enough


def _candidate(run: Run, found: Packets, rows: Ints, usual: Floats, median: float, shared: set[int]) -> Candidate:
    less = np.zeros(len(found), np.int64)
    less[rows] = np.maximum(0, found.dur[rows] - found.bytes[rows] / usual[rows])
    gain = faster(run, found, less)
    (one,) = shared if len(shared) == 1 else (None,)
    numbers: dict[str, Value] = {
        "link": found.links[int(found.link[rows[0]])], "rank": int(found.rank[rows[0]]),
        "peer": int(found.peer[rows[0]]), "times": round(median, 1), "count": len(rows) // run.step_count,
        "rate_bytes_per_s": float(np.median(found.rate[rows])) * 1e9,
        "usual_bytes_per_s": float(np.median(usual[rows])) * 1e9, "lost_ns": gain.lost_ns // run.step_count,
        "ranks": "" if one is None else f"All slow links end at rank {one}.",
        "ranks_zh": "" if one is None else f"所有慢链路都连到 rank {one}。",
    }  # fmt: skip
    return Candidate(
        "slow_link", "found", numbers, shown(found, rows, less), gain.change, "high", gain.lost_ns, gain.lost_ns
    )
