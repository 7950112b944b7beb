"""A job does not notice that it is recorded. `python -m tests.transparent` runs all twenty jobs; here are some."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from npulens.app.commands.collect import said
from npulens.collectors import child
from tests.transparent.compare import Steps, pair
from tests.transparent.jobs import JOBS, STEPS, Step

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
#: By the beginning of their names: one of each kind of harm.
SAMPLE = ("a torch.profiler", "forks while", "HUP, USR1", "TERM without", "bytes through", "pre-fork")


def collect(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", "collect", "--backend", "cpu", "--no-load", *arguments], cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("head", SAMPLE)
def test_a_job_sees_the_same_with_a_recording_and_without(head: str, tmp_path: Path) -> None:
    (job,) = [job for job in JOBS if job.name.startswith(head)]
    found = pair(job, tmp_path)
    assert found.differences() == [], found.recorded.err.decode()
    assert found.plain.out and found.plain.status is not None


def test_a_job_under_nohup_hears_what_it_listens_to(tmp_path: Path) -> None:
    """nohup ignores SIGHUP, a shell SIGINT of what it starts in the background; the job's own handler undoes that."""
    (job,) = [job for job in JOBS if job.name.startswith("HUP, USR1")]
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGHUP, signal.SIGINT)}
    try:
        assert pair(job, tmp_path).differences() == []
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_there_are_twenty_jobs_and_each_is_another() -> None:
    assert len({job.name for job in JOBS}) == len({job.source for job in JOBS}) == 20
    assert len({job.name for job in (*JOBS, *STEPS)}) == len({job.source for job in (*JOBS, *STEPS)}) == 33


def test_steps_that_are_not_a_jobs_are_told() -> None:
    wanted = Step("forward", "aten::relu", 1)
    once, twice = Counter({"aten::relu": 1}), Counter({"aten::relu": 2})
    assert Steps("forward", (once,) * 3, (9,) * 3).are(wanted)
    assert not Steps("forward", (once, once, twice), (9,) * 3).are(wanted)
    assert not Steps("optimizer", (once,) * 3, (9,) * 3).are(wanted)
    assert not Steps("forward", (once,) * 2, (9,) * 2).are(wanted)
    assert not Steps("time", (once,) * 3, (9, 0, 9)).are(Step("time"))


def test_the_jobs_own_profiler_is_told_with_its_traces(tmp_path: Path) -> None:
    (job,) = [job for job in JOBS if job.name.startswith("a torch.profiler")]
    (tmp_path / "job.py").write_text(job.source)
    done = collect("-o", "out", "--", sys.executable, "job.py", cwd=tmp_path)
    notices: list[dict[str, Any]] = json.loads((tmp_path / "out" / "manifest.json").read_text())["notices"]
    assert [each["name"] for each in notices] == ["first_start", "own_profiler"]
    assert notices[0]["values"]["ns"] > 0
    assert notices[1]["values"]["traces"] == [str(tmp_path / f"own_{number}.json") for number in range(3)]
    assert done.stdout == "[6, 6, 6]\n"  # two linear layers in each of the three steps of a trace
    assert "stood aside" in done.stderr and "own_0.json" in done.stderr
    for notice in notices:
        assert said(notice, "zh") != said(notice, "en")


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [(("./no-such-job",), 127, "No such file or directory"), (("./not-a-program",), 126, "Permission denied")],
)
def test_a_job_that_cannot_start_is_one_sentence_and_a_shells_status(
    command: tuple[str, ...], status: int, says: str, tmp_path: Path
) -> None:
    (tmp_path / "not-a-program").write_text("no\n")
    shell = subprocess.run(["sh", "-c", " ".join(command)], cwd=tmp_path, capture_output=True)
    done = collect("-o", "deep/out", "--", *command, cwd=tmp_path)
    assert done.returncode == status == shell.returncode
    assert done.stderr.splitlines()[-1] == f"npulens: {command[0]} cannot be started: {says}" and not done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["not-a-program"]


def test_a_module_that_is_not_there_leaves_nothing_and_keeps_pythons_status(tmp_path: Path) -> None:
    job = [sys.executable, "-m", "no_such_module"]
    plain = subprocess.run(job, capture_output=True, text=True)
    done = collect("-o", "out", "--", *job, cwd=tmp_path)
    assert done.returncode == plain.returncode == 1 and plain.stderr.strip() in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_our_own_state_is_in_the_json_and_the_status_is_the_jobs(tmp_path: Path) -> None:
    done = collect("-o", "out", "--json", "--", sys.executable, "-c", "print('of the job')", cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"], answer["exit_status"]) == (0, "failed", 0)
    assert "of the job" in done.stderr


@pytest.mark.skipif(not hasattr(signal, "sigwaitinfo"), reason="this system does not say who sent a signal")
def test_a_signal_to_the_whole_group_reaches_the_job_once(tmp_path: Path) -> None:
    """As a terminal's interrupt does, and as `kill -- -GROUP`."""
    source = """
import signal, time
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
print("ready", flush=True)
time.sleep(3)
print(len(heard), flush=True)
"""
    command = [sys.executable, "-m", "npulens.app.cli", "collect", "--backend", "cpu", "--no-load", "-o",
               str(tmp_path / "out"), "--", sys.executable, "-c", source]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        assert job.stdout is not None and job.stdout.readline() == "ready\n"
        os.killpg(job.pid, signal.SIGUSR1)
        time.sleep(1.2)  # longer than what counts as together
        job.send_signal(signal.SIGUSR1)
        assert job.stdout.read() == "2\n"
    assert job.returncode == 0


def test_threads_that_end_amid_the_recording_do_no_harm(tmp_path: Path) -> None:
    """The number of a thread that ended is used again, and a profiler can be stopped in its own thread only."""
    source = """
import threading, torch
model = torch.nn.Linear(8, 8).eval()
def serve(n):
    with torch.inference_mode():
        for _ in range(n):
            model(torch.randn(2, 8))
for n in (4, 3, 3, 3):
    thread = threading.Thread(target=serve, args=(n,))
    thread.start()
    thread.join()
print("served")
"""
    done = collect("-o", "out", "--", sys.executable, "-c", source, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr


def test_the_status_of_a_child_is_a_shells(tmp_path: Path) -> None:
    for script in ("exit 0", "exit 41", "kill -TERM $$", "kill -KILL $$"):
        shell = subprocess.run(["sh", "-c", f"sh -c '{script}'; exit $?"], stderr=subprocess.DEVNULL).returncode
        assert child.run(["sh", "-c", script], os.environ) == shell


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk_ends_the_recording_and_not_the_job(tmp_path: Path) -> None:
    (job,) = [job for job in JOBS if job.full]
    (tmp_path / "probe").mkdir()
    tried = subprocess.run(["mount", "-t", "tmpfs", "none", str(tmp_path / "probe")], capture_output=True)
    if tried.returncode:
        pytest.skip("mounting is not allowed here")
    subprocess.run(["umount", str(tmp_path / "probe")], check=True)
    found = pair(job, tmp_path)
    assert found.differences() == []
    assert b"No space left on device" in found.recorded.err
