"""Copies between host and device during which the device computes nothing.

## What it measures

Memory copies between host and device. The exposed part of a copy is what neither kernels nor collectives of the rank
cover. Per direction: how many, how large, how fast against the link, and whether they block the host or come from
pageable memory. The operator and line of code that issue the most exposed one are named. Copies within the device are
not meant.

## Why it costs

A copy in the compute stream holds up every kernel behind it; a blocking one holds up the host as well.

## What to do

`pin_memory=True` in the DataLoader and `.to(device, non_blocking=True)`. Copy the next batch on a stream of its own
while this one computes (a prefetcher). Bring small values back together and late instead of one `.item()` at a time.
Keep on the device what is copied there every step (masks, position ids, constants). One large copy beats many small.

## Limits of the method

torch_npu records size and bandwidth from Level2 on; below it works from durations and says `?`. Exposed is not
blocking: the device may have had nothing to do anyway. So the saving is what the replay of the run gives back, and
never more than the exposed part. A copy is hidden behind no more than the rank computes beside no copy. Pinned memory
makes it no faster than its size at the rate of the link. So the saving is at most both together. Where they leave
nothing, it is what copying nothing would give back. Level0 names no direction: copies of unknown direction are a
finding of their own.

A driver may copy without a task of the device. Where none was recorded, blocking copy calls of the host stand for them.
What counts is the time in which the host sits in one and the device idles. Of calls that only start a copy nothing
tells how long it took. Then it is not measured.

## References

PyTorch, pinned memory: https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html; nsys expert rules
`cuda_memcpy_async` (pageable) and `cuda_memcpy_sync`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.capability import setting
from npulens.analysis.device.abilities import device
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Value, Words
from npulens.analysis.idle.blame import blame, only_step, said, similar_ranks
from npulens.analysis.idle.copy_calls import copy_calls
from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.origin import origins
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import EMPTY, LONGEST, Ints
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns

NEEDS = ("copies", "kernels")

_COPIES = """
    SELECT s.span_id, s.rank, s.ts_ns, s.dur_ns, s.name, coalesce(t.direction, '?') AS direction,
           coalesce(t.bytes, -1) AS bytes, coalesce(t.blocking, false) OR s.name ILIKE '%pageable%' AS blocking,
           s.name ILIKE '%pinned%' AND NOT s.name ILIKE '%pageable%' AS pinned
    FROM span s LEFT JOIN transfer t ON t.span_id = s.span_id
    WHERE s.kind = 'memcpy' AND coalesce(t.direction, '?') IN ('h2d', 'd2h', '?') ORDER BY s.span_id
