"""At which share of its rated clock each kernel ran.

The counter 'AI Core Freq' holds from one sample to the next. A device that has nothing to do lowers its clock, so a
sample alone proves nothing. Kernels count as slowed only if their likes at the rated clock were faster, where such
likes exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.device.abilities import CUBE, VECTOR, device
from npulens.analysis.device.kernels import ENOUGH, Floats, identity, kernels, middle
from npulens.analysis.device.kinds import Bools
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: A clock within 3 % of its rating is at it: samples are whole MHz and boards differ (harness rule of throttling).
RATED_SHARE = 0.97
#: Less than this part of the stretch that the clock predicts, and the clock is not what kernels felt.
FELT_SHARE = 0.5


@dataclass(frozen=True)
class Clocked:
    """Per kernel: the share of the rated clock (1 where unknown or not slowed) and the time a full clock would save."""

    share: Floats
    cut: Ints
    compared: Bools  # whether likes at the rated clock confirm it


def clocked(run: Run) -> Clocked:
    """How much the clock slowed each kernel."""
    every = run.get(kernels)
    share = np.ones(len(every))
    cores = every.kinds.column("core").map(lambda core: core in CUBE or core in VECTOR).flags()
    on_core = every.of(cores & ~every.kinds.memset)
    for rank in run.ranks:
        here = device(run, rank)
        own = every.on(rank)
        mine = own.start + np.flatnonzero(on_core[own] & (every.dur[own] > 0))
        if here is not None and here.clock_mhz and len(mine):
            share[mine] = np.minimum(1.0, mean_mhz(run, rank, every.ts[mine], every.end[mine]) / here.clock_mhz)
    low = share < RATED_SHARE
    share[~low] = 1.0
    normal = _at_rating(run, low)
    with np.errstate(invalid="ignore"):
        compared = low & np.isfinite(normal)
        stretch = np.where(compared, np.maximum(0, every.dur - normal), every.dur * (1 - share))
    cut = np.minimum(stretch, every.dur * (1 - share)).astype(np.int64)
    for rank in run.ranks:
        own = every.on(rank)
        mine = own.start + np.flatnonzero(compared[own])
        if len(mine) and cut[mine].sum() < FELT_SHARE * (every.dur[mine] * (1 - share[mine])).sum():
            mine = own.start + np.flatnonzero(low[own])
            share[mine], cut[mine] = 1.0, 0
    return Clocked(share, cut, compared)


def mean_mhz(run: Run, rank: int, begins: Ints, ends: Ints) -> Floats:
    """The clock of each window, averaged over time; infinite before the first sample."""
    found = run.of_rank(
        "SELECT rank, ts_ns, max(value) AS value FROM sample WHERE rank BETWEEN ? AND ? "
        "AND counter ILIKE '%core freq%' AND value > 0 GROUP BY rank, ts_ns ORDER BY rank, ts_ns", rank,
    )  # fmt: skip
    at, mhz = found["ts_ns"].astype(np.int64), found["value"].astype(np.float64)
    if not len(at):
        return np.full(len(begins), np.inf)
    done = np.concatenate(([0.0], np.cumsum(np.diff(at) * mhz[:-1])))

    def until(moments: Ints) -> Floats:
        index = np.maximum(np.searchsorted(at, moments, side="right") - 1, 0)
        total: Floats = done[index] + (moments - at[index]) * mhz[index]
        return total

    mean = (until(ends) - until(begins)) / np.maximum(1, ends - begins)
    return np.where(begins < at[0], np.inf, mean)


def _at_rating(run: Run, low: Bools) -> Floats:
    """Per kernel: the median of its likes at the rated clock, of any rank; NaN where they are too few."""
    every = run.get(kernels)
    found = np.full(len(every), np.nan)
    if not low.any():
        return found
    same = run.get(identity)
    good = ~low & (same >= 0)
    if not good.any():
        return found
    groups, where, count = np.unique(same[good], return_inverse=True, return_counts=True)
    medians = np.full(len(groups), np.nan)
    medians[where.ravel()] = middle(every.dur[good].astype(np.float64), same[good])
    medians[count < ENOUGH // 2 + 1] = np.nan
    at = np.minimum(np.searchsorted(groups, same), len(groups) - 1)
    hit = (groups[at] == same) & low
    found[hit] = medians[at[hit]]
    return found
