"""B against A beside A against itself: which clock is believed, what is withheld, how often equal things differ."""

from __future__ import annotations

import math
import random
from collections import Counter
from functools import partial

import pytest

from npulens.collectors.harness.controlled import Block, blocks, judged, rounds, verdict

STEADY, LOUD = 0.003, 0.4


def ratios(seed: int, level: float, noise: float, count: int = 10) -> list[float]:
    dice = random.Random(seed)
    return [level * math.exp(dice.gauss(0, noise)) for _ in range(count)]


def test_each_side_is_as_often_before_each_other_as_behind_it() -> None:
    orders = list(rounds(12))
    assert set(map(len, orders)) == {3} and len(set(orders)) == 6
    for one, two in ("AB", "AC", "BC"):
        assert sum(order.index(one) < order.index(two) for order in orders) == 6
    for before, behind in zip(orders[::2], orders[1::2], strict=True):
        assert behind == before[::-1]


def test_the_steadier_clock_gives_the_verdict() -> None:
    """Beside busy processes the wall says nothing of 14 %, and CPU time does; on a quiet machine it may be the wall."""
    found = judged({"host": ratios(1, 0.86, LOUD), "cpu": ratios(2, 0.86, STEADY)},
                   {"host": ratios(3, 1.0, LOUD), "cpu": ratios(4, 1.0, STEADY)})  # fmt: skip
    assert (found.clock, found.withheld, found.found["cpu"].said) == ("cpu", None, "different")
    assert found.found["host"].said == "cannot_tell" and found.found["cpu"].low < 0.86 < found.found["cpu"].high
    swapped = judged({"cpu": ratios(1, 0.86, LOUD), "host": ratios(2, 0.86, STEADY)},
                     {"cpu": ratios(3, 1.0, LOUD), "host": ratios(4, 1.0, STEADY)})  # fmt: skip
    assert (swapped.clock, swapped.found["host"].said) == ("host", "different")


def test_where_the_clocks_contradict_each_other_the_wall_is_believed() -> None:
    """A variant on two threads takes half the time and as much CPU time: its caller waits half as long."""
    found = judged({"host": ratios(1, 0.5, 0.01), "cpu": ratios(2, 1.0, STEADY)},
                   {"host": ratios(3, 1.0, 0.01), "cpu": ratios(4, 1.0, STEADY)})  # fmt: skip
    assert (found.clock, found.withheld, found.found["host"].said) == ("host", None, "different")


def test_a_control_that_reaches_as_far_as_the_difference_withholds_it() -> None:
    found = judged({"host": ratios(1, 1.05, STEADY)}, {"host": ratios(2, 1.0, 0.1)})
    assert found.found["host"].said == "different" and found.control["host"].said == "cannot_tell"
    reach = max(found.control["host"].high, 1 / found.control["host"].low)
    assert reach > found.found["host"].ratio and found.withheld == "wide"
    assert judged({"host": ratios(1, 1.5, STEADY)}, {"host": ratios(2, 1.0, 0.1)}).withheld is None


def test_a_control_that_differs_from_itself_withholds_everything() -> None:
    same, different = ratios(1, 1.0, 0.001), ratios(2, 1.5, STEADY)
    assert judged({"host": same}, {"host": same}).withheld is None
    for found in (judged({"host": same}, {"host": ratios(3, 1.1, STEADY)}),
                  judged({"host": different}, {"host": ratios(3, 1.1, STEADY)})):  # fmt: skip
        assert found.withheld == "noisy"


@pytest.mark.parametrize("noise", [0.002, 0.03, 0.5])
def test_equal_things_are_hardly_ever_called_different(noise: float) -> None:
    """At most one in a hundred of 400, though one of two clocks is chosen and both meet the same machine."""
    said = Counter[bool]()
    for seed in range(400):
        made = [ratios(10 * seed + place, 1.0, noise if place < 2 else noise / 2) for place in range(4)]
        found = judged({"host": made[0], "cpu": made[2]}, {"host": made[1], "cpu": made[3]})
        said[found.found[found.clock].said == "different" and found.withheld is None] += 1
    assert said[True] <= 4


def test_bites_are_taken_in_turns_and_a_round_ends_with_its_time() -> None:
    bitten: list[str] = []

    def bite(side: str, ns: int) -> list[int]:
        bitten.append(side)
        return [ns] * 4

    sides = {side: partial(lambda side, clock: bite(side, 100), side) for side in "ABC"}
    taken = list(blocks(sides, "host", "BCA", 0.0))
    assert bitten == ["B", "C", "A"]
    assert {block.side: block.ns for block in taken} == dict.fromkeys("ABC", (100,) * 4)
    bitten.clear()
    taken = list(blocks(sides, "host", "ABC", 60.0))
    assert [len(block.ns) for block in taken] == [200] * 3 and bitten[:6] == list("ABCCBA")


def test_a_clock_that_stands_still_is_not_used() -> None:
    levels = {"A": 100, "B": 120, "C": 100}
    made = [Block(side, "host", (level,) * 4) for _ in range(10) for side, level in levels.items()]
    made += [Block(side, "cpu", (0,) * 4) for _ in range(10) for side in levels]
    found = verdict(made)
    assert set(found.found) == {"host"} and found.found["host"].ratio == pytest.approx(1.2)
    assert found.control["host"].said == "same"
