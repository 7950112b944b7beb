"""`npulens check` on loaded runs, beside what the other advisors take for the same data.

The load is not part of our figure (it stands in the other tables); the rivals read their files,
because they keep nothing between two questions.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bench import rivals
from tests.bench.captures import CACHE, ROOT

TOOL = (sys.executable, "-m", "npulens.app.cli")


def loaded(path: Path, name: str) -> list[str]:
    """What checks a run; loads it first, unmeasured, where that has not happened."""
    store = str(CACHE / "store-check")
    load = [*TOOL, "load", str(path), "--store", store, "--label", name, "--json"]
    subprocess.run(load, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return [sys.executable, "-m", "tests.bench.programs.judge", store, name]


def advisor(rank: Path) -> list[str]:
    tool = str(rivals.environment(rivals.MSPROF_ANALYZE) / "msprof-analyze")
    out = str(CACHE / "msprof-analyze-output")
    return [tool, "advisor", "all", "-d", str(rank), "--agent", "-l", "en", "--force", "-o", out]
