"""What torch_npu and msprof derive from the tasks they recorded, by their rules.

Overlap lanes: Computing is the union of kernels, Communication the union of communication operators. Free is the gaps
strictly inside the first and last of both. A step's range on the device starts with the first task that its host window
launched. It ends with the last one or with the host's mark. A task or lane belongs wholly to the first range that holds
its start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from npulens.collectors.simulator.job import Copy, RankRecord, Runtime, Span

Interval = tuple[int, int]


class Lanes(NamedTuple):
    computing: list[Interval]
    communication: list[Interval]
    not_overlapped: list[Interval]
    free: list[Interval]


class Range(NamedTuple):
    step: int | None  # None where nothing marks the steps: then there is one range
    start: int
    end: int
    host_start: int


class StepTime(NamedTuple):
    """One row of step_trace_time, in ns."""

    step: int | None
    computing: int
    not_overlapped: int
    overlapped: int
    communication: int
    free: int
    stage: int
    bubble: int
    not_overlapped_without_receive: int
    preparing: int


class KernelRow(NamedTuple):
    span: Span
    step: int | None
    wait_ns: int


def union(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def subtract(left: Sequence[Interval], right: Sequence[Interval]) -> list[Interval]:
    """What of ``left`` no interval of ``right`` covers; both are unions."""
    kept: list[Interval] = []
    first = 0
    for start, end in left:
        while first < len(right) and right[first][1] <= start:
            first += 1
        index, at = first, start
        while index < len(right) and right[index][0] < end:
            if right[index][0] > at:
                kept.append((at, right[index][0]))
            at = max(at, right[index][1])
            index += 1
        if at < end:
            kept.append((at, end))
    return kept


def _lanes(spans: Iterable[Span]) -> Lanes:
    computing: list[Interval] = []
    communication: list[Interval] = []
    for span in spans:
        (communication if span.kind == "comm_op" else computing).append((span.ts_ns, span.end_ns))
    computing, communication = union(computing), union(communication)
    busy = union([*computing, *communication])
    free = [(left[1], right[0]) for left, right in zip(busy, busy[1:], strict=False)]
    return Lanes(computing, communication, subtract(communication, computing), free)


def lanes(record: RankRecord) -> Lanes:
    return _lanes(record.of("kernel", "memset", "comm_op"))


def text_ranges(record: RankRecord) -> list[Range]:
    """Text: from the first to the last operator that the step put into the task queue and that launched something."""
    if not record.steps:
        return _whole(record)
    targets: dict[int, list[Span]] = {}
    for link in record.links:
        if link.route == "torch_to_npu":
            target = record.by_id[link.dst]
            if not (isinstance(target.detail, Copy) and target.detail.blocking):
                targets.setdefault(link.src, []).append(target)
    sources = sorted((record.by_id[source].ts_ns, source) for source in targets)
    ranges = []
    for mark in record.steps:
        mine = sources[bisect_left(sources, (mark.ts_ns, 0)) : bisect_left(sources, (mark.end_ns, 0))]
        start = min(span.ts_ns for span in targets[mine[0][1]]) if mine else mark.ts_ns
        end = max(span.end_ns for span in targets[mine[-1][1]]) if mine else 0
        ranges.append(Range(mark.step, start, max(end, mark.end_ns), mark.ts_ns))
    return ranges


def db_ranges(record: RankRecord) -> list[Range]:
    """Db: all tasks whose node-level launch lies within the step's host window."""
    if not record.steps:
        return _whole(record)
    launched: list[tuple[int, int, Span]] = []
    for link in record.links:
        source = record.by_id[link.src]
        if isinstance(source.detail, Runtime) and source.detail.level == "node":
            launched.append((source.ts_ns, source.end_ns, record.by_id[link.dst]))
    launched.sort(key=lambda row: row[0])
    starts = [row[0] for row in launched]
    ranges = []
    for mark in record.steps:
        window = launched[bisect_left(starts, mark.ts_ns) : bisect_left(starts, mark.end_ns)]
        spans = [span for _, end, span in window if end <= mark.end_ns]
        start = min((span.ts_ns for span in spans), default=mark.ts_ns)
        end = max((span.end_ns for span in spans), default=0)
        ranges.append(Range(mark.step, start, max(end, mark.end_ns), mark.ts_ns))
    return ranges


