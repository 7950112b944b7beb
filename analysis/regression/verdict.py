"""Whether head is slower than base: an interval on the log-ratio of their times, and one of four words for it.

The interval (99 % unless asked otherwise) is Student's, and a rank test guards it where times have tails or two modes:

* `same`: the whole interval lies within the margin, which is the equivalence test of two one-sided tests (TOST);
* `regressed`, `improved`: the interval leaves out 1, and the rank test agrees;
* `ambiguous`: neither; `settles` says how many pairs would tell, nine times in ten, if noise and change stay as they
  are.

Four designs, by what is a repetition of the measurement:

* `pairs`: base and head in turns (A B B A ...); the log-ratio of each pair is one value. Drift hits both alike.
* `sets`: captures of base and captures of head, each capture one value. Drift between the sets counts as change.
* `captures`: one capture a side. Steps are cut into at most ten blocks, because a step resembles the one before it.
  What correlation is left between blocks widens the interval. The verdict is about these two captures. Another capture
  of the same job is longer or shorter by its drift, which one capture a side cannot show. The drift may be known from
  captures of one and the same job. Then `drift` widens the interval by it and the verdict is about the job.
* `ranks`: two ranks of one capture, step by step: the log-ratio of each step, in blocks as above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from npulens.analysis.selection.blocks import edges_of

Floats = NDArray[np.float64]

#: Pairs to collect where nothing says otherwise: 0.9 % false alarms and 99 % power for 3 % under 2 % drift.
PAIRS = 10
#: Neighbouring blocks are taken to resemble each other at least this much: ten blocks cannot show less.
_LEAST_CORRELATION, _MOST_CORRELATION = 0.2, 0.9
#: How sure `settles` is that its number of pairs will do.
_POWER = 0.9
#: Nobody collects more pairs than this to tell two things apart. Where a benchmark is taken without this package,
#: collectors/harness/versus.py says it; a test holds the two together.
MOST_PAIRS = 1000


@dataclass(frozen=True)
class Rule:
    """When two things differ, and when they are the same."""

    alpha: float = 0.01  # how often "regressed" or "improved" may be said of what did not change
    margin: float = 0.005  # two times within this share of each other are the same


RULE = Rule()


@dataclass(frozen=True)
class Settles:
    """What would tell: so many `pairs`; None where it would take more than anybody collects."""

    unit: str
    n: int | None


@dataclass(frozen=True)
class Verdict:
    """What is said of head against base; a ratio above 1 means that head takes longer."""

    said: str  # 'regressed', 'improved', 'same', 'ambiguous'
    ratio: float | None  # None: a side has no time at all
    low: float | None  # None: too few values for an interval
    high: float | None
    p: float | None
    n: int  # values of the smaller side
    method: str  # 'pairs', 'sets', 'captures' or 'ranks'; 'steps': captures, but of one and the same run
    settles: Settles | None = None

    @property
    def log_interval(self) -> tuple[float, float] | None:
        """The interval on the log-ratio."""
        return None if self.low is None or self.high is None else (math.log(self.low), math.log(self.high))


def judge(log_ratios: Sequence[float], rule: Rule = RULE) -> Verdict:
    """The verdict of interleaved pairs: log(head / base) of each."""
    logs = _finite(log_ratios)
    n = len(logs)
    if not n:
        return Verdict("ambiguous", None, None, None, None, 0, "pairs", Settles("pairs", PAIRS))
    if n == 1:
        return Verdict("ambiguous", math.exp(logs[0]), None, None, None, 1, "pairs", Settles("pairs", PAIRS))
    spread = float(np.std(logs, ddof=1))
    least = least_of_pairs(rule.alpha)
    return _said(_Estimate(float(logs.mean()), spread / math.sqrt(n), n - 1, _signed_rank(logs), n, spread, least),
                 "pairs", rule)  # fmt: skip


def judge_sets(base: Sequence[float], head: Sequence[float], rule: Rule = RULE) -> Verdict:
    """The verdict of independent captures: one time of each."""
    a, b = _logs(base), _logs(head)
    n = min(len(a), len(b))
    if n < 2:
        ratio = math.exp(b.mean() - a.mean()) if n else None
        return Verdict("ambiguous", ratio, None, None, None, n, "sets", Settles("pairs", PAIRS))
    variances = (float(np.var(a, ddof=1)), float(np.var(b, ddof=1)))
    parts = (variances[0] / len(a), variances[1] / len(b))
    estimate = _Estimate(
        float(b.mean() - a.mean()), math.sqrt(sum(parts)), welch(parts, (len(a) - 1, len(b) - 1)), _rank_sum(a, b), n,
        math.sqrt(sum(variances)), least_of_two(rule.alpha),
    )  # fmt: skip
    return _said(estimate, "sets", rule)


def judge_steps(log_ratios: Sequence[float], rule: Rule = RULE) -> Verdict:
    """The verdict of steps that two ranks did together: log(head / base) of each in order."""
    logs = _blocks(_finite(log_ratios))
    n, more = len(logs), Settles("pairs", PAIRS)
    if n < 2:
        return Verdict("ambiguous", math.exp(logs[0]) if n else None, None, None, None, n, "ranks", more)
    spread = float(np.std(logs, ddof=1)) * math.sqrt(stretch_of([logs]))
    least = least_of_pairs(rule.alpha)
    estimate = _Estimate(float(logs.mean()), spread / math.sqrt(n), n - 1, _signed_rank(logs), n, spread, least)
    return replace(_said(estimate, "ranks", rule), settles=more)


def judge_captures(
    base: Sequence[float], head: Sequence[float], rule: Rule = RULE, drift: float = 0.0
) -> Verdict:
    """The verdict of one capture a side: the times of their steps in order.

    ``drift``: how much captures of one and the same job differ, as the standard deviation of their log times.
    """
    sides = [_blocks(np.asarray(side, np.float64)) for side in (base, head)]
    means = [float(np.mean(side)) if len(side) else 0.0 for side in (base, head)]
    n, more = min(len(side) for side in sides), Settles("pairs", PAIRS)
    if min(means) <= 0:
        return Verdict("ambiguous", None, None, None, None, n, "captures", more)
    ratio = means[1] / means[0]
    if n < 2:
        return Verdict("ambiguous", ratio, None, None, None, n, "captures", more)
    stretch = stretch_of(sides)
    parts = tuple(float(np.var(side, ddof=1)) / len(side) / mean**2 * stretch for side, mean in zip(sides, means,
                                                                                                 strict=True))
    error = math.sqrt(sum(parts) + 2 * drift**2)
    estimate = _Estimate(math.log(ratio), error, welch(parts, (len(sides[0]) - 1, len(sides[1]) - 1)),
                         _rank_sum(*sides), n, 0.0, least_of_two(rule.alpha))  # fmt: skip
    return replace(_said(estimate, "captures", rule), settles=more)


@dataclass(frozen=True)
class _Estimate:
    """A mean log-ratio with what is needed to judge it."""

    mean: float
    error: float
    freedom: float
    p_rank: float
    n: int
    spread: float  # standard deviation of one pair
    least: int  # values from which on the rank test can reach alpha


def _said(found: _Estimate, method: str, rule: Rule) -> Verdict:
    reach = float(stats.t.ppf(1 - rule.alpha / 2, found.freedom)) * found.error
    low, high = found.mean - reach, found.mean + reach
    p_student = 2 * float(stats.t.sf(abs(found.mean) / found.error, found.freedom)) if found.error else 0.0
    p = max(p_student, found.p_rank)
    edge = math.log1p(rule.margin)
    if found.n < found.least:
        said = "ambiguous"
    elif -edge <= low and high <= edge:
        said = "same"
    elif p <= rule.alpha and not low <= 0 <= high:
        said = "regressed" if found.mean > 0 else "improved"
    else:
        said = "ambiguous"
    settles = None
    if said == "ambiguous":
        settles = Settles("pairs", needed(found.mean, found.spread, found.least, found.n, rule))
    return Verdict(said, math.exp(found.mean), math.exp(low), math.exp(high), p, found.n, method, settles)


def needed(mean: float, spread: float, least: int, have: int, rule: Rule) -> int | None:
    """Pairs after which the interval leaves out 1 or lies within the margin, whichever is closer, nine times in ten.

    ``spread``: the standard deviation of one pair; ``least``: pairs from which on the test can reach alpha.
    """
    edge = math.log1p(rule.margin)
    wanted = max(abs(mean), edge - abs(mean))
    enough = np.flatnonzero(_reaches(rule.alpha) * spread <= wanted)
    first = int(enough[0]) + 2 if len(enough) else None
    return first if first is None else max(first, least, have + 1)


@lru_cache(16)
def _reaches(alpha: float) -> Floats:
    """For 2, 3, ... pairs, what the spread of one is multiplied by: half of the interval, and room for bad luck."""
    pairs = np.arange(2, MOST_PAIRS + 1)
    sure = float(stats.norm.ppf(_POWER))
    return np.asarray((stats.t.ppf(1 - alpha / 2, pairs - 1) + sure) / np.sqrt(pairs))


def _finite(values: Sequence[float]) -> Floats:
    found = np.asarray(values, np.float64)
    return found[np.isfinite(found)]


def _logs(values: Sequence[float]) -> Floats:
    found = _finite(values)
    return np.asarray(np.log(found[found > 0]))


def _blocks(steps: Floats) -> Floats:
    """Means of the blocks of some steps."""
    edges = edges_of(len(steps))
    return np.array([steps[a:b].mean() for a, b in zip(edges[:-1], edges[1:], strict=True)], np.float64)


def stretch_of(sides: Sequence[Floats]) -> float:
    """By how much the variance of a mean grows because each block resembles the one before it: (1+r) / (1-r).

    r is pooled over both sides and corrected for its bias in short series, -(1 + 3r) / n (Kendall 1954)."""
    apart = [side - side.mean() for side in sides]
    square = sum(float((side**2).sum()) for side in apart)
    r = sum(float((side[1:] * side[:-1]).sum()) for side in apart) / square if square else 0.0
    r += (1 + 3 * r) / min(len(side) for side in sides)
    r = min(max(r, _LEAST_CORRELATION), _MOST_CORRELATION)
    return (1 + r) / (1 - r)


def welch(parts: Sequence[float], freedom: Sequence[int]) -> float:
    """Degrees of freedom of a difference whose two variances differ."""
    total = sum(parts)
    spent = sum(part**2 / free for part, free in zip(parts, freedom, strict=True))
    return total**2 / spent if spent else float(sum(freedom))


def _signed_rank(logs: Floats) -> float:
    """Wilcoxon's p; pairs without any difference are left out."""
    kept = logs[logs != 0]
    if not len(kept):
        return 1.0
    found: Any = stats.wilcoxon(kept, method="exact" if len(kept) <= 50 else "approx")
    return float(found.pvalue)


def _rank_sum(a: Floats, b: Floats) -> float:
    """Mann and Whitney's p; exact where no value comes twice."""
    alone = len(np.unique(np.concatenate((a, b)))) == len(a) + len(b)
    found: Any = stats.mannwhitneyu(a, b, method="exact" if alone and max(len(a), len(b)) <= 50 else "asymptotic")
    return float(found.pvalue)


def least_of_pairs(alpha: float) -> int:
    """Pairs from which on a signed rank can reach alpha."""
    return next(n for n in range(2, 64) if 2 / 2**n <= alpha)


def least_of_two(alpha: float) -> int:
    """Values a side from which on a rank sum can reach alpha."""
    return next(n for n in range(2, 64) if 2 / math.comb(2 * n, n) <= alpha)
