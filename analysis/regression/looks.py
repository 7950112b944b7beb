"""One decision on all pairs of a task and a night, in up to three looks under one budget of false alarms.

A look judges every pair measured so far. The first comes after the rounds of the task, the others at twice and four
times as many. A task stops when its word is said, or when its pairs leave no doubt worth measuring. All looks together
raise at most 1 % of false alarms a task and night. That holds whichever way, and however many metrics the task has.

* The test is a sum of signed normal scores, exact by its own permutations. Each pair keeps its rank by size and could
  as well have had the other sign. For Gaussian noise it sees what Student's test sees, and spikes count by rank only.
  No rule has to choose a test, and ties are part of the permutations.
* That a sign could have been the other is made true by the order of the sides. A coin is thrown for every pair (see
  `app/nightly/steps.py`). Seasons, drifts and neighbours that resemble each other then raise no more alarms.
* The interval holds every shift that the same test at 99 % does not reject, and its middle is the ratio. It is never
  narrower than what rounding to the unit of the values would leave.
* The step has its own budget. The parts share a small one, and the step's once the step moved. What the step found to
  be wrong can be no false alarm of the task any more. They share by Holm's rule (1979). At the first look, whose pairs
  are too few for that, all metrics are exchanged together (analysis/regression/jointly.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from npulens.analysis.regression.jointly import together
from npulens.analysis.regression.verdict import PAIRS, Floats, Rule, Settles, Verdict, least_of_pairs, needed

#: Pairs at each look, as multiples of the rounds of the task.
LOOKS = (1, 2, 4)
#: What p may be at each look for a metric alone, or for everything in a task without a step.
ALPHA = (0.002, 0.0072, 0.0003)
#: What it may be for a step that has parts. Then for the parts of a step that did not move, all together. Both lines
#: add up to 1 %, whatever the noise is. What both have at the first look goes to all metrics exchanged together.
STEP = (0.002, 0.0052, 0.0003)
PARTS = (0.002, 0.0004, 0.0001)
#: From which p on more pairs are not worth their time. With nothing changed, 70 nights of a hundred have a p above 0.3
#: after ten pairs. A bound of 0.25 costs 0.4 % of the changes of 3 % that twenty pairs see (40,000 nights).
DOUBT = (0.3, 0.05)
#: The same for the parts together.
PARTS_DOUBT = 0.05
#: The interval that is told, and the margin of "same".
TOLD = Rule()
#: Scores are whole numbers, so that sums of them can be counted.
_FINE = 100
#: Up to so many pairs every sum is counted; with more, sums are normal to more digits than are shown.
_COUNTED = 200

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """The pairs of one metric: log(head / base) of each, turned so that more is worse."""

    logs: Sequence[float]
    step: bool  # whether the other metrics of the task are its parts
    tick: float = 0.0  # the unit of the values as a share of them; see `tick_of`


@dataclass(frozen=True)
class Decision:
    """What is said of each metric of a task, and whether more pairs are worth their time."""

    verdicts: tuple[Verdict, ...]
    goes_on: bool


def decide(metrics: Sequence[Pairs], rounds: int, among: int = 1) -> Decision:
    """The decision on a task after all of its pairs so far; ``among`` so many tasks that share one budget of alarms."""
    rows = [np.asarray(each.logs, np.float64) for each in metrics]
    look = look_of(max((len(row) for row in rows), default=0), rounds)
    step = np.array([each.step for each in metrics], np.bool_)
    p = np.array([p_values(row[None])[0] for row in rows])[:, None]
    found = moved(p, step, look, jointly_at_first(rows, step, look), among)
    verdicts = tuple(
        _verdict(row, each.tick, float(p[place, 0]), bool(found[place, 0]), ALPHA[1] / among)
        for place, (row, each) in enumerate(zip(rows, metrics, strict=True))
    )
    return Decision(verdicts, bool(metrics) and bool(goes_on(p, step, look, found)[0]))


def jointly_at_first(rows: Sequence[Floats], step: Bools, look: int) -> Floats | None:
    """At the first look the p-values of all metrics together, a column; None later, or where there is no step."""
    alike = len({len(row) for row in rows}) == 1
    if look or not alike or not step.any() or step.all():
        return None
    return np.array(together([row.tolist() for row in rows]))[:, None]


def look_of(pairs: int, rounds: int) -> int:
    """The look that judges so many pairs; what was cut short is judged as the look it was on the way to."""
    return next((look for look, times in enumerate(LOOKS) if pairs <= times * rounds), len(LOOKS) - 1)


def moved(p: Floats, step: Bools, look: int, jointly: Floats | None = None, among: int = 1) -> Bools:
    """Of each metric (row) in each of many nights (column) whether it moved.

    ``jointly``: the p-values of all metrics together, which decide where they are given. ``among``: so many tasks share
    one budget of alarms.
    """
    if jointly is not None:
        return np.asarray(jointly <= (STEP[look] + PARTS[look]) / among)
    if not step.any() or step.all():
        return _holm(p, np.full(p.shape[1], ALPHA[look] / among))
    found = np.zeros(p.shape, np.bool_)
    found[step] = _holm(p[step], np.full(p.shape[1], STEP[look] / among))
    found[~step] = _holm(p[~step], np.where(found[step].any(0), STEP[look], PARTS[look]) / among)
    return found


def goes_on(p: Floats, step: Bools, look: int, found: Bools) -> Bools:
    """Of each night (column) whether there is a doubt left that more pairs may settle; ``found``: what moved."""
    if look >= len(DOUBT):
        return np.zeros(p.shape[1], np.bool_)
    if not step.any() or step.all():
        return np.asarray(~found.any(0) & (_together(p) <= DOUBT[look]))
    of_parts = ~found[~step].any(0) & (_together(p[~step]) <= PARTS_DOUBT)
    return np.asarray(~found[step].any(0) & ((_together(p[step]) <= DOUBT[look]) | of_parts))


def _holm(p: Floats, alpha: Floats) -> Bools:
    """Holm's rule column by column: the smallest p against alpha / m, the next against alpha / (m - 1), and so on."""
    m, order = len(p), np.argsort(p, axis=0, kind="stable")
    passes = np.take_along_axis(p, order, 0) <= alpha / (m - np.arange(m)[:, None])
    found = np.zeros(p.shape, np.bool_)
    np.put_along_axis(found, order, np.logical_and.accumulate(passes, axis=0), 0)
    return found


