"""Which of a night's alarms stand: of those that do, the expected share of false ones is held down.

A hundred metrics, each wrong once in a hundred nights, give a false alarm every night. Benjamini and Hochberg's rule
(1995) asks more of each the more were looked at, and less the more are true; it holds for metrics that move together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Of the alarms of a night that are raised, the share that may be false.
RATE = 0.05


def discoveries(p_values: Sequence[float], rate: float = RATE) -> list[bool]:
    """For each p-value of everything that was looked at in a night, whether its alarm stands."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    passes = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))
    stand = np.zeros(len(p), bool)
    if len(passes):
        stand[order[: passes[-1] + 1]] = True
    return [bool(each) for each in stand]
