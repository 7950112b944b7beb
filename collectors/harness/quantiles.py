"""Percentiles of all samples, each with an interval that supposes nothing about their distribution.

A percentile is the order statistic at rank ceil(p n): a value that was measured, never one between two. Its interval
are two order statistics as well. The number of samples below the true percentile is binomial. So the ranks follow from
n and p alone (David and Nagaraja, Order Statistics, 7.1). The upper end is never the largest sample, because then one
stall would be the bound. Two-sided 95 % so need 54 samples for P90, 555 for P99, 5,570 for P99.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVELS = (0.5, 0.9, 0.99, 0.999)
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Quantile:
    """One percentile; ``high`` is None where there are too few samples to bound it from above."""

    level: float
    value: int
    low: int
    high: int | None
    samples: int

    @property
    def needed(self) -> int:
        """Samples from which on it has an interval."""
        return needed(self.level)


def quantiles(samples: Sequence[int], levels: Sequence[float] = LEVELS) -> list[Quantile]:
    """The percentiles of samples in ns; none of them is left out."""
    if not samples:
        return []
    ordered = sorted(samples)
    return [_quantile(ordered, level) for level in levels]


def needed(level: float, confidence: float = CONFIDENCE) -> int:
    """The fewest samples whose largest but one bounds a percentile from above."""
    tail = (1 - confidence) / 2
    n = 2
    while level**n + n * (1 - level) * level ** (n - 1) > tail:
        n += 1
    return n


def rank(level: float, n: int) -> int:
    """The rank, from 1, of a percentile among n samples; 0.9 of 10 is the ninth although 0.9 is no binary number."""
    return max(1, min(n, math.ceil(level * n - 1e-9)))


def bounds(level: float, n: int, confidence: float = CONFIDENCE) -> tuple[int, int | None]:
    """The ranks, from 1, between which the true percentile lies; the upper one None where it would be the last."""
    tail = (1 - confidence) / 2
    below = _cumulative(n, level)
    low = 1
    while low < n and below[low] <= tail:  # P(at most low samples lie below it)
        low += 1
    high = next((r for r in range(rank(level, n), n) if 1 - below[r - 1] <= tail), None)
    return low, high


def _quantile(ordered: Sequence[int], level: float) -> Quantile:
    n = len(ordered)
    low, high = bounds(level, n)
    top = None if high is None else ordered[high - 1]
    return Quantile(level, ordered[rank(level, n) - 1], ordered[low - 1], top, n)


def _cumulative(n: int, p: float) -> list[float]:
    """P(X <= k) of a binomial for every k: through logarithms, because 0.999 ** 100,000 is no problem but n! is."""
    total, found = 0.0, []
    for k in range(n + 1):
        log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        total += math.exp(log + k * math.log(p) + (n - k) * math.log1p(-p))
        found.append(min(1.0, total))
    return found
