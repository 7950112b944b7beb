"""Detectors against planted faults: makes captures from fresh seeds, checks them, writes docs/accuracy.md.

    python -m tests.score [--cases 150] [--dialect NAME,NAME] [--seed N] [--full] [--rivals 60] [--write] [--keep DIR]

--cases are spread over all dialects of captures and, in each, over single faults of every cause,
combinations of two or three, and clean jobs; --full is 10 single cases per cause, 100 combined and
100 clean in the plain dialect, and 40 cases in each other one. The seed is printed, and drawn from
the clock unless given: nobody can tune to it. --rivals scores other tools on a fixed set of cases.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from npulens.analysis.scoring import Case
from npulens.app.commands.score import scored_case
from npulens.collectors.planting.plant import Options, plan, possible, scenarios, write
from npulens.collectors.simulator.dialect import DIALECTS
from npulens.ingest.errors import IngestError
from tests.score.page import page

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
FULL = 40  # cases of each dialect but the plain one
STEPS = 3  # of a capture in such a dialect: enough for what comes and goes
#: Causes that dialects are about: each comes up in every one of them (a late rank twice: captured or not), then others.
CORE = ("late_rank", "sync_stall", "host_late", "comm_exposed", "late_rank")


@dataclass(frozen=True)
class Task:
    """A capture to make: which faults, from which seed."""

    kind: str  # 'single', 'combined' or 'clean'
    names: tuple[str, ...]
    seed: int
    dialect: str = "plain"

    @property
    def name(self) -> str:
        return f"{self.dialect}-{'+'.join(self.names) or 'clean'}-{self.seed}"

    @property
    def options(self) -> Options:
        return Options() if self.dialect == "plain" else Options(steps=STEPS, dialect=self.dialect)


def tasks(cases: int, seed: int, full: bool, dialects: Sequence[str]) -> list[Task]:
    """Three fifths single faults (every cause as often as the others), one fifth combined, one fifth clean."""
    draw, known = random.Random(seed), sorted(scenarios())
    found: list[Task] = []
    for number, dialect in enumerate(dialects):
        count = FULL if full else cases // len(dialects) + (number < cases % len(dialects))
        counts = (count - 2 * (count // 5), count // 5, count // 5)
        if full and dialect == "plain":
            counts = (10 * len(known), 100, 100)
        found += _of_dialect(draw, known, dialect, counts)
    return found


def _of_dialect(draw: random.Random, known: Sequence[str], dialect: str, counts: tuple[int, int, int]) -> list[Task]:
    shown = [name for name in known if possible([name], dialect)]
    order = draw.sample(shown, len(shown))
    if dialect != "plain":
        order = [*(name for name in CORE if name in shown), *(name for name in order if name not in CORE)]
    single, combined, clean = counts
    found = [Task("single", (order[i % len(order)],), draw.randrange(1 << 31), dialect) for i in range(single)]
    while combined:
        names = tuple(draw.sample(shown, draw.choice((2, 2, 3))))
        if possible(names, dialect):
            found.append(Task("combined", names, draw.randrange(1 << 31), dialect))
            combined -= 1
    return found + [Task("clean", (), draw.randrange(1 << 31), dialect) for _ in range(clean)]


@dataclass(frozen=True)
class Result:
    task: Task
    case: Case | None
    capture: str  # what was captured, in words
    failure: str | None = None
    impossible: str | None = None  # no job has all these faults: nothing was captured


def done(task: Task, keep: Path | None) -> Result:
    """One task from the seed to the score."""
    with tempfile.TemporaryDirectory(prefix="npulens-score-") as scratch:
        home = (keep or Path(scratch)) / task.name
        home.mkdir(parents=True, exist_ok=True)
        try:
            truth = write(plan(task.names, task.seed, task.options), home)
        except ValueError as error:
            return Result(task, None, "", impossible=str(error))
        about = truth["capture"]
        level = "" if about["format"] == "kineto" else f" Level{about['level']}"
        capture = f"{about['format']}{level}, ranks {about['ranks']}"
        try:
            return Result(task, scored_case(home), capture)
        except IngestError as error:
            return Result(task, None, capture, str(error))


def results(todo: list[Task], jobs: int, keep: Path | None) -> Iterator[Result]:
    with ProcessPoolExecutor(jobs) as pool:
        pending = [pool.submit(done, task, keep) for task in todo]
        for number, future in enumerate(as_completed(pending), 1):
            if sys.stderr.isatty() or number % 20 == 0:
                print(f"{number} of {len(todo)}", file=sys.stderr, flush=True)
            yield future.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=150)
    parser.add_argument("--dialect", default=",".join(DIALECTS), help="these dialects only, with commas")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rivals", type=int, default=0, metavar="N", help="score other tools on N fixed cases too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="leave the captures here")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--only", help="these causes only, with commas")
    options = parser.parse_args()
    dialects = options.dialect.split(",")
    if unknown := set(dialects) - set(DIALECTS):
        parser.error(f"no dialect {', '.join(sorted(unknown))}: there are {', '.join(DIALECTS)}")
    todo = tasks(options.cases, options.seed, options.full, dialects)
    if options.only:
        wanted = set(options.only.split(","))
        todo = [task for task in todo if wanted & set(task.names)]
    started = time.monotonic()
    every = list(results(todo, options.jobs, options.keep))
    found = [result for result in every if result.impossible is None]
    beside = None
    if options.rivals:
        from tests.score.beside import compared

        beside = compared(options.rivals, options.jobs)
    text = page(found, beside, options.seed, time.monotonic() - started)
    print(text)
    for result in every:
        for line in complaints(result):
            print(line)
    if options.write:
        PAGE.write_text(text)


def complaints(result: Result) -> Iterator[str]:
    """What went wrong, case by case, with the words that make the case again."""
    where = f"{result.task.name} ({result.capture})"
    if result.impossible is not None:
        yield f"not planted: {result.task.name}: {result.impossible}"
        return
    if result.failure or result.case is None:
        yield f"failed: {where}: {result.failure}"
        return
    for fault in result.case.planted:
        share = fault.gain_ns / fault.step_ns
        if fault.false_clean:
            yield f"called clean: {fault.cause} {share:.1%} in {where}"
        if not fault.hit:
            yield f"missed: {fault.cause} {share:.1%} in {where}"
        elif fault.saving_ns is not None and abs(fault.saving_ns - fault.gain_ns) > 0.2 * fault.gain_ns:
            yield f"priced: {fault.cause} {share:.1%} as {fault.saving_ns / fault.step_ns:.1%} in {where}"
    for said in result.case.said:
        if not said.hits:
            yield f"wrong: {said.detector} says {said.cause} {said.saving_share:.1%} in {where}"


if __name__ == "__main__":
    main()
