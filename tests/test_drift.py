"""A level that moves night by night: told as one, from the night it began; noise, modes and bad nights are none."""

from __future__ import annotations

import numpy as np
import pytest

from npulens.analysis.regression.drift import LEAST, climbs
from npulens.analysis.regression.series import judge_series
from tests.power.noise import KINDS

STEADY, LEAK = 30, 0.005


def leaking(nights: int, seed: int = 0, noise: float = 0.005) -> list[float]:
    """Thirty steady nights, then so many of a leak of half a per cent a night."""
    draw = np.random.default_rng(seed)
    factor = np.concatenate((np.ones(STEADY), (1 + LEAK) ** np.arange(1, nights + 1)))
    return list(100 * factor * np.exp(noise * draw.standard_normal(len(factor))))


def test_the_climb_of_a_line_by_least_squares() -> None:
    """Without memory the evidence is n / 2 x log(rest / left): by hand over every start, with white noise alone."""
    values = np.log(np.array(leaking(10, seed=3)))
    found = climbs(values[None])
    n, rest = len(values), ((values - values.mean()) ** 2).sum()
    left = {}
    for start in range(3, n - 4):
        climb = np.maximum(np.arange(n) - start + 1, 0)
        design = np.stack((np.ones(n), climb), axis=1)
        left[start] = float(np.linalg.lstsq(design, values, rcond=None)[1][0])
    assert abs(int(found.start[0]) - min(left, key=lambda start: left[start])) <= 1
    assert found.slope[0] == pytest.approx(np.log1p(LEAK), rel=0.2)
    assert 0 < found.evidence[0] < n / 2 * np.log(rest / min(left.values())), "a memory explains a part of it"


@pytest.mark.parametrize("seed", range(6))
def test_a_leak_is_told_before_six_per_cent_and_dated(seed: int) -> None:
    told = next(nights for nights in range(1, 13) if judge_series(leaking(nights, seed)).verdict == "regressed")
    found = judge_series(leaking(12, seed)).changes[-1]
    assert (1 + LEAK) ** told - 1 < 0.06
    assert found.ratio > 1.02 and abs(found.index - STEADY) <= 5


def test_a_leak_says_how_much_a_night_and_is_one_change() -> None:
    (change,) = judge_series(leaking(25, seed=1)).changes
    assert change.slope is not None and change.slope == pytest.approx(LEAK, rel=0.25)
    assert judge_series(list(100 / np.array(leaking(12, seed=1)))).verdict == "improved"


def test_a_leak_that_was_mended_is_followed_by_a_change_back() -> None:
    values = [*leaking(20, seed=2), *(100 * np.exp(0.005 * np.random.default_rng(9).standard_normal(8)))]
    changes = judge_series(values).changes
    assert len(changes) == 2 and changes[0].drift and not changes[1].drift and changes[1].ratio < 0.95
    assert changes[1].index == STEADY + 20


def test_the_level_of_thirty_nights_ago_bounds_same() -> None:
    """One per cent every twelve nights: each is within the margin of 3 %, all of them together are not."""
    draw = np.random.default_rng(4)
    stairs = np.repeat(1.01 ** np.arange(6), 12)
    values = list(100 * stairs * np.exp(0.0005 * draw.standard_normal(len(stairs))))
    known = [judge_series(values[:nights]) for nights in range(40, len(values) + 1)]
    assert any(each.changes for each in known), "six steps of one per cent are told"
    assert not any(each.verdict == "same" and not each.changes for each in known[10:]), "3 % in thirty nights"


@pytest.mark.parametrize("kind", KINDS)
def test_noise_does_not_climb(kind: str) -> None:
    """As a night would tell it, 40 nights of 100 series; 1 in 100 would be 40."""
    values = 0.02 * KINDS[kind](np.random.default_rng([7, list(KINDS).index(kind)]), 100, 50)
    told = np.zeros(100, np.bool_)
    for night in range(LEAST, 51):
        found = climbs(values[:, :night])
        told |= (found.p <= 0.01) & (np.abs(found.total) >= np.log1p(0.01))
    assert told.sum() <= 40
