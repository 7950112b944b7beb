"""Copies between host and device during which the device computes nothing.

## What it measures

Memory copies between host and device. The exposed part of a copy is what neither kernels nor collectives of the rank
cover. Per direction: how many, how large, how fast against the link, and whether they block the host or come from
pageable memory. The operator and line of code that issue the largest are named. Copies within the device are not meant.

## Why it costs

A copy in the compute stream holds up every kernel behind it; a blocking one holds up the host as well.

## What to do

`pin_memory=True` in the DataLoader and `.to(device, non_blocking=True)`. Copy the next batch on a stream of its own
while this one computes (a prefetcher). Bring small values back together and late instead of one `.item()` at a time.
Keep on the device what is copied there every step (masks, position ids, constants). One large copy beats many small.

## Limits of the method

torch_npu records size and bandwidth from Level2 on; below it works from durations and says `?`. Exposed is not
blocking: the device may have had nothing to do anyway. So the saving is what the replay of the run gives back, and
never more than the exposed part. Level0 names no direction: copies of unknown direction are a finding of their own.

## References

PyTorch, pinned memory: https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html; nsys expert rules
`cuda_memcpy_async` (pageable) and `cuda_memcpy_sync`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.abilities import device
from npulens.analysis.finding import Candidate, Change, Evidence, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import EMPTY, Ints
from npulens.analysis.run import Run

NEEDS = ("copies", "kernels")

_COPIES = """
    SELECT s.span_id, s.rank, s.ts_ns, s.dur_ns, s.name, coalesce(t.direction, '?') AS direction,
           coalesce(t.bytes, -1) AS bytes, coalesce(t.blocking, false) OR s.name ILIKE '%pageable%' AS blocking
    FROM span s LEFT JOIN transfer t ON t.span_id = s.span_id
    WHERE s.kind = 'memcpy' AND coalesce(t.direction, '?') IN ('h2d', 'd2h', '?') ORDER BY s.span_id
"""
WAYS = {"h2d": ("from host to device", "主机到设备"), "d2h": ("from device to host", "设备到主机"),
        "?": ("of unknown direction", "方向未知")}  # fmt: skip


class Limits(limits.Limits):
    pass


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: copies {way} are not hidden, {exposed_ns} of each step ({count} of them), from {origin}",
            "Pin the memory (pin_memory=True) and copy with non_blocking=True on a stream of its own while the device "
            "computes; merge small copies. {blocking} of them block the host or are pageable[[; the largest moves "
            "{largest_bytes} at {bandwidth_bytes_per_s}[[ (the link: {link_bytes_per_s})]]]].",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：{way_zh}的 {count} 次拷贝没有被掩盖，每步 {exposed_ns}，来自 {origin_zh}",
            "请使用锁页内存（pin_memory=True）与 non_blocking=True，在独立的流上与计算并行拷贝，并合并小拷贝。"
            "其中 {blocking} 次阻塞主机或来自非锁页内存"
            "[[；最大一次为 {largest_bytes}，速率 {bandwidth_bytes_per_s}[[（链路 {link_bytes_per_s}）]]]]。",
        )
    },
}


def exposed(run: Run, found: dict[str, Any]) -> Ints:
    """What of each copy runs while the rank neither computes nor communicates."""
    shown = np.zeros(len(found["span_id"]), np.int64)
    for rank in run.ranks:
        mine = np.flatnonzero(found["rank"] == rank)
        if not len(mine):
            continue
        did = run.activity(rank)
        busy = (did.computing or EMPTY) | (did.communication or EMPTY)
        begins, length = found["ts_ns"][mine].astype(np.int64), found["dur_ns"][mine].astype(np.int64)
        shown[mine] = length - busy.within(begins, begins + length)
    return shown


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    found = run.columns(_COPIES)
    shown = exposed(run, found)
    for way in WAYS:
        rows = np.flatnonzero((found["direction"] == way) & (shown > 0))
        for ranks, those in by_rank(found["rank"][rows].astype(np.int64), shown[rows]):
            yield _candidate(run, found, shown, way, ranks, rows[those])


def _candidate(run: Run, found: dict[str, Any], shown: Ints, way: str, ranks: tuple[int, ...], rows: Ints) -> Candidate:
    rows = rows[np.argsort(-shown[rows], kind="stable")]
    worst = int(rows[0])
    size, length = int(found["bytes"][worst]), int(found["dur_ns"][worst])
    here = device(run, int(found["rank"][worst]))
    blocking = rows[found["blocking"][rows].astype(np.bool_)]
    return Candidate(
        "copy_exposed", "found",
        {
            "way": WAYS[way][0], "way_zh": WAYS[way][1], "ranks": said(ranks),
            "count": -(-len(rows) // (run.step_count * len(ranks))),
            "exposed_ns": int(shown[rows].sum()) // run.step_count // len(ranks),
            "blocking": -(-len(blocking) // (run.step_count * len(ranks))),
            **origins(run, int(found["span_id"][worst])),
            "largest_bytes": size if size >= 0 else None,
            "bandwidth_bytes_per_s": size / length * 1e9 if size >= 0 and length else None,
            "link_bytes_per_s": here.links.get("pcie") if here else None,
        },
        tuple(
            Evidence(int(found["rank"][row]), int(found["ts_ns"][row]), int(found["dur_ns"][row]),
                     int(found["span_id"][row]), str(found["name"][row]))
            for row in rows[:20]
        ),
        Change(tasks=found["span_id"][rows].astype(np.int64), task_ns=shown[rows], syncs=_calls(run, found, blocking)),
        "medium" if way == "?" else "high", ceiling_ns=int(shown[rows].sum()),
        measured_ns=max(int(shown[rows[found["rank"][rows] == rank]].sum()) for rank in ranks),
    )  # fmt: skip


def _calls(run: Run, found: dict[str, Any], rows: Ints) -> Ints:
    """The host calls that wait for blocking copies."""
    if not len(rows):
        return np.zeros(0, np.int64)
    calls = run.columns(
        "SELECT DISTINCT l.src_span_id FROM link l JOIN span s ON s.span_id = l.src_span_id "
        "WHERE list_contains(?, l.dst_span_id) AND s.kind = 'runtime'",
        [found["span_id"][rows].tolist()],
    )["src_span_id"]
    return np.unique(calls.astype(np.int64))
