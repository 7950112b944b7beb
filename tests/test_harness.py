"""The harness tells flat, cold, drifting and throttled series apart, and whether B is slower than A."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import product
from math import comb

import pytest

from npulens.collectors.bench.times import outliers
from npulens.collectors.harness.quantiles import bounds, needed, quantiles, rank
from npulens.collectors.harness.steady import steadiness
from npulens.collectors.harness.versus import judge, order, signed_rank, student, versus
from npulens.collectors.harness.warmup import settled, warm_up
from tests.bench.harness import LEVEL_NS as LEVEL
from tests.bench.harness import series


@pytest.mark.parametrize(
    ("kind", "state"),
    [("flat", "steady"), ("cold start", "cold_start"), ("cold block", "cold_start"), ("drift", "drift"),
     ("throttled", "throttled"), ("faster later", "unsteady"), ("bimodal", "steady"), ("stalls", "steady")],
)  # fmt: skip
def test_the_kind_of_a_series_is_told(kind: str, state: str) -> None:
    assert Counter(steadiness(series(kind, seed)).state for seed in range(100)) == {state: 100}


def test_a_cold_start_is_left_out_and_no_more_than_that() -> None:
    for seed in range(50):
        found = steadiness(series("cold block", seed))
        assert found.counts and found.kept_from == 100  # the planted end; bins are 50 calls
        assert found.change == pytest.approx(1 / 1.4 - 1, abs=0.03)


def test_the_call_where_it_throttled_is_named() -> None:
    for seed in range(50):
        found = steadiness(series("throttled", seed))
        assert not found.counts and found.changed_at == 600 and found.change == pytest.approx(0.25, abs=0.03)


def test_too_few_calls_give_no_verdict() -> None:
    assert steadiness([LEVEL] * 99).state == "too_few" and steadiness([LEVEL] * 100).state == "steady"


def test_a_percentile_is_a_measured_value_and_its_ranks_are_right_by_brute_force() -> None:
    assert [rank(0.9, 10), rank(0.5, 10), rank(0.5, 11), rank(0.999, 10)] == [9, 5, 6, 10]
    for n, p in product((20, 60, 200), (0.5, 0.9, 0.99)):
        low, high = bounds(p, n)
        below = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        assert low == 1 or sum(below[:low]) <= 0.025  # the percentile is under sample `low`
        assert sum(below[: low + 1]) > 0.025  # and no tighter rank would do
        if high is None:
            assert sum(below[n - 1 :]) > 0.025
        else:
            assert sum(below[high:]) <= 0.025 < sum(below[high - 1 :]) or high == rank(p, n)


def test_the_interval_covers_the_true_percentile() -> None:
    dice, hits = random.Random(3), Counter[float]()
    for _ in range(1000):
        drawn = [round(dice.expovariate(1) * 1e6) for _ in range(600)]
        for found in quantiles(drawn, (0.5, 0.9, 0.99)):
            truth = -math.log(1 - found.level) * 1e6
            hits[found.level] += found.low <= truth and (found.high is None or truth <= found.high)
    assert all(count >= 935 for count in hits.values())  # 950 expected, 7 standard deviation


def test_how_many_samples_a_percentile_needs() -> None:
    assert [needed(level) for level in (0.9, 0.99, 0.999)] == [54, 555, 5570]
    assert quantiles(range(1, 501), (0.99,))[0].high is None  # 500 calls cannot bound P99
    assert quantiles(range(1, 557), (0.99,))[0].high is not None


def test_stalls_are_reported_and_stay_in_the_percentile() -> None:
    """Two calls of a hundred take ten times as long. Removing them before P99 hides exactly what P99 is for."""
    drawn = series("stalls", 1)
    slow = [i for i, value in enumerate(drawn) if value > 5 * LEVEL]
    found = outliers(drawn)
    assert set(slow) <= set(found.at) and found.count >= len(slow) > 10
    true_p99 = sorted(drawn)[989]
    assert quantiles(drawn, (0.99,))[0].value == true_p99 > 9 * LEVEL
    kept = sorted(value for value in drawn if found.low_fence <= value <= found.high_fence)
    assert kept[round(0.99 * len(kept))] < 1.1 * LEVEL  # what the filtered one would say


def test_students_t_against_tabled_values() -> None:
    """Abramowitz and Stegun, table 26.10."""
    for freedom, alpha, table in (
        (1, 0.05, 12.706),
        (2, 0.05, 4.303),
        (5, 0.01, 4.032),
        (9, 0.01, 3.250),
        (30, 0.05, 2.042),
    ):
        assert student(freedom, alpha) == pytest.approx(table, abs=6e-4)


def test_signed_rank_by_trying_every_sign() -> None:
    dice = random.Random(5)
    for n in (3, 6, 10):
        values = [round(dice.gauss(0.4, 1), 1) or 0.1 for _ in range(n)]  # rounded: ties happen
        sizes = sorted(abs(value) for value in values)
        ranks = {size: sum(i + 1 for i, x in enumerate(sizes) if x == size) / sizes.count(size) for size in sizes}
        total = sum(ranks[size] for size in sizes)
        seen = sum(ranks[abs(value)] for value in values if value > 0)
        sums = [
            sum(ranks[size] for size, sign in zip(sizes, signs, strict=True) if sign)
            for signs in product((0, 1), repeat=n)
        ]
        tail = min(seen, total - seen)
        assert signed_rank(values) == pytest.approx(min(1.0, 2 * sum(s <= tail + 1e-9 for s in sums) / 2**n))


def block(dice: random.Random, drift: float, slower: float) -> list[int]:
    return [round(LEVEL * drift * slower * (1 + dice.gauss(0, 0.03))) for _ in range(50)]


def duel(seed: int, slower: float) -> str:
    """Ten pairs on a machine whose speed wanders by 2 % from pair to pair and 0.5 % within one."""
    dice = random.Random(seed)
    calls = iter(range(100))
    wander: list[float] = []

    def one(factor: float) -> list[int]:
        if next(calls) % 2 == 0:
            wander.append(1 + dice.gauss(0, 0.02))
        return block(dice, wander[-1] * (1 + dice.gauss(0, 0.005)), factor)

    return versus(lambda: one(1.0), lambda: one(slower)).said


def test_the_same_thing_twice_is_hardly_ever_called_different() -> None:
    assert sum(duel(seed, 1.0) == "different" for seed in range(200)) <= 4  # 2 % of 200


def test_three_percent_slower_is_found() -> None:
    assert sum(duel(seed, 1.03) == "different" for seed in range(200)) >= 190


def test_what_cannot_be_told_says_how_many_pairs_would_tell() -> None:
    dice = random.Random(9)
    found = judge([math.exp(dice.gauss(0, 0.05)) for _ in range(6)])
    assert found.said == "cannot_tell" and found.pairs_needed is not None and found.pairs_needed > 6
    assert judge([1.001, 0.999, 1.0005, 0.9995, 1.0, 1.0002]).said == "same"


def test_an_interval_away_from_one_wants_as_many_pairs_as_the_test_can_speak_of() -> None:
    """Six pairs on one side have p = 2 / 64; eight have 2 / 256, the first below 0.01."""
    found = judge([0.5, 0.501, 0.499, 0.5, 0.502, 0.498])
    assert found.said == "cannot_tell" and found.high < 1 and found.pairs_needed == 8
    assert judge([0.5, 0.501, 0.499, 0.5, 0.502, 0.498, 0.5, 0.5]).said == "different"


def test_both_come_first_equally_often() -> None:
    assert order(4) == "ABBAABBA"
    assert order(10).count("A") == order(10).count("B") == 10


def test_warm_up_ends_when_the_calls_have_settled_and_keeps_them() -> None:
    dice, calls = random.Random(2), iter(range(10_000))
    found = warm_up(lambda: round(LEVEL * (1 + 9 * (next(calls) < 40)) * (1 + dice.gauss(0, 0.005))))
    # A midmean of ten leaves the two slowest out, so the first of three windows may begin with the last two slow calls.
    assert found.settled and 68 <= len(found.samples) < 200 and max(found.samples[:40]) > 9 * LEVEL
    assert not settled([LEVEL] * 29) and settled([LEVEL] * 30) and not settled([LEVEL] * 20 + [LEVEL * 2] * 10)
    slowing = iter(range(1_000_000))
    assert not warm_up(lambda: round(LEVEL * 1.01 ** (next(slowing) % 500)), min_calls=500, patience_s=0.05).settled
