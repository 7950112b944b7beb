"""Puts small defects into a copy of the product and runs tests on each: `python -m tests.mutations --count 40`.

Prints which defects `make quick` notices; with --whole those that it does not are given to the whole suite. A first run
without a defect writes down which tests run which function, and a defect is given to those alone (reach.py). A defect
that changes nothing anybody could see counts as not noticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutations.change import Mutation, mutations
from tests.mutations.reach import Reach, probed, reach

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("ingest", "analysis", "app", "collectors")
QUICK = ROOT / "tests" / "quick.txt"
#: What pytest ends with where it is asked for a test that there is not.
NO_SUCH_TEST = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--whole", action="store_true", help="the whole suite for what the quick tests do not notice")
    asked = parser.parse_args()
    found = list(mutations(ROOT, ROOMS, asked.count, asked.seed))
    with tempfile.TemporaryDirectory(prefix="npulens-mutations-") as folder:
        probe = copied(Path(folder) / "probed" / "npulens")
        written = Path(folder) / "written"
        probed(probe, found, written)
        known = reach(probe, len(found), written, asked.jobs, [] if asked.whole else [f"@{QUICK}"])
        shutil.rmtree(probe)
        told(copied(Path(folder) / "npulens"), found, known, asked.jobs, asked.whole)


def told(copy: Path, found: Sequence[Mutation], known: Reach, jobs: str, whole: bool) -> None:
    """Prints what notices each defect, and the shares."""
    quick, caught = QUICK.read_text("utf-8").split(), {"quick": 0, "whole": 0}
    for number, mutation in enumerate(found):
        tests = known.of(number)
        fast = [test for test in tests if test in quick or test.split("::")[0] in quick]
        rest = [test for test in tests if test not in fast] if whole else []
        by, seconds = noticed(copy, mutation, jobs, {"quick": fast, "whole": rest})
        caught["quick"] += by == "quick"
        caught["whole"] += by is not None
        print(f"{number + 1:3}  {by or 'nobody':6} {seconds:6.0f} s  {mutation.file}:{mutation.line}: {mutation.what}",
              flush=True)  # fmt: skip
    print(f"noticed by make quick: {caught['quick']} of {len(found)}")
    if whole:
        print(f"noticed by the whole suite: {caught['whole']} of {len(found)}, at least")


def copied(home: Path) -> Path:
    """The repository with its compiled parts and the real captures, under the name it is imported by."""
    leave = shutil.ignore_patterns(".venv*", ".git", ".bench", ".fuzz", "build", "dist", "__pycache__", ".mypy_cache")
    shutil.copytree(ROOT, home, ignore=leave, symlinks=True)
    tree = home / "build" / "tree" / "npulens"
    tree.mkdir(parents=True)
    for path in [*(home / "app" / "front").glob("*.py"), *(home / room for room in (*ROOMS, "sample_traces"))]:
        (tree / path.name).symlink_to(path)
    shared, beside = ROOT.parent / "shared", home.parent / "shared"
    if shared.is_dir() and not beside.exists():
        beside.symlink_to(shared)
    return home


def noticed(
    copy: Path, mutation: Mutation, jobs: str, stages: Mapping[str, Sequence[str]]
) -> tuple[str | None, float]:
    """Which stage's tests fail with the defect, and after how long."""
    place, begun = copy / mutation.file, time.monotonic()
    before = place.read_text("utf-8")
    place.write_text(mutation.text, "utf-8")
    try:
        by = next((name for name, tests in stages.items() if tests and not passes(copy, tests, jobs)), None)
    finally:
        place.write_text(before, "utf-8")
    return by, time.monotonic() - begun


def passes(copy: Path, tests: Sequence[str], jobs: str) -> bool:
    listed = copy.with_name("listed.txt")
    listed.write_text("\n".join(tests), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", jobs, "-p", "no:cacheprovider", f"@{listed}"]
    environment = {**os.environ, "PYTHONPATH": str(copy / "build" / "tree")}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if done.returncode == NO_SUCH_TEST:
        raise ValueError(done.stderr or done.stdout)
    return done.returncode == 0


if __name__ == "__main__":
    main()