def _together(p: Floats) -> Floats:
    """The p-value of nothing having moved, column by column (Simes 1986)."""
    m = len(p)
    if not m:
        return np.ones(p.shape[1])
    return np.asarray((m * np.sort(p, axis=0) / np.arange(1, m + 1)[:, None]).min(0))


def p_values(logs: Floats) -> Floats:
    """The two-sided p of each row of pairs, exact."""
    rows, n = logs.shape
    if not n:
        return np.ones(rows)
    sizes = np.round(np.abs(logs), 12)
    order = sizes.argsort(1)
    sums = np.abs(np.sign(np.take_along_axis(logs, order, 1)) @ _scores(n)).astype(np.int64)
    p = np.minimum(1.0, 2 * _beyond(tuple(_scores(n).tolist()), sums))
    ordered = np.take_along_axis(sizes, order, 1)
    for row in np.flatnonzero((ordered[:, 0] == 0) | (ordered[:, 1:] == ordered[:, :-1]).any(1)):
        p[row] = _p_tied(logs[row], sizes[row])
    return p


def _p_tied(logs: Floats, sizes: Floats) -> float:
    """Pairs of equal size share the mean of their scores; a pair without a difference has no sign to change."""
    of = np.unique(sizes, return_inverse=True)[1]
    means = np.bincount(np.sort(of), _scores(len(logs))) / np.bincount(of)
    scores = np.where(sizes > 0, np.round(means[of]).astype(np.int64), 0)
    total = abs(int((np.sign(logs) * scores).sum()))
    return min(1.0, 2 * float(_beyond(tuple(sorted(scores[scores > 0].tolist())), np.array([total]))[0]))


