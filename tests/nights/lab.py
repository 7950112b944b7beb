"""A small configuration and the command over it, as tests of single nights need them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from npulens.app.cli import main
from npulens.app.nightly import kept
from npulens.app.nightly.night import Night

ROOT = Path(__file__).resolve().parents[2]

#: Writes a number that follows from the round's variables, and leaves a line behind so that sessions can be counted.
JOB = """
import json, os, sys, time
name = sys.argv[1]
open("sessions.txt", "a").write(f"{name} {os.environ['NPULENS_SIDE']}\\n")
count = open("sessions.txt").read().count(f"{name} ")
if os.path.exists(f"{name}.sleep"):
    time.sleep(float(open(f"{name}.sleep").read()))
if os.path.exists(f"{name}.fails"):
    sys.exit("the device is gone")
value = float(os.environ.get("VALUE", "100")) * (1 + 0.001 * (count * 7 % 5 - 2))
json.dump({"metrics": {"step": {"value": value, "unit": "ms"}}, "hardware": "simulated"},
          open(os.environ["NPULENS_RESULT"], "w"))
"""


class Lab:
    """A folder with nightly.toml and its store."""

    def __init__(self, folder: Path, toml: str) -> None:
        self.folder, self.store = folder, folder / "store"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.py").write_text(JOB)
        self.path = folder / "nightly.toml"
        self.path.write_text(toml)

    def arguments(self, *more: str) -> list[str]:
        return ["nightly", str(self.path), "--store", str(self.store), *more]

    def run(self, *more: str, env: Mapping[str, str] | None = None) -> Result:
        """One night in this process."""
        return CliRunner().invoke(main, self.arguments(*more), env=dict(env or {}), catch_exceptions=False)

    def start(self, *more: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """One night in a process of its own, to be disturbed."""
        return subprocess.Popen(
            [sys.executable, "-m", "npulens.app.cli", *self.arguments(*more)], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})},
        )  # fmt: skip

    def night(self, label: str, name: str = "nightly") -> Night:
        found = kept.nights(self.store, name)[label]
        assert found is not None
        return found

    def facts(self, label: str, name: str = "nightly") -> list[dict[str, Any]]:
        path = self.store / ".nights" / name / label / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def sessions(self) -> list[str]:
        path = self.folder / "sessions.txt"
        return path.read_text().splitlines() if path.is_file() else []


def job(name: str, more: str = "") -> str:
    """One [[job]] that measures itself."""
    return f'[[job]]\nname = "{name}"\ncommand = ["{{python}}", "job.py", "{name}"]\nmeasure = "result"\n{more}\n'


def keys(night: Night) -> list[str]:
    return [said.key for said in night.notices]
