"""How busy a rank's device was, slice by slice: the background that evidence is drawn on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.intervals import Intervals
from npulens.analysis.run import Run


@dataclass(frozen=True)
class Strip:
    """Shares of equal slices of [begin_ns, end_ns) in which the device did each kind of work."""

    rank: int
    begin_ns: int
    end_ns: int
    computing: tuple[float, ...]
    communication: tuple[float, ...]
    copy: tuple[float, ...]
    steps: tuple[tuple[int, int, int], ...]  # (step, start, end) of the steps that reach into it


def strip(run: Run, rank: int, begin: int, end: int, slices: int = 240) -> Strip:
    """One rank's strip. A window shorter than its slices has as many slices as nanoseconds."""
    slices = max(1, min(slices, end - begin))
    edges = begin + (end - begin) * np.arange(slices + 1, dtype=np.int64) // slices
    did = run.activity(rank)
    steps = tuple((step.step, step.ts_ns, step.end_ns) for step in run.steps[rank]
                  if step.ts_ns < end and step.end_ns > begin)  # fmt: skip

    def shares(part: Intervals | None) -> tuple[float, ...]:
        if part is None or end <= begin:
            return ()
        inside = part.within(edges[:-1], edges[1:]) / np.maximum(edges[1:] - edges[:-1], 1)
        return tuple(round(float(share), 3) for share in inside)

    return Strip(rank, begin, end, shares(did.computing), shares(did.communication), shares(did.copy), steps)
