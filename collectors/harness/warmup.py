"""Calls before the measurement, until they stop getting faster.

They are kept in the result: the first ones hold compilation, tuning and allocation, which somebody pays for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npulens.collectors.harness.steady import midmean

WINDOW = 10
#: So many windows in a row must agree.
WINDOWS = 3
AGREEMENT = 0.02
MIN_CALLS = 50


@dataclass(frozen=True)
class WarmUp:
    """The calls of the warm-up in ns, and whether they settled before patience ran out."""

    samples: tuple[int, ...]
    settled: bool


def warm_up(call: Callable[[], int], min_calls: int = MIN_CALLS, patience_s: float = 60.0) -> WarmUp:
    """Calls until settled; ``call`` runs once, waits for the device and returns its ns."""
    taken: list[int] = []
    until = time.monotonic() + patience_s
    while not (len(taken) >= min_calls and settled(taken)):
        if time.monotonic() > until:
            return WarmUp(tuple(taken), False)
        taken.append(call())
    return WarmUp(tuple(taken), True)


def settled(samples: Sequence[int]) -> bool:
    """Whether the last windows agree."""
    if len(samples) < WINDOW * WINDOWS:
        return False
    last = samples[len(samples) - WINDOW * WINDOWS :]
    levels = [midmean(last[i : i + WINDOW]) for i in range(0, len(last), WINDOW)]
    return max(levels) - min(levels) <= AGREEMENT * min(levels)
