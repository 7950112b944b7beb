"""Nights through the command: what is measured, said and kept, and what becomes of a night that is disturbed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from npulens.app.nightly import dating, kept
from npulens.app.nightly.gathering import process
from npulens.ingest.store import history
from tests.nights.lab import Lab, job, keys

PAIRS = 'base = { env = { VALUE = "100" } }\nhead = { env = { VALUE = "105" } }\n'


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.01)


def batched(sessions: list[str]) -> Iterator[tuple[str, str]]:
    """Round by round."""
    return zip(sessions[::2], sessions[1::2], strict=True)


def test_a_slower_head_is_regressed_at_the_second_look(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "[night]\nrounds = 8\n" + job("a", PAIRS))
    done = lab.run("--night", "2026-03-01", "--json")
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert said["outcome"] == "regressed" and said["exit"] == 1
    (row,) = said["rows"]
    assert row["verdict"] == "regressed" and row["by"] == "pairs" and row["n"] == 16
    assert 1.045 < row["low"] < row["ratio"] < row["high"] < 1.055
    assert len(lab.sessions()) == 32, "eight pairs cannot reach 0.2 %, sixteen can"
    rounds = list(batched(lab.sessions()))
    assert {tuple(sorted(each)) for each in rounds} == {("a base", "a head")} and len(set(rounds)) == 2, "by a coin"
    (point,) = history.everything(lab.store)[said["rows"][0]["identity"], "step"]
    assert point.night == "2026-03-01" and abs(point.value - 105) < 0.3


def test_equal_sides_are_the_same_and_stop_at_the_first_look(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "[night]\nrounds = 8\n" + job("a", 'base = { env = { OTHER = "1" } }'))
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 0 and "Nothing changed" in done.stdout
    assert lab.night("2026-03-01").rows[0].verdict == "same" and len(lab.sessions()) == 16


def test_one_broken_task_does_not_stop_the_night(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("bad") + job("good") + '[[job]]\nname = "gone"\ncommand = ["/no/such/file"]\n')
    (tmp_path / "bad.fails").touch()
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 2
    night = lab.night("2026-03-01")
    assert [(task.name, task.status, task.done) for task in night.tasks] == [
        ("bad", "failed", 0), ("good", "done", 3), ("gone", "failed", 0),
    ]  # fmt: skip
    assert lab.sessions().count("bad head") == 2, "given up after two"
    assert "the device is gone" in done.stdout and "status 1" in done.stdout
    assert [row.task for row in night.rows] == ["good"]


def test_a_result_that_is_none_is_said(tmp_path: Path) -> None:
    command = '["sh", "-c", "echo $TEXT > $NPULENS_RESULT"]'
    lab = Lab(tmp_path, f'[[job]]\nname = "a"\ncommand = {command}\nmeasure = "result"\n')
    for day, (text, word) in enumerate(
        [("{", "truncated"), ('{"metrics": {}}', "no metric"), ('{"metrics": {"x": {"value": 1e999}}}', "range"),
         ('{"metrics": {"x": {"value": "fast"}}}', "float")], 1,
    ):  # fmt: skip
        done = lab.run("--night", f"2026-03-0{day}", env={"TEXT": text})
        assert done.exit_code == 2 and word in done.stdout, done.stdout


def test_a_session_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    lab = Lab(tmp_path, '[[job]]\nname = "a"\ncommand = ["sh", "-c", "sleep 987 & sleep 987"]\nmeasure = "time"\n'
              'timeout = "0.3s"\n')  # fmt: skip
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 2 and "longer than its limit" in done.stdout
    assert not any("sleep\x00987" in text for text in _commands(tmp_path))


def _commands(folder: Path) -> Iterator[str]:
    """The command lines of the processes that work in a folder: others run nights of their own at the same time."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder.resolve():
                yield (entry / "cmdline").read_text()
        except OSError:
            continue


def test_the_budget_is_kept_and_what_was_not_reached_is_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path, '[night]\nbudget = "1s"\n' + job("slow", "rounds = 50") + job("other", "rounds = 50"))
    for name in ("slow", "other"):
        (tmp_path / f"{name}.sleep").write_text("0.2")
    done = lab.run("--night", "2026-03-01")
    night = lab.night("2026-03-01")
    assert done.exit_code == 2 and "lost_budget" in keys(night) and night.seconds < 8
    reached = [task.done for task in night.tasks]
    assert all(1 <= count < 50 for count in reached)
    assert abs(reached[0] - reached[1]) <= 1, "rounds go through all tasks"


