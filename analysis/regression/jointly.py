"""Pairs of base and head judged for all metrics of a task at once.

Told is how often chance alone moves any of them so far.

The parts of a step are many, and each has its own noise. Judged one by one, each would get a share of the alarms that a
task may raise. Ten pairs cannot earn so small a share: their signed ranks never go below 0.002.

If nothing changed, which of a pair is base and which is head is chance. So the sides of whole pairs are exchanged in
all ways, for all metrics together. Each time the largest of their Student's t counts (Westfall and Young 1993). The
p-value of a metric is the share of exchanges with a larger one. The chance of any false alarm in a task is then at most
the level. Neither the noise nor how the metrics hang together changes that. The step, its computing and its kernels
cost no more than the freest of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: More pairs than this are exchanged at random, so often: the p-value 0.01 is then known to within 0.001.
_ALL, _DRAWN = 12, 8191
#: Differences from equal t that come from rounding alone.
_ROUNDING = 1e-9


def together(logs: Sequence[Sequence[float]]) -> list[float]:
    """For each metric its p-value: ``logs`` holds log(head / base) of the same pairs for each."""
    values = np.asarray(logs, np.float64)
    if not values.size or values.shape[1] < 2:
        return [1.0] * len(logs)
    signs = _signs(values.shape[1])
    largest = _students(values, signs).max(axis=1)
    own = _students(values, np.ones((1, values.shape[1])))[0]
    return [float(np.mean(largest >= t - _ROUNDING * max(t, 1.0))) for t in own]


def _students(values: Floats, signs: Floats) -> Floats:
    """|t| of each metric under each exchange. Squares do not change under an exchange, so only means are computed."""
    n = values.shape[1]
    means = signs @ values.T / n
    spread = np.maximum((values**2).mean(axis=1) - means**2, 0.0) * n / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.abs(means) / np.sqrt(spread / n)
    return np.asarray(np.nan_to_num(found, nan=0.0, posinf=1e12))


def _signs(pairs: int) -> Floats:
    """Every exchange of so many pairs, or many of them; what was measured is the first."""
    if pairs <= _ALL:
        return np.array([[1.0 - 2 * (code >> place & 1) for place in range(pairs)] for code in range(1 << pairs)])
    drawn = np.random.default_rng(0).integers(0, 2, (_DRAWN, pairs)) * 2.0 - 1
    return np.concatenate((np.ones((1, pairs)), drawn))
