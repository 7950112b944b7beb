"""A regression is in sight every night until it is measured as fixed or accepted; what is likely is not hidden."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from npulens.analysis.regression.discoveries import Alarm, standing
from npulens.app.cli import main
from npulens.app.nightly import regressions
from npulens.app.nightly.night import Night, Row
from tests.nights.lab import Lab, job
from tests.test_nightly_judge import QUIET
from tests.test_nightly_judge import nights as judged


def pairs(base: float, head: float) -> str:
    sides = f'base = {{ env = {{ VALUE = "{base}" }} }}\nhead = {{ env = {{ VALUE = "{head}", X = "1" }} }}\n'
    return "[night]\nrounds = 8\n" + job("a", sides)


def night(lab: Lab, day: int, toml: str | None = None) -> tuple[Result, Night]:
    if toml is not None:
        lab.path.write_text(toml)
    label = f"2026-03-{day:02d}"
    return lab.run("--night", label), lab.night(label)


def decide(lab: Lab, *more: str) -> Result:
    words = ["regressions", str(lab.path), "--store", str(lab.store), *more]
    return CliRunner().invoke(main, words, catch_exceptions=False)


def test_pairs_stay_open_until_they_are_measured_as_fixed(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    first, told = night(lab, 1)
    (row,) = told.rows
    assert (first.exit_code, told.outcome, row.verdict, row.number) == (1, "regressed", "regressed", 1)
    second, still = night(lab, 2)
    assert (second.exit_code, still.outcome, still.rows[0].verdict, still.rows[0].number) == (1, "open", "open", 1)
    assert "1 regression is still open in 1 task" in second.stdout and "still regressed #1" in second.stdout
    assert still.rows[0].since == "2026-03-01" and abs((still.rows[0].ratio or 0) - 1.05) < 0.01
    less, smaller = night(lab, 3, pairs(100, 103.5))
    assert less.exit_code == 1 and abs((smaller.rows[0].ratio or 0) - 1.035) < 0.01, "a part of it is no fix"
    done, fixed = night(lab, 4, pairs(100, 100))
    assert (done.exit_code, fixed.outcome, fixed.rows[0].verdict) == (0, "fixed", "fixed")
    assert "1 regression is fixed" in done.stdout
    after, quiet = night(lab, 5)
    assert (after.exit_code, quiet.outcome, quiet.rows[0].verdict) == (0, "quiet", "same")
    again, anew = night(lab, 6, pairs(100, 105))
    assert again.exit_code == 1 and anew.rows[0].number == 2, "another regression"


def test_a_base_that_has_it_too_is_no_fix(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    night(lab, 1)
    done, still = night(lab, 2, pairs(105, 105))
    (row,) = still.rows
    assert (done.exit_code, row.verdict, row.standing) == (1, "open", "same")
    assert abs((row.ratio or 0) - 1.05) < 0.01 and abs((row.level or 0) - 100) < 0.5, "against base as it was"
    assert "Base has it too now" in done.stdout
    fixed, told = night(lab, 3, pairs(100, 100))
    assert (fixed.exit_code, told.rows[0].verdict) == (0, "fixed")


def test_a_slower_machine_is_no_base_that_has_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    night(lab, 1)
    done, still = night(lab, 2, pairs(110, 115.5))
    (row,) = still.rows
    assert done.exit_code == 1 and row.verdict == "open" and row.settles is None
    assert abs((row.ratio or 0) - 1.05) < 0.01 and abs((row.level or 0) - 110) < 1, "tonight's base"


def test_a_night_made_again_tells_its_own_anew(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    night(lab, 1)
    (known,) = regressions.read(lab.store / ".nights" / "nightly")
    assert regressions.before((known,), "2026-03-01") == ()
    fixed = replace(known, state="fixed", closed="2026-03-05")
    assert regressions.before((fixed,), "2026-03-05") == (known,)
    assert regressions.before((fixed,), "2026-03-06") == (fixed,)


def alone(value: float) -> str:
    return job("a", f'rounds = 1\nhead = {{ env = {{ VALUE = "{value}" }} }}')


def test_a_level_of_the_history_stays_open_until_it_goes_back(tmp_path: Path) -> None:
    lab = Lab(tmp_path, alone(100))
    values = [*QUIET[:10], *(value * 1.05 for value in QUIET[:8]), *QUIET[10:14]]
    said = [night(lab, day, alone(value)) for day, value in enumerate(values, 1)]
    exits = [done.exit_code for done, _ in said]
    words = [told.rows[0].verdict for _, told in said]
    begin = words.index("regressed")
    assert begin in (11, 12) and set(exits[:begin]) == {0}
    fixed = words.index("fixed")
    assert set(words[begin + 1 : fixed]) == {"open"} and set(exits[begin:fixed]) == {1} and 18 < fixed <= 20
    assert set(exits[fixed:]) == {0} and "improved" not in words, "it is fixed, not improved"
    assert [told.outcome for _, told in said[fixed:]].count("fixed") == 1, "and news once"
    assert said[fixed][1].rows[0].since == "2026-03-11"


def test_an_accepted_level_of_the_history_is_the_new_baseline(tmp_path: Path) -> None:
    lab = Lab(tmp_path, alone(100))
    values = [*QUIET[:10], *(value * 1.05 for value in QUIET[:10]), *(value * 1.10 for value in QUIET[:4])]
    said = []
    for day, value in enumerate(values, 1):
        if day == 15:
            assert decide(lab, "1", "--accept", "--why", "exact softmax").exit_code == 0
        said.append(night(lab, day, alone(value)))
    exits, rows = [done.exit_code for done, _ in said], [told.rows[0] for _, told in said]
    assert set(exits[14:20]) == {0} and {row.verdict for row in rows[14:20]} == {"accepted"}
    begin = next(number for number, row in enumerate(rows) if row.number == 2)
    assert begin in (21, 22) and rows[begin].verdict == "regressed" and set(exits[begin:]) == {1}
    assert abs((rows[begin].ratio or 0) - 1.10 / 1.05) < 0.01, "against what was accepted"
    assert {row.verdict for row in rows[begin + 1 :]} <= {"open"}


def test_first_nights_are_still_learning(tmp_path: Path) -> None:
    done, told = night(Lab(tmp_path, alone(100)), 1)
    assert (done.exit_code, told.outcome) == (0, "learning") and "Still learning" in done.stdout


def test_accepted_is_the_new_baseline_until_its_day_is_over(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    night(lab, 1)
    done = decide(lab, "1", "--accept", "--why", "exact softmax", "--by", "mei", "--until", "2126-01-01")
    assert done.exit_code == 0 and "exact softmax" in done.stdout and "mei" in done.stdout
    quiet, told = night(lab, 2)
    assert (quiet.exit_code, told.rows[0].verdict) == (0, "accepted")
    worse, more = night(lab, 3, pairs(100, 110))
    assert worse.exit_code == 1 and more.rows[0].verdict == "regressed" and more.rows[0].number == 2
    assert abs((more.rows[0].ratio or 0) - 110 / 105) < 0.01, "against what was accepted"
    assert decide(lab, "1", "--reopen").exit_code == 0
    open_, told = night(lab, 4, pairs(100, 105))
    assert open_.exit_code == 1 and told.rows[0].number == 1
    decide(lab, "1", "--accept", "--until", "2020-01-01")
    assert night(lab, 5)[0].exit_code == 1, "that day is over"


def test_muted_is_in_the_table_only(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    night(lab, 1)
    decide(lab, "1", "--mute", "--owner", "wei")
    done, told = night(lab, 2)
    assert (done.exit_code, told.outcome, told.rows[0].verdict, told.rows[0].owner) == (0, "quiet", "open", "wei")
    listed = json.loads(decide(lab, "--json").stdout)
    assert [(each["number"], each["state"], each["muted"]) for each in listed] == [(1, "open", True)]


def test_what_cannot_be_decided_is_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    assert "No regression is open" in decide(lab).stdout
    assert decide(lab, "7", "--accept").exit_code == 2
    assert decide(lab, "--accept").exit_code == 2 and decide(lab, "1", "--accept", "--mute").exit_code == 2
    night(lab, 1)
    (lab.store / ".nights" / "nightly" / regressions.NAME).write_text("[{")
    damaged = lab.run("--night", "2026-03-02")
    assert damaged.exit_code == 2 and "damaged" in damaged.stderr


def test_a_task_without_a_capture_is_not_measured(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    lab = Lab(tmp_path, '[[watch]]\nname = "team"\npath = "captures"\nsettle = 0\n')
    done, told = night(lab, 1)
    assert (done.exit_code, told.outcome, told.tasks[0].status) == (2, "broken", "unmeasured")
    assert "Nothing was measured" in done.stdout and "no new capture" in done.stdout
    suites = ElementTree.parse(lab.store / ".nights" / "nightly" / "2026-03-01" / "night.junit.xml").getroot()
    assert (suites.get("tests"), suites.get("errors")) == ("1", "1")


def test_what_is_open_and_not_measured_tonight_is_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path, pairs(100, 105))
    night(lab, 1)
    (tmp_path / "a.fails").touch()
    done, told = night(lab, 2)
    (row,) = told.rows
    assert done.exit_code == 1 and row.verdict == "open" and "last measured on 2026-03-01" in done.stdout
    assert "a part of the night failed" in done.stdout


def test_a_new_driver_leads_where_the_commit_changes_every_night(tmp_path: Path) -> None:
    conditions = [{"driver": "24.1" if n < 15 else "24.2", "commit": f"{n:03d}"} for n in range(30)]
    told = [row for row in judged(tmp_path, [*QUIET, *(v * 1.06 for v in QUIET)], conditions) if row.fresh]
    assert [row.verdict for row in told] == ["machine"] and told[0].hints[0].name == "driver"


def test_a_change_that_may_be_chance_is_likely_and_in_the_headline() -> None:
    row = Row(task="a", identity="i", where="", metric="m", unit="ms", better="lower", value=1.0, verdict="likely",
              by="history", ratio=1.03)  # fmt: skip
    told = Night(name="n", label="l", at_ns=0, began="", ended="", seconds=0, budget_s=1, tasks=(), rows=(row,))
    assert told.outcome == "likely" and told.status == 0 and told.of("likely") == [row]


@pytest.mark.parametrize(("parts", "stands"), [(30, True), (400, True)])
def test_tasks_are_counted_and_not_metrics(parts: int, stands: bool) -> None:
    quiet = [Alarm("a", False, 1.0) for _ in range(parts)]
    assert standing([Alarm("a", True, 0.006), *quiet, Alarm("b", True, 1.0)]) == [stands, *[False] * (parts + 1)]


def test_of_many_tasks_more_is_asked() -> None:
    quiet = [Alarm(f"t{n}", True, 1.0) for n in range(100)]
    assert standing([Alarm("a", True, 0.006), *quiet])[0] is False
    assert standing([Alarm("a", True, 0.0001), *quiet])[0] is True


def test_a_part_stands_by_itself_where_the_step_cannot_tell() -> None:
    alarms = [Alarm("a", True, 1.0), Alarm("a", False, 0.0002), *(Alarm("a", False, 1.0) for _ in range(20))]
    assert standing(alarms) == [False, True, *[False] * 20]