def test_a_night_that_is_done_says_again_what_it_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a"))
    first, second = lab.run("--night", "2026-03-01"), lab.run("--night", "2026-03-01")
    assert len(lab.sessions()) == 3 and second.exit_code == 0 and "done already" in second.stderr
    assert second.stdout == first.stdout
    assert lab.run("--night", "2026-03-01", "--again").exit_code == 0
    assert list(kept.nights(lab.store, "nightly")) == ["2026-03-01", "2026-03-01.2"] and len(lab.sessions()) == 6


def test_kill_9_in_the_middle_and_the_same_night_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a", "rounds = 4"))
    (tmp_path / "a.sleep").write_text("0")
    night = lab.start("--night", "2026-03-01")
    until(lambda: sum(fact["what"] == "step" for fact in lab.facts("2026-03-01")) >= 1)
    (tmp_path / "a.sleep").write_text("600")
    until(lambda: len(lab.sessions()) > sum(fact["what"] == "step" for fact in lab.facts("2026-03-01")))
    os.kill(night.pid, signal.SIGKILL)
    night.communicate()
    finished = sum(fact["what"] == "step" for fact in lab.facts("2026-03-01"))
    assert finished < 4 and any("job.py\x00a" in text for text in _commands(tmp_path)), "its session outlived it"
    (tmp_path / "a.sleep").write_text("0")
    sessions = len(lab.sessions())
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 0 and not any("job.py\x00a" in text for text in _commands(tmp_path)), "and was ended"
    assert len(lab.sessions()) - sessions == 4 - finished, "what was done is not done again"
    (said,) = [said for said in lab.night("2026-03-01").notices if said.key == "resumed"]
    assert said.values["done"] == finished and said.values["ended"] == 1 and "a/00" in str(said.values["again"])
    assert lab.night("2026-03-01").tasks[0].status == "done"


def test_kill_9_and_the_next_night_says_what_was_lost(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a", "rounds = 4"))
    (tmp_path / "a.sleep").write_text("0.05")
    night = lab.start("--night", "2026-03-01")
    until(lambda: sum(fact["what"] == "step" for fact in lab.facts("2026-03-01")) >= 2)
    os.kill(night.pid, signal.SIGKILL)
    night.communicate()
    done = lab.run("--night", "2026-03-02")
    assert done.exit_code == 2 and "2026-03-01 died after" in done.stdout
    tonight = lab.night("2026-03-02")
    assert tonight.tasks[0].status == "done" and keys(tonight) == ["lost_night"]
    assert kept.nights(lab.store, "nightly")["2026-03-01"] is None
    (points,) = history.everything(lab.store).values()
    assert [point.night for point in points] == ["2026-03-02"], "nothing of the lost night is in a baseline"
    assert lab.run("--night", "2026-03-03").exit_code == 0, "it is said once"


def test_half_a_line_in_the_journal_is_left_out_and_its_step_done_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a"))
    lab.run("--night", "2026-03-01")
    path = lab.store / ".nights" / "nightly" / "2026-03-01" / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][: len(lines[4]) // 2])
    done = lab.run("--night", "2026-03-01")
    assert "lost_lines" in keys(lab.night("2026-03-01")) and done.exit_code == 2
    assert lab.night("2026-03-01").tasks[0].done == 3 and len(lab.sessions()) == 3 + 2


def test_two_nights_at_once_the_second_says_who_holds_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a", "rounds = 1"))
    (tmp_path / "a.sleep").write_text("600")
    first = lab.start("--night", "2026-03-01")
    until(lambda: bool(lab.sessions()))
    second = lab.run("--night", "2026-03-02")
    assert second.exit_code == 2 and f"process {first.pid}" in second.stderr and "2026-03-01" in second.stderr
    assert len(lab.sessions()) == 1
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    (tmp_path / "a.sleep").write_text("0")
    assert lab.run("--night", "2026-03-02").exit_code == 2, "the lock of a dead process holds nobody up"
    assert lab.night("2026-03-02").tasks[0].status == "done"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own that is soon full."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_ends_the_night_and_the_same_night_goes_on_with_room(tmp_path: Path, small_disk: Path) -> None:
    lab = Lab(tmp_path / "lab", job("a", "rounds = 30"))
    lab.store = small_disk / "store"
    fill = small_disk / "fill"
    script = f"head -c 4m /dev/zero > {fill}; true"
    lab.path.write_text(job("a", "rounds = 30") + f'[[job]]\nname = "filler"\nmeasure = "time"\nrounds = 1\n'
                        f'command = ["sh", "-c", "{script}"]\n')  # fmt: skip
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 2 and "disk is full" in done.stdout, done.output
    assert len(lab.sessions()) < 30 and history.everything(lab.store) == {}
    fill.unlink()
    lab.path.write_text(job("a", "rounds = 30"))
    again = lab.run("--night", "2026-03-01")
    night = lab.night("2026-03-01")
    assert again.exit_code == 0 and night.tasks[0].done == 30, again.output
    assert lab.run("--night", "2026-03-02").exit_code == 0


def test_a_clock_set_back_neither_hides_a_night_nor_turns_the_history_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, job("a", "rounds = 1"))
    real = time.time_ns
    monkeypatch.setattr(dating.time, "time_ns", lambda: real() + 30 * 86400 * 10**9)
    assert lab.run().exit_code == 0
    monkeypatch.undo()
    assert lab.run().exit_code == 0, "this is no night that is done"
    first, second = sorted((night for night in kept.nights(lab.store, "nightly").values() if night),
                           key=lambda night: night.at_ns)  # fmt: skip
    assert keys(second) == ["clock_back"] and keys(first) == [] and first.at_ns < second.at_ns
    assert first.label != second.label
    (points,) = history.everything(lab.store).values()
    assert [point.night for point in points] == [first.label, second.label]


