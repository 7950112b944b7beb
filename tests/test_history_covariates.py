"""Which conditions are suspect: the one that switched there, before the one that always switches."""

from __future__ import annotations

from analysis.regression.covariates import suspects

NIGHTS = [
    {
        "cann": "8.0" if night < 12 else "8.1",  # the culprit
        "commit": f"c{night}",  # other every night
        "driver": "24" if night < 5 else "25",  # changed, but long before
        "host": "a" if night % 3 else "b",  # comes and goes
        **({"OMP_NUM_THREADS": "8"} if night >= 12 else {}),  # appeared together with it
        "torch": "2.7",
    }
    for night in range(24)
]


def test_what_switched_there_comes_first() -> None:
    found = suspects(NIGHTS, 12, 12)
    assert [each.name for each in found] == ["OMP_NUM_THREADS", "cann", "commit"]
    assert (found[1].before, found[1].after, found[1].tells, found[1].switches) == ("8.0", "8.1", 1.0, 1)
    assert (found[0].before, found[0].after) == (None, "8")
    assert (found[2].before, found[2].after, found[2].switches) == ("c11", "c12", 23)


def test_an_unsure_date_looks_at_the_nights_around_it() -> None:
    found = suspects(NIGHTS, 11, 14)
    assert found[1].name == "cann" and (found[1].before, found[1].after) == ("8.0", "8.1")


def test_neighbouring_changes_bound_what_is_looked_at() -> None:
    assert "driver" in [each.name for each in suspects(NIGHTS, 5, 5, 0, 12)]
    assert "driver" not in [each.name for each in suspects(NIGHTS, 12, 12, 5)]


def test_nothing_to_compare_is_nobody_suspected() -> None:
    assert suspects(NIGHTS, 0, 0) == [] and suspects([], 3, 4) == [] and suspects([{}] * 9, 4, 4) == []
