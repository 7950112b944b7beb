"""How things are: the level of the last nights, and how far a night may lie from it.

Single wild nights do not move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Nights that say how things are; what was a season ago is another story.
NIGHTS = 60
#: Of a normal distribution, the standard deviation over the median distance from the median.
_NORMAL = 1.4826
#: Half the width of the band in deviations: one ordinary night in 370 lies outside.
_BAND = 3.0


@dataclass(frozen=True)
class Baseline:
    """Level, noise and band of a series."""

    level: float  # the median
    spread: float | None  # noise of one night as a share of the level; None: fewer than three nights, or level zero
    low: float | None  # band in which an ordinary night lies
    high: float | None
    n: int


def baseline(values: Sequence[float] | NDArray[np.float64]) -> Baseline | None:
    """The baseline of values that may be part of one, the oldest first; None without any."""
    held = np.asarray(values, np.float64)[-NIGHTS:]
    if not len(held):
        return None
    level = float(np.median(held))
    if len(held) < 3:
        return Baseline(level, None, None, None, len(held))
    # With few values the median distance is too small; the factor makes it right for normal noise (Croux 1992).
    small = len(held) / (len(held) - 0.8)
    deviation = _NORMAL * small * float(np.median(np.abs(held - level)))
    share = deviation / abs(level) if level else None
    return Baseline(level, share, level - _BAND * deviation, level + _BAND * deviation, len(held))
