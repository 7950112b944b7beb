"""A share of `make pairs`: one planted change of every kind, and whether compare finds it."""

from __future__ import annotations

import random

from tests.pairs.__main__ import LIMITS, figures, held, right, tries
from tests.pairs.job import WHAT


def test_a_planted_change_of_every_kind_is_found() -> None:
    found = list(tries(range(len(WHAT)), 7))
    assert [one.planted.what for one in found] == list(WHAT)
    assert all(right(one) and one.first and one.residual_ok for one in found)
    assert not [one for one in found if one.unchanged in ("regressed", "improved")]
    assert max(abs(one.error) for one in found) < 0.25
    assert held(figures(found)) and sum(one.said != "ambiguous" for one in found) >= len(WHAT) // 2


def test_the_limits_can_be_missed() -> None:
    """Had the verdicts been drawn by lot, the figures would say so."""
    found = [one for one in tries(range(2), 3)] * 50
    lot = random.Random(1)
    wrong = [type(one)(**{**vars(one), "said": lot.choice(("regressed", "improved"))}) for one in found]
    assert figures(wrong)["right_or_ambiguous"] < LIMITS["right_or_ambiguous"] and not held(figures(wrong))
