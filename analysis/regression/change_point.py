"""Where a series changed its level, if it did, with a null that autocorrelation does not fool.

A night resembles the one before it: machines warm up, neighbours come and go, disks fill. To a test that takes nights
for independent, every such wave is a change. Here each series is explained twice: as noise of some memory around one
level, and as noise of some memory around two levels with a step between two nights. How much memory is not assumed but
fitted, on both sides alike, among independent nights, autoregressive ones and slow walks under independent ones
(generalised least squares on logarithms). The evidence for a step is how much better the second explains, in log
likelihood. A step on quiet nights has much of it; a series that wanders has little, because a wandering explanation
needs no step.

What so much evidence is worth was measured, not derived: over Gaussian, heavy-tailed, autocorrelated, wandering,
two-level and weekly noise and every length from 5 nights on, the evidence that noise alone brings exceeds x in at most
``exp(3 - 0.7 x)`` of the series. That is ``p``; docs/power.md measures it again.

Single wild nights are drawn in to their neighbours first (a running median of five): two nights in a row are a step,
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
#: Of a normal distribution, the standard deviation over the median distance from the median of five nights, squared
#: in: 1.4826 for the median distance, 1.25 because a night is one of its own five neighbours.
_SPREAD = 1.4826 * 1.25
_SURE = 0.95


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

    @property
    def p(self) -> Floats:
        """How often noise alone brings so much evidence, at most."""
        return p_value(self.evidence)

    def between(self, row: int) -> tuple[int, int]:
        """The first and last night on which the new level may have begun, 95 times in 100."""
        left = self.unexplained[row]
        weights = ((left.min() / left) ** (self.nights / 2)).sum(0)
        order = np.argsort(-weights, kind="stable")
        enough = int(np.searchsorted(np.cumsum(weights[order]), _SURE * weights.sum())) + 1
        held = self.splits[order[:enough]]
        return int(held.min()), int(held.max())


def p_value(evidence: Floats) -> Floats:
    """What so much evidence is worth; the module's own text says where the numbers come from."""
    return np.asarray(np.minimum(1.0, np.exp(3.0 - 0.7 * evidence)))


@dataclass(frozen=True)
class _Design:
    """For windows of one length, what turns nights into residuals and steps, for all noise at once.

    Both are scaled so that the sum of squares, to the power -nights/2, is the likelihood: noise of another memory
    has another determinant, and its nights count for more or less.
    """

    splits: Ints
    residual: Floats  # nights x (family x nights)
    step: Floats  # nights x (family x splits)
    scale: Floats  # family
    length: Floats  # family x splits: of a step of 1, in units of the noise

    @property
    def least(self) -> Floats:
        """What is left at least: nights are not known better than that."""
        return np.asarray(_RESOLUTION**2 * len(self.residual) * self.scale**2)


@lru_cache(WINDOW * 2)
def _design(n: int) -> _Design:
    splits = np.arange(BEFORE, n - AFTER + 1)
    steps = (np.arange(n) >= splits[:, None]).astype(np.float64)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    residual, step, scale, length = [], [], [], []
    for rho, white in _FAMILY:
        root = np.linalg.cholesky((1 - white) * rho**apart + white * np.eye(n) if rho else np.eye(n))
        whiten = np.linalg.inv(root)
        level = whiten.sum(1) / np.linalg.norm(whiten.sum(1))
        centred = whiten - np.outer(level, level @ whiten)
        along = steps @ centred.T
        lengths = np.linalg.norm(along, axis=1)
        scale.append(float(np.exp(np.log(np.diag(root)).mean())))  # the determinant, shared out among the nights
        residual.append(scale[-1] * centred.T)
        step.append(scale[-1] * (along / lengths[:, None] @ centred).T)
        length.append(lengths)
    return _Design(splits, np.hstack(residual), np.hstack(step), np.array(scale), np.array(length))


def scan(windows: Floats) -> Scan:
    """The best step in each row; rows have the same length, of at least LEAST nights."""
    rows, n = windows.shape
    made, family = _design(n), len(_FAMILY)
    calm = tamed(windows)
    rest = _squares(calm, made) + made.least
    along = (calm @ made.step).reshape(rows, family, -1)
    left = np.maximum(rest[..., None] - np.square(along), made.least[:, None])
    kind, place = np.divmod(left.reshape(rows, -1).argmin(1), len(made.splits))
    every = np.arange(rows)
    least, size = left[every, kind, place], made.length[kind, place]
    noise = np.sqrt(least / max(n - 3, 1)) / made.scale[kind]
    shift = along[every, kind, place] / made.scale[kind] / size
    evidence = n / 2 * np.log(rest.min(1) / least)
    return Scan(evidence, made.splits[place], shift, noise / size, made.splits, left, n)


def _squares(calm: Floats, made: _Design) -> Floats:
    """What is left of the nights around one level, for each noise."""
    found = calm @ made.residual
    return np.asarray(np.square(found, out=found).reshape(len(calm), len(_FAMILY), -1).sum(2))


def contrast(window: Floats, split: int) -> tuple[float, float, float]:
    """How far the nights from ``split`` on lie from those before: shift, standard error, degrees of freedom.

    The memory of the noise is the one that explains the window best without a step.
    """
    n = len(window)
    made, calm = _design(n), tamed(window[None])
    rest = _squares(calm, made)[0] + made.least
    kind, place = int(rest.argmin()), split - BEFORE
    along = float((calm @ made.step).reshape(len(_FAMILY), -1)[kind, place])
    size, freedom = float(made.scale[kind] * made.length[kind, place]), max(n - 2, 1)
    return along / size, math.sqrt(max(rest[kind] - along**2, made.least[kind]) / freedom) / size, float(freedom)


def tamed(windows: Floats) -> Floats:
    """The same with wild nights drawn in to the median of their five neighbours, ends mirrored."""
    padded = np.pad(windows, ((0, 0), (2, 2)), mode="reflect")
    around = _median_of_five(*(padded[:, i : i + windows.shape[1]] for i in range(5)))
    away = windows - around
    reach = _WILD * _SPREAD * np.median(np.abs(away), axis=1, keepdims=True)
    return np.asarray(around + np.clip(away, -reach, reach))


def _median_of_five(a: Floats, b: Floats, c: Floats, d: Floats, e: Floats) -> Floats:
    a, b = np.minimum(a, b), np.maximum(a, b)
    c, d = np.minimum(c, d), np.maximum(c, d)
    a, c = np.minimum(a, c), np.maximum(a, c)  # a is the least of four
    b, d = np.minimum(b, d), np.maximum(b, d)  # d is the greatest of four
    return np.asarray(np.maximum(np.minimum(b, c), np.minimum(np.maximum(b, c), e)))


def t_reach(confidence: float, freedom: float) -> float:
    """Standard errors on each side of an estimate."""
    return float(special.stdtrit(freedom, 0.5 + confidence / 2))
