"""Other people's tools, each pinned and in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bench.captures import CACHE

TRACEINSIGHT = "traceinsight==0.6.1"  # the renamed HolisticTraceAnalysis
MSPROF_ANALYZE = "msprof-analyze==26.2.0"


def environment(requirement: str, *beside: str) -> Path:
    """The bin directory of an environment that holds this requirement and others; made at the first call."""
    home = CACHE / f"env-{requirement.split('==')[0]}"
    ready = home / requirement
    if not ready.exists():
        print(f"installing {requirement}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        subprocess.run([*pip, requirement, *beside], check=True)
        ready.touch()
    return home / "bin"


def traceinsight(trace: Path) -> list[str]:
    program = Path(__file__).parent / "programs" / "traceinsight_questions.py"
    return [str(environment(TRACEINSIGHT) / "python"), str(program), str(trace)]


def msprof_compare(rank: Path) -> list[str]:
    """A rank against itself: two parses, which is the least this command does. --force lifts its size limits."""
    output = CACHE / "msprof-analyze-output"
    tool = str(environment(MSPROF_ANALYZE) / "msprof-analyze")
    return [tool, "compare", "-d", str(rank), "-bp", str(rank), "-o", str(output), "--force"]
