"""The code in docs/collecting.md and on the Learn page runs as it stands there."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from npulens.app.commands import collect
from npulens.app.pages.learn.page import _WAYS
from npulens.collectors.__main__ import _parser

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
    line.partition("  #")[0].strip() for language, code in CODE if language == "bash" for line in code.splitlines()
]


@pytest.mark.parametrize("line", sorted({line for line in LINES if line}))
def test_every_command_is_one_that_there_is(line: str) -> None:
    """Read by the very parsers that will read it, and not run."""
    words = shlex.split(line)
    if words[:2] == ["npulens", "collect"]:
        context = collect.command.make_context("collect", words[2:])
        given = context.params["command"]
        assert not given or given[0] in ("python", "torchrun") or len(given) == 1
    elif words[0] == "python3":
        assert _parser().parse_args(words[2:]).command[:2] == ["--", "python"]
    else:
        assert words[:3] in (["npulens", "load", "profile"], ["python", "-m", "npulens.collectors.zipapp"])


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


def test_the_help_names_all_three_uses() -> None:
    said = CliRunner().invoke(collect.command, ["--help"]).output
    assert "npulens collect -- python train.py" in said and "lists the workloads" in said
