"""Where a series changed its level, if it did, with a null that autocorrelation does not fool.

A night resembles the one before it: machines warm up, neighbours come and go, disks fill. To a test that takes nights
for independent, every such wave is a change. Here each series is explained twice. One explanation is noise of some
memory around one level. The other is the same around two levels with a step between two nights. How much memory is not
assumed but fitted, on both sides alike, by generalised least squares on logarithms. The choice is among independent
nights, autoregressive ones and slow walks under independent ones. The evidence for a step is how much better the second
explains, in log likelihood. A step on quiet nights has much of it; a series that wanders has little, because a
wandering explanation needs no step.

What so much evidence is worth was measured, not derived. The noises were Gaussian, heavy-tailed, autocorrelated,
wandering, two-level and weekly, at every length from 5 nights on. The evidence that noise alone brings exceeds x in
hardly more than ``exp(3 - 0.7 (x - 20 / nights))`` of the series. A few nights fit anything. That is ``p``;
docs/power.md measures again how often it says 1 % or less.

Single wild nights are drawn in to their neighbours first (a running median of five). Two nights in a row are a step,
one is not. The nights between which the step lies are those that hold 95 % of its likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Nights that a level needs before the step and after it: one wild night is none.
BEFORE, AFTER = 3, 2
LEAST = BEFORE + AFTER
#: Nights of one window: longer ones would find slow ageing and call it a step.
WINDOW = 60
#: Differences below a thousandth are nobody's change: what never varied has noise of that size.
_RESOLUTION = 1e-3
#: Noise that is considered: correlation of neighbouring nights, and the share of the variance that has no memory.
_FAMILY = (
    (0.0, 0.0), (0.3, 0.0), (0.5, 0.0), (0.7, 0.0), (0.85, 0.0), (0.95, 0.0),
    (0.9, 0.3), (0.9, 0.6), (0.98, 0.3), (0.98, 0.6), (0.98, 0.85),
)  # fmt: skip
#: A night farther than this many robust deviations from its neighbours is drawn in to there.
_WILD = 2.5
#: Of a normal distribution, the standard deviation over the median distance from the median of five nights, squared in.
#: It is 1.4826 for the median distance, and 1.25 because a night is one of its own five neighbours.
_SPREAD = 1.4826 * 1.25
_SURE = 0.95
#: Logarithms closer than this are of one value.
_SAME = 1e-12
#: So many last nights alone are a step only beyond so many deviations of the nights before. Two or three bad nights in
#: a row are none, and the next night tells. Measured over the noises of docs/power.md.
_FAR = {2: 7.0, 3: 4.5, 4: 4.0}
#: A step of fewer nights and of fewer deviations than these has to be so many times less likely to be noise. The last
#: that applies counts. Levels that come and go, as two modes do, lie that near. Chosen so that modes that last a
#: fortnight give at most 1 alarm in 100 nights. It was 0.96 and 0.88 in 700 series each. And 3 % under noise of 0.5 %
#: is then seen within eight nights by nine series of ten.
_DOUBTS = ((20, 5.5, 6.0), (30, 4.2, 20.0), (20, 4.5, 50.0))
#: The deviation of a few nights is often found too small: a distance counts for less by this share over their number.
_UNSURE = 1.5


@dataclass(frozen=True)
class Scan:
    """The best step of each of several windows of one length."""

    evidence: Floats
    split: Ints  # the first night of the new level
    shift: Floats  # of the logarithm
    error: Floats  # standard error of the shift
    splits: Ints  # what was tried
    unexplained: Floats  # rows x family x splits: what is left of the nights; its power -nights/2 is the likelihood
    nights: int
    spread: Floats  # of the nights before the step

    @property
    def p(self) -> Floats:
        """How often noise alone brings so much evidence, at most."""
        return p_value(self.evidence, self.nights)

    @property
    def doubted(self) -> Floats:
        """The same of a step that no night has seen yet: in its first nights it has to lie farther off."""
        since, p = self.nights - self.split, self.p
        away, unit = np.abs(self.shift), self.spread * (1 + _UNSURE / self.split)
        doubt = np.ones(len(p))
        for young, near, factor in _DOUBTS:
            doubt[(since < young) & (away < near * unit)] = factor
        far = np.select([since == lately for lately in _FAR], list(_FAR.values()), 0.0)
        return np.where(away < far * unit, 1.0, np.minimum(1.0, doubt * p))

    def between(self, row: int) -> tuple[int, int]:
        """The first and last night on which the new level may have begun, 95 times in 100."""
        left = self.unexplained[row]
        weights = ((left.min() / left) ** (self.nights / 2)).sum(0)
        order = np.argsort(-weights, kind="stable")
        enough = int(np.searchsorted(np.cumsum(weights[order]), _SURE * weights.sum())) + 1
        held = self.splits[order[:enough]]
        return int(held.min()), int(held.max())


def p_value(evidence: Floats, nights: int) -> Floats:
    """What so much evidence is worth; the module's own text says where the numbers come from."""
    return np.asarray(np.minimum(1.0, np.exp(3.0 - 0.7 * (evidence - 20.0 / nights))))


@dataclass(frozen=True)
class Noises:
    """For windows of one length, what is left of them after a level, for all noise at once.

    It is scaled so that what is left, to the power -nights/2, is the likelihood. Noise of another memory has another
    determinant, and its nights count for more or less.
    """

    inverse: Floats  # family x nights x nights: of each covariance, with any level taken out, scaled
    least: Floats  # family: what is left at least, for nights are not known better than that


