"""`npulens collect -- python train.py`, end to end: the real torch_npu, on libraries that pretend.

The job imports nothing of ours. The steps are found, torch_npu records and analyses them, the directory is judged,
loaded and checked, all by the command. What the device did is invented (layer.py), so every figure is known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.settings import Settings
from tests.npu.conftest import PYTHON, ROOT, Torch
from tests.npu.figures import FIGURES
from tests.npu.layer import LAUNCHES, Task, kind
from tests.npu.msprof import planned

pytestmark = pytest.mark.npu_contract
WANTED = Settings()
RECORDED = range(WANTED.wait + WANTED.warmup, WANTED.steps)


def npulens(torch: Torch, place: Path, *arguments: str, device: bool = True) -> subprocess.CompletedProcess[str]:
    """The command line, as on a machine where torch_npu finds its device."""
    layer = {"NPULENS_TEST_LAYER": "1"} if device else {}
    environment = torch.environment({"NPULENS_STORE": str(place / "store"), **layer})
    return subprocess.run(
        [sys.executable, "-m", "tests.npu.collect", "app", *arguments], cwd=ROOT, env=environment, text=True,
        capture_output=True, timeout=600, umask=0o077,
    )  # fmt: skip


def job(out: Path, steps: int = 9) -> list[str]:
    return [str(PYTHON), "-m", "tests.npu.train", str(out), str(RECORDED.start), str(RECORDED.stop), str(steps)]


def collected(torch: Torch, place: Path, *options: str, device: bool = True) -> tuple[dict[str, Any], Path, str]:
    """What the command answers, the one directory of torch_npu, and what the job printed."""
    out = place / "out"
    done = npulens(torch, place, "collect", "--json", *options, "-o", str(out), "--", *job(out), device=device)
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    (found,) = out.glob("*_ascend_pt")
    return answer, found, done.stderr


def layer(directory: Path) -> list[Task]:
    (prof,) = directory.glob("PROF_*")
    return planned(prof)


@pytest.fixture(scope="module")
def loss(cann: Torch, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the job prints alone."""
    command = job(tmp_path_factory.mktemp("alone"))
    alone = subprocess.run(command, cwd=ROOT, env=cann.environment(), capture_output=True, text=True, check=True)
    return alone.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "deferred"])
def test_a_job_that_knows_nothing_of_us_is_recorded_loaded_and_checked(
    cann: Torch, loss: str, tmp_path: Path, later: bool
) -> None:
    answer, found, printed = collected(cann, tmp_path, *(["--defer"] if later else []))
    assert loss.startswith("loss ") and loss in printed.splitlines()
    if later:
        assert (answer["status"], answer["exit_status"]) == ("deferred", 0)
        assert not (found / "ASCEND_PROFILER_OUTPUT").exists()
        done = npulens(cann, tmp_path, "collect", "--json", "--analyse", str(found.parent))
        assert done.returncode == 0, done.stderr[-4000:]
        answer = json.loads(done.stdout)
    assert (answer["status"], answer["reason"], answer["traces"]) == ("complete", None, 1)
    truth = layer(found)
    assert len(truth) == len(LAUNCHES) * len(RECORDED)
    (process,) = json.loads((found.parent / "manifest.json").read_text())["processes"]
    assert (process["steps_by"], process["steps"], process["left_out"]) == ("optimizer", WANTED.steps, [])
    (run,) = [each for each in answer["runs"] if each["run_id"]]  # the moments of the launches beside it are no capture
    query = "SELECT name, op_type, dur_ns, step FROM kernel JOIN span USING (span_id) ORDER BY ts_ns"
    said = npulens(cann, tmp_path, "sql", run["run_id"], query, "--json")
    assert said.returncode == 0, said.stderr[-2000:]
    rows = [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in json.loads(said.stdout)["rows"]]
    wanted = sorted((task for task in truth if task.computes), key=lambda task: task.start)
    assert rows == [(task.name, kind(task), task.dur, task.step) for task in wanted]
    assert {task.step for task in wanted} == set(RECORDED)
    if later:
        return
    FIGURES["kernels of a job that npulens collect recorded, to the nanosecond"] = len(rows)
    checked = npulens(cann, tmp_path, "check", run["run_id"], "--json")
    assert checked.returncode == 0, checked.stderr[-2000:]
    outcomes = [each["outcome"] for each in json.loads(checked.stdout)["outcomes"]]
    assert "failed" not in outcomes and set(outcomes) & {"found", "masked", "clean"}
    FIGURES["detectors that could judge it"] = sum(each in ("found", "masked", "clean") for each in outcomes)


def test_a_database_comes_the_same_way(cann: Torch, tmp_path: Path) -> None:
    """msprof's database is not invented here, so no device is in it: torch_npu is silent, and the command says so."""
    answer, found, _ = collected(cann, tmp_path, "--export", "db", "--no-load", device=False)
    assert list(found.glob("ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler*.db"))
    assert answer["status"] == "failed" and "the profiler did not see the device" in answer["reason"]


def test_without_the_stand_in_the_product_refuses_the_stub(cann: Torch, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [str(PYTHON), "-m", "npulens.collectors", "own", "-o", str(out), "--backend", "npu", "--", *job(out)]
    done = subprocess.run(command, cwd=ROOT, env=cann.environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "CANN is a stub here" in done.stdout and not out.exists()
    assert os.environ.get("NPULENS_RECORDING") is None