"""
WAYS = {"h2d": ("from host to device", "主机到设备"), "d2h": ("from device to host", "设备到主机"),
        "?": ("of unknown direction", "方向未知")}  # fmt: skip


class Limits(limits.Limits):
    pass

_ROOM = "[[ Hiding gives back {room_ns} of each step at most: no more is computed beside no copy. Copy less.]]"
_ROOM_ZH = "[[掩盖至多每步收回 {room_ns}：没有拷贝时的计算只有这么多。请减少拷贝量。]]"
_TITLE = "Rank {ranks}: copies {way} are not hidden, {exposed_ns} of each step ({count} of them), from {origin}"
_TITLE_ZH = "rank {ranks}：{way_zh}的 {count} 次拷贝没有被掩盖，每步 {exposed_ns}，来自 {origin_zh}"
_TOLD = (
    "[[ Blocking the host or from pageable memory: {blocking}.]][[ The longest moves {longest_bytes} at "
    "{bandwidth_bytes_per_s}[[ (the link: {link_bytes_per_s})]].]]"
)
_TOLD_ZH = (
    "[[其中 {blocking} 次阻塞主机或来自非锁页内存。]]"
    "[[最长一次为 {longest_bytes}，速率 {bandwidth_bytes_per_s}[[（链路 {link_bytes_per_s}）]]。]]"
)

TEXT = {
    "en": {
        "found": Words(
            _TITLE,
            "Pin the memory (pin_memory=True) and copy with non_blocking=True on a stream of its own while the device "
            "computes; merge small copies." + _ROOM + _TOLD,
        ),
        "pinned": Words(
            _TITLE,
            "The memory of the host is pinned already. Copy on a stream of its own while the device computes; copy "
            "less, or merge small copies." + _ROOM + _TOLD,
        ),
        "alone": Words(
            _TITLE,
            "Nothing is computed that a copy could hide behind. Pin the memory (pin_memory=True): then it moves at the "
            "rate of the link. Copy less, in a smaller type, or only what changed." + _TOLD,
        ),
        "alone_pinned": Words(
            _TITLE,
            "Nothing is computed that a copy could hide behind, and the memory of the host is pinned already. Copy "
            "less, in a smaller type, or only what changed." + _TOLD,
        ),
        "host": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while the host sits in {calls} "
            "blocking copies ({code}), the longest {longest_ns}",
            "No copy was recorded on the device: this is told by the calls of the host. Pin the memory "
            "(pin_memory=True) and copy with non_blocking=True on a stream of its own while the device computes. "
            "Prepare the next inputs before the device runs out of work, and keep on it what is copied again.",
        ),
    },
    "zh": {
        "found": Words(
            _TITLE_ZH,
            "请使用锁页内存（pin_memory=True）与 non_blocking=True，在独立的流上与计算并行拷贝，并合并小拷贝。"
            + _ROOM_ZH + _TOLD_ZH,
        ),
        "pinned": Words(
            _TITLE_ZH,
            "主机内存已经是锁页内存。请在独立的流上与计算并行拷贝，减少拷贝量，或合并小拷贝。" + _ROOM_ZH + _TOLD_ZH,
        ),
        "alone": Words(
            _TITLE_ZH,
            "没有任何计算可以掩盖拷贝。请使用锁页内存（pin_memory=True），使拷贝达到链路速率；并减少拷贝量，"
            "使用更小的数据类型，或只拷贝变化的部分。" + _TOLD_ZH,
        ),
        "alone_pinned": Words(
            _TITLE_ZH,
            "没有任何计算可以掩盖拷贝，主机内存也已经是锁页内存。请减少拷贝量，使用更小的数据类型，或只拷贝变化的部分。"
            + _TOLD_ZH,
        ),
        "host": Words(
            "rank {ranks}：主机停在 {calls} 次阻塞式拷贝（{code}）中，设备每步因此空闲 {idle_ns}（{idle_share}），"
            "最长一次 {longest_ns}",
            "设备侧没有拷贝记录，以上由主机调用得出。请使用锁页内存（pin_memory=True）与 non_blocking=True，"
            "在独立的流上与计算并行拷贝。在设备跑空之前备好下一批输入，反复拷贝的内容留在设备上。",
        ),
    },
}


def exposed(run: Run, found: dict[str, Any]) -> tuple[Ints, NDArray[np.bool_]]:
    """What of each copy runs while the rank neither computes nor communicates, and whether any of it does.

    A profiler of whole microseconds gives a short copy no length: where it lies tells whether something hid it.
    """
    shown, bare = np.zeros(len(found["span_id"]), np.int64), np.zeros(len(found["span_id"]), np.bool_)
    for rank in run.ranks:
        mine = np.flatnonzero(found["rank"] == rank)
        if not len(mine):
            continue
        did = run.activity(rank)
        busy = (did.computing or EMPTY) | (did.communication or EMPTY)
        begins, length = found["ts_ns"][mine].astype(np.int64), found["dur_ns"][mine].astype(np.int64)
        shown[mine] = length - busy.within(begins, begins + length)
        bare[mine] = (shown[mine] > 0) | (length == 0) & (busy.within(begins, begins + 1) == 0)
    return shown, bare


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    yield from _of_host(run)
    if unseen := run.get(copy_calls).unseen:
        count = sum(unseen.values())
        raise NotMeasured(
            f"how long copies took: the host started {count}, and none was recorded on the device",
            f"拷贝耗时：主机发起了 {count} 次拷贝，而设备侧没有任何记录", setting(run, "copies"),
        )  # fmt: skip
    found = run.columns(_COPIES)
    shown, bare = exposed(run, found)
    for way in WAYS:
        rows = np.flatnonzero((found["direction"] == way) & bare)
        for ranks, those in by_rank(found["rank"][rows].astype(np.int64), shown[rows]):
            yield _candidate(run, found, shown, way, ranks, rows[those], limits)


def _of_host(run: Run) -> Iterator[Candidate]:
    """One candidate for each group of ranks whose host copies alike, where the device recorded no copy."""
    pieces, mine = run.get(idle), run.get(copy_calls).pieces
    for ranks in similar_ranks({rank: ns for rank, ns in pieces.totals(mine).items() if ns}):
        told = blame(run, pieces, ranks, mine)
        calls, of = np.unique(pieces.host[told.pieces], return_inverse=True)
        idle_in = np.bincount(of.ravel(), (pieces.end - pieces.start)[told.pieces])
        longest = int(calls[idle_in.argmax()])
        numbers: dict[str, Value] = {
            **{name: value for name, value in told.numbers.items() if not name.startswith("code")},
            "calls": -(-len(calls) // (run.step_count * len(ranks))), "longest_ns": int(idle_in.max()),
            "code": names(run, np.array([longest], np.int64))[longest],
        }  # fmt: skip
        yield Candidate(
            "copy_exposed", "host", numbers, told.evidence, Change(syncs=calls), ceiling_ns=told.measured_ns,
            measured_ns=told.measured_ns,
        )  # fmt: skip


def _candidate(
    run: Run, found: dict[str, Any], shown: Ints, way: str, ranks: tuple[int, ...], rows: Ints, limits: Limits
) -> Candidate:  # fmt: skip
    rows = rows[np.argsort(-shown[rows], kind="stable")]
    worst = int(rows[0])
    longest = int(rows[found["dur_ns"][rows].argmax()])
    size, length = int(found["bytes"][longest]), int(found["dur_ns"][longest])
    here = device(run, int(found["rank"][worst]))
    timed = rows[shown[rows] > 0]
    blocks = found["blocking"].astype(np.bool_)
    blocking = int(blocks[rows].sum())
    pinned = 2 * int(shown[rows[found["pinned"][rows].astype(np.bool_)]].sum()) > shown[rows].sum()
    saved, free = _reachable(run, found, shown, timed)
    short = free < int(shown[timed].sum()) - _faster(run, found, shown, timed).sum()
    text = ("alone_pinned" if pinned else "alone") if not free else "pinned" if pinned else "found"
    if saved.sum() < limits.min_share * run.get(steady_ns) <= shown[rows].sum():
        saved = shown[timed]  # of copying nothing at all
    return Candidate(
        "copy_exposed", text,
        {
            "room_ns": free // run.step_count // len(ranks) if short and free else None,
            "way": WAYS[way][0], "way_zh": WAYS[way][1], "ranks": said(ranks),
            "count": -(-len(rows) // (run.step_count * len(ranks))),
            "exposed_ns": int(shown[rows].sum()) // run.step_count // len(ranks),
            "blocking": -(-blocking // (run.step_count * len(ranks))) or None,
            **origins(run, int(found["span_id"][worst])),
            "longest_bytes": size if size >= 0 else None,
            "bandwidth_bytes_per_s": size / length * 1e9 if size >= 0 and length else None,
            "link_bytes_per_s": here.links.get("pcie") if here else None,
            **only_step(run, found["rank"][rows].astype(np.int64), found["ts_ns"][rows].astype(np.int64), shown[rows]),
        },
        tuple(
            Evidence(int(found["rank"][row]), int(found["ts_ns"][row]), int(found["dur_ns"][row]),
                     int(found["span_id"][row]), str(found["name"][row]))
            for row in timed[:20]
        ),
        Change(
            tasks=found["span_id"][timed].astype(np.int64), task_ns=saved,
            syncs=_calls(run, found, timed[blocks[timed]]),
        ),
        "medium" if way == "?" else "high", ceiling_ns=int(saved.sum()),
        measured_ns=max(int(shown[rows[found["rank"][rows] == rank]].sum()) for rank in ranks),
    )  # fmt: skip


def _faster(run: Run, found: dict[str, Any], shown: Ints, rows: Ints) -> Ints:
    """What of each copy pinned memory gives back at most: all but its size at the rate of the link.

    All of it where no rate or size is told, nothing of a copy whose memory is pinned already.
    """
    size = found["bytes"][rows].astype(np.float64)
    links = {rank: here.links.get("pcie", 0.0) if (here := device(run, rank)) else 0.0 for rank in run.ranks}
    link = np.array([links[rank] for rank in found["rank"][rows].tolist()], np.float64)
    told = (size >= 0) & (link > 0)
    least = np.where(told, size * 1e9 / np.where(told, link, 1), 0).astype(np.int64)
    return np.where(found["pinned"][rows].astype(np.bool_), 0, np.maximum(0, shown[rows] - least))


def _reachable(run: Run, found: dict[str, Any], shown: Ints, rows: Ints) -> tuple[Ints, int]:
    """What of each copy faster memory and hiding give back at most, and how long the ranks compute beside no copy."""
    saved, every = _faster(run, found, shown, rows), 0
    left = shown[rows] - saved
    for rank in np.unique(found["rank"][rows]).tolist():
        mine, did = found["rank"][rows] == rank, run.activity(rank)
        free = (did.surely_computing - (did.copy or EMPTY)).total() if did.computing is not None else LONGEST
        every += free
        if (rest := int(left[mine].sum())) > 0:
            saved[mine] += np.floor(left[mine] * min(1.0, free / rest)).astype(np.int64)
    return saved, every


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
