"""All metrics of a task under every exchange of sides: against the definition, and at its level."""

from __future__ import annotations

import math
from itertools import product
from statistics import mean, stdev

import numpy as np
import pytest

from npulens.analysis.regression.jointly import together


def by_definition(logs: list[list[float]]) -> list[float]:
    """Student's t of every metric under every exchange, one by one."""

    def t(values: list[float]) -> float:
        return abs(mean(values)) / (stdev(values) / math.sqrt(len(values)))

    largest = [max(t([sign * log for sign, log in zip(signs, row, strict=True)]) for row in logs)
               for signs in product((1, -1), repeat=len(logs[0]))]  # fmt: skip
    return [sum(each >= t(row) * (1 - 1e-12) for each in largest) / len(largest) for row in logs]


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_its_definition_says(seed: int) -> None:
    logs = np.random.default_rng(seed).standard_normal((4, 6))
    logs[1] += 1.5
    assert together(logs.tolist()) == pytest.approx(by_definition(logs.tolist()), abs=1e-12)


def test_ten_pairs_can_tell_among_thirty_metrics() -> None:
    logs = 0.002 * np.random.default_rng(1).standard_normal((30, 10))
    logs[7] += 0.05
    p = together(logs.tolist())
    assert p[7] == 2 / 1024 and min(p[:7] + p[8:]) > 0.05


def test_nothing_is_nothing() -> None:
    assert together([[0.0] * 10, [0.0] * 10]) == [1.0, 1.0]
    assert together([]) == [] and together([[0.1], [0.2]]) == [1.0, 1.0] and together([[], []]) == [1.0, 1.0]


@pytest.mark.parametrize("pairs", [10, 20])
def test_any_false_alarm_of_a_task_has_the_level(pairs: int) -> None:
    rng = np.random.default_rng(pairs)
    alarms = 0
    for _ in range(400):
        shared = rng.standard_normal(pairs)
        logs = rng.standard_t(3, (12, pairs)) + shared  # heavy tails, and all moved by one thing
        alarms += min(together(logs.tolist())) <= 0.05
    assert alarms <= 33  # 400 x 0.05, and three standard deviations


def test_a_change_without_any_noise_is_told() -> None:
    assert together([[0.01] * 10, [0.001, -0.001] * 5])[0] == 2 / 1024
