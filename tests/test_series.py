"""What is said of a series: planted changes are found and dated, quiet ones left alone, odd ones break nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npulens.analysis.regression.baseline import baseline
from npulens.analysis.regression.series import (  # fmt: skip
    Limits,
    Seen,
    _held,
    _history,
    _look,
    judge_all,
    judge_series,
)
from tests.power.cells import history
from tests.power.measured import generator


def planted(steps: dict[int, float], n: int = 60, noise: float = 0.01, seed: int = 1) -> list[float]:
    """A step time of 20 ms with ratios from given nights on."""
    logs = np.random.default_rng(seed).normal(0, noise, n)
    for night, ratio in steps.items():
        logs[night:] += math.log(ratio)
    return list(20e6 * np.exp(logs))


def test_changes_are_found_in_their_order_dated_and_sized() -> None:
    steps = {12: 1.05, 25: 0.92, 37: 1.10, 50: 1.06}
    found = judge_series(planted(steps))
    assert [change.index for change in found.changes] == pytest.approx(list(steps), abs=1)
    for change, (night, ratio) in zip(found.changes, steps.items(), strict=True):
        assert change.first <= night <= change.last and change.last - change.first <= 3
        assert change.low <= ratio <= change.high and change.p <= 0.01
    assert found.verdict == "regressed"
    assert found.level == pytest.approx(20e6 * 1.05 * 0.92 * 1.10 * 1.06, rel=0.02)
    assert found.floor == pytest.approx(0.01, rel=0.8)


def test_a_quiet_series_is_the_same_and_a_noisy_one_ambiguous() -> None:
    assert judge_series(planted({}, 30)).verdict == "same"
    noisy = judge_series(planted({}, 30, noise=0.08))
    assert (noisy.verdict, noisy.changes) == ("ambiguous", ())
    assert noisy.settles is None or noisy.settles > 7
    few = judge_series(planted({}, 3))
    assert (few.verdict, few.settles) == ("ambiguous", 2)


def test_better_says_which_way_is_worse_and_old_changes_are_how_things_are() -> None:
    values = planted({30: 1.08}, 40)
    assert judge_series(values).verdict == "regressed"
    assert judge_series(values, better="higher").verdict == "improved"
    assert judge_series(planted({30: 1.08}, 60)).verdict == "same"


def test_wild_nights_are_no_change() -> None:
    values = planted({}, 40)
    values[10] *= 3
    values[30] /= 2
    values[39] *= 1.5
    assert judge_series(values).changes == ()


def test_a_change_too_small_for_a_word_is_not_spoken_of() -> None:
    values = planted({20: 1.03}, 40, noise=0.001)
    assert len(judge_series(values).changes) == 1
    assert judge_series(values, Limits(least=0.05)).changes == ()


@pytest.mark.parametrize(
    ("values", "verdict", "changes"),
    [
        ([], "ambiguous", 0), ([5.0], "ambiguous", 0), ([0.0] * 20, "same", 0), ([7.0] * 20, "same", 0),
        ([80.0] * 10 + [84.0] * 10, "regressed", 1), ([0.0] * 10 + [3.0] * 10, "regressed", 1),
        ([1e-300] * 10 + [1e300] * 10, "regressed", 1),
    ],
)  # fmt: skip
def test_odd_series_get_an_answer(values: list[float], verdict: str, changes: int) -> None:
    found = judge_series(values)
    assert (found.verdict, len(found.changes)) == (verdict, changes)


def test_a_count_that_changes_has_the_ratio_of_its_levels() -> None:
    (change,) = judge_series([80.0] * 10 + [84.0] * 10).changes
    assert change.ratio == pytest.approx(1.05)
    (change,) = judge_series([0.0, 2.0] * 8 + [11.0] * 10).changes
    assert change.ratio == pytest.approx(11.0, rel=0.2)
    (change,) = judge_series([0.0] * 10 + [3.0] * 10).changes
    assert change.ratio == math.inf


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        judge_series([1.0, math.nan])


def test_many_together_are_judged_as_each_alone() -> None:
    several = [planted({20: 1.06}, 30 + i, seed=i) for i in range(6)] + [[], [1.0]]
    assert judge_all(several) == [judge_series(values) for values in several]


def test_a_baseline_is_a_median_and_does_not_move_with_one_wild_night() -> None:
    found = baseline([10.0, 11.0, 9.0, 10.0, 10.5, 500.0])
    assert found is not None and found.level == 10.25 and found.spread is not None
    # Median distance from 10.25: 0.25, 0.25, 0.25, 0.75, 1.25, ... -> 0.5; times 1.4826, times 6 / 5.2.
    assert found.spread == pytest.approx(1.4826 * 0.5 * 6 / 5.2 / 10.25)
    assert baseline([]) is None and baseline([3.0]).spread is None  # type: ignore[union-attr]


def test_two_dates_that_lead_to_each_other_come_to_an_end() -> None:
    """Of 4,000 simulated histories this one is dated to night 41 from 40, and to night 40 from 41."""
    samples = history("Gaussian", 60, 0.05, 4_000, generator(20_270_101, "Gaussian", 60, 0.05))[3_431]
    judged, limits = _history(list(np.exp(np.median(samples, axis=1)))), Limits(alpha=1.0)
    for first in (40, 41):
        (change,) = _held(judged, [Seen(first, 59, True, False)], limits)
        assert change.index in (40, 41) and change.first <= 41 <= change.last + 1
    looked = [_look(judged, limits, 0, Seen(at, 59, True, False), 60) for at in (40, 41)]
    assert [change.index for change in looked] == [41, 40], "each leads to the other"
