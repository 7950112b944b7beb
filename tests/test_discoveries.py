"""False discoveries over a night: Benjamini and Hochberg, against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from npulens.analysis.regression.discoveries import discoveries


def test_the_rule_by_hand() -> None:
    # Ranks 1..5 may reach 0.01, 0.02, 0.03, 0.04, 0.05: the third passes, and so do those before it.
    assert discoveries([0.03, 0.005, 0.6, 0.021, 0.9]) == [True, True, False, True, False]
    assert discoveries([0.06, 0.9]) == [False, False] and discoveries([]) == []


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_adjusted_p_values(seed: int) -> None:
    p = np.random.default_rng(seed).uniform(size=50) ** 3
    assert discoveries(list(p), 0.1) == list(stats.false_discovery_control(p) <= 0.1)
