"""What the history of a metric makes a night say: once, dated, and with what changed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from npulens.analysis.regression.covariates import Suspect
from npulens.app.nightly import judge, knowledge
from npulens.app.nightly.confirm import confirm
from npulens.app.nightly.gathering.results import Value
from npulens.app.nightly.judge import Court
from npulens.app.nightly.night import Hint, Night, Row
from npulens.app.nightly.tonight import Measured, keep
from npulens.ingest.store.history import Identity

DAY = 86_400 * 10**9
#: Around 100 without a pattern: by hand.
QUIET = [100.2, 99.7, 100.1, 99.9, 100.4, 99.6, 100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 99.7, 100.0, 100.1]


def nights(
    tmp_path: Path, values: Sequence[float], conditions: Sequence[dict[str, str]] | None = None,
    identities: Sequence[Identity] | None = None,
) -> list[Row]:  # fmt: skip
    """One row a night, each judged as it came."""
    store, home, found = tmp_path / "store", tmp_path / "home", []
    home.mkdir()
    for number, value in enumerate(values):
        at_ns, label = (20_000 + number) * DAY, f"night {number}"
        covariates = conditions[number] if conditions else {"host": "a"}
        identity = identities[number] if identities else Identity("job")
        one = Measured("job", identity, "step", Value(value, "ms"), {0: value}, {}, None, None, covariates, True, "")
        keep(store, [one], label, at_ns)
        known = knowledge.known(home, label)
        (row,) = judge.rows(Court(store, at_ns, {"job": 1}, known, "nightly.toml", True, frozenset({"job"})), [one])
        night = Night(name="n", label=label, at_ns=at_ns, began="", ended="", seconds=0, budget_s=1, tasks=(),
                      rows=(row,))  # fmt: skip
        knowledge.tell(home, known, night)
        found.append(row)
    return found


def test_a_step_is_told_once_and_dated(tmp_path: Path) -> None:
    found = nights(tmp_path, [*QUIET, *(value * 1.06 for value in QUIET)])
    told = [(number, row.verdict, row.since) for number, row in enumerate(found) if row.fresh]
    assert len(told) == 1 and told[0][1:] == ("regressed", "night 15") and told[0][0] in (16, 17)
    row = found[told[0][0]]
    assert row.low is not None and row.high is not None and row.low <= 1.06 <= row.high
    assert 99 < (row.level or 0) < 101


def test_the_first_night_of_a_step_is_no_change_and_not_kept_quiet(tmp_path: Path) -> None:
    first = nights(tmp_path, [*QUIET, 106.0])[-1]
    assert (first.verdict, first.fresh) == ("ambiguous", False)
    assert first.settles is not None and first.settles.key == "settles_band"


def test_quiet_nights_say_nothing(tmp_path: Path) -> None:
    assert not any(row.fresh for row in nights(tmp_path, [*QUIET, *QUIET[::-1]]))


def test_a_new_driver_in_the_night_of_the_step_is_the_machine(tmp_path: Path) -> None:
    drivers = [{"driver": "24.1" if number < 15 else "24.2", "commit": "a"} for number in range(30)]
    (told,) = [row for row in nights(tmp_path, [*QUIET, *(v * 1.06 for v in QUIET)], drivers) if row.fresh]
    assert told.verdict == "machine" and told.hints == (Hint("driver", "24.1", "24.2", True, 1.0),)
    assert told.confirm == ""


def test_a_new_commit_is_named_with_the_command_that_confirms(tmp_path: Path) -> None:
    commits = [{"driver": "24.1", "commit": f"{number // 5:03d}"} for number in range(30)]
    (told,) = [row for row in nights(tmp_path, [*QUIET, *(v * 1.06 for v in QUIET)], commits) if row.fresh]
    assert told.verdict == "regressed" and [hint.name for hint in told.hints] == ["commit"]
    assert told.confirm == "npulens nightly nightly.toml --only job --base commit=002 --head commit=003"


def test_machine_and_commit_in_one_night_cannot_be_told_apart(tmp_path: Path) -> None:
    both = [{"driver": "24.1" if n < 15 else "24.2", "commit": "a" if n < 15 else "b"} for n in range(30)]
    found = nights(tmp_path, [*QUIET, *(v * 1.06 for v in QUIET)], both)
    told = next(number for number, row in enumerate(found) if row.fresh)
    assert told in (16, 17)
    likely = [(row.verdict, row.fresh, row.settles and row.settles.key) for row in found[told:]]
    assert likely == [("likely", True, "settles_apart")] * len(likely)


def test_what_is_likely_is_told_however_long_it_takes(tmp_path: Path) -> None:
    both = [{"driver": "24.1" if n < 15 else "24.2", "commit": "a" if n < 15 else "b"} for n in range(60)]
    found = nights(tmp_path, [*QUIET, *(value * 1.06 for value in QUIET * 3)], both)
    assert {(row.verdict, row.fresh) for row in found[17:]} == {("likely", True)}


def test_what_is_likely_is_told_once_more_when_it_is_sure(tmp_path: Path) -> None:
    """The commits of the nights after show that they are often new: then the driver is the reason."""
    late = [{"driver": "24.1" if n < 15 else "24.2", "commit": "a" if n < 15 else f"{max(n, 18):03d}"}
            for n in range(45)]  # fmt: skip
    found = nights(tmp_path, [*QUIET, *(value * 1.06 for value in QUIET * 2)], late)
    machine = [row.verdict for row in found].index("machine")
    assert 17 < machine < 30 and {(row.verdict, row.fresh) for row in found[17:machine]} == {("likely", True)}
    assert "regressed" not in [row.verdict for row in found[machine:]]
    assert [row.fresh for row in found[machine:]] == [True, *[False] * (44 - machine)]


def test_a_level_that_the_machine_brought_stays_the_machines(tmp_path: Path) -> None:
    drivers = [{"driver": "24.1" if number < 15 else "24.2"} for number in range(23)]
    found = nights(tmp_path, [*[100.0] * 15, *[105.0] * 8], drivers)
    assert [(row.verdict, row.fresh) for row in found[16:]] == [("machine", True), *[("machine", False)] * 6]
    assert {(row.level, row.ratio and round(row.ratio, 6)) for row in found[16:]} == {(100.0, 1.05)}


@pytest.mark.parametrize("every", [1, 3, 5])
def test_a_driver_leads_before_a_commit_that_is_often_new(tmp_path: Path, every: int) -> None:
    """The commit is new on the night of the driver too, as on every night, every third or every fifth."""
    both = [{"driver": "24.1" if n < 15 else "24.2", "commit": f"{n // every:03d}"} for n in range(30)]
    (told,) = [row for row in nights(tmp_path, [*QUIET, *(v * 1.05 for v in QUIET)], both) if row.fresh]
    assert told.verdict == "machine" and [hint.name for hint in told.hints] == ["driver", "commit"]
    assert told.hints[1].score < 0.5 < told.hints[0].score


def test_a_first_night_has_the_noise_of_its_steps(tmp_path: Path) -> None:
    like = Value(100.0, "ns", error=0.004)
    one = Measured("job", Identity("job"), "kernel_ns a", like, {0: 100.0}, {}, None, None, {}, True, "",
                   error=0.004)  # fmt: skip
    keep(tmp_path, [one], "night 0", DAY)
    (row,) = judge.rows(Court(tmp_path, DAY, {"job": 1}, knowledge.Known(()), "nightly.toml", True), [one])
    assert (row.verdict, row.floor) == ("young", 0.004)


def test_other_hardware_begins_a_history_of_its_own_and_is_no_regression(tmp_path: Path) -> None:
    machines = [Identity("job", hardware="910B2" if number < 15 else "910B4") for number in range(30)]
    found = nights(tmp_path, [*QUIET, *(value * 1.3 for value in QUIET)], None, machines)
    told = [(number, row.verdict) for number, row in enumerate(found) if row.fresh]
    assert told == [(15, "machine")]
    assert found[15].hints == (Hint("hardware", "910B2", "910B4", True, 1.0),)
    assert found[16].verdict == "young" and found[29].n == 15


def test_the_command_sets_what_a_command_can_set() -> None:
    def said(name: str, before: str, after: str) -> str:
        return confirm([Suspect(name, before, after, 1.0, 1)], "a task", "n.toml")

    assert said("env TASK_QUEUE_ENABLE", "1", "2").endswith("--base TASK_QUEUE_ENABLE=1 --head TASK_QUEUE_ENABLE=2")
    assert said("torch_npu", "2.6", "2.7").endswith("--base python=PYTHON_WITH_2.6 --head python=PYTHON_WITH_2.7")
    assert said("commit", "a; rm -rf /", "b") == (
        "npulens nightly n.toml --only 'a task' --base 'commit=a; rm -rf /' --head commit=b"
    )
    assert confirm([Suspect("driver", "1", "2", 1.0, 1)], "a", "n.toml") == ""