def test_processes_are_found_by_their_mark(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "600"], env={process.MARK: "abc"})
    other = subprocess.Popen(["sleep", "600"], env={process.MARK: "abcd"})
    until(lambda: b"sleep" in Path(f"/proc/{other.pid}/cmdline").read_bytes())
    assert process.leftovers("abc") == 1 and child.wait(10) == -signal.SIGKILL and other.poll() is None
    other.kill()
    other.wait()


def test_the_files_of_a_commit_are_measured_and_the_working_tree_stays(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / "sub").mkdir(parents=True)
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for value in ("100", "110"):
        (repo / "sub" / "value.txt").write_text(value)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", value], check=True)
    (repo / "sub" / "value.txt").write_text("999")
    script = 'printf \'{"metrics": {"v": {"value": %s}}}\' $(cat value.txt) > $NPULENS_RESULT'
    lab = Lab(tmp_path / "lab", f'[night]\nrounds = 8\n[[job]]\nname = "a"\nmeasure = "result"\n'
              f'command = ["sh", "-c", {json.dumps(script)}]\ndirectory = "../repo/sub"\n'
              'base = { commit = "HEAD~1" }\nhead = { commit = "HEAD" }\n')  # fmt: skip
    done = lab.run("--night", "2026-03-01")
    (row,) = lab.night("2026-03-01").rows
    assert (row.level, row.value, row.verdict) == (100, 110, "regressed"), done.output
    assert (repo / "sub" / "value.txt").read_text() == "999"
    assert not (lab.store / ".nights" / "nightly" / "2026-03-01" / "trees").exists()
    status = subprocess.run([*git, "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert status.count("\n") == 1


def test_every_report_is_there_and_says_the_same(tmp_path: Path) -> None:
    lab = Lab(tmp_path, '[night]\nrounds = 8\nout = "reports"\n' + job("a", PAIRS) + job("bad"))
    (tmp_path / "bad.fails").touch()
    summary = tmp_path / "summary.md"
    done = lab.run("--night", "2026-03-01", env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert done.exit_code == 1
    folder = tmp_path / "reports" / "2026-03-01"
    assert {path.name for path in folder.iterdir()} == {"night.html", "night.md", "night.json", "night.junit.xml"}
    suites = ElementTree.parse(folder / "night.junit.xml").getroot()
    assert {kind: suites.get(kind) for kind in ("tests", "failures", "errors", "skipped")} == {
        "tests": "2", "failures": "1", "errors": "1", "skipped": "0"}  # fmt: skip
    assert "regressed" in summary.read_text() and "变差" in summary.read_text()
    page = (folder / "night.html").read_text()
    assert "<script" not in page and "http" not in page.replace("http-equiv", "") and "1 regression in 1 task" in page
    shutil.rmtree(folder)


def test_redacted_reports_name_no_host_and_no_path(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a") + '[machine]\nhost = "trainer-77.corp.example.com"\n')
    lab.run("--night", "2026-03-01")
    lab.path.write_text(lab.path.read_text().replace("trainer-77", "trainer-78") +
                        f'[[job]]\nname = "b"\ncommand = ["cat", "{tmp_path}/secret-place"]\n')  # fmt: skip
    done = lab.run("--night", "2026-03-02", "--redact")
    assert str(tmp_path) not in done.stdout, done.stdout
    folder = lab.store / ".nights" / "nightly" / "2026-03-02"
    for path in folder.glob("night.*"):
        text = path.read_text()
        assert "trainer-7" not in text and str(tmp_path) not in text, path.name


def test_one_task_alone_enters_no_history(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "[night]\nrounds = 8\n" + job("a") + job("b"))
    done = lab.run("--only", "a", "--base", "VALUE=100", "--head", "VALUE=105")
    assert done.exit_code == 1 and "a base" in lab.sessions() and "b head" not in lab.sessions()
    assert history.everything(lab.store) == {}
    assert kept.names(lab.store) == ["nightly only a"]
