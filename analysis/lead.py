"""What the host does after a synchronising call, and how much of it the call is to blame for.

While calls block, the host loses the lead that would hide its own work. Without a step's calls it
would be ahead by all the time they blocked while the device worked; as long as that lasts, what the
host needs after a call until it issues again is the call's. Reading the loss once, at the end of a
step, is normal: what the host does between two steps is its own, but for what a launch usually
takes. The same holds where no steps are recorded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.gaps import Gaps
from analysis.intervals import Intervals, Ints
from analysis.issue import Tasks


def after_syncs(
    gaps: Gaps, did: Tasks, syncs: tuple[Ints, Ints, Ints], work: Intervals, steps: Ints, long_ns: int
) -> tuple[Intervals, Ints]:
    """The host's time in gaps that follows a synchronising call and is the call's, and which call it is.

    `syncs` are starts, ends and ids; `steps` start and end of each; `long_ns` what a slow launch takes the host.
    """
    mine, last = _following(gaps, did, syncs[1])
    begins, ends, ids = (column[np.argsort(syncs[1], kind="stable")] for column in syncs)
    issued = gaps.issued[mine]
    begin = np.maximum(gaps.starts[mine], ends[last])
    lost = work.within(begins[last], ends[last])
    between = np.searchsorted(steps[:, 0], ends[last], "right") != np.searchsorted(steps[:, 0], issued, "right")
    between = between | (len(steps) == 0)
    shared = _shared(begin, issued - begin, ~between, Intervals.union_of(syncs[0], syncs[1]) & work, steps)
    lost = np.where(between, np.minimum(lost, long_ns), np.maximum(lost, shared))
    end = np.minimum(issued, begin + lost)
    keep = end > begin
    return Intervals(begin[keep], end[keep]), ids[last[keep]]


def _following(gaps: Gaps, did: Tasks, sync_ends: Ints) -> tuple[Ints, Ints]:
    """Gaps whose task is the first that the host issued after a call, and the place of that call by its end."""
    mine = np.flatnonzero(gaps.linked)
    ends = np.sort(sync_ends)
    if not len(ends):
        return mine[:0], mine[:0]
    issued = gaps.issued[mine]
    times = np.unique(did.issued[did.linked])
    at = np.searchsorted(times, did.issued[gaps.task[mine]]) - 1  # the launch before this one
    before = np.where(at >= 0, times[at], np.iinfo(np.int64).min) if len(times) else issued
    last = np.searchsorted(ends, issued, side="right") - 1
    after = (last >= 0) & (ends[last] > before)
    return mine[after], last[after]


def _shared(begin: Ints, wanted: Ints, inside: NDArray[np.bool_], blocked: Intervals, steps: Ints) -> Ints:
    """How much of each wanted time the calls of its step can have cost, first come, first served."""
    if not len(steps):
        return np.zeros(len(begin), np.int64)
    of_step = np.maximum(np.searchsorted(steps[:, 0], begin, "right") - 1, 0)
    wanted = np.where(inside, np.maximum(wanted, 0), 0)
    before = np.cumsum(wanted) - wanted
    first = np.searchsorted(of_step, np.arange(len(steps)))
    before -= np.append(before, 0)[first][of_step]
    credit = blocked.within(steps[:, 0], steps[:, 1])[of_step]
    left: Ints = np.maximum(credit - before, 0)
    return left
