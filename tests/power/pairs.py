"""Pairs of one night under sixteen noises, judged look by look by the product's own `looks`, many nights at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.regression import looks
from npulens.analysis.regression.verdict import PAIRS
from tests.power.noise import KINDS, Floats

#: One run differs from the next by 2 %, each side on its own: a pair's ratio by 2.83 % where runs are independent.
CV = 0.02
MOST = looks.LOOKS[-1] * PAIRS
#: Metrics of each call that `decide` judges too, night by night; one that disagrees stops everything.
CHECKED = 20
#: Metrics of a task that has many: the step and 29 parts.
MANY = 30

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Told:
    """Of each night: the look at which the task stopped, and which metrics had moved by then."""

    look: NDArray[np.int64]
    worse: Bools  # metrics x nights
    better: Bools

    @property
    def pairs(self) -> float:
        """How many were measured, on average."""
        return float(np.mean(np.asarray(looks.LOOKS)[self.look]) * PAIRS)


def ratios(kind: str, effect: float, rows: int, rng: np.random.Generator) -> Floats:
    """log(head / base) of the pairs of many nights: noise runs through a night, a coin says which side is first."""
    runs = CV * KINDS[kind](rng, rows, 2 * MOST)
    return np.asarray(coins(rng, rows) * (runs[:, 1::2] - runs[:, ::2]) + np.log1p(effect))


def coins(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    """1: base came first in this round, -1: head."""
    return rng.choice(np.array([-1, 1]), (rows, MOST))


def of_many(kind: str, alike: bool, effect: float, rows: int, rng: np.random.Generator) -> Floats:
    """The same of a step and 29 parts, which are noisy by themselves or, alike, half by what the step does."""
    order, steps = coins(rng, rows), CV * KINDS[kind](rng, rows, 2 * MOST)
    found = np.empty((MANY, rows, MOST))
    for metric in range(MANY):
        own = CV * KINDS[kind](rng, rows, 2 * MOST) if metric else steps
        runs = np.sqrt(0.5) * (own + steps) if alike and metric else own
        found[metric] = order * (runs[:, 1::2] - runs[:, ::2])
    found[0] += np.log1p(effect)
    return found


def told(logs: Floats, step: Sequence[bool]) -> Told:
    """What is said of metrics x nights x pairs."""
    metrics, rows, _ = logs.shape
    is_step, open_ = np.array(step, np.bool_), np.arange(rows)
    found = Told(np.zeros(rows, np.int64), *(np.zeros((metrics, rows), np.bool_) for _ in range(2)))
    for look, times in enumerate(looks.LOOKS):
        seen = logs[:, open_, : times * PAIRS]
        p = looks.p_values(seen.reshape(-1, seen.shape[2])).reshape(metrics, -1)
        moved, worse = looks.moved(p, is_step, look, _jointly(seen, is_step, look)), np.median(seen, axis=2) > 0
        found.look[open_], found.worse[:, open_], found.better[:, open_] = look, moved & worse, moved & ~worse
        open_ = open_[looks.goes_on(p, is_step, look, moved)]
    _check(logs, step, found)
    return found


def _jointly(seen: Floats, step: Bools, look: int) -> Floats | None:
    """What the first look makes of all metrics of each night together."""
    found = [looks.jointly_at_first(list(seen[:, night]), step, look) for night in range(seen.shape[1])]
    columns = [column for column in found if column is not None]
    return np.concatenate(columns, axis=1) if columns else None


def _check(logs: Floats, step: Sequence[bool], found: Told) -> None:
    for night in range(min(max(1, CHECKED // len(logs)), logs.shape[1])):
        look = int(found.look[night])
        seen = logs[:, night, : looks.LOOKS[look] * PAIRS]
        said = looks.decide([looks.Pairs(row, each) for row, each in zip(seen, step, strict=True)], PAIRS)
        assert not said.goes_on
        words = [each.said if each.said in ("regressed", "improved") else "" for each in said.verdicts]
        worse, better = found.worse[:, night], found.better[:, night]
        mine = np.select([worse, better], ["regressed", "improved"], "").tolist()
        assert words == mine, (words, mine)


@dataclass(frozen=True)
class PairCell:
    """How often pairs of one kind of noise and effect were called changed, by a rule."""

    rule: str
    noise: str
    effect: float
    n: int
    alarms: int
    pairs: float  # spent on average
    first: float  # the share of nights that stopped at the first look

    @property
    def rate(self) -> float:
        return self.alarms / self.n


ONE, EARLY = "one metric", "one metric, up to 20 pairs"
APART, ALIKE, PARTS = "step and 29 parts", "step and 29 parts alike", "30 parts without a step"
EFFECTS = (0.0, 0.01, 0.03, 0.05)


def alone(kind: str, rows: int, seed: int) -> Iterator[PairCell]:
    """A task of one metric under one noise. With an effect an alarm is `regressed`, without one either word."""
    for effect in EFFECTS:
        found = told(ratios(kind, effect, rows, _dice(seed, kind, effect))[None], [True])
        yield _cell(ONE, kind, effect, found, found.look >= 0)
        yield _cell(EARLY, kind, effect, found, found.look <= 1)


def many(kind: str, rows: int, seed: int) -> Iterator[PairCell]:
    """Tasks of thirty metrics. With an effect, an alarm is the step's `regressed`; without, any word of the task."""
    for effect in (0.0, 0.03):
        for rule, alike, step in ((APART, False, True), (ALIKE, True, True), (PARTS, False, False)):
            if step or not effect:
                logs = of_many(kind, alike, effect, rows, _dice(seed + 1 + alike, kind, effect))
                found = told(logs, [step] + [False] * (MANY - 1))
                yield _cell(rule, kind, effect, found, found.look >= 0)


