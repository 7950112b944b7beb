"""Kernels that take much longer than their likes, and how much of that nothing else explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import SIGMA, Floats, identity, kernels, ordinals, step_slowdown, usual
from npulens.analysis.device.kinds import Bools
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.run import Run

#: See the limits of the detector slow_tail, which says where they come from.
LEAST_SHARE, DEVIATIONS, LEAST_NS, TAIL_SHARE = 0.2, 5.0, 2_000, 0.4

#: Slow in this share of the steps, a place in the step is slow by itself.
SAME_PLACE = 0.8


class Bounds(NamedTuple):
    """What makes an outlier."""

    least_share: float = LEAST_SHARE
    deviations: float = DEVIATIONS
    least_ns: float = LEAST_NS
    tail_share: float = TAIL_SHARE


def usual_tail(run: Run) -> Ints:
    """The tail by the usual bounds."""
    return tail(run, Bounds())


def without_tail(run: Run) -> Ints:
    """How long each kernel takes without what it takes too long: a stall is told once, whatever the kernel is."""
    found: Ints = run.get(kernels).dur - run.get(usual_tail)
    return found


def tail(run: Run, bounds: Bounds) -> Ints:
    """What each kernel takes too long, in ns; 0 for those that are no outlier."""
    excess = _excess(run)
    out = _beyond(run, bounds, excess, bounds.deviations * SIGMA * run.get(usual).mad)
    same = run.get(identity)
    number = np.maximum(same, 0)
    share = np.bincount(number, out & (same >= 0)) / np.maximum(1, np.bincount(number, same >= 0))
    out &= share[number] <= bounds.tail_share if len(share) else out
    return np.where(out, np.nan_to_num(excess), 0).astype(np.int64)


def spread(run: Run, bounds: Bounds) -> int:
    """What kernels take beyond the median of their kind and its least share, in ns, whether or not the kind varies.

    Where this is much and the tail is not, calls of a kind differ too much to tell outliers.
    """
    excess = _excess(run)
    out = _beyond(run, bounds, excess, np.zeros(len(excess)))
    return int(excess[out].sum())


def _beyond(run: Run, bounds: Bounds, excess: Floats, vary: Floats) -> Bools:
    """Kernels that exceed the bounds and what their kind varies by, where neither place nor a collective tells why."""
    with np.errstate(invalid="ignore"):
        least = np.maximum(bounds.least_share * run.get(usual).median, vary)
        out: Bools = np.isfinite(excess) & (excess > np.maximum(least, bounds.least_ns))
    out &= ~_placed(run, out) & ~_contended(run, out)
    return out


def _excess(run: Run) -> Floats:
    """What each kernel takes beyond the median of its kind that neither the clock nor its step explains."""
    every, normal, clock = run.get(kernels), run.get(usual), run.get(clocked)
    with np.errstate(invalid="ignore"):
        found: Floats = every.dur - clock.cut - normal.median * np.maximum(1.0, run.get(step_slowdown))
    return found


def _placed(run: Run, out: Bools) -> Bools:
    """Kernels whose place in the step is slow in (nearly) every step, of three at least."""
    every, place = run.get(kernels), run.get(ordinals)
    if not out.any():
        return out
    _, group = np.unique(combined(every.rank, every.kind, place), return_inverse=True)
    group = group.ravel()
    count = np.bincount(group)
    found: Bools = (place >= 0) & (count >= 3)[group] & (np.bincount(group, out) >= SAME_PLACE * count)[group]
    return found


def overlapping(run: Run) -> Bools:
    """Kernels that run beside a collective for half of their time or more."""
    every = run.get(kernels)
    beside = np.zeros(len(every), np.bool_)
    for rank in run.ranks:
        mine, busy = every.on(rank), run.activity(rank).communication
        if busy is not None and len(every.ts[mine]):
            begin, length = every.ts[mine], every.dur[mine]
            beside[mine] = 2 * busy.within(begin, begin + length) >= np.maximum(1, length)
    return beside


def _contended(run: Run, out: Bools) -> Bools:
    """Outliers of kinds that are mostly slow beside a collective and hardly ever without one."""
    if not out.any():
        return out
    same, beside = np.maximum(run.get(identity), 0), overlapping(run)

    def share(where: Bools) -> Floats:
        """How many kernels of each one's kind are slow among these."""
        size = int(same.max()) + 1
        found: Floats = np.bincount(same[where], out[where], size) / np.maximum(
            1, np.bincount(same[where], minlength=size)
        )
        return found[same]

    contended: Bools = out & beside & (share(beside) >= 0.5) & (share(~beside) < 0.1)
    return contended
