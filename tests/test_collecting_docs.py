"""The code in docs/collecting.md and on the Learn page runs as it stands there."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.app.cli import main
from npulens.app.commands import collect
from npulens.app.pages.learn.page import _WAYS
from npulens.collectors.__main__ import _parser
from tests.nodes import launchers
from tests.nodes.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "collecting.md").read_text(), flags=re.DOTALL)
CODE = [*BLOCKS, *((language, code) for _, language, code in _WAYS)]
#: What the code finds around it: a loop of eight batches, each a little work.
AROUND = """
import torch
weight = torch.ones(4, 4, requires_grad=True)
loader = [torch.ones(2, 4)] * 8
def train(batch):
    (batch @ weight).sum().backward()
def run_training(on_step_end):
    for batch in loader:
        train(batch)
        on_step_end()
"""
LINES = [
    line.partition("  #")[0].strip()
    for language, code in CODE
    if language == "bash"
    for line in code.replace("\\\n", " ").splitlines()
]
#: What starts a job here, before or behind a collect, and what starts it elsewhere.
JOBS = ("python", "torchrun", "mpirun", "vllm")
STARTERS = (
    "mpirun", "srun", "sbatch", "mkdir", "PROF_CONFIG_PATH=$PWD/watched", "eval", "RECORDING=", "export ",
    "vllm serve ",
)  # fmt: skip


@pytest.mark.parametrize("line", sorted({line for line in LINES if line}))
def test_every_command_is_one_that_there_is(line: str) -> None:
    """Read by the very parsers that will read it, and not run."""
    ours = re.search(r"npulens collect\b([^)]*)", line)
    words = shlex.split(line)
    if ours and line.startswith(("npulens", *STARTERS)):
        context = collect.command.make_context("collect", shlex.split(ours[1]))
        given = context.params.get("command")  # none: what `collect serve` takes
        assert not given or given[0] in JOBS or len(given) == 1
    elif line.startswith(STARTERS):
        assert words[0] != "npulens"
    elif words[0] == "python3":
        assert _parser().parse_args(words[2:]).command[:2] == ["--", "python"]
    elif words[0] == "npulens":
        parser = main.get_command(click.Context(main), words[1])
        assert parser is not None and parser.make_context(words[1], words[2:]).params
    else:
        assert words[:3] == ["python", "-m", "npulens.collectors.zipapp"]


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("code", sorted({code for language, code in CODE if language == "python"}))
def test_the_python_records_three_steps(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AROUND + code], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    from npulens.collectors.collected import collected

    found = collected(tmp_path / "profile", "cpu", 3)
    assert (found.status, [trace.steps for trace in found.traces]) == ("complete", [3])


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_example_of_two_nodes_runs_as_it_stands_there(tmp_path: Path) -> None:
    """Two agents on this machine, one rank each, in the places of two nodes of eight."""
    (example,) = [line for line in LINES if "--nnodes 2" in line and "/shared/profile" in line]
    out = tmp_path / "profile"
    here = {
        "npulens": [sys.executable, "-m", "npulens.app.cli"],
        "torchrun": [sys.executable, "-m", "torch.distributed.run"],
        "collect": ["collect", "--backend", "cpu", "--no-load"], "/shared/profile": [str(out)], "8": ["1"],
        "node0:29500": [f"127.0.0.1:{free_port()}"], "train.py": [str(launchers.JOB)],
    }  # fmt: skip
    commands = [
        [new for word in shlex.split(example.replace("$NODE_RANK", node)) for new in here.get(word, [word])]
        for node in ("0", "1")
    ]
    place = launchers.Place(tmp_path, sys.executable)
    ran = launchers.done(commands, place.environment(), ROOT)
    assert [each.returncode for each in ran] == [0, 0], "\n".join(each.stderr[-3000:] for each in ran)
    assert sorted(each.stdout.split(":")[0] for each in ran) == ["rank 0 of 2", "rank 1 of 2"]
    assert launchers.ranks(out) == ([0, 1], [3, 3], {"complete"})
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
    said = [each.stderr for each in ran]
    assert sum("Other nodes still collect" in each for each in said) == 1  # the other one judged both ranks
    (run,) = ingest.load(out, tmp_path / "store").runs
    assert list(run.ranks) == [0, 1]


def test_the_help_names_all_three_uses() -> None:
    said = CliRunner().invoke(collect.command, ["--help"]).output
    assert "npulens collect -- python train.py" in said and "lists the workloads" in said
