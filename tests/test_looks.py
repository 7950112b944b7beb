"""Pairs of a task: the test against every choice of signs, the budget of alarms, and what noise and ticks do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import special

from npulens.analysis.regression.looks import (  # fmt: skip
    ALPHA,
    STEP,
    Pairs,
    decide,
    goes_on,
    look_of,
    moved,
    p_values,
    tick_of,
)
from npulens.analysis.regression.looks import PARTS as PARTS_ALPHA
from tests.power.noise import KINDS
from tests.power.pairs import ALIKE, EARLY, ONE, PARTS, PairCell, alone, many, promises

#: Noise of one deviation without a pattern, by hand; its middle is 0.
QUIET = [1.1, -0.4, 0.6, -1.3, 0.2, -0.8, 0.9, -0.1, 0.3, -0.5]


def by_trying_every_sign(logs: list[float]) -> float:
    """Normal scores to two digits, equal sizes sharing their mean, against all 2^n choices of signs."""
    n, sizes = len(logs), np.abs(logs)
    scores = np.round(100 * special.ndtri((1 + np.arange(1, n + 1) / (n + 1)) / 2))
    each = np.array([np.round(scores[np.sort(sizes) == size].mean()) if size else 0.0 for size in sizes])
    sums = np.array(list(product((-1, 1), repeat=n))) @ each
    return float((np.abs(sums) >= abs(np.sign(logs) @ each)).mean())


@pytest.mark.parametrize("logs", [
    [0.5, -0.1, 0.7, 0.3, -0.2, 0.9, 0.4], [1.0, 1.0, -1.0, 2.0, 0.0, 2.0, 3.0, -2.0], [0.0] * 5, [1.0] * 9,
    [0.3, 0.1, 0.2, 0.8, 0.5, 0.4, 0.6, 0.9, 0.7, 1.1],
])  # fmt: skip
def test_p_is_the_share_of_all_choices_of_signs(logs: list[float]) -> None:
    assert p_values(np.array([logs]))[0] == pytest.approx(by_trying_every_sign(logs), abs=1e-12)
    assert p_values(-np.array([logs]))[0] == p_values(np.array([logs]))[0]


def test_the_words_at_ten_pairs() -> None:
    """Ten of one sign have p = 2 / 2^10 = 0.00195, which the first look takes; nine of ten have not."""
    def said(level: float, noise: float) -> tuple[str, bool]:
        found = decide([Pairs([level + noise * one for one in QUIET], True)], 10)
        return found.verdicts[0].said, found.goes_on

    assert said(0.05, 0.02) == ("regressed", False) and said(-0.05, 0.02) == ("improved", False)
    assert said(0.02, 0.02) == ("ambiguous", True), "nine of ten"
    assert said(0.0, 0.0005) == ("same", False) and said(0.0, 0.02) == ("ambiguous", False)


def test_the_interval_holds_the_shifts_that_are_not_rejected() -> None:
    """At 99 % of ten pairs: all signs alike (2 / 1024) and the smallest turned (4 / 1024) and more are rejected."""
    logs = np.array([0.03 + 0.02 * one for one in QUIET])
    (found,) = decide([Pairs(logs.tolist(), True)], 10).verdicts
    assert found.log_interval is not None
    low, high = found.log_interval
    for edge, outward in ((low, -1e-6), (high, 1e-6)):
        outside, inside = (p_values((logs - edge - step)[None])[0] for step in (outward, -outward))
        assert outside <= 0.01 < inside


def test_many_parts_do_not_take_the_budget_of_the_step() -> None:
    step = np.array([True] + [False] * 29)
    p = np.ones((30, 4))
    p[0] = [0.0051, 0.0053, 1.0, 0.0051]
    p[1] = [1.0, 1.0, 0.0004 / 29, 0.0052 / 29]
    assert moved(p, step, 1)[0].tolist() == [True, False, False, True]
    assert moved(p, step, 1)[1].tolist() == [False, False, True, True], "the step's budget once the step moved"
    assert moved(p, np.zeros(30, np.bool_), 1)[0].tolist() == [False] * 4, "without a step all share one budget"


def test_all_looks_and_metrics_together_spend_one_per_cent() -> None:
    assert sum(STEP) + sum(PARTS_ALPHA) == pytest.approx(0.01) and sum(ALPHA) < 0.01


def test_a_part_that_moves_in_every_pair_is_told_at_the_first_look() -> None:
    """Of 1,024 exchanges only none and all have a t as large: p is 2 / 1,024, whatever the other parts do."""
    rng = np.random.default_rng(3)
    kernel = 0.1 + 0.002 * rng.standard_normal(10)
    others = [Pairs(0.02 * rng.standard_normal(10), place == 0) for place in range(20)]
    decision = decide([*others, Pairs(kernel, False)], 10)
    assert [each.said for each in decision.verdicts].count("regressed") == 1
    assert decision.verdicts[-1].said == "regressed"
    mixed = decide([*others, Pairs(np.where(np.arange(10) < 3, -kernel, kernel), False)], 10)
    assert "regressed" not in [each.said for each in mixed.verdicts]


def test_a_task_stops_when_its_word_is_said_or_no_doubt_is_left() -> None:
    step, p = np.array([True, False, False]), np.ones((3, 5))
    p[0] = [0.001, 0.29, 0.31, 1.0, 1.0]
    p[1] = [1.0, 1.0, 1.0, 0.01, 0.02]

    def on(look: int) -> list[bool]:
        return [bool(each) for each in goes_on(p, step, look, moved(p, step, look))]

    assert on(0) == [False, True, False, True, True]
    assert on(1) == [False, False, False, True, True]
    assert on(2) == [False] * 5, "after four times as many"
    assert [look_of(pairs, 10) for pairs in (0, 10, 11, 20, 21, 40, 99)] == [0, 0, 1, 1, 2, 2, 2]


def test_a_tick_is_the_least_there_is_to_doubt() -> None:
    """Ten times 0: the unit of a hundredth leaves t(9, 99.5 %) x 0.01 / sqrt(6) / sqrt(10) = 0.0042 each way."""
    (found,) = decide([Pairs([0.0] * 10, True, 0.01)], 10).verdicts
    assert found.log_interval == pytest.approx((-0.004196, 0.004196), rel=1e-3) and found.said == "same"
    (coarse,) = decide([Pairs([0.0] * 10, True, 0.02)], 10).verdicts
    assert coarse.said == "ambiguous"
    assert tick_of([200.0, 210, 200, 230]) == pytest.approx(10 / 205) and tick_of([12.5] * 3) == pytest.approx(0.008)
    assert tick_of([40_000.0] * 3) == pytest.approx(1 / 40_000)
    assert tick_of([1.5, 2.25, 3.5]) == tick_of([]) == tick_of([0.0, 0.0]) == 0.0


def test_nothing_and_one_pair_are_no_verdict() -> None:
    assert decide([], 10).verdicts == () and not decide([], 10).goes_on
    for logs in ([], [0.1]):
        found = decide([Pairs(logs, True)], 10)
        assert found.verdicts[0].said == "ambiguous" and found.verdicts[0].low is None and not found.goes_on


def rates(cells: list[PairCell], rule: str, effect: float) -> float:
    (found,) = [cell.rate for cell in cells if (cell.rule, cell.effect) == (rule, effect)]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_equal_sides_are_left_alone_in_every_noise(kind: str) -> None:
    """1 in 100 at most: of 2,000, more than 33 would come about by chance 2 times in 1,000."""
    assert rates(list(alone(kind, 2_000, 5)), ONE, 0.0) <= 33 / 2_000


def test_three_per_cent_are_seen_with_twenty_pairs() -> None:
    """Of 2,000, less than 88 % would come about by chance once in 1,000 where 90 % are seen."""
    for kind in ("Gaussian", "drifting", "bimodal"):
        cells = list(alone(kind, 2_000, 6))
        assert rates(cells, EARLY, 0.03) >= 0.88 and rates(cells, EARLY, 0.05) >= 0.985


def test_thirty_metrics_cost_no_more_alarms_than_one() -> None:
    cells = list(many("Gaussian", 400, 7))
    assert rates(cells, ALIKE, 0.0) <= 11 / 400 and rates(cells, PARTS, 0.0) <= 11 / 400
    assert rates(cells, ALIKE, 0.03) >= 0.92


def test_a_broken_promise_of_pairs_says_so() -> None:
    kept = [PairCell(rule, noise, effect, 4_000, round(4_000 * rate), 14.0, 0.7)
            for rule in (ONE, "step and 29 parts", ALIKE, PARTS, EARLY) for noise in ("Gaussian", "drifting", "bimodal")
            for effect, rate in ((0.0, 0.009), (0.03, 0.91), (0.05, 0.995))]  # fmt: skip
    assert [holds for holds, _ in promises(kept)] == [True] * 6
    broken = [PairCell(cell.rule, cell.noise, cell.effect, 4_000, {0.0: 60, 0.03: 3_500}.get(cell.effect, 3_900), 14, 1)
              for cell in kept]  # fmt: skip
    assert [holds for holds, _ in promises(broken)] == [False] * 6
