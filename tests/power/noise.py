"""Sixteen kinds of noise, each of about one standard deviation, one series a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int, int], Floats]

#: The memory of autocorrelated noise, and the tails of heavy ones: those that fool other rules most.
RHO, FREEDOM = 0.6, 2.5


def gaussian(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Independent and normal."""
    return rng.standard_normal((rows, n))


def heavy(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Student's t with 2.5 degrees of freedom: now and then a night is five or ten deviations off."""
    return np.asarray(rng.standard_t(FREEDOM, (rows, n)) / np.sqrt(FREEDOM / (FREEDOM - 2)))


def tailed(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Student's t with 5 degrees of freedom: tails as ordinary machines have them."""
    return np.asarray(rng.standard_t(5, (rows, n)) / np.sqrt(5 / 3))


def skewed(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Exponential: never much faster than usual, sometimes much slower."""
    return np.asarray(rng.exponential(1.0, (rows, n)))


def spiked(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Six nights in a hundred are fifteen deviations slower."""
    return np.asarray(rng.standard_normal((rows, n)) + 15.0 * (rng.random((rows, n)) < 0.06))


def autocorrelated(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """AR(1) with 0.6: a slow night follows a slow one."""
    return _remembered(rng, rows, n, RHO)


def lingering(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """AR(1) with 0.85: a slow night is followed by a slow week."""
    return _remembered(rng, rows, n, 0.85)


def _remembered(rng: np.random.Generator, rows: int, n: int, rho: float) -> Floats:
    steps = rng.standard_normal((rows, n))
    for night in range(1, n):
        steps[:, night] = rho * steps[:, night - 1] + np.sqrt(1 - rho**2) * steps[:, night]
    return steps


def drifting(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """A random walk of 0.15 a night under independent noise of 0.5: ageing, filling disks, creeping heat."""
    walk = np.cumsum(0.15 * rng.standard_normal((rows, n)), axis=1)
    return np.asarray(walk + 0.5 * rng.standard_normal((rows, n)))


def bimodal(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Three nights in ten are two deviations slower: where the processes happened to land."""
    return 2.0 * (rng.random((rows, n)) < 0.3) + 0.5 * rng.standard_normal((rows, n))


def rare_mode(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """One night in twenty is four deviations slower: a second mode that is seldom met."""
    return 4.0 * (rng.random((rows, n)) < 0.05) + 0.7 * rng.standard_normal((rows, n))


def lasting_modes(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Two modes two deviations apart, each of which lasts fifteen nights on average."""
    switched = rng.random((rows, n)) < 1 / 15
    mode = (np.cumsum(switched, axis=1) + rng.integers(0, 2, (rows, 1))) % 2
    return 2.0 * mode + 0.5 * rng.standard_normal((rows, n))


def bad_pairs(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Now and then, every thirty nights on average, two nights in a row are five deviations slower."""
    first = rng.random((rows, n + 1)) < 1 / 30
    return np.asarray(0.8 * rng.standard_normal((rows, n)) + 5.0 * (first[:, 1:] | first[:, :-1]))


def seasonal(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """A week: five days of neighbours, and a weekend two deviations faster; it begins on any day."""
    day = (np.arange(n) + rng.integers(0, 7, (rows, 1))) % 7
    return -2.0 * (day >= 5) + 0.5 * rng.standard_normal((rows, n))


def monthly(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """The last three nights of every thirty are three deviations slower; it begins on any day."""
    day = (np.arange(n) + rng.integers(0, 30, (rows, 1))) % 30
    return 3.0 * (day >= 27) + 0.7 * rng.standard_normal((rows, n))


def uneven(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """The noise itself changes: stretches of ten nights on average are three times as noisy as the others."""
    loud = np.cumsum(rng.random((rows, n)) < 0.1, axis=1) % 2
    return np.asarray(0.45 * (1 + 2 * loud) * rng.standard_normal((rows, n)))


def coarse(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Independent and normal, and written down in whole units that are as large as its deviation."""
    return np.asarray(np.round(rng.standard_normal((rows, n)) + rng.random((rows, 1)) - 0.5))


KINDS: dict[str, Noise] = {
    "Gaussian": gaussian, "heavy-tailed": heavy, "tailed": tailed, "skewed": skewed, "spiked": spiked,
    "autocorrelated": autocorrelated, "lingering": lingering, "drifting": drifting, "bimodal": bimodal,
    "rare mode": rare_mode, "lasting modes": lasting_modes, "two bad in a row": bad_pairs, "seasonal": seasonal,
    "monthly": monthly, "uneven": uneven, "coarse": coarse,
}  # fmt: skip
