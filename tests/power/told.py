"""The history gate as it speaks: night after night, each change counted when it is first told.

A change that a later night drops was told all the same. So every night judges what it knew, from the tenth to the
sixtieth, as `npulens nightly` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npulens.analysis.regression.discoveries import Alarm, standing
from npulens.analysis.regression.series import LIMITS, Seen, as_they_came, judge_series
from tests.power.noise import KINDS, Floats

LEVELS = (0.005, 0.01, 0.02)
NIGHTS = 60
#: Nights that a series has before something is planted, and after it.
BEFORE, AFTER = 30, 14
#: One night is judged from here on: fewer say nothing.
FIRST = 5
#: Ten tasks of ten metrics, and one task of a hundred; the metric that moves: the step of a task (0), or a part of it.
TASKS = ((10, 10, 0), (10, 10, 1), (1, 100, 0), (1, 100, 1), (1, 1, 0))
STEP, WITHIN, LEAK, LARGEST = 0.03, 8, 0.005, 0.06


@dataclass(frozen=True)
class Alarms:
    """What was told of series in which nothing changed."""

    noise: str
    level: float
    nights: int  # metric-nights that were judged
    steps: int
    drifts: int

    @property
    def rate(self) -> float:
        return (self.steps + self.drifts) / self.nights


@dataclass(frozen=True)
class Seeing:
    """How many of some planted changes were told in time."""

    what: str
    n: int
    in_time: int

    @property
    def rate(self) -> float:
        return self.in_time / self.n


def alarms(kind: str, rows: int, seed: int) -> Iterator[Alarms]:
    """One kind of noise at every level."""
    for level in LEVELS:
        dice = np.random.default_rng([seed, list(KINDS).index(kind), round(level * 10_000)])
        seen = [each for row in as_they_came(_list(level * KINDS[kind](dice, rows, NIGHTS)), LIMITS) for each in row]
        drifts = sum(each.drift for each in seen)
        yield Alarms(kind, level, rows * (NIGHTS - FIRST + 1), len(seen) - drifts, drifts)


def seeing(rows: int, seed: int) -> Iterator[Seeing]:
    """A step among many metrics, and a leak, both under Gaussian noise of 0.5 % a night."""
    dice = np.random.default_rng([seed, 1])
    for tasks, metrics, place in TASKS:
        in_time = sum(_is_told(dice, tasks, metrics, place) for _ in range(rows))
        of = "part" if place else "step"
        yield Seeing(f"{STEP:.0%} of a {of} within {WITHIN} nights, {tasks} x {metrics} metrics", rows, in_time)
    nights = int(np.log1p(LARGEST) / np.log1p(LEAK))
    planted = 0.005 * dice.standard_normal((rows, BEFORE + nights))
    planted[:, BEFORE:] += np.log1p(LEAK) * np.arange(1, nights + 1)
    told = sum(any(each.up and each.night >= BEFORE for each in row) for row in as_they_came(_list(planted), LIMITS))
    yield Seeing(f"a leak of {LEAK:.1%} a night before {LARGEST:.0%}", rows, told)


def _is_told(dice: np.random.Generator, tasks: int, metrics: int, place: int) -> bool:
    """Whether what moves in the first task is told in time, and stands among everything else of that night."""
    logs = 0.005 * dice.standard_normal((tasks * metrics, BEFORE + WITHIN))
    logs[place, BEFORE:] += np.log1p(STEP)
    came = as_they_came(_list(logs), LIMITS)
    for night in range(BEFORE, BEFORE + WITHIN):
        if not any(BEFORE <= each.night <= night and each.up for each in came[place]):
            continue
        p = [_p(logs[row], seen, night) for row, seen in enumerate(came)]
        of = [Alarm(str(row // metrics), row % metrics == 0, each) for row, each in enumerate(p)]
        if standing(of)[place]:
            return True
    return False


def _p(logs: Floats, seen: Sequence[Seen], night: int) -> float:
    """The p-value of the last change that a night knows of a series, if there is one; else 1."""
    if not any(each.night <= night for each in seen):
        return 1.0
    changes = judge_series(np.exp(logs[: night + 1]).tolist()).changes
    return changes[-1].p if changes else 1.0


def _list(logs: Floats) -> list[Floats]:
    return list(logs)


def promises(quiet: Sequence[Alarms], seen: Sequence[Seeing]) -> Iterator[tuple[bool, str]]:
    """Each promise about the history: whether it holds, and the sentence that says so."""
    worst = max(quiet, key=lambda each: each.rate)
    yield worst.rate <= 0.01, (
        f"History: alarms per metric-night, as told, at most 1% in each of {len(KINDS)} noises of 0.5, 1 and 2 %: at "
        f"worst {worst.rate:.2%} ({worst.noise}, {worst.level:.1%})"
    )
    for each in seen:
        yield each.rate >= 0.90, f"History, noise of 0.5 %: {each.what}: told in {each.rate:.1%} of {each.n:,}"


def table(quiet: Sequence[Alarms]) -> Iterator[str]:
    """Alarms of 100 metric-nights, steps and drifts together, as lines of Markdown."""
    yield f"| noise | {' | '.join(f'{level:.1%}' for level in LEVELS)} |"
    yield "| --- |" + " --: |" * len(LEVELS)
    for kind in KINDS:
        of = {each.level: each for each in quiet if each.noise == kind}
        yield f"| {kind} | {' | '.join(f'{of[level].rate:.2%}' for level in LEVELS)} |"
