"""The interval of each contribution: by hand, and how often it holds the truth where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from npulens.analysis.regression.change import Change
from npulens.analysis.regression.compared import compared
from npulens.analysis.regression.pieces import IN_BLOCK, Measured, measure
from npulens.analysis.regression.spread import Design, Floats, reach_of
from tests.pairs.job import drawn, fill, planted
from tests.random_runs import empty_connection
from tests.test_compare import kernel, measured, step

SETS = Design(False)
#: What is planted as long as it is found; a gap begins where the device would have paused anyway.
WORK = ("slower", "new", "gone", "renamed", "copy", "comm")


def pairs(number: int) -> Design:
    return Design(False, tuple((place, place) for place in range(number)))


def reach(base: Floats, head: Floats, design: Design, windows: Floats | None = None) -> float | None:
    """Of one thing whose ns a window are given, by capture or block."""
    sides = [np.ones(len(side)) if windows is None else windows for side in (base, head)]
    (found,) = reach_of(((base * sides[0])[None], (head * sides[1])[None]), (sides[0], sides[1]), design)
    return found


def test_sets_and_pairs_by_hand() -> None:
    base, head = np.array([10.0, 12, 11, 13, 9]), np.array([21.0, 22, 20, 24, 23])
    welch = stats.ttest_ind(head, base, equal_var=False).confidence_interval(0.99)
    assert reach(base, head, SETS) == pytest.approx((welch.high - welch.low) / 2)
    base, head = np.arange(1.0, 9), np.arange(1.0, 9) + [3, 4, 3, 5, 3, 4, 3, 3]
    paired = stats.ttest_rel(head, base).confidence_interval(0.99)
    assert reach(base, head, pairs(8)) == pytest.approx((paired.high - paired.low) / 2)


def test_too_few_or_too_rare_is_none() -> None:
    many = np.full(12, 5.0)
    assert reach(many[:4], many, SETS) is None and reach(many[:7], many[:7], pairs(7)) is None
    rare = np.array([0.0] * 9 + [300, 200, 100])
    assert reach(many, rare, SETS) is None, "it came three times in twelve"
    assert reach(many, np.zeros(12), SETS) == 0.0, "it is gone"


@pytest.mark.parametrize("noise", ["normal", "tails", "skewed", "two modes", "remembers"])
@pytest.mark.parametrize("design", ["sets", "pairs", "blocks"])
def test_it_holds_the_truth_as_often_as_it_says(noise: str, design: str) -> None:
    """99 % intervals of a true change of 2, at the fewest repetitions that have one, with unequal windows."""
    rng = np.random.default_rng([ord(letter) for letter in noise + design])
    number = {"sets": 5, "pairs": 8, "blocks": 10}[design]
    how = {"sets": SETS, "pairs": pairs(number), "blocks": Design(True)}[design]

    def drawn_from() -> Floats:
        if noise == "remembers":  # a block resembles the one before it
            value = rng.normal(size=number)
            for place in range(1, number):
                value[place] = 0.3 * value[place - 1] + np.sqrt(1 - 0.09) * value[place]
            return value
        draws = {"normal": rng.normal(size=number), "tails": rng.standard_t(3, number).clip(-40, 40),
                 "skewed": rng.lognormal(0, 0.5, number) - np.exp(0.125),
                 "two modes": rng.choice([-1.0, 1.0], number) + rng.normal(0, 0.01, number)}  # fmt: skip
        return np.asarray(draws[noise])

    held = 0
    for _ in range(2000):
        windows = rng.integers(3, 5, number).astype(np.float64)
        base, head = 50 + drawn_from(), 52 + drawn_from()
        found = reach(base, head, how, windows)
        assert found is not None
        held += abs(float((head - base) @ windows / windows.sum()) - 2) <= found
    # Blocks may remember, and the design allows for it; captures that do are not independent, as it takes them to be.
    least = 0.95 if noise == "remembers" and design != "blocks" else 0.98
    assert held / 2000 >= least, held / 2000


def exact(found: Change) -> None:
    assert sum(one.delta_ns for one in found.contributions) + found.residual_ns == found.delta_ns


def test_contributions_of_simulated_captures_hold_the_truth() -> None:
    """Captures of a job drawn at random: nothing changed, so 0 is the truth of every part; or one thing did."""
    con, held, told, planted_held, planted_told = empty_connection(), 0, 0, 0, 0
    for number in range(36):
        rng = np.random.default_rng((11, number))
        before, after, truth = planted(drawn(rng), WORK[number % len(WORK)], 0.05, rng)

        def capture(job: object, name: str, noise: np.random.Generator) -> Measured:
            fill(con, job, name, noise)  # type: ignore[arg-type]
            return measure(con)

        base, again, head = (capture(job, name, rng) for job, name in ((before, "a"), (before, "b"), (after, "c")))
        for one in (base, head):
            blocks = one.rows[list(IN_BLOCK[: len(one.blocks)])]
            assert (blocks.sum(axis=1) == one.rows["ns"]).all() and sum(one.blocks) == len(one.side.windows)
        unchanged, changed = compared([base], [again]).change, compared([base], [head]).change
        for found in (unchanged, changed):
            exact(found)
        sure = [one.interval_ns for one in unchanged.contributions if one.interval_ns is not None]
        told, held = told + len(sure), held + sum(low <= 0 <= high for low, high in sure)
        mine = [one.interval_ns for one in changed.contributions if one.kind == truth.kind and one.what in truth.names
                and abs(one.delta_ns - truth.delta_ns) < abs(truth.delta_ns) / 2]  # fmt: skip
        planted_told += sum(each is not None for each in mine)
        planted_held += sum(each is not None and each[0] <= truth.delta_ns <= each[1] for each in mine)
    assert told > 300 and held / told >= 0.98, (held, told)
    assert planted_told >= 30 and planted_held / planted_told >= 0.9, (planted_held, planted_told)


def test_an_interval_in_a_comparison_by_hand() -> None:
    """Six steps a side; a kernel of 20, 22, 20, ... us grows by 10, another comes in a single step."""
    def side(more: float, name: str) -> Measured:
        spans = []
        for number in range(6):
            at = 100.0 * number
            spans += [step(number, at, 100), kernel(10 + number, at + 5, 20 + 2 * (number % 2) + more, "Work")]
        return measured([*spans, kernel(90, 60, 7, "Rare")], {"run": {"run_id": name}})

    change = compared([side(0, "a")], [side(10, "b")]).change
    exact(change)
    work, rare = (next(one for one in change.contributions if one.what == what) for what in ("Work", "Rare"))
    assert work.delta_ns == 10_000 and work.interval_ns is not None
    assert work.interval_ns[0] < 10_000 < work.interval_ns[1] and rare.interval_ns is None
