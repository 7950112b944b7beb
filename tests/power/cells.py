"""The history of many simulated nights, and the rules of two nights. One cell is one line of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npulens.analysis.regression import verdict
from npulens.analysis.regression.series import LIMITS, changes
from tests.power.noise import KINDS, Floats

#: One night's level differs from the next one's by 2 %, one sample from the next by 1 %; ten samples a side and night.
BETWEEN, WITHIN, SAMPLES = 0.02, 0.01, verdict.PAIRS
EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.10)
NIGHTS = (5, 10, 20, 30, 60)


@dataclass(frozen=True)
class Cell:
    """What a rule said of simulated nights with one kind of noise and one effect."""

    rule: str
    noise: str
    nights: int
    effect: float
    n: int  # repetitions
    alarms: int  # how often it spoke of a change
    dated: int | None  # of these, how often within one night of the truth; None: the rule does not date

    @property
    def rate(self) -> float:
        return self.alarms / self.n


def since(nights: int) -> int:
    """The first night after the change: two thirds of the nights are before it, two nights at least after it."""
    return nights - max(2, nights // 3)


def history(kind: str, nights: int, effect: float, rows: int, rng: np.random.Generator) -> Floats:
    """The logarithm of every sample: rows x nights x samples; the change is there since `since`."""
    level = BETWEEN * KINDS[kind](rng, rows, nights)
    level[:, since(nights) :] += np.log1p(effect)
    return np.asarray(level[..., None] + WITHIN * rng.standard_normal((rows, nights, SAMPLES)))


def ours_on_history(kind: str, nights: int, effect: float, medians: Floats) -> Cell:
    """What judge_series finds in the medians of the nights."""
    found = changes(list(np.exp(medians)), LIMITS)
    wrong_way = [any(each.ratio < 1 for each in row) for row in found]
    spoke = [bool(row) and not (effect and odd) for row, odd in zip(found, wrong_way, strict=True)]
    near = [any(abs(each.index - since(nights)) <= 1 for each in row) for row in found]
    dated = sum(a and b for a, b in zip(spoke, near, strict=True)) if effect else None
    return Cell("npulens, history", kind, nights, effect, len(found), sum(spoke), dated)


def two_nights(kind: str, nights: int, effect: float, samples: Floats) -> Iterator[Cell]:
    """The rules that hold tonight against last night, on the night of the change."""
    last, tonight = samples[:, since(nights) - 1], samples[:, since(nights)]
    apart = np.expm1(np.abs(np.median(tonight, axis=1) - np.median(last, axis=1)))
    for share in (0.07, 0.05):
        yield Cell(f"{share:.0%} of two nights", kind, nights, effect, len(apart), int((apart > share).sum()), None)
    p = rank_sum(last, tonight)
    yield Cell("rank test of two nights", kind, nights, effect, len(p), int((p < 0.01).sum()), None)


def rank_sum(a: Floats, b: Floats) -> Floats:
    """Mann and Whitney's p, row by row."""
    from scipy import stats

    return np.asarray(stats.mannwhitneyu(a, b, axis=1, method="asymptotic").pvalue)


def worst(cells: Sequence[Cell], rule: str) -> Cell:
    """The cell without an effect in which a rule raised most alarms."""
    return max((cell for cell in cells if cell.rule == rule and not cell.effect), key=lambda cell: cell.rate)