@lru_cache(WINDOW * 2)
def noises(n: int) -> Noises:
    """The noise that is considered, for windows of ``n`` nights."""
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    inverses, scales = [], []
    for rho, white in _FAMILY:
        covariance = (1 - white) * rho**apart + white * np.eye(n) if rho else np.eye(n)
        inverse = np.linalg.inv(covariance)
        level = inverse.sum(1)
        scales.append(np.exp(np.linalg.slogdet(covariance)[1] / n))
        inverses.append(scales[-1] * (inverse - np.outer(level, level) / level.sum()))
    return Noises(np.stack(inverses), _RESOLUTION**2 * n * np.array(scales))


@dataclass(frozen=True)
class _Design:
    """What turns nights into what is left of them and into steps."""

    splits: Ints
    inverse: Floats  # nights x (family x nights)
    length: Floats  # family x splits: of a step of 1, in units of the noise
    least: Floats


@lru_cache(WINDOW * 2)
def _design(n: int) -> _Design:
    splits, made = np.arange(BEFORE, n - AFTER + 1), noises(n)
    of_all_pairs = np.cumsum(np.cumsum(made.inverse[:, ::-1, ::-1], 1), 2)[:, ::-1, ::-1]  # of nights from here on
    lengths = np.sqrt(np.diagonal(of_all_pairs, axis1=1, axis2=2)[:, splits])
    return _Design(splits, np.hstack(list(made.inverse)), lengths, made.least)


def _explained(calm: Floats, made: _Design) -> tuple[Floats, Floats]:
    """What is left of the nights around one level, and what each step would take away: its square root, with sign."""
    pull = (calm @ made.inverse).reshape(len(calm), len(_FAMILY), -1)
    rest = np.einsum("rfn,rn->rf", pull, calm) + made.least
    # The pulls of all nights are 0 together: those since a split are what those before it lack.
    steps = np.cumsum(pull, axis=2, out=pull)[..., BEFORE - 1 : calm.shape[1] - AFTER]
    return rest, steps / -made.length


def scan(windows: Floats) -> Scan:
    """The best step in each row; rows have the same length, of at least LEAST nights."""
    rows, n = windows.shape
    made = _design(n)
    rest, along = _explained(tamed(windows), made)
    left = np.maximum(rest[..., None] - np.square(along), made.least[:, None])
    kind, place = np.divmod(left.reshape(rows, -1).argmin(1), len(made.splits))
    every = np.arange(rows)
    least, size = left[every, kind, place], made.length[kind, place]
    split = made.splits[place]
    return Scan(
        n / 2 * np.log(rest.min(1) / least), split, along[every, kind, place] / size,
        np.sqrt(least / max(n - 3, 1)) / size, made.splits, left, n, _spread(windows, split),
    )  # fmt: skip


def _spread(windows: Floats, split: Ints) -> Floats:
    """The robust deviation of the nights before each split."""
    before = np.where(np.arange(windows.shape[1])[None, :] < split[:, None], windows, np.nan)
    away = np.abs(before - np.nanmedian(before, axis=1, keepdims=True))
    return np.asarray(1.4826 * np.nanmedian(away, axis=1))


def contrast(window: Floats, split: int) -> tuple[float, float, float]:
    """How far the nights from ``split`` on lie from those before: shift, standard error, degrees of freedom.

    The memory of the noise is the one that explains the window best without a step.
    """
    made, freedom = _design(len(window)), max(len(window) - 2, 1)
    (rest,), (along,) = _explained(tamed(window[None]), made)
    kind, place = int(rest.argmin()), split - BEFORE
    step, size = float(along[kind, place]), float(made.length[kind, place])
    return step / size, math.sqrt(max(rest[kind] - step**2, made.least[kind]) / freedom) / size, float(freedom)


def tamed(windows: Floats) -> Floats:
    """Distances from the usual night; wild ones are drawn in to the median of their five neighbours, ends mirrored."""
    padded = np.pad(windows, ((0, 0), (2, 2)), mode="reflect")
    around = _median_of_five(*(padded[:, i : i + windows.shape[1]] for i in range(5)))
    away = windows - around
    reach = _WILD * np.maximum(_SPREAD * np.median(np.abs(away), axis=1, keepdims=True), ticks(windows))
    calm = around + np.clip(away, -reach, reach)
    return np.asarray(calm - np.median(calm, axis=1, keepdims=True))


def ticks(windows: Floats) -> Floats:
    """The unit that the values of each row come in, which noise is never below: the least difference of any two."""
    apart = np.diff(np.sort(windows, axis=1), axis=1)
    least = np.where(apart > _SAME, apart, np.inf).min(axis=1, keepdims=True)
    return np.where(np.isfinite(least), least, 0.0)


def _median_of_five(a: Floats, b: Floats, c: Floats, d: Floats, e: Floats) -> Floats:
    a, b = np.minimum(a, b), np.maximum(a, b)
    c, d = np.minimum(c, d), np.maximum(c, d)
    a, c = np.minimum(a, c), np.maximum(a, c)  # a is the least of four
    b, d = np.minimum(b, d), np.maximum(b, d)  # d is the greatest of four
    return np.asarray(np.maximum(np.minimum(b, c), np.minimum(np.maximum(b, c), e)))


def t_reach(confidence: float, freedom: float) -> float:
    """Standard errors on each side of an estimate."""
    return float(special.stdtrit(freedom, 0.5 + confidence / 2))
