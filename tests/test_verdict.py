"""Verdicts: by hand, against the twin that runs where torch runs, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npulens.analysis.regression.verdict import (  # fmt: skip
    MOST_PAIRS,
    PAIRS,
    RULE,
    Rule,
    Settles,
    judge,
    judge_captures,
    judge_sets,
)
from npulens.collectors.harness import versus


def test_an_interval_by_hand() -> None:
    """Ten log-ratios of mean 0.03 and deviation 0.01: t(9, 99.5 %) = 3.2498 from any table."""
    logs = [0.03 + x for x in (-0.012, -0.011, -0.009, -0.006, -0.002, 0.002, 0.006, 0.009, 0.011, 0.012)]
    spread = math.sqrt(2 * (0.012**2 + 0.011**2 + 0.009**2 + 0.006**2 + 0.002**2) / 9)
    reach = 3.2498 * spread / math.sqrt(10)
    found = judge(logs)
    assert found.said == "regressed" and found.n == 10 and found.method == "pairs" and found.settles is None
    assert found.log_interval == pytest.approx((0.03 - reach, 0.03 + reach), rel=1e-4)
    assert found.p == pytest.approx(2 / 2**10)  # all ten on one side
    assert judge([-x for x in logs]).said == "improved"


def test_the_four_words() -> None:
    quiet = [0.0005 * (-1) ** k for k in range(10)]
    assert judge(quiet).said == "same"
    assert judge([x + 0.02 for x in quiet]).said == "regressed"
    assert judge([x - 0.02 for x in quiet]).said == "improved"
    assert judge([40 * x for x in quiet]).said == "ambiguous"


def test_same_is_an_equivalence_and_not_a_failure_to_differ() -> None:
    """A change that is certain and within the margin is the same; one that is only uncertain is not."""
    certain = [0.002 + 0.0001 * (-1) ** k for k in range(10)]
    assert judge(certain).said == "same"
    assert judge(certain, Rule(margin=0.001)).said == "regressed"
    noisy = [0.01 * (-1) ** k for k in range(10)]
    assert judge(noisy).p == pytest.approx(1.0) and judge(noisy).said == "ambiguous"


def test_what_would_settle_it() -> None:
    """So many pairs do settle it nine times in ten, half as many do not."""
    rng = np.random.default_rng(5)
    logs = rng.normal(0, 0.02, 10)
    logs = (logs - logs.mean()) / logs.std(ddof=1) * 0.02 + 0.012
    found = judge(logs.tolist())
    assert found.said == "ambiguous" and found.settles is not None and found.settles.n is not None
    told = [np.mean([judge(rng.normal(0.012, 0.02, n).tolist()).said == "regressed" for _ in range(150)])
            for n in (found.settles.n // 2, found.settles.n)]  # fmt: skip
    assert told[0] < 0.75 < 0.82 < told[1]
    assert judge([2.0 * (-1) ** k for k in range(10)]).settles == Settles("pairs", None)


@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_too_few_pairs_are_never_a_verdict(n: int) -> None:
    """Two modes 5 % apart: three pairs may well fall on the same side, to the last digit."""
    found = judge([0.05] * n)
    assert found.said == "ambiguous" and found.settles is not None
    assert found.settles.n == (PAIRS if n < 2 else 8)


def test_what_is_no_time_is_no_verdict() -> None:
    assert judge_captures([], [5.0]).ratio is None
    assert judge_captures([0, 0, 0, 0, 0], [5] * 5).said == "ambiguous"
    assert judge_sets([], []).said == "ambiguous"
    assert judge([math.nan, math.inf]).n == 0


def test_identical_captures_are_the_same() -> None:
    assert judge_captures([7.0] * 6, [7.0] * 6).said == "same"
    assert judge([0.0] * 8).said == "same"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-0.5, 0.5), min_size=8, max_size=20))
def test_head_against_base_mirrors_base_against_head(logs: list[float]) -> None:
    there, back = judge(logs), judge([-x for x in logs])
    mirror = {"regressed": "improved", "improved": "regressed", "same": "same", "ambiguous": "ambiguous"}
    edge = there.low is not None and min(abs(there.low - 1.005), abs(1 - there.low * 1.005)) < 1e-9
    assert edge or back.said in (mirror[there.said], "same")
    assert back.p == pytest.approx(there.p)


def test_the_harness_takes_as_many_pairs() -> None:
    """It runs where this package is not: what both must know is said twice."""
    assert (PAIRS, MOST_PAIRS, RULE.alpha) == (versus.PAIRS, versus.MOST_PAIRS, versus.ALPHA)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.5, 2.0), min_size=8, max_size=14, unique=True))
def test_pairs_agree_with_the_harness(ratios: list[float]) -> None:
    """The harness has its own Student and Wilcoxon, without scipy, with a margin of its own."""
    ours, theirs = judge([math.log(r) for r in ratios], Rule(margin=versus.MARGIN)), versus.judge(ratios)
    assert (ours.low, ours.high) == (pytest.approx(theirs.low, rel=1e-6), pytest.approx(theirs.high, rel=1e-6))
    words = {"different": ("regressed", "improved", "same"), "same": ("same",), "cannot_tell": ("ambiguous",)}
    if all(ratio != 1 for ratio in ratios):
        assert ours.said in words[theirs.said]


def called(said: str, judged: list[str]) -> float:
    return judged.count(said) / len(judged)


@pytest.mark.parametrize("noise", ["gauss", "heavy", "modes"])
def test_pairs_of_the_same_thing_are_seldom_called_regressed(noise: str) -> None:
    rng = np.random.default_rng(11)
    draw = {"gauss": lambda: rng.normal(0, 0.01, 10), "heavy": lambda: 0.01 * rng.standard_t(2.5, 10),
            "modes": lambda: rng.choice([-0.02, 0.0, 0.02], 10) + rng.normal(0, 1e-4, 10)}[noise]  # fmt: skip
    said = [judge(draw().tolist()).said for _ in range(800)]
    assert called("regressed", said) <= 0.015 and called("improved", said) <= 0.015


def steps(rng: np.random.Generator, n: int, correlation: float) -> np.ndarray:
    noise = rng.normal(0, 1, n + 30)
    for k in range(1, n + 30):
        noise[k] += correlation * noise[k - 1]
    return 100 * (1 + 0.01 * noise[30:])


@pytest.mark.parametrize(("n", "correlation"), [(6, 0.0), (20, 0.3), (60, 0.6), (200, 0.8)])
def test_steps_that_resemble_each_other_are_no_change(n: int, correlation: float) -> None:
    rng = np.random.default_rng(12)
    said = [judge_captures(steps(rng, n, correlation), steps(rng, n, correlation)).said for _ in range(500)]
    assert called("regressed", said) <= 0.014
    found = [judge_captures(steps(rng, 60, 0.3), 1.03 * steps(rng, 60, 0.3)).said for _ in range(100)]
    assert called("regressed", found) >= 0.95


def test_known_drift_makes_a_verdict_about_the_job() -> None:
    """Captures of one job that differ by 2 %: about the captures they differ, about the job nothing is known."""
    rng = np.random.default_rng(13)
    blind, aware = [], []
    for _ in range(200):
        base, head = (steps(rng, 40, 0.0) * math.exp(rng.normal(0, 0.02)) for _ in range(2))
        blind.append(judge_captures(base, head).said)
        aware.append(judge_captures(base, head, drift=0.02).said)
    assert called("regressed", blind) > 0.3
    assert called("regressed", aware) <= 0.02
    assert judge_captures(base, 1.2 * base, drift=0.02).said == "regressed"


def test_a_verdict_of_captures_always_says_what_would_settle_it() -> None:
    assert judge_captures([1.0] * 9, [1.1] * 9).settles == Settles("pairs", PAIRS)


def test_sets_of_captures() -> None:
    """Five and five that do not overlap: 2 of 252 orders are as extreme."""
    found = judge_sets([100, 101, 102, 103, 104], [110, 111, 112, 113, 114])
    assert found.said == "regressed" and found.method == "sets" and found.n == 5
    assert found.ratio == pytest.approx((110 * 111 * 112 * 113 * 114 / (100 * 101 * 102 * 103 * 104)) ** 0.2)
    assert found.p == pytest.approx(2 / 252)
    assert judge_sets([100, 101, 102, 103], [110, 111, 112, 113]).said == "ambiguous"
