"""Which conditions are suspect: the one that switched there, before the one that always switches."""

from __future__ import annotations

import pytest

from npulens.analysis.regression.covariates import Suspect, suspects

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


def test_conditions_that_differ_every_night_explain_nothing() -> None:
    conditions = [{"pod": f"p{number}", "mode": "1" if number < 5 else "2"} for number in range(10)]
    assert suspects(conditions, 5, 5) == [Suspect("mode", "1", "2", 1.0, 1)]


def test_the_date_may_lie_a_night_beside_the_condition() -> None:
    conditions = [{"mode": "1" if number < 5 else "2"} for number in range(10)]
    assert suspects(conditions, 4, 7)[0].tells == 1.0 and suspects(conditions, 7, 8) == []


def test_commits_enclose_every_night_that_may_be_the_one() -> None:
    (commit,) = suspects([{"commit": f"c{night}"} for night in range(20)], 9, 12)
    assert (commit.before, commit.after) == ("c8", "c12")


def test_a_night_that_went_back_clears_nobody() -> None:
    nights = [{"driver": "24" if night < 12 or night == 18 else "25", "build": f"{(night + 2) // 7}"}
              for night in range(30)]  # fmt: skip
    driver, build = suspects(nights, 12, 12)
    assert (driver.name, round(driver.tells, 2), driver.switches, driver.sure) == ("driver", 0.94, 3, True)
    # One that is new every week, this night too, may be it as well, but it is nobody's first guess.
    assert (build.name, round(build.tells, 2), build.sure) == ("build", 0.39, False)


def test_a_commit_of_every_night_is_named_and_not_taken_for_the_reason() -> None:
    """Twenty nights before had twenty commits: the last of them tells a twentieth."""
    (often,) = suspects([{"commit": f"c{night}"} for night in range(40)], 20, 20)
    assert (often.tells, often.sure) == (1 / 20, False)
    (once,) = suspects([{"commit": "a" if night < 20 else "b"} for night in range(40)], 20, 20)
    assert (once.tells, once.sure) == (1.0, True)


def test_what_changed_long_before_does_not_hide_that_it_changed_again() -> None:
    nights = [{"driver": "23" if night < 70 else "24" if night < 100 else "25"} for night in range(110)]
    assert suspects(nights, 100, 100) == [Suspect("driver", "24", "25", 1.0, 1)]


def test_overlapping_dates_of_neighbouring_changes_leave_a_night_to_look_at() -> None:
    nights = [{"cann": "8.0" if night < 12 else "8.1"} for night in range(24)]
    assert suspects(nights, 12, 13, 12, 13) == [Suspect("cann", "8.0", "8.1", 1.0, 1)]


@pytest.mark.parametrize(("name", "machine"), [
    ("driver", True), ("host", True), ("machine.rack", True), ("AI Core MHz", True), ("cpu governor", True),
    ("cann", False), ("env HOST_CACHE_CAPACITY", False), ("CPU_AFFINITY_CONF", False), ("commit", False),
])  # fmt: skip
def test_a_variable_of_the_environment_is_not_the_machine(name: str, machine: bool) -> None:
    assert Suspect(name, "1", "2", 1.0, 1).machine == machine
