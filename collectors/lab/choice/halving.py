"""Successive halving: all plans a few times, the better half twice as often, and so on until one is left.

The same time goes into every turn, so that what is close is told apart by more measurements. A plan's level is the
mean of the logarithms of its ratios to the original, each of one round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

#: Rounds of the first turn.
ROUNDS = 3
#: What is left is measured so many times at most in one turn.
MOST_ROUNDS = 24
Arm = TypeVar("Arm")
#: Measures these so many times: the logarithm of each ratio to the original.
Measure = Callable[[Sequence[Arm], int], Mapping[Arm, Sequence[float]]]


@dataclass(frozen=True)
class Halved(Generic[Arm]):
    """The best first; ``turns`` says how many were left in each turn and how often each was measured in it."""

    ranking: tuple[Arm, ...]
    levels: Mapping[Arm, float]
    rounds: Mapping[Arm, int]
    turns: tuple[tuple[int, int], ...]


def halved(
    arms: Sequence[Arm], measure: Measure[Arm], rounds: int = ROUNDS, enough: Callable[[], bool] = lambda: False,
    known: Mapping[Arm, Sequence[float]] | None = None,
) -> Halved[Arm]:  # fmt: skip
    """Measures and halves; ``enough`` ends it early, and the best so far comes first then. ``known``: measured before.

    >>> said = {"slow": [0.1] * 9, "fast": [-0.2] * 9, "middle": [0.0] * 9}
    >>> halved(list(said), lambda arms, n: {arm: said[arm][:n] for arm in arms}).ranking
    ('fast', 'middle', 'slow')
    """
    seen: dict[Arm, list[float]] = {arm: list((known or {}).get(arm, ())) for arm in arms}
    place = {arm: which for which, arm in enumerate(arms)}
    left, out, turns = list(arms), list[Arm](), list[tuple[int, int]]()

    def level(arm: Arm) -> float:
        return sum(seen[arm]) / len(seen[arm]) if seen[arm] else math.inf

    while left:
        for arm, ratios in measure(left, rounds).items():
            seen[arm] += ratios
        turns.append((len(left), rounds))
        left.sort(key=lambda arm: (level(arm), place[arm]))
        if len(left) == 1 or enough():
            break
        half = math.ceil(len(left) / 2)
        left, out = left[:half], [*left[half:], *out]
        if half == 1:
            break
        rounds = min(2 * rounds, MOST_ROUNDS)
    ranking = (*left, *out)
    return Halved(ranking, {arm: level(arm) for arm in ranking}, {arm: len(seen[arm]) for arm in ranking}, tuple(turns))
