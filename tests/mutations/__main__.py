"""Puts small defects into a copy of the product and runs tests on each: `python -m tests.mutations --count 40`.

Prints which defects `make quick` notices; with --whole also which of the others the rest of the suite notices.
First the tests run once without a defect, and each changed function writes down which tests call it (reach.py): of the
whole suite that takes an hour, so --reached keeps it for the next time. Then a defect is given to those tests alone,
to the quick ones all, to the others until --minutes have passed. So the share of the whole suite is at least what is
printed. A defect that changes nothing anybody could see counts as not noticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from tests.mutations.change import Mutation, mutations
from tests.mutations.reach import REPORT, Reach, probed, read, run

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
    parser.add_argument("--minutes", type=float, default=4, help="of the slow tests, for one defect")
    parser.add_argument("--reached", type=Path, help="a folder: which tests call the functions, kept or read again")
    asked = parser.parse_args()
    found = list(mutations(ROOT, ROOMS, asked.count, asked.seed))
    tests = [] if asked.whole else [f"@{QUICK}"]
    with tempfile.TemporaryDirectory(prefix="npulens-mutations-") as folder:
        reached = (asked.reached or Path(folder) / "reached").resolve()
        if not (reached / REPORT).exists():
            probe = copied(Path(folder) / "probed" / "npulens")
            probed(probe, found, reached)
            run(probe, reached, asked.jobs, tests)
        known = read(len(found), reached)
        print(f"{len(known.seconds)} tests run, {len(known.failed)} of them fail without a defect", flush=True)
        copy = copied(Path(folder) / "npulens")
        told(copy, found, known, asked.jobs, asked.minutes if asked.whole else 0)


def told(copy: Path, found: Sequence[Mutation], known: Reach, jobs: str, minutes: float) -> None:
    """Prints which defects the tests notice."""
    is_quick = quick()
    noticed: Counter[str] = Counter()
    for number, mutation in enumerate(found):
        began = time.monotonic()
        tests = known.of(number)
        first = [test for test in tests if is_quick(test)]
        slow = _within([test for test in tests if not is_quick(test)], known.seconds, 60 * minutes * int(jobs))
        given = {"quick": first, "whole": slow}
        by = next((name for name in given if fails(copy, mutation, given[name], jobs)), "")
        noticed[by] += 1
        print(f"{number + 1:3}  {by or 'not':5} {time.monotonic() - began:5.0f} s  {len(first) + len(slow):5} of "
              f"{len(tests):5} tests  {mutation.file}:{mutation.line}: {mutation.what}", flush=True)  # fmt: skip
    print(f"noticed by make quick: {noticed['quick']} of {len(found)}")
    if minutes:
        print(f"noticed by the whole suite: {noticed['quick'] + noticed['whole']} of {len(found)}, at least")


def _within(tests: Sequence[str], seconds: Mapping[str, float], most: float) -> list[str]:
    """The first of the tests, as many as take so long together."""
    together = accumulate(seconds[test] for test in tests)
    return [test for test, until in zip(tests, together, strict=True) if until <= most]


def quick() -> Callable[[str], bool]:
    """Whether a test is one of tests/quick.txt, which names files and tests."""
    listed = set(QUICK.read_text("utf-8").split())
    return lambda test: test in listed or test.split("::")[0] in listed


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
