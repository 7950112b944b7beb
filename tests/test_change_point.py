"""The scan against a likelihood written out in full, and against noise of known memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from npulens.analysis.regression import change_point
from npulens.analysis.regression.change_point import AFTER, BEFORE, LEAST, scan, tamed


def likelihood(nights: np.ndarray, split: int | None) -> float:
    """The best log likelihood over all noise: generalised least squares as a textbook writes it, one at a time."""
    n, found = len(nights), []
    level = np.ones((n, 1)) if split is None else np.column_stack([np.ones(n), np.arange(n) >= split])
    for rho, white in change_point._FAMILY:
        noise = (1 - white) * np.array([[float(rho) ** abs(i - j) for j in range(n)] for i in range(n)])
        inverse = np.linalg.inv(noise + white * np.eye(n))
        fitted = np.linalg.solve(level.T @ inverse @ level, level.T @ inverse @ nights)
        rest = nights - level @ fitted
        share = rest @ inverse @ rest / n + change_point._RESOLUTION**2
        found.append(-n / 2 * np.log(share) + np.linalg.slogdet(inverse)[1] / 2)
    return max(found)


@pytest.mark.parametrize("n", [LEAST, 8, 21])
def test_the_evidence_is_that_of_the_textbook(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(5):
        nights = rng.normal(0, 0.02, n) + 0.1 * (np.arange(n) >= n // 2 + 1)
        calm = tamed(nights[None])[0]
        with_step = {split: likelihood(calm, split) for split in range(BEFORE, n - AFTER + 1)}
        seen = scan(nights[None])
        assert seen.evidence[0] == pytest.approx(max(with_step.values()) - likelihood(calm, None), abs=1e-6)
        assert seen.split[0] == max(with_step, key=lambda split: with_step[split])


def test_a_wild_night_is_drawn_in_and_a_step_is_not() -> None:
    nights = np.array([1.00, 1.01, 0.99, 1.00, 3.00, 1.01, 1.00, 1.30, 1.31, 1.29, 1.30])
    calm = tamed(nights[None])[0]
    away = calm - calm[0] + nights[0]
    assert away[4] < 1.1  # alone among its neighbours
    assert np.abs(away[7:] - nights[7:]).max() < 0.02  # two and more in a row are a level


def test_the_running_median_is_a_median() -> None:
    five = np.random.default_rng(1).normal(size=(5, 400))
    assert np.array_equal(change_point._median_of_five(*five), np.median(five, axis=0))


def test_a_step_on_quiet_nights_is_dated_and_sized() -> None:
    rng = np.random.default_rng(2)
    nights = rng.normal(0, 0.01, (300, 40)) + np.log(1.05) * (np.arange(40) >= 25)
    seen = scan(nights)
    assert (seen.p <= 0.01).mean() > 0.95 and (np.abs(seen.split - 25) <= 1).mean() > 0.99
    # The standard errors are standard: the shift lies within 1.96 of them 95 times in 100, give or take 3.
    inside = np.abs(seen.shift - np.log(1.05)) <= stats.t.ppf(0.975, 37) * seen.error
    assert 0.92 <= inside.mean() <= 0.99
    held = [first <= 25 <= last for first, last in map(seen.between, range(300))]
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_memory_does_not_fool_it(rho: float) -> None:
    """4,000 series without a step; a t-test at every split of the same finds one in most of them at rho 0.6."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(4_000, 30))
    for night in range(1, 30):
        noise[:, night] = rho * noise[:, night - 1] + np.sqrt(1 - rho**2) * noise[:, night]
    assert (scan(0.02 * noise).p <= 0.01).mean() <= 0.01
    if rho == 0.6:
        fooled = [
            min(stats.ttest_ind(nights[:k], nights[k:]).pvalue for k in range(5, 26)) <= 0.01 for nights in noise[:60]
        ]
        assert np.mean(fooled) > 0.4


def test_nights_that_never_varied_have_no_step_and_one_that_is_exact_has_it() -> None:
    flat = np.full((1, 20), 7.0)
    assert scan(flat).p[0] == 1.0
    flat[0, 12:] += 0.05
    seen = scan(flat)
    assert seen.p[0] < 1e-6 and seen.split[0] == 12 and seen.between(0) == (12, 12)
