"""Whether a series of timings has one level, and from where on.

The series is cut into bins, each told by its midmean (the mean of its middle half). Unlike a median it does not jump
between the two values of a bimodal series. Unlike a mean it does not follow the stalls. How much bins differ by chance
is told by neighbouring bins, which a step or a slow drift hardly touches. A step or a drift counts if it is both larger
than chance and larger than ``TOLERANCE``.

cold start   the first bins are slower (or faster) and the rest is level: they are left out, but kept in the result
throttled    from some bin on it is slower and stays so
drift        it moves all the way
unsteady     it changes otherwise
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BINS = 20
MIN_PER_BIN = 5
#: Changes of the level below this share are not called changes.
TOLERANCE = 0.02
#: A step must exceed its standard error so many times: the best of 19 places is looked at, several times over.
SIGNIFICANCE = 6.0
#: A change in the first bins up to this share of the series is a cold start.
COLD_SHARE = 0.3


@dataclass(frozen=True)
class Steadiness:
    """The verdict on a series; ``kept_from`` is the first sample that counts."""

    state: str  # steady, cold_start, throttled, drift, unsteady, too_few
    kept_from: int
    changed_at: int | None  # the sample at which the level changes
    change: float | None  # how much, as a share of the level before it
    levels: tuple[float, ...]  # of the bins

    @property
    def counts(self) -> bool:
        """Whether a headline number may be given."""
        return self.state in ("steady", "cold_start")


@dataclass(frozen=True)
class _Step:
    place: int  # the first bin after it
    change: float
    strength: float
    better_than_line: bool


def steadiness(samples: Sequence[int]) -> Steadiness:
    """The verdict on all samples of a series in the order they were taken."""
    if len(samples) < BINS * MIN_PER_BIN:
        return Steadiness("too_few", 0, None, None, ())
    levels = bin_levels(samples)
    step = _step(levels)
    if step is None:
        return Steadiness("steady", 0, None, None, tuple(levels))
    at = _edge(step.place, len(samples))
    if step.place <= COLD_SHARE * BINS and len(samples) - at >= BINS * MIN_PER_BIN:
        rest = steadiness(samples[at:])
        if rest.state in ("steady", "cold_start"):
            return Steadiness("cold_start", at + rest.kept_from, at + rest.kept_from, step.change, tuple(levels))
    if not step.better_than_line:
        return Steadiness("drift", 0, None, step.change, tuple(levels))
    slower_to_the_end = step.change > 0 and _step(levels[step.place :]) is None
    return Steadiness("throttled" if slower_to_the_end else "unsteady", 0, at, step.change, tuple(levels))


def bin_levels(samples: Sequence[int]) -> list[float]:
    """The midmean of each bin."""
    return [midmean(samples[_edge(i, len(samples)) : _edge(i + 1, len(samples))]) for i in range(BINS)]


def midmean(samples: Sequence[int]) -> float:
    """The mean of the middle half."""
    ordered = sorted(samples)
    cut = len(ordered) // 4
    middle = ordered[cut : len(ordered) - cut]
    return sum(middle) / len(middle)


def _edge(place: int, n: int) -> int:
    return place * n // BINS


def _step(levels: Sequence[float]) -> _Step | None:
    """The best place to cut the levels in two, if the two halves differ by more than chance and tolerance."""
    n = len(levels)
    if n < 4:
        return None
    noise = _noise(levels)
    best = max(range(1, n), key=lambda k: _strength(levels, k, noise))
    before, after = _mean(levels[:best]), _mean(levels[best:])
    change = after / before - 1 if before else 0.0
    strength = _strength(levels, best, noise)
    if strength < SIGNIFICANCE or abs(change) < TOLERANCE:
        return None
    split = sum((x - before) ** 2 for x in levels[:best]) + sum((x - after) ** 2 for x in levels[best:])
    return _Step(best, change, strength, split <= _line_residual(levels))


def _strength(levels: Sequence[float], k: int, noise: float) -> float:
    error = noise * math.sqrt(1 / k + 1 / (len(levels) - k))
    return abs(_mean(levels[k:]) - _mean(levels[:k])) / error


def _noise(levels: Sequence[float]) -> float:
    """The standard deviation of one level by chance, from the differences of neighbours; never quite 0."""
    steps = sorted(abs(b - a) for a, b in zip(levels, levels[1:]))
    middle = (steps[(len(steps) - 1) // 2] + steps[len(steps) // 2]) / 2
    return max(1.4826 * middle / math.sqrt(2), 1e-6 * abs(_mean(levels)), 1e-12)


def _line_residual(levels: Sequence[float]) -> float:
    n = len(levels)
    middle, mean = (n - 1) / 2, _mean(levels)
    slope = sum((i - middle) * (x - mean) for i, x in enumerate(levels)) / sum((i - middle) ** 2 for i in range(n))
    return sum((x - mean - slope * (i - middle)) ** 2 for i, x in enumerate(levels))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
