"""Puts small defects into a copy of the product and runs tests on each: `python -m tests.mutations --count 40`.

Prints which defects `make quick` notices; with --whole those that it does not are given to further tests of the suite:
those of the files that import or name the module, or one that imports it. A first run without a defect writes down
which tests run which function, and a defect is given to those alone (reach.py). So what is noticed by the whole suite
is at least the share that is printed. A defect that changes nothing anybody could see counts as not noticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.change import Mutation, mutations
from tests.mutations.reach import near, probed, reach

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
    caught = {"quick": told(found, "quick", [f"@{QUICK}"], asked.jobs)}
    print(f"noticed by make quick: {len(caught['quick'])} of {len(found)}", flush=True)
    if asked.whole:
        left = [mutation for mutation in found if mutation not in caught["quick"]]
        caught["whole"] = told(left, "whole", near(ROOT, ROOMS, [one.file for one in left]), asked.jobs)
        print(f"noticed by the whole suite: {len(caught['quick']) + len(caught['whole'])} of {len(found)}, at least")


def told(found: Sequence[Mutation], by: str, tests: Sequence[str], jobs: str) -> list[Mutation]:
    """Which defects the tests notice; prints each."""
    noticed = []
    with tempfile.TemporaryDirectory(prefix="npulens-mutations-") as folder:
        probe = copied(Path(folder) / "probed" / "npulens")
        written = Path(folder) / "written"
        probed(probe, found, written)
        known = reach(probe, len(found), written, jobs, tests)
        shutil.rmtree(probe)
        copy = copied(Path(folder) / "npulens")
        for number, mutation in enumerate(found):
            began = time.monotonic()
            is_noticed = fails(copy, mutation, known.of(number), jobs)
            noticed += [mutation] * is_noticed
            print(f"{number + 1:3}  {by if is_noticed else 'not ' + by:9} {time.monotonic() - began:6.0f} s  "
                  f"{mutation.file}:{mutation.line}: {mutation.what}", flush=True)  # fmt: skip
    return noticed


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


def fails(copy: Path, mutation: Mutation, tests: Sequence[str], jobs: str) -> bool:
    """Whether one of the tests fails with the defect."""
    place = copy / mutation.file
    before = place.read_text("utf-8")
    place.write_text(mutation.text, "utf-8")
    try:
        return bool(tests) and not passes(copy, tests, jobs)
    finally:
        place.write_text(before, "utf-8")


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
