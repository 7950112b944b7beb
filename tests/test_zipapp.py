"""One file holds the collectors and runs anywhere: from an empty directory, without this project in reach."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from npulens.collectors import zipapp
from npulens.collectors.workloads.workload import names

JOB = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zipapp") / zipapp.NAME
    zipapp.make(path)
    return path


def run(file: Path, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    place.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, str(file), *arguments], cwd=place, env=bare, capture_output=True, text=True, timeout=300
    )


def test_it_holds_collectors_only_and_not_the_simulator(file: Path) -> None:
    held = zipfile.ZipFile(file).namelist()
    assert {name.partition("/")[0] for name in held} == {"npulens", "__main__.py"}
    assert {f"npulens/collectors/{name}.py" for name in ("inject/sitecustomize", "workloads/train_step")} <= set(held)
    assert not [name for name in held if "scenarios" in name or "simul" in name or "_bench_trace" in name]
    assert file.stat().st_size < 450_000  # of which the laboratory is a third


def test_the_same_sources_make_the_same_file(file: Path, tmp_path: Path) -> None:
    zipapp.make(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == file.read_bytes()


def test_nothing_that_it_imports_stays_at_home(file: Path, tmp_path: Path) -> None:
    """Every module of ours is imported from the file, but for those that begin with torch or triton."""
    source = (
        "import sys, zipfile, importlib\n"
        "sys.path[:0] = [sys.argv[1]]\n"
        "for name in zipfile.ZipFile(sys.argv[1]).namelist():\n"
        "    module = name[:-3].replace('/', '.').replace('.__init__', '')\n"
        "    if name.startswith('npulens/') and name.endswith('.py') and 'inject' not in name:\n"
        "        try:\n"
        "            assert sys.argv[1] in importlib.import_module(module).__file__\n"
        "        except ModuleNotFoundError as error:\n"
        "            assert error.name in ('torch', 'triton', 'torch_npu'), error\n"
        "print('all')\n"
    )
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", source, str(file)], cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "all\n", done.stderr


def test_it_lists_its_workloads_from_an_empty_directory(file: Path, tmp_path: Path) -> None:
    done = run(file, tmp_path / "empty", "workloads")
    assert done.returncode == 0, done.stderr
    assert [each["workload"] for each in json.loads(done.stdout)["workloads"]] == names()


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_it_records_a_job_and_a_workload(file: Path, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    options = ["--backend", "cpu", "-o"]
    for arguments in (
        ["own", *options, "job", "--", sys.executable, "../job.py"],
        ["workload", "train_step", "--shape", "small", *options, "ours"],
    ):
        done = run(file, tmp_path / "empty", *arguments)
        answer = json.loads(done.stdout.splitlines()[-1])
        assert done.returncode == 0 and answer["status"] == "complete", done.stderr
        (trace,) = (tmp_path / "empty" / answer["directory"]).glob("*.pt.trace.json.gz")
        assert gzip.decompress(trace.read_bytes()).count(b"Optimizer.step#SGD.step") == 3


def test_a_failure_keeps_its_exit_status(file: Path, tmp_path: Path) -> None:
    done = run(file, tmp_path / "empty", "workload", "no_such", "-o", "x")
    assert done.returncode == 2 and "there is no workload" in done.stdout
