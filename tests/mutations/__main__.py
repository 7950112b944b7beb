"""Puts small defects into a copy of the product and runs tests on each: `python -m tests.mutations --count 40`.

Prints which defects `make quick` notices; with --whole those that it does not are given to the whole suite, without a
browser. A defect that changes nothing anybody could see counts as not noticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutations.change import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("ingest", "analysis", "app", "collectors")
QUICK = ["@tests/quick.txt"]
WHOLE = ["-m", "not browser and not torture and not npu_contract"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--whole", action="store_true", help="the whole suite for what the quick tests do not notice")
    asked = parser.parse_args()
    caught = {"quick": 0, "whole": 0}
    with tempfile.TemporaryDirectory(prefix="npulens-mutations-") as folder:
        copy = copied(Path(folder) / "npulens")
        for number, mutation in enumerate(mutations(ROOT, ROOMS, asked.count, asked.seed), 1):
            by, seconds = noticed(copy, mutation, asked.jobs, asked.whole)
            caught["quick"] += by == "quick"
            caught["whole"] += by is not None
            print(f"{number:3}  {by or 'nobody':6} {seconds:6.0f} s  {mutation.file}:{mutation.line}: {mutation.what}",
                  flush=True)  # fmt: skip
    print(f"noticed by make quick: {caught['quick']} of {asked.count}")
    if asked.whole:
        print(f"noticed by the whole suite: {caught['whole']} of {asked.count}")


def copied(home: Path) -> Path:
    """The repository with its compiled parts, and links that give its folders the name they are imported by."""
    leave = shutil.ignore_patterns(".venv*", ".git", ".bench", ".fuzz", "build", "dist", "__pycache__", ".mypy_cache")
    shutil.copytree(ROOT, home, ignore=leave, symlinks=True)
    tree = home / "build" / "tree" / "npulens"
    tree.mkdir(parents=True)
    for path in [*(home / "app" / "front").glob("*.py"), *(home / room for room in (*ROOMS, "sample_traces"))]:
        (tree / path.name).symlink_to(path)
    return home


def noticed(copy: Path, mutation: Mutation, jobs: str, whole: bool) -> tuple[str | None, float]:
    """Which tests fail with the defect, and after how long."""
    place, begun = copy / mutation.file, time.monotonic()
    before = place.read_text("utf-8")
    place.write_text(mutation.text, "utf-8")
    try:
        for name, tests in [("quick", QUICK)] + ([("whole", WHOLE)] if whole else []):
            if not passes(copy, tests, jobs):
                return name, time.monotonic() - begun
        return None, time.monotonic() - begun
    finally:
        place.write_text(before, "utf-8")


def passes(copy: Path, tests: list[str], jobs: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", jobs, "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "build" / "tree")}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
