"""Silent stretches in which the host asks for the end of one task again and again, by no call that waits.

DeepEP reads a number that its kernel writes into the host's memory; others ask an event. Such a stretch ends with the
last task that a stream had been given. It may end shortly before it: a kernel writes first. One stretch of real work
may end so by chance. Several of very unequal length do not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.replay.rows import Silence, Tasks

#: A stretch ends so long before the end of its task at most, or after it; real captures show -70 to 200 us.
_EARLY_NS, _LATE_NS = 100_000, 250_000
#: So many stretches of one stream, and no more likely by chance than that.
_MANY, _CHANCE = 3, 1e-4
#: Their lengths lie so many times further apart than where they end: their task decides how long they are.
_UNEQUAL = 10


def polled(tasks: Tasks, silence: Silence, open_: NDArray[np.bool_]) -> Ints:
    """Of each stretch, if it is `open_`, the task that the host waited for in it; -1: none."""
    found = np.full(len(silence.ts), -1, np.int64)
    if not open_.any() or tasks.itself.any():
        return found
    launched = np.flatnonzero(tasks.source >= 0)
    lanes = [_of_lane(tasks, silence, open_, launched[tasks.lane[launched] == lane])
             for lane in np.unique(tasks.lane[launched])]  # fmt: skip
    for _, hits in sorted((one for one in lanes if one[0] > -math.log(_CHANCE)), key=lambda one: -one[0]):
        found = np.where(found < 0, hits, found)
    return found


def _of_lane(tasks: Tasks, silence: Silence, open_: NDArray[np.bool_], mine: Ints) -> tuple[float, Ints]:
    """How unlikely it is that the stretches end with tasks of one stream by chance, as a logarithm; and the tasks."""
    begin, end = silence.ts, silence.end
    mine = mine[np.argsort(tasks.source_ts[mine], kind="stable")]
    last = np.searchsorted(tasks.source_ts[mine], begin, "right") - 1
    task = mine[np.maximum(last, 0)]
    inside = open_ & (last >= 0) & (tasks.end[task] > begin) & (tasks.ts[task] < end)
    after = end - tasks.end[task]
    hit = inside & (after >= -_EARLY_NS) & (after <= _LATE_NS)
    hits = np.where(hit, task, -1)
    if hit.sum() < _MANY:
        return 0.0, hits
    length = (end - begin)[hit]
    if np.ptp(length) < max(_UNEQUAL * np.ptp(after[hit]), _EARLY_NS + _LATE_NS):
        return 0.0, hits
    unlikely = np.log(length / (_EARLY_NS + _LATE_NS)).sum() - inside.sum() * math.log(2)
    return float(unlikely), hits


def at_work(tasks: Tasks, begin: Ints, end: Ints, share: float) -> NDArray[np.bool_]:
    """In which of some stretches the device works for so large a share."""
    return np.asarray(Intervals.union_of(tasks.ts, tasks.end).within(begin, end) >= share * (end - begin))
