"""Ranks that no ``npulens collect`` starts, and several collects into one directory.

`python -m tests.nodes` tries the launchers themselves.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from npulens.collectors import launchers, notes
from npulens.collectors.session import Session
from tests.nodes.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
COLLECT = [sys.executable, "-m", "npulens.app.cli", "collect"]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
#: A framework with plugins: it imports torch, calls them, and later makes steps. Only its own code knows its rank.
FRAMEWORK = """
import importlib, subprocess, sys, torch, torch.distributed as dist
assert not any(place.endswith("inject") for place in sys.path)
module, _, name = sys.argv[1].partition(":")
for _ in range(2):
    getattr(importlib.import_module(module), name)()
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + sys.argv[2], rank=0, world_size=1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for i in range(12):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    if i == 4:
        subprocess.run(sys.argv[3:], check=True, stdout=subprocess.DEVNULL)
print("steps", i + 1)
"""


def plugin() -> str:
    """What a framework finds in the installed package."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return str(told["project"]["entry-points"]["vllm.general_plugins"]["npulens"])


@pytest.mark.torch
@needs_torch
def test_a_plugin_of_a_framework_records_its_process_when_somebody_says_begin(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    told = subprocess.run([*COLLECT, "--env", "--json", "--armed", "--active", "2", "-o", out], cwd=ROOT,
                          capture_output=True, text=True, check=True)  # fmt: skip
    variables = json.loads(told.stdout)
    assert set(variables) == {"PYTHONPATH", "NPULENS_RECORDING"}
    environment = {**os.environ, "RANK": "5", "NPULENS_RECORDING": variables["NPULENS_RECORDING"]}
    begin = [*COLLECT, "--begin", "-o", out]
    job = [sys.executable, "-c", FRAMEWORK, plugin(), str(free_port()), *begin]
    done = subprocess.run(job, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip().endswith("steps 12"), done.stderr
    judged = subprocess.run([*COLLECT, "--analyse", out, "--no-load", "--json"], cwd=ROOT, capture_output=True,
                            text=True, timeout=300)  # fmt: skip
    assert json.loads(judged.stdout)["status"] == "complete", judged.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (process,) = manifest["processes"]
    assert (process["rank"], process["backend"], manifest["evidence"]) == (0, "cpu", "cpu")
    assert [trace["steps"] for trace in manifest["traces"]] == [2]
    assert not (tmp_path / "out" / notes.PLACE).exists()


@pytest.mark.torch
@needs_torch
def test_a_plugin_does_nothing_where_nobody_asks_and_says_what_is_wrong() -> None:
    source = "import torch, npulens.collectors.plugin as p; p.record(); print(len(p._LISTENING))"
    for told, printed, complaint in ((None, "0", ""), ("{}", "0", "the job is not recorded: KeyError")):
        environment = {name: value for name, value in os.environ.items() if name != "NPULENS_RECORDING"}
        environment |= {} if told is None else {"NPULENS_RECORDING": told}
        done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == printed and complaint in done.stderr and "Traceback" not in done.stderr


def test_the_environment_is_what_a_shell_evaluates(tmp_path: Path) -> None:
    out = tmp_path / "a place's name"
    told = subprocess.run([*COLLECT, "--env", "-o", str(out), "--backend", "cpu"], cwd=ROOT, capture_output=True,
                          text=True, check=True, env={**os.environ, "PYTHONPATH": "/mine"})  # fmt: skip
    shell = subprocess.run(["sh", "-c", told.stdout + 'printf "%s\\n" "$PYTHONPATH" "$NPULENS_RECORDING"'],
                           capture_output=True, text=True, check=True)  # fmt: skip
    path, recording = shell.stdout.splitlines()
    assert path == f"{ROOT / 'collectors' / 'inject'}{os.pathsep}/mine"
    assert json.loads(recording)["directory"] == str(out) and out.is_dir()


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None), ({"RANK": "3"}, 3), ({"OMPI_COMM_WORLD_RANK": "2"}, 2), ({"PMI_RANK": "1"}, 1),
        ({"PMIX_RANK": "4"}, 4), ({"SLURM_PROCID": "7"}, 7), ({"RANK": "5", "SLURM_PROCID": "0"}, 5),
        ({"RANK": "", "PMI_RANK": "6"}, 6), ({"RANK": "x"}, None), ({"RANK": "-1"}, None), ({"RANK": "²"}, None),
    ],
)  # fmt: skip
def test_the_innermost_launcher_says_the_rank(environment: dict[str, str], rank: int | None) -> None:
    assert launchers.rank(environment) == rank


def note(place: Path, session: Session, begun_ns: int) -> None:
    notes.Notes(place).write({"session": session.name, "begun_ns": begun_ns, "state": "written", "pid": os.getpid()})


def test_the_last_of_several_collects_judges_all(tmp_path: Path) -> None:
    first = Session(tmp_path, 100)
    second = Session(tmp_path, 200)
    third = Session(tmp_path, 50)
    assert (second.since_ns, third.since_ns) == (100, 50)
    for session in (first, second, third):
        note(tmp_path, session, 150)
    note(tmp_path, first, 49)  # what an earlier collection left
    whose = [session.name for session in (first, second, third)]
    said, others = second.end()
    assert ([each["session"] for each in said], others) == ([second.name], 2)
    said, others = first.end()
    assert (len(said), others) == (2, 1)
    said, others = third.end()
    assert (sorted(each["session"] for each in said), others) == (sorted(whose), 0)
    assert list(tmp_path.iterdir()) == []


def test_a_collect_that_was_killed_counts_no_more(tmp_path: Path) -> None:
    source = f"""
import os
from pathlib import Path
from npulens.collectors.session import Session
kept = Session(Path({str(tmp_path)!r}), 1)
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", source], cwd=ROOT).returncode == -9
    assert len(list((tmp_path / notes.PLACE).iterdir())) == 1
    session = Session(tmp_path, 100)
    assert session.since_ns == 100 and session.end() == ([], 0)


def test_processes_of_two_nodes_with_one_number_keep_their_notes_apart(tmp_path: Path) -> None:
    session = Session(tmp_path, 1)
    for _ in range(2):
        note(tmp_path, session, 2)
    assert len(session.end()[0]) == 2


def test_a_directory_that_the_job_removes_is_no_harm(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    session = Session(place, 1)
    (place / notes.PLACE / f"{session.name}.collecting").unlink()
    (place / notes.PLACE).rmdir()
    place.rmdir()
    assert session.end() == ([], 0)
