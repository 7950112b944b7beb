"""The noise floor: of equal sides it covers 99 nights in 100, and one wild night does not raise it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npulens.analysis.regression.floor import margin, noise_floor


def test_the_floor_covers_the_nights_to_come() -> None:
    rng = np.random.default_rng(5)
    covered = [
        np.mean(np.abs(rng.normal(0, 0.004, 2_000)) <= math.log1p(found.at_most))
        for found in (noise_floor(rng.normal(0, 0.004, 12)) for _ in range(300))
        if found
    ]
    assert len(covered) == 300 and np.mean(np.array(covered) >= 0.985) >= 0.85


def test_one_wild_night_does_not_set_it() -> None:
    quiet = [0.001, -0.002, 0.0015, -0.001, 0.002, -0.0015, 0.001, -0.002]
    calm, wild = noise_floor(quiet), noise_floor([*quiet, 0.5])
    assert calm and wild and wild.spread < 3 * calm.spread


def test_too_few_nights_are_no_floor_and_leave_the_margin_alone() -> None:
    assert noise_floor([0.01] * 4) is None and margin(None, 0.02) == 0.02
    assert noise_floor([math.nan, 0.01, 0.0, 0.0, 0.0]) is None
    high = noise_floor([0.05, -0.04, 0.06, -0.05, 0.05])
    assert margin(high, 0.02) == pytest.approx(high.at_most if high else 0) and margin(high, 0.02) > 0.1
