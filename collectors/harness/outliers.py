"""Samples far from the others: reported, never removed.

A call that takes ten times as long is what a user waits for. Taking such calls away before P99 is computed gives a
P99 of the calls that went well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npulens.collectors.harness.quantiles import rank

#: Tukey's fence: so many interquartile ranges beyond the quartiles (Exploratory Data Analysis, 1977).
REACH = 1.5
KEPT = 100  # how many are listed; all are counted


@dataclass(frozen=True)
class Outliers:
    """What lies beyond Tukey's fences."""

    low_fence: float
    high_fence: float
    count: int
    share: float
    at: tuple[int, ...]  # positions in the series, the farthest first
    values: tuple[int, ...]


def outliers(samples: Sequence[int]) -> Outliers:
    """Every sample beyond the fences; an even series has fences at its quartiles and may have none."""
    if not samples:
        return Outliers(0.0, 0.0, 0, 0.0, (), ())
    ordered = sorted(samples)
    first, third = (ordered[rank(level, len(ordered)) - 1] for level in (0.25, 0.75))
    low, high = first - REACH * (third - first), third + REACH * (third - first)
    middle = ordered[rank(0.5, len(ordered)) - 1]
    beyond = [i for i, sample in enumerate(samples) if not low <= sample <= high]
    beyond.sort(key=lambda i: (-abs(samples[i] - middle), i))
    listed = beyond[:KEPT]
    return Outliers(
        low, high, len(beyond), len(beyond) / len(samples), tuple(listed), tuple(samples[i] for i in listed)
    )
