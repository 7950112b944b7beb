"""Six kinds of noise, each of about one standard deviation, one series a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int, int], Floats]

#: The memory of autocorrelated noise, and the tails of heavy ones: those that fool the rivals most.
RHO, FREEDOM = 0.6, 2.5


def gaussian(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Independent and normal."""
    return rng.standard_normal((rows, n))


def heavy(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Student's t with 2.5 degrees of freedom: now and then a night is five or ten deviations off."""
    return np.asarray(rng.standard_t(FREEDOM, (rows, n)) / np.sqrt(FREEDOM / (FREEDOM - 2)))


def autocorrelated(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """AR(1) with 0.6: a slow night follows a slow one."""
    steps = rng.standard_normal((rows, n))
    for night in range(1, n):
        steps[:, night] = RHO * steps[:, night - 1] + np.sqrt(1 - RHO**2) * steps[:, night]
    return steps


def drifting(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """A random walk of 0.15 a night under independent noise of 0.5: ageing, filling disks, creeping heat."""
    walk = np.cumsum(0.15 * rng.standard_normal((rows, n)), axis=1)
    return np.asarray(walk + 0.5 * rng.standard_normal((rows, n)))


def bimodal(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Three nights in ten are two deviations slower: where the processes happened to land."""
    return 2.0 * (rng.random((rows, n)) < 0.3) + 0.5 * rng.standard_normal((rows, n))


def seasonal(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """A week: five days of neighbours, and a weekend two deviations faster; it begins on any day."""
    day = (np.arange(n) + rng.integers(0, 7, (rows, 1))) % 7
    return -2.0 * (day >= 5) + 0.5 * rng.standard_normal((rows, n))


KINDS: dict[str, Noise] = {
    "Gaussian": gaussian, "heavy-tailed": heavy, "autocorrelated": autocorrelated, "drifting": drifting,
    "bimodal": bimodal, "seasonal": seasonal,
}  # fmt: skip
