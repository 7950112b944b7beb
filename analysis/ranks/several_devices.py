"""Several devices in one process: whoever asks what a rank's device did gets the work of all of them as one.

Such a rank counts as idle only while none of its devices works, so that one that waits hides behind another. Profilers
file each device under a process of its own that ends with its number, such as GPU 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_

import numpy as np

from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.run import Run
from npulens.analysis.say import duration, share

#: A device with less work than this share of the busiest one's is not worth a word.
PART = 0.05

#: Streams of ranks that have several: of most runs there are none, and no span need be looked at.
_STREAMS = r"""
    SELECT track FROM track WHERE kind = 'stream' AND regexp_matches(process, '\D\d+$')
    QUALIFY count(DISTINCT process) OVER (PARTITION BY rank) > 1
"""
_WORK = """
    SELECT s.rank, t.process, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns FROM span s JOIN track t USING (track)
    WHERE list_contains($1, s.track) AND s.kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')
    ORDER BY s.rank, t.process
"""


def devices(run: Run) -> dict[int, dict[str, Intervals]]:
    """rank -> device -> when it worked, of ranks whose process has several; by name."""
    found: dict[int, dict[str, Intervals]] = {}
    streams = [track for (track,) in run.con.execute(_STREAMS).fetchall()]
    if not streams:
        return found
    rows = run.columns(_WORK, [streams])
    for rank in np.unique(rows["rank"]).tolist():
        mine = rows["rank"] == rank
        found_of = {
            str(name): Intervals.union_of(rows["ts_ns"][of_it], rows["end_ns"][of_it])
            for name in dict.fromkeys(rows["process"][mine].tolist())
            if (of_it := mine & (rows["process"] == name)).any()
        }  # fmt: skip
        least = PART * max(one.total() for one in found_of.values())
        much = {name: one for name, one in found_of.items() if one.total() >= least}
        if len(much) > 1:
            found[rank] = much
    return found


def worked(run: Run, rank: int) -> dict[str, Intervals]:
    """When each of a rank's several devices worked within its window, by name; nothing where it has one."""
    window = run.window(rank)
    if window is None:
        return {}
    inside = Intervals.union_of(np.array(window[:1]), np.array(window[1:]))
    return {name: one & inside for name, one in run.get(devices).get(rank, {}).items()}


def in_turn(each: Mapping[str, Intervals]) -> Intervals:
    """When the one of some devices that works most does not, and another does."""
    return reduce(or_, each.values(), EMPTY) - max(each.values(), key=Intervals.total, default=EMPTY)


def idle_ns(run: Run, rank: int) -> dict[str, int]:
    """How long each of a rank's several devices idles, by name; nothing where it has one."""
    window = run.window(rank)
    if window is None:
        return {}
    begin, end = window
    return {name: one.gaps(begin, end).total() for name, one in run.get(devices).get(rank, {}).items()}


def told(run: Run) -> Iterator[tuple[str, str]]:
    """What is said of each such rank, in English and Chinese."""
    for rank in run.get(devices):
        idle, window = idle_ns(run, rank), run.window(rank)
        if window is None:
            continue
        whole = window[1] - window[0]
        each = [(name, duration(ns), share(ns / whole)) for name, ns in idle.items()]
        yield (
            f"rank {rank} worked on {len(idle)} devices, and figures here are of all of them as one, which idles only "
            f"while none works. Of {duration(whole)} "
            + ", ".join(f"{name} idles {ns} ({part})" for name, ns, part in each),
            f"rank {rank} 使用了 {len(idle)} 个设备，这里的数字把它们当作一个：只有全部空闲才算空闲。"
            f"在 {duration(whole)} 中，"
            + "，".join(f"{name} 空闲 {ns}（{part}）" for name, ns, part in each),
        )


def hidden(run: Run, least: float) -> tuple[str, str] | None:
    """Why nobody may say that nothing idles: a device that waits while another works; None: none does for long."""
    for rank in run.get(devices):
        window, idle = run.window(rank), idle_ns(run, rank)
        if window is None or not idle:
            continue
        name = max(idle, key=lambda one: idle[one])
        more = idle[name] - run.activity(rank).work().gaps(*window).total()
        if more >= max(1.0, least * (window[1] - window[0])):
            return (
                f"{name} idles for {duration(more)} while another device of rank {rank} works; why was not looked for",
                f"rank {rank} 的其他设备工作时，{name} 空闲 {duration(more)}，其原因未检查",
            )
    return None
