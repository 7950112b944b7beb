"""Whether a series climbs or falls from some night on: leaks, ageing, and many small steps in one direction.

A leak is noise with a long memory to the test for a step (analysis/regression/change_point.py). And noise with a long
memory looks like a leak. So a slope is judged as a step is. The series is explained as noise of some memory around one
level. It is also explained as the same around a level that begins to climb on some night. Both are fitted from the same
family of noises, slow walks among them. The evidence is how much better the second explains, in log likelihood.

Two rules guard it against single bad nights. The last four nights lie beyond nine in ten of the nights before the climb
began. What the climb amounts to by now is a size that is spoken of.

What so much evidence is worth was measured on sixteen kinds of noise (docs/power.md). Noise alone brings more than x in
hardly more than ``exp(2 - 0.7 x)`` of the nights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.regression.change_point import BEFORE, WINDOW, Floats, Ints, noises, tamed

#: Nights that a climb needs: fewer are a step.
NIGHTS = 5
LEAST = BEFORE + NIGHTS
#: The last nights that all have to lie beyond what was usual, and how much of what was usual.
_LAST, _USUAL = 4, 0.9


@dataclass(frozen=True)
class Climbs:
    """The best climb of each of several windows of one length."""

    evidence: Floats
    start: Ints  # the first night of the climb
    slope: Floats  # of the logarithm, a night
    error: Floats  # standard error of the slope
    nights: int
    clear: NDArray[np.bool_]  # whether the last nights lie beyond what was usual

    @property
    def p(self) -> Floats:
        """How often noise alone brings so much evidence."""
        return np.where(self.clear, np.exp(np.minimum(2 - 0.7 * self.evidence, 0.0)), 1.0)

    @property
    def total(self) -> Floats:
        """What the climb amounts to on the last night, of the logarithm."""
        return np.asarray(self.slope * (self.nights - self.start))


@dataclass(frozen=True)
class _Design:
    inverse: Floats  # noise x night x night: what is left of a window after its level
    toward: Floats  # noise x night x start: what a climb takes away, before its length
    length: Floats  # noise x start
    least: Floats  # noise


@lru_cache(2 * WINDOW)
def _design(n: int) -> _Design:
    starts = np.arange(BEFORE, n - NIGHTS + 1)
    climb = np.maximum(np.arange(n)[None, :] - starts[:, None] + 1, 0).astype(np.float64)
    made = noises(n)
    toward = np.stack([each @ climb.T for each in made.inverse])
    length = np.sqrt(np.einsum("sn,fns->fs", climb, toward))
    return _Design(made.inverse, toward, length, made.least)


def climbs(windows: Floats) -> Climbs:
    """The best climb or fall in each row; rows have the same length, of at least LEAST nights."""
    rows, n = windows.shape
    made, calm = _design(n), tamed(windows)
    rest = ((calm @ made.inverse) * calm).sum(2).T + made.least
    along = (calm @ made.toward).transpose(1, 0, 2) / made.length
    left = np.maximum(rest[..., None] - np.square(along), made.least[:, None])
    kind, place = np.divmod(left.reshape(rows, -1).argmin(1), made.length.shape[1])
    every = np.arange(rows)
    least, size = left[every, kind, place], made.length[kind, place]
    slope = along[every, kind, place] / size
    start = np.asarray(place + BEFORE)
    return Climbs(
        n / 2 * np.log(rest.min(1) / least), start, slope, np.sqrt(least / max(n - 3, 1)) / size, n,
        _clear(windows * np.sign(slope)[:, None], start),
    )  # fmt: skip


def _clear(upward: Floats, start: Ints) -> NDArray[np.bool_]:
    """Whether each of the last nights lies beyond nine in ten of the nights before the climb."""
    nights = np.arange(upward.shape[1])
    usual = np.sort(np.where(nights[None, :] < start[:, None], upward, np.inf), axis=1)
    place, every = _USUAL * (start - 1), np.arange(len(upward))
    low = np.floor(place).astype(np.int64)
    under, over = usual[every, low], usual[every, np.ceil(place).astype(np.int64)]
    return np.asarray(upward[:, -_LAST:].min(1) > under + (place - low) * (over - under))
