"""What the tests with the real torch_npu ask for: its environment, libraries that pretend, and a place for figures."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.npu import stubs
from tests.npu.figures import CHECKED, FIGURES

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-npu/bin/python"
PATHS = (ROOT, ROOT / "build/tree")  # npulens is not installed beside torch_npu: make lays its links there
_BEGUN = time.monotonic()


@dataclass(frozen=True)
class Torch:
    """The environment with the real torch_npu, and libraries that it finds where CANN's would be."""

    libraries: Path
    bin: Path | None = None  # what it finds on its path first

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND", "PYTEST"))}
        path = os.pathsep.join([*([str(self.bin)] if self.bin else []), str(PYTHON.parent), os.environ["PATH"]])
        return {
            **kept, "PATH": path, "LD_LIBRARY_PATH": str(self.libraries),
            "PYTHONPATH": os.pathsep.join(map(str, PATHS)),
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONDONTWRITEBYTECODE": "1", **(more or {}),
        }  # fmt: skip

    def run(self, *arguments: str, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [str(PYTHON), *arguments], cwd=cwd or ROOT, env=self.environment(more), capture_output=True, text=True,
            timeout=900, umask=0o077,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def told(self, *arguments: str, cwd: Path | None = None) -> Any:
        """The last line it prints, which is JSON."""
        return json.loads(self.run(*arguments, cwd=cwd).splitlines()[-1])


@pytest.fixture(scope="session")
def site() -> Path:
    """Where torch_npu lies."""
    if not PYTHON.exists():
        pytest.fail("there is no .venv-npu: make test-npu-contract makes it")
    (found,) = PYTHON.parents[1].glob("lib/python3.*/site-packages")
    return found


@pytest.fixture(scope="session")
def asked_for(site: Path) -> list[str]:
    return stubs.asked_for(site)


@pytest.fixture(scope="session")
def stubbed(asked_for: list[str], tmp_path_factory: pytest.TempPathFactory) -> Torch:
    """CANN's libraries without a device."""
    return Torch(stubs.make(tmp_path_factory.mktemp("stub") / "lib", asked_for))


@pytest.fixture(scope="session")
def device(asked_for: list[str], tmp_path_factory: pytest.TempPathFactory) -> Torch:
    """CANN's libraries with a device that keeps its memory on the host and computes nothing."""
    return Torch(stubs.make(tmp_path_factory.mktemp("device") / "lib", asked_for, device=True))


@pytest.fixture(scope="session")
def cann(device: Torch, tmp_path_factory: pytest.TempPathFactory) -> Torch:
    """The device, and a msprof where CANN has one."""
    tools = tmp_path_factory.mktemp("cann") / "tools/profiler"
    (tools / "bin").mkdir(parents=True)
    script = tools / "profiler_tool/analysis/msprof/msprof.py"  # torch_npu looks for it beside the executable
    script.parent.mkdir(parents=True)
    script.touch()
    program = tools / "bin/msprof"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(PYTHON))} -m tests.npu.msprof "$@"\n')
    program.chmod(0o700)
    return replace(device, bin=program.parent)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CHECKED and (place := os.environ.get("NPULENS_EVIDENCE")):
        how = "the real torch_npu on stub libraries, without an NPU"
        told = {"backend": "npu", "contract": how, "checked": CHECKED}
        Path(place).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if FIGURES:
        terminalreporter.section("torch_npu without an NPU")
        for what, figure in FIGURES.items():
            terminalreporter.write_line(f"{figure:>7}  {what}")
        cpu, clock = sum(os.times()[:4]) / 60, (time.monotonic() - _BEGUN) / 60
        terminalreporter.write_line(f"{cpu:7.1f}  minutes of CPU, {clock:.1f} by the clock")
