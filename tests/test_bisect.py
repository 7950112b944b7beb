"""Which commit it was: found among good and broken ones, or said that it cannot be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from npulens.app.cli import main
from npulens.ingest.store import history
from tests.nights import thirty
from tests.nights.thirty import Repository

#: Two numbers instead of one: the time, and a rate for which more is better.
TWO = thirty.JOB.replace('{"step": {"value": value, "unit": "ms"}}',
                         '{"took": {"value": value}, "rate": {"value": 1e6 / value, "better": "higher"}}')  # fmt: skip


def bisect(repository: Repository, *more: str, good: int = 0, bad: int = -1) -> Result:
    """One search in this process."""
    words = ["bisect", str(repository.config), "work", "--good", repository.commits[good],
             "--bad", repository.commits[bad], "--store", str(repository.folder.parent / "store")]  # fmt: skip
    return CliRunner().invoke(main, [*words, *more], catch_exceptions=False)


def answer(done: Result) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def made(folder: Path, *loops: int, job: str = thirty.JOB) -> Repository:
    return thirty.made(folder / "repository", loops, noise=0.001, job=job)


def test_the_commit_is_named_with_who_and_when(tmp_path: Path) -> None:
    repository = made(tmp_path, *[1000] * 6, *[1050] * 3)
    done = bisect(repository)
    assert done.exit_code == 0, done.output
    assert f"{repository.commits[6]} is the first bad commit: Change 6\n  by Mei Lin on 2026-04-20" in done.stdout
    said = answer(bisect(repository, "--json"))
    assert [each["sha"] for each in said["first_bad"]] == [repository.commits[6]] and said["between"] == 8
    by_commit = {each["commit"]["sha"]: each for each in said["tried"]}
    assert by_commit[repository.commits[6]]["said"] == "bad" and by_commit[repository.commits[5]]["said"] == "good"
    for sha, each in by_commit.items():
        truth = 1.05 if repository.commits.index(sha) >= 6 else 1.0
        assert abs(each["change"]["ratio"] - truth) < 0.002
        assert each["change"]["low"] < each["change"]["ratio"] < each["change"]["high"]
    assert len(by_commit) <= 1 + 3  # the end, and the binary logarithm of 8
    assert history.identities(tmp_path / "store") == []


def test_what_was_measured_is_not_measured_again_unless_asked(tmp_path: Path) -> None:
    repository = made(tmp_path, 1000, 1000, 1050)
    first = answer(bisect(repository, "--json"))
    once = thirty.sessions(repository)
    assert once == 40  # ten pairs of the end and of the one between
    assert answer(bisect(repository, "--json")) == first and thirty.sessions(repository) == once
    bisect(repository, "--again")
    assert thirty.sessions(repository) == 2 * once


def test_the_step_counts_that_passes_half_of_the_change(tmp_path: Path) -> None:
    repository = made(tmp_path, 1000, 1010, 1010, 1050, 1050)
    said = answer(bisect(repository, "--json"))
    assert [each["sha"] for each in said["first_bad"]] == [repository.commits[3]]


def test_nothing_between_differs(tmp_path: Path) -> None:
    repository = made(tmp_path, 1000, 1000, 1000)
    done = bisect(repository)
    assert done.exit_code == 1 and "Nothing between differs" in done.stdout
    assert answer(bisect(repository, "--json", good=1, bad=1))["outcome"] == "nothing"
    faster = made(tmp_path / "faster", 1000, 950)
    assert bisect(faster).exit_code == 1


def test_a_commit_that_does_not_run_is_skipped(tmp_path: Path) -> None:
    repository = made(tmp_path, 1000, 1000, 1000, -1, 1000, 1050, 1050)
    done = bisect(repository, "--json")
    said = answer(done)
    assert done.exit_code == 0 and [each["sha"] for each in said["first_bad"]] == [repository.commits[5]]
    (skipped,) = [each for each in said["tried"] if each["said"] == "skipped"]
    assert skipped["commit"]["sha"] == repository.commits[3] and "it does not build" in str(skipped["reason"])


def test_skipped_ones_beside_it_leave_a_choice(tmp_path: Path) -> None:
    repository = made(tmp_path, 1000, 1000, -1, -1, 1050)
    done = bisect(repository)
    assert done.exit_code == 2 and "is one of these 3" in done.stdout
    assert [commit in done.stdout for commit in repository.commits] == [False, False, True, True, True]


def test_a_rate_falls_where_it_gets_worse(tmp_path: Path) -> None:
    repository = made(tmp_path, 1000, 1000, 1050, job=TWO)
    which = bisect(repository)
    assert which.exit_code == 2 and "there are rate, took" in which.stderr
    said = answer(bisect(repository, "--metric", "rate", "--json"))
    assert [each["sha"] for each in said["first_bad"]] == [repository.commits[2]]
    change = next(each["change"] for each in said["tried"] if each["said"] == "bad")
    # Noise of 0.1 % in ten pairs is 0.045 % of the ratio; an interval of 95 % misses the truth once in twenty runs.
    assert abs(change["ratio"] - 1 / 1.05) < 0.002
    assert change["low"] < change["ratio"] < change["high"] < 1


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    repository = made(tmp_path, -1, 1000, 1050)
    assert "does not come before" in bisect(repository, good=2, bad=1).stderr
    assert "the good commit" in bisect(repository).stderr
    wrong = CliRunner().invoke(main, ["bisect", str(repository.config), "play", "--good", "HEAD", "--bad", "HEAD"])
    assert wrong.exit_code == 2 and "there is no task 'play'; there are work" in wrong.stderr
    nowhere = CliRunner().invoke(main, ["bisect", str(repository.config), "work", "--good", "--all", "--bad", "HEAD"])
    assert nowhere.exit_code == 2
