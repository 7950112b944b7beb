"""Whether all kernels changed by one factor, as they do when the clock of the cores changes.

A slower clock stretches every kernel alike: thirty contributions of 3 % each are then one cause. The factor is that of
all kernels together. It counts as common where

* it explains at least `EXPLAINED` of what the kernels changed by, kernels that came or went included;
* no more kernels lie outside their own interval around it than chance puts there. Stamps of whole microseconds hide
  less than one of each kernel, and that is no difference;
* at least `LEAST` kernels moved the same way as it, each beyond its own interval; else a single kernel would do.

Without intervals nothing is known of the noise, and then no factor is said to be common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: What the contribution of all these kernels is called.
ALIKE = "kernels_alike"
#: The share of the change that the factor must explain.
EXPLAINED = 0.8
#: Kernels that must have moved for certain.
LEAST = 3
#: Of 100 sides whose kernels do share a factor, so many may be missed because intervals miss by chance.
_MISSED = 0.01


@dataclass(frozen=True)
class Moved:
    """A kernel in the mean window of both sides, and how far the interval of its change reaches."""

    base_ns: int
    head_ns: int
    reach_ns: float | None
    blur_ns: float = 0.0  # what the steps of the clock may hide


def common_factor(kernels: Sequence[Moved], others_ns: int, alpha: float) -> float | None:
    """By what share of its time every kernel changed; None where they did not change alike.

    ``others_ns``: what kernels that only one side has, or that have other names, changed by. ``alpha``: how often an
    interval misses."""
    base = np.array([one.base_ns for one in kernels], np.float64)
    delta = np.array([one.head_ns - one.base_ns for one in kernels], np.float64)
    reach = np.array([np.nan if one.reach_ns is None else one.reach_ns for one in kernels], np.float64)
    blur = np.array([one.blur_ns for one in kernels], np.float64)
    known = np.isfinite(reach)
    changed = float(np.abs(delta).sum()) + others_ns
    if known.sum() < LEAST or not changed:
        return None
    factor = float(delta.sum() / base.sum())
    apart = np.abs(delta - factor * base)
    unexplained = float(apart.sum()) + others_ns
    sure = known & (np.abs(delta) > reach) & (np.sign(delta) == np.sign(factor))
    outside = int((known & (apart > reach + blur)).sum())
    chance = _by_chance(int(known.sum()), alpha)
    alike = unexplained <= (1 - EXPLAINED) * changed and outside <= chance and int(sure.sum()) >= LEAST
    return factor if alike else None


def _by_chance(count: int, alpha: float) -> int:
    """So many of ``count`` intervals miss at most, but for one time in 100."""
    so_far = 0.0
    for missed in range(count + 1):
        so_far += math.comb(count, missed) * alpha**missed * (1 - alpha) ** (count - missed)
        if so_far >= 1 - _MISSED:
            return missed
    return count
