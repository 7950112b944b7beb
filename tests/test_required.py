"""The rule of conftest.py: where the captures or a browser are known to be there, skipping for want of them fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPS = """
import pytest

@pytest.mark.shared
def test_marked(): pytest.skip("not here")

def test_reason_names_the_captures(): pytest.skip("../shared/traces is not here")

def test_reason_names_the_browser(): pytest.skip("no chromium")

@pytest.mark.parametrize("capture", [])
def test_nothing_to_run_on(capture): ...

def test_something_else(): pytest.skip("torch is not installed")
"""


@pytest.mark.parametrize(
    ("required", "failed"),
    [
        ("", set()),
        ("browser", {"test_reason_names_the_browser"}),
        ("shared", {"test_marked", "test_reason_names_the_captures", "test_nothing_to_run_on[NOTSET]"}),
    ],
)
def test_a_skip_for_want_of_what_is_there_fails(required: str, failed: set[str], tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "warm_loads.py"):
        shutil.copy(Path(__file__).with_name(name), tests)
    (tests / "test_skips.py").write_text(SKIPS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    shared: reads captures\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path, env={**os.environ, "NPULENS_REQUIRE": required}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    assert {line.split("::")[1] for line in lines} == failed
    assert (done.returncode == 0) == (not failed)