def _dice(seed: int, kind: str, effect: float) -> np.random.Generator:
    return np.random.default_rng([seed, list(KINDS).index(kind), round(effect * 1000)])


def _cell(rule: str, kind: str, effect: float, found: Told, counted: Bools) -> PairCell:
    spoke = found.worse[0] if effect else (found.worse | found.better).any(0)
    return PairCell(rule, kind, effect, len(spoke), int((spoke & counted).sum()), found.pairs,
                    float(np.mean(found.look == 0)))  # fmt: skip


def promises(found: Sequence[PairCell]) -> Iterator[tuple[bool, str]]:
    """Each promise about pairs: whether it holds, and the sentence that says so."""
    for rule in (ONE, APART, ALIKE, PARTS):
        quiet = [cell for cell in found if cell.rule == rule and not cell.effect]
        worst = max(quiet, key=lambda cell: cell.rate)
        mean, error = sum(cell.rate for cell in quiet) / len(quiet), 2 * math.sqrt(0.01 * 0.99 / worst.n)
        yield worst.rate <= 0.01 + error and mean <= 0.01, (
            f"Pairs, {rule}: false alarms a task-night at most 1% in every noise, of {worst.n:,} nights each: at worst "
            f"{worst.rate:.2%} ({worst.noise}; with 1% up to {0.01 + error:.2%} is chance), {mean:.2%} on average"
        )
    for effect, least in ((0.03, 0.90), (0.05, 0.99)):
        seen = {cell.noise: cell.rate for cell in found if cell.rule == EARLY and cell.effect == effect}
        asked = [(seen[noise], noise) for noise in ("Gaussian", "drifting", "bimodal")]
        yield min(asked)[0] >= least, (
            f"Pairs: {effect:.0%} seen with at most 20 in at least {least:.0%} under 2 % a run: "
            f"{', '.join(f'{rate:.1%} {noise}' for rate, noise in asked)}"
        )


def table(found: Sequence[PairCell]) -> Iterator[str]:
    """The figures as lines of Markdown."""
    yield ("| noise | alarms | 29 parts | alike | no step | pairs, nothing changed | stop at 10 | at 1 %, to 40 | "
           "at 3 %, to 20 | to 40 | with 29 parts | alike | at 5 %, to 20 |")  # fmt: skip
    yield "| --- |" + " --: |" * 12
    of = {(cell.noise, cell.rule, cell.effect): cell for cell in found}
    for noise in dict.fromkeys(cell.noise for cell in found):
        quiet = [f"{of[noise, rule, 0.0].rate:.2%}" for rule in (ONE, APART, ALIKE, PARTS)]
        spent = of[noise, ONE, 0.0]
        asked = ((ONE, 0.01), (EARLY, 0.03), (ONE, 0.03), (APART, 0.03), (ALIKE, 0.03), (EARLY, 0.05))
        seen = [f"{of[noise, rule, effect].rate:.1%}" for rule, effect in asked]
        yield f"| {' | '.join([noise, *quiet, f'{spent.pairs:.1f}', f'{spent.first:.0%}', *seen])} |"
