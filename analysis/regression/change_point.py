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
    weights: Floats  # likelihood of each possible split, summing to 1
    splits: Ints

    @property
    def p(self) -> Floats:
        """How often noise alone brings so much evidence, at most."""
        return p_value(self.evidence)

    def between(self, row: int) -> tuple[int, int]:
        """The first and last night on which the new level may have begun, 95 times in 100."""
        order = np.argsort(-self.weights[row], kind="stable")
        enough = int(np.searchsorted(np.cumsum(self.weights[row][order]), _SURE)) + 1
        held = self.splits[order[:enough]]
        return int(held.min()), int(held.max())


def p_value(evidence: Floats) -> Floats:
    """What so much evidence is worth; the module's own text says where the numbers come from."""
    return np.asarray(np.minimum(1.0, np.exp(3.0 - 0.7 * evidence)))


@dataclass(frozen=True)
class _Design:
    """For windows of one length, what turns nights into residuals and steps, for all noise at once."""

    splits: Ints
    residual: Floats  # nights x (family x nights)
    step: Floats  # nights x (family x splits)
    length: Floats  # family x splits: of a step of 1, in units of the noise
    log_det: Floats  # family


@lru_cache(WINDOW * 2)
def _design(n: int) -> _Design:
    splits = np.arange(BEFORE, n - AFTER + 1)
    steps = (np.arange(n) >= splits[:, None]).astype(np.float64)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    residual, step, length, log_det = [], [], [], []
    for rho, white in _FAMILY:
        root = np.linalg.cholesky((1 - white) * rho**apart + white * np.eye(n) if rho else np.eye(n))
        whiten = np.linalg.inv(root)
        level = whiten.sum(1) / np.linalg.norm(whiten.sum(1))
        centred = whiten - np.outer(level, level @ whiten)
        along = steps @ centred.T
        lengths = np.linalg.norm(along, axis=1)
        residual.append(centred.T)
        step.append((along / lengths[:, None] @ centred).T)
        length.append(lengths)
        log_det.append(2 * np.log(np.diag(root)).sum())
    return _Design(splits, np.hstack(residual), np.hstack(step), np.array(length), np.array(log_det))


def scan(windows: Floats) -> Scan:
    """The best step in each row; rows have the same length, of at least LEAST nights."""
    rows, n = windows.shape
    made, family = _design(n), len(_FAMILY)
    calm = tamed(windows)
    rest = np.square(calm @ made.residual).reshape(rows, family, n).sum(2)
    along = (calm @ made.step).reshape(rows, family, -1)
    left = np.maximum(rest[..., None] - along**2, 0.0)
    without = -n / 2 * np.log(rest / n + _RESOLUTION**2) - made.log_det / 2
    with_step = -n / 2 * np.log(left / n + _RESOLUTION**2) - made.log_det[:, None] / 2
    best = with_step.reshape(rows, -1).argmax(1)
    kind, place = np.divmod(best, len(made.splits))
    every = np.arange(rows)
    top = with_step[every, kind, place]
    weights = np.exp(with_step - top[:, None, None]).sum(1)
    size = made.length[kind, place]
    noise = np.sqrt((left[every, kind, place] + n * _RESOLUTION**2) / max(n - 3, 1))
    return Scan(
        top - without.max(1), made.splits[place], along[every, kind, place] / size, noise / size,
        weights / weights.sum(1, keepdims=True), made.splits,
    )  # fmt: skip


def contrast(window: Floats, split: int) -> tuple[float, float, float]:
    """How far the nights from ``split`` on lie from those before: shift, standard error, degrees of freedom.

    The memory of the noise is the one that explains the window best without a step.
    """
    n = len(window)
    made, family = _design(n), len(_FAMILY)
    calm = tamed(window[None])[0]
    rest = np.square(calm @ made.residual).reshape(family, n).sum(1)
    kind = int(np.argmax(-n / 2 * np.log(rest / n + _RESOLUTION**2) - made.log_det / 2))
    place = split - BEFORE
    along = float((calm @ made.step).reshape(family, -1)[kind, place])
    size = float(made.length[kind, place])
    noise = np.sqrt((max(rest[kind] - along**2, 0.0) + n * _RESOLUTION**2) / max(n - 2, 1))
    return along / size, float(noise) / size, float(max(n - 2, 1))


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