def _verdict(logs: Floats, tick: float, p: float, found: bool, alpha: float) -> Verdict:
    n = len(logs)
    if n < 2:
        return Verdict("ambiguous", math.exp(logs[0]) if n else None, None, None, None, n, "pairs",
                       Settles("pairs", PAIRS))  # fmt: skip
    mean, low, high = _interval(logs, tick)
    edge = math.log1p(TOLD.margin)
    if math.isinf(low):
        said, spread = "ambiguous", float(np.std(logs, ddof=1))
    else:
        spread = (high - low) / 2 * math.sqrt(n) / float(stats.t.ppf(1 - TOLD.alpha / 2, n - 1))
        if -edge <= low and high <= edge:
            said = "same"
        elif found and not low <= 0 <= high:
            said = "regressed" if mean > 0 else "improved"
        else:
            said = "ambiguous"
    settles = None
    if said == "ambiguous":
        settles = Settles("pairs", needed(mean, spread, least_of_pairs(alpha), n, Rule(alpha, TOLD.margin)))
    ends = [None if math.isinf(low) else math.exp(end) for end in (low, high)]
    return Verdict(said, math.exp(mean), ends[0], ends[1], p, n, "pairs", settles)


def _interval(logs: Floats, tick: float) -> tuple[float, float, float]:
    """The middle and the ends; the ends are infinite where there are too few pairs for any."""
    n = len(logs)
    middle = (_crossing(logs, 1) - _crossing(-logs, 1)) / 2
    enough = _enough(n, TOLD.alpha)
    if enough is None:
        return middle, -math.inf, math.inf
    # A value rounded to a unit is off by unit / sqrt(12); a ratio holds two of them.
    least = tick / math.sqrt(6) / math.sqrt(n) * float(stats.t.ppf(1 - TOLD.alpha / 2, n - 1))
    return middle, min(_crossing(logs, enough), middle - least), max(-_crossing(-logs, enough), middle + least)


def _crossing(logs: Floats, enough: int) -> float:
    """The largest shift that leaves a sum of scores of at least ``enough``: sums fall as the shift grows."""
    scores = _scores(len(logs))
    low, high = float(logs.min()), float(logs.max())
    for _ in range(50):
        shift = (low + high) / 2
        apart = logs - shift
        total = (np.sign(apart) * scores[np.abs(apart).argsort(kind="stable").argsort()]).sum()
        low, high = (shift, high) if total >= enough else (low, shift)
    return (low + high) / 2


@lru_cache(256)
def _scores(n: int) -> NDArray[np.int64]:
    """What each rank counts: where a normal deviate of that rank would lie."""
    found: NDArray[np.int64] = np.round(_FINE * special.ndtri((1 + np.arange(1, n + 1) / (n + 1)) / 2)).astype(np.int64)
    return found


@lru_cache(1024)
def _tail(scores: tuple[int, ...]) -> Floats:
    """Of all choices of signs, the share whose sum is at least so much: at place sum / 2, counted from the least."""
    ways = np.ones(1)
    for score in scores:
        ways = (np.concatenate([ways, np.zeros(score)]) + np.concatenate([np.zeros(score), ways])) / 2
    return np.asarray(np.cumsum(ways[::-1])[::-1])


def _beyond(scores: tuple[int, ...], sums: NDArray[np.int64]) -> Floats:
    """The chance of a sum at least this large."""
    if len(scores) > _COUNTED:
        return np.asarray(special.ndtr(-sums / math.sqrt(sum(score**2 for score in scores))))
    return np.asarray(_tail(scores)[(sums + sum(scores)) // 2])


@lru_cache(256)
def _enough(n: int, alpha: float) -> int | None:
    """The least sum of scores that alpha rejects; None where even all signs alike are too likely."""
    scores = tuple(_scores(n).tolist())
    sums = np.arange(sum(scores) % 2, sum(scores) + 1, 2)
    enough = np.flatnonzero(_beyond(scores, sums) <= alpha / 2)
    return int(sums[enough[0]]) if len(enough) else None


def tick_of(values: Sequence[float]) -> float:
    """The unit in which some values come, as a share of them; 0 where no value comes twice.

    It is the smallest step between two of them. Where all are alike it is the last decimal place they have.
    """
    alone = np.unique(np.asarray(values, np.float64))
    if len(alone) == len(values) or not len(alone) or alone[-1] <= 0:
        return 0.0
    gaps = np.diff(alone)
    gaps = gaps[gaps > 1e-12 * alone[-1]]
    if len(gaps):
        return float(gaps.min() / np.median(values))
    place = Decimal(repr(float(alone[0]))).normalize().as_tuple().exponent
    return float(10.0 ** min(int(place), 0) / alone[0])
