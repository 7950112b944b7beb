"""The noise floor of a metric: by how much two equal sides differ in a night, learned from base against base.

Nothing smaller than the floor is worth a word: a nightly job that compares base with itself has found as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

#: With fewer comparisons of equal sides the floor is not known.
LEAST = 5
_NORMAL = 1.4826
_SURE = 0.9


@dataclass(frozen=True)
class Floor:
    """What two equal sides differ by."""

    spread: float  # robust standard deviation of the log-ratio of one night
    at_most: float  # the share that a night of equal sides exceeds 1 time in 100, with 90 % confidence
    n: int


def noise_floor(log_ratios: Sequence[float]) -> Floor | None:
    """The floor from log-ratios of equal sides, one a night; None where they are too few."""
    logs = np.asarray(log_ratios, np.float64)
    logs = logs[np.isfinite(logs)]
    if len(logs) < LEAST:
        return None
    # Equal sides differ by nothing on average: the distance is taken from zero, not from the median.
    robust = _NORMAL * float(np.median(np.abs(logs)))
    spread = max(robust, float(np.sqrt(np.mean(np.square(_clipped(logs, robust))))))
    unsure = math.sqrt(len(logs) / float(special.chdtri(len(logs), _SURE)))
    return Floor(spread, math.expm1(float(special.ndtri(0.995)) * spread * unsure), len(logs))


def margin(floor: Floor | None, least: float) -> float:
    """The smallest change worth a word: what was asked for, or the floor where that is higher."""
    return least if floor is None else max(least, floor.at_most)


def _clipped(logs: NDArray[np.float64], robust: float) -> NDArray[np.float64]:
    return np.clip(logs, -4 * robust, 4 * robust) if robust else logs
