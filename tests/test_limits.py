"""A recording that comes to a limit ends, what is whole is kept, and the job does not notice."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npulens.app.commands.collect import said
from npulens.collectors.limits import KEEP_FREE, WRITING, Limits, size
from npulens.collectors.notes import host
from npulens.collectors.settings import Settings
from npulens.collectors.telemetry import machine

ROOT = Path(__file__).resolve().parent.parent
real = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not say what a process holds"),
]
STEPS = 1500
JOB = f"""
import torch
from torch import nn
torch.manual_seed(7)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
for i in range({STEPS}):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 64)), torch.randint(10, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.6f" % loss.item())
"""


def collect(out: Path, *limits: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """The job, to be recorded for all its steps but the first three."""
    command = [sys.executable, "-m", "npulens.app.cli", "collect", "--no-load", "--backend", "cpu", "-o", str(out)]
    done = subprocess.run(
        [*command, "--active", str(STEPS - 3), *limits, "--", sys.executable, "-c", JOB], cwd=ROOT,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done, json.loads((out / "manifest.json").read_text())


def checked(done: subprocess.CompletedProcess[str], told: dict[str, Any], limit: str) -> dict[str, Any]:
    """What holds whichever limit it was; the notice of it."""
    alone = subprocess.run([sys.executable, "-c", JOB], capture_output=True, text=True, check=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, alone.stdout)
    (notice,) = [each for each in told["notices"] if each["name"] == limit]
    (trace,) = told["traces"]
    assert told["status"] == "partial" and 0 < trace["steps"] == notice["values"]["kept"] < STEPS - 3
    assert said(notice, "en") in done.stderr and f"{trace['steps']} of {STEPS - 3} steps" in said(notice, "en")
    assert f"{STEPS - 3} 个 step 中的 {trace['steps']} 个" in said(notice, "zh")
    return dict(notice["values"])


class TestRealJob:
    pytestmark = real

    def test_more_than_it_may_write(self, tmp_path: Path) -> None:
        done, told = collect(tmp_path / "out", "--max-disk", "40MB")
        values = checked(done, told, "limit_disk")
        assert values["limit_bytes"] == 40_000_000 < values["bytes"] and "--max-disk allows 40.0 MB" in told["reason"]

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
    def test_a_disk_that_would_become_full(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=60m", "none", str(tmp_path / "out")]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            done, told = collect(tmp_path / "out", "--keep-free", "20M")
            left = os.statvfs(tmp_path / "out")
        finally:
            subprocess.run(["umount", str(tmp_path / "out")], check=True)
        values = checked(done, told, "limit_free")
        assert values["limit_bytes"] == 20_000_000 <= left.f_bavail * left.f_frsize
        assert values["place"] == str(tmp_path / "out")

    def test_no_room_from_the_beginning(self, tmp_path: Path) -> None:
        done, told = collect(tmp_path / "out", "--keep-free", "100000T")
        assert done.returncode == 0 and done.stdout.startswith("loss ")
        assert told["status"] == "failed" and told["reason"].endswith("the recording did not begin")

    def test_a_size_that_is_none_is_one_sentence(self, tmp_path: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "npulens.app.cli",
            "collect",
            "-o",
            str(tmp_path / "out"),
            "--max-disk",
            "much",
        ]
        done = subprocess.run([*command, "--", "true"], cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert "'much' is no size such as 500M or 2GB" in done.stderr and "Traceback" not in done.stderr
        assert done.returncode == 2 and not (tmp_path / "out").exists()


def test_all_processes_count_together_and_what_lay_there_before_does_not(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(b"x" * 5000)
    os.utime(tmp_path / "before", ns=(10**9, 10**9))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "raw").write_bytes(b"x" * 300)
    held = [{"state": "recording", "held_bytes": 400, "host": "another"}, {"state": "written", "held_bytes": 10**12},
            {"state": "recording", "held_bytes": 50, "host": host()},
            {"state": "recording", "held_bytes": None}]  # fmt: skip
    for allowed, reached in ((749, 750), (750, None)):
        found = Limits(tmp_path, allowed, 0, True, 2 * 10**9).look(held)
        assert (found and found.bytes) == reached


def test_memory_counts_where_the_trace_is_written(tmp_path: Path) -> None:
    there = machine.memory()
    if there is None:
        pytest.skip("this system does not say how much memory is available")
    much = {"state": "recording", "held_bytes": 2 * there[0] // WRITING}
    found = Limits(tmp_path, None, 0, True, 0).look([{**much, "host": host()}])
    assert found is not None and (found.name, found.bytes) == ("memory", much["held_bytes"] * WRITING)
    assert Limits(tmp_path, None, 0, True, 0).look([{**much, "host": "another"}]) is None


def test_by_default_some_of_the_disk_stays_free(tmp_path: Path) -> None:
    told = os.statvfs(tmp_path)
    free, total = told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize
    keep = min(KEEP_FREE, total // 50)
    if free < keep + 10**9:
        pytest.skip("this disk is nearly full")
    fits, not_so = ({"state": "recording", "host": host(), "held_bytes": held} for held in (1000, free))
    assert Limits(tmp_path, None, None, True, 0).look([fits]) is None
    reached = Limits(tmp_path, None, None, True, 0).look([not_so])
    assert reached is not None and (reached.name, reached.limit) == ("free", keep)


@pytest.mark.parametrize(
    ("text", "bytes_"), [("2GB", 2 * 10**9), ("500M", 5 * 10**8), ("1.5t", 15 * 10**11), ("7", 7), ("3 KiB", 3000)]
)
def test_sizes(text: str, bytes_: int) -> None:
    assert size(text) == bytes_


@pytest.mark.parametrize("text", ["", "G", "-1G", "2 GBs", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size such as"):
        size(text)


def test_a_limit_of_nothing_is_refused() -> None:
    for wrong in ({"max_disk": 0}, {"keep_free": -1}):
        with pytest.raises(ValueError, match="may write some bytes"):
            Settings(**wrong)