def _whole(record: RankRecord) -> list[Range]:
    tasks = record.of("kernel", "memset", "comm_op")
    start = min((span.ts_ns for span in tasks), default=record.begin_ns)
    return [Range(None, start, max((span.end_ns for span in tasks), default=start), start)]


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def _owner(ranges: Sequence[Range], ends: Sequence[int], ts: int) -> Range | None:
    """The first range that holds ``ts``; ends ascend, so it is the first that has not ended, or none."""
    index = bisect_right(ends, ts)
    return ranges[index] if index < len(ranges) and ranges[index].start <= ts else None


def text_step_times(record: RankRecord) -> list[StepTime]:
    """Sums the lanes' bars that start in the range, whole; Stage spans them all, Free included."""
    ranges = text_ranges(record)
    ends = [item.end for item in ranges]
    bars: dict[Range, tuple[list[Interval], ...]] = {item: ([], [], [], []) for item in ranges}
    for number, lane in enumerate(lanes(record)):
        for bar in lane:
            owner = _owner(ranges, ends, bar[0])
            if owner is not None:
                bars[owner][number].append(bar)
    rows, received = [], _received(record)
    for item, mine in bars.items():
        busy = sorted(mine[0] + mine[1])
        every = busy + mine[3]
        stage = max((end for _, end in every), default=0) - min((start for start, _ in every), default=0)
        bubble = sum(ns for ts, ns in received if _owner(ranges, ends, ts) == item)
        first = busy[0][0] if busy else item.host_start
        rows.append(_step_time(item, [_length(lane) for lane in mine], stage, first, bubble))
    return rows


def db_step_times(record: RankRecord) -> list[StepTime]:
    """Makes the lanes anew from the tasks that start in the range; Stage spans what is busy."""
    tasks = record.of("kernel", "memset", "comm_op")
    starts = [span.ts_ns for span in tasks]
    rows, received = [], _received(record)
    for item in db_ranges(record):
        parts = _lanes(tasks[bisect_left(starts, item.start) : bisect_left(starts, item.end)])
        busy = sorted(parts.computing + parts.communication)
        stage = max(end for _, end in busy) - busy[0][0] if busy else 0
        first = busy[0][0] if parts.computing else item.host_start  # 0 without a compute task: the tool's own rule
        bubble = sum(ns for ts, ns in received if item.start <= ts < item.end)
        rows.append(_step_time(item, [_length(lane) for lane in parts], stage, first, bubble))
    return rows


def _received(record: RankRecord) -> list[Interval]:
    """Start and length of what the profiler calls bubbles: receive operators, and only those."""
    return [(span.ts_ns, span.dur_ns) for span in record.of("comm_op") if span.name.startswith("hcom_receive")]


def _step_time(item: Range, lengths: list[int], stage: int, first: int, bubble: int) -> StepTime:
    computing, communication, exposed, free = lengths
    return StepTime(
        item.step,
        computing,
        exposed,
        communication - exposed,
        communication,
        free,
        stage - bubble,
        bubble,
        exposed - bubble,
        first - item.host_start,
    )


def kernel_rows(record: RankRecord) -> list[KernelRow]:
    """kernel_details: compute tasks and communication operators by start, each with the gap to the row before."""
    ranges = text_ranges(record)
    ends = [item.end + 1 for item in ranges]  # here the end of a range still belongs to it
    rows: list[KernelRow] = []
    before: Span | None = None
    for span in record.of("kernel", "memset", "comm_op"):
        owner = _owner(ranges, ends, span.ts_ns)
        wait = max(0, span.ts_ns - before.end_ns) if before is not None else 0
        rows.append(KernelRow(span, owner.step if owner is not None else None, wait))
        before = span
    return rows
