"""Ranks that drive several devices from one process: every figure of such a rank is of all its devices together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.run import Run
from npulens.analysis.say import share
from npulens.analysis.split import COMPUTING

#: What a profiler files the streams of one device under: a word and the number of the device.
_CALLED = re.compile(r"(.*?)\s*\d+")
_TRACKS = """
SELECT rank, track, coalesce(process, pid) AS device FROM track
WHERE kind = 'stream' AND coalesce(process, pid) IS NOT NULL ORDER BY rank, track
"""
_SPANS = f"""
SELECT ts_ns AS ts, ts_ns + dur_ns AS stop FROM span
WHERE rank = ? AND track IN (SELECT unnest(?::BIGINT[])) AND kind IN {COMPUTING}
"""


@dataclass(frozen=True)
class Several:
    """What each device of one rank computed in the rank's window."""

    rank: int
    devices: tuple[tuple[str, Intervals], ...]
    whole_ns: int

    def any(self) -> Intervals:
        """When at least one of them computes."""
        return reduce(or_, (computing for _, computing in self.devices), EMPTY)

    def in_turn(self) -> Intervals:
        """When the one that computes most does not, and another does."""
        return self.any() - max((computing for _, computing in self.devices), key=Intervals.total)


def several(run: Run) -> tuple[Several, ...]:
    """The ranks whose work lies on several devices."""
    tracks: dict[int, dict[str, list[int]]] = {}
    for rank, track, device in run.con.execute(_TRACKS).fetchall():
        tracks.setdefault(rank, {}).setdefault(device, []).append(track)
    return tuple(
        found for rank, of in tracks.items() if len(of) > 1 and (found := _of(run, rank, of)) is not None
    )  # fmt: skip


def told(run: Run) -> Iterator[tuple[str, str]]:
    """Of the first such rank: how much of the time each of its devices computes."""
    for found in run.get(several)[:1]:
        parts = [(name, share(each.total() / found.whole_ns)) for name, each in found.devices]
        yield (
            f"rank {found.rank} drives {len(parts)} devices. A moment counts as computing where one of them computes: "
            + ", ".join(f"{name} {part}" for name, part in parts),
            f"rank {found.rank} 使用 {len(parts)} 个设备，任一设备在计算即计为计算："
            + "，".join(f"{name} {part}" for name, part in parts),
        )


def _of(run: Run, rank: int, tracks: dict[str, list[int]]) -> Several | None:
    window = run.window(rank)
    calls = {called.group(1) for device in tracks if (called := _CALLED.fullmatch(device))}
    if window is None or len(calls) != 1 or not all(map(_CALLED.fullmatch, tracks)):
        return None
    inside = Intervals.union_of(np.array(window[:1]), np.array(window[1:]))
    devices = []
    for device in sorted(tracks, key=lambda name: (len(name), name)):
        rows = run.columns(_SPANS, [rank, tracks[device]])
        computing = Intervals.union_of(rows["ts"], rows["stop"]) & inside
        if len(computing.starts):
            devices.append((device, computing))
    return Several(rank, tuple(devices), window[1] - window[0]) if len(devices) > 1 else None
