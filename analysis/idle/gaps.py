"""The gaps of one rank's device: the task that ends each, and when the host was done with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.issue import ENOUGH, Tasks
from npulens.analysis.intervals import Intervals, Ints

#: Ranks whose profiler read the counters of the L2 cache after each kernel.
COUNTS_CACHE = "SELECT rank FROM rank WHERE regexp_matches(settings, '\"_?l2_cache\": *true')"
#: A device's own pause between two queued tasks is shorter (0.02 to 3 us in the real captures);
#: reading the counters took 88 to 97 us in all of them.
_OWN_PAUSE_NS = 40_000
#: Tasks so close belong together: a handful of launches.
_SOON_NS = 200_000


@dataclass(frozen=True)
class Gaps:
    """The gaps of one rank: who ends each, and when the host was done with it."""

    starts: Ints
    ends: Ints
    task: Ints  # index into the rank's tasks, NONE at the end of the window
    linked: NDArray[np.bool_]  # the launch of that task is known
    issued: Ints  # within the gap: before, the host had not issued the task
    launched: Ints  # within the gap, not before `issued`


def gaps(did: Tasks, empty: Intervals, latency_ns: int) -> Gaps:
    """The gaps with the task that ends each, and when it was issued and launched."""
    starts, ends = empty.starts, empty.ends
    at = np.searchsorted(did.starts, ends)
    there = at < len(did.starts)
    there[there] = did.starts[at[there]] == ends[there]
    task = np.where(there, at, NONE)
    linked = there.copy()
    linked[there] = did.linked[at[there]]
    told = _just_launched(did, starts, np.where(there & ~linked, at, NONE))
    launched, issued = ends.copy(), ends.copy()
    mine = task[linked]
    late = np.clip(ends[linked] - latency_ns, did.source_start[mine], did.source_end[mine])
    launched[linked] = late
    issued[linked] = np.where(did.queued[mine], did.issued[mine], late)
    launched[told] = issued[told] = ends[told] - latency_ns
    linked |= told
    launched = np.clip(launched, starts, ends)
    return Gaps(starts, ends, task, linked, np.clip(issued, starts, launched), launched)


def _just_launched(did: Tasks, starts: Ints, task: Ints) -> NDArray[np.bool_]:
    """Which gaps end with a task whose launch is not recorded and yet certain: just before it started.

    The next task of a known launch follows soon or without another gap, and was launched only after this one had
    started. So the host was not ahead, and a device without any work does not let a task wait.
    """
    known = np.flatnonzero(did.linked & ~did.node)
    follows = np.searchsorted(known, task)
    found: NDArray[np.bool_] = np.logical_and(task != NONE, follows < len(known))
    after = known[follows[found]]
    before = np.append(starts[1:], np.iinfo(np.int64).max)[found]  # where the next gap begins
    mine = task[found]
    follows_on = (did.starts[after] <= before) | (did.starts[after] - did.starts[mine] <= _SOON_NS)
    found[found] = follows_on & (did.issued[after] > did.starts[mine])
    return found


def held_ns(did: Tasks, found: Gaps) -> int:
    """How long the device usually waits before a kernel that was queued; 0: no longer than it must."""
    queued = found.linked & (found.launched == found.starts)
    waited = (found.ends - found.starts)[queued]
    waited = waited[waited >= _OWN_PAUSE_NS]
    return int(np.median(waited)) if len(waited) >= ENOUGH and 3 * len(waited) >= queued.sum() else 0


def between(begins: Ints, ends: Ints) -> Intervals:
    """Each [begin, end) that is not empty; they must be disjoint and in order."""
    keep = ends > begins
    return Intervals(begins[keep], ends[keep])
