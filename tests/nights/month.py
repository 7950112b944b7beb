"""Thirty-six nights of four jobs and a folder through `npulens nightly`: nothing may be forgotten.

`python -m tests.nights.month --seeds 3`. One job gets 5 % slower and one 3 %, one leaks 0.4 % a night, one is steady;
each measures seven numbers with noise of 0.4 % a night. The folder gets a capture every night but one. Prints what
every night said, and which promise holds: told in time, in sight with exit 1 on every later night, then "fixed";
nothing of the steady job; the empty night "not measured".
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from click.testing import CliRunner

from npulens.app.cli import main
from npulens.app.nightly import kept
from npulens.app.nightly.night import Night
from tests.nights.lab import ROOT

NIGHTS, NOISE, FIRST = 36, 0.004, date(2026, 4, 1)
#: The first night of each change, and the first after it was mended.
SINCE, FIVE_FIXED, THREE_FIXED = 12, 28, 31
EMPTY = 20
LEAK = 0.004
#: Nights after a change within which it has to be told; the leak before it has reached so much.
WITHIN, BEFORE = {"five": 4, "three": 8}, 0.05
#: The step and the parts of it that a change hits; the others only vary.
HIT, OTHERS = ("step_ns", "computing_ns", "kernel_gemm_ns"), ("idle_ns", "copy_ns", "loader_ns", "host_ns")
(CAPTURE,) = (ROOT / "sample_traces" / "kineto").glob("*.gz")

JOB = """
import json, os, sys
world = json.load(open("world.json"))[sys.argv[1]]
metrics = {name: {"value": value, "unit": "ns"} for name, value in world.items()}
json.dump({"metrics": metrics, "hardware": "simulated", "shapes": "batch 64"}, open(os.environ["NPULENS_RESULT"], "w"))
"""
TASKS = ("five", "three", "leak", "steady")


@dataclass(frozen=True)
class Told:
    """What the nights said of one job."""

    first: int | None  # the night that told it
    silent: tuple[int, ...]  # later nights, until it was mended, that did not name it or did not exit with 1
    fixed: int | None  # the night that said "fixed"
    else_said: tuple[str, ...]  # anything that was not planted


def factor(task: str, night: int) -> float:
    """What the job's times are multiplied by."""
    if task == "leak":
        return (1 + LEAK) ** max(0, night - SINCE)
    until, size = {"five": (FIVE_FIXED, 1.05), "three": (THREE_FIXED, 1.03)}.get(task, (0, 1.0))
    return size if SINCE <= night < until else 1.0


def label(night: int) -> str:
    return (FIRST + timedelta(days=night)).isoformat()


def run(folder: Path, seed: int, with_folder: bool) -> Path:
    """All nights; the store they are in."""
    draw, store = random.Random(seed), folder / "store"
    (folder / "job.py").write_text(JOB)
    (folder / "captures").mkdir()
    jobs = "".join(
        f'[[job]]\nname = "{task}"\ncommand = ["{{python}}", "-S", "job.py", "{task}"]\n'
        'measure = "result"\nrounds = 1\n' for task in TASKS
    )
    watch = '[[watch]]\nname = "folder"\npath = "captures"\nsettle = 0.0\n' if with_folder else ""
    (folder / "nightly.toml").write_text(f'[night]\nname = "month"\n{watch}{jobs}')
    for night in range(NIGHTS):
        world = {
            task: {
                name: 1e7 * (factor(task, night) if name in HIT else 1.0) * math.exp(draw.gauss(0, NOISE))
                for name in (*HIT, *OTHERS)
            } for task in TASKS
        }  # fmt: skip
        (folder / "world.json").write_text(json.dumps(world))
        if with_folder and night != EMPTY:
            _captured(folder / "captures" / label(night), night)
        words = ["nightly", str(folder / "nightly.toml"), "--night", label(night), "--store", str(store)]
        done = CliRunner().invoke(main, words)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
    return store


def _captured(target: Path, night: int) -> None:
    """The same capture a day later each night, so that every one has content of its own."""
    target.mkdir()
    trace = json.loads(gzip.decompress(CAPTURE.read_bytes()))
    trace["traceName"] = f"night {night}"
    trace["baseTimeNanoseconds"] = int(trace.get("baseTimeNanoseconds", 0)) + night * 86_400 * 10**9
    (target / CAPTURE.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))


def nights(store: Path) -> list[Night]:
    """Every night in order."""
    found = kept.nights(store, "month")
    every = [found[label(night)] for night in range(NIGHTS)]
    assert all(every), "a night has no report"
    return [night for night in every if night is not None]


def told(every: list[Night], task: str) -> Told:
    """What was said of a job."""
    said = [{row.verdict for row in night.rows if row.task == task} for night in every]
    until = {"five": FIVE_FIXED, "three": THREE_FIXED}.get(task, NIGHTS)
    real = task != "steady"
    first = next((n for n in range(SINCE, until) if real and said[n] & {"regressed", "open"}), None)
    later = range(first, until) if first is not None else range(0)
    silent = tuple(n for n in later if not said[n] & {"regressed", "open"} or every[n].status != 1)
    fixed = next((n for n in range(until, NIGHTS) if "fixed" in said[n]), None)
    start = SINCE if real else NIGHTS
    alarms = tuple(
        f"night {n}: {word}" for n in range(NIGHTS) for word in sorted(said[n] & {"regressed", "improved", "machine"})
        if n < start or word != "regressed" or n >= until
    )  # fmt: skip
    return Told(first, silent, fixed, alarms)


def promises(every: list[Night], with_folder: bool) -> Iterator[tuple[bool, str]]:
    """Each promise: whether it holds, and what was seen."""
    for task, most in WITHIN.items():
        found = told(every, task)
        in_time = found.first is not None and found.first - SINCE < most
        yield in_time, f"{task} told on its night {_place(found.first)} of at most {most}"
        yield not found.silent, f"{task} in sight with exit 1 on every later night; missing on {list(found.silent)}"
        yield found.fixed is not None, f"{task} fixed said on night {found.fixed}"
        yield not found.else_said, f"{task}: said without cause: {list(found.else_said)}"
    leak = told(every, "leak")
    size = (1 + LEAK) ** (leak.first - SINCE) - 1 if leak.first is not None else math.inf
    yield size < BEFORE, f"leak told at {size:.1%}, on its night {_place(leak.first)}"
    yield not leak.silent and not leak.else_said, f"leak in sight on every later night; missing on {list(leak.silent)}"
    steady = told(every, "steady")
    yield not steady.else_said, f"steady: said without cause: {list(steady.else_said)}"
    if with_folder:
        status = {task.name: task.status for task in every[EMPTY].tasks}["folder"]
        quiet = every[EMPTY - 1].status == 0
        exits = every[EMPTY].status in ((2,) if quiet else (1, 2))
        yield status == "unmeasured" and exits, f"the empty night is {status}, exit {every[EMPTY].status}"


def _place(night: int | None) -> str:
    return "never" if night is None else str(night - SINCE + 1)


def table(every: list[Night]) -> str:
    """A line a night: its exit status, its word, and what each job's step is."""
    lines = []
    for night in every:
        words = {row.task: row.verdict for row in night.rows if row.metric == "step_ns"}
        lines.append(f"{night.label}  exit {night.status}  {night.outcome:10} " + "  ".join(
            f"{task} {words.get(task, '-')}" for task in (*TASKS, "folder")))  # fmt: skip
    return "\n".join(lines)


def main_() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nights.month", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--no-folder", action="store_true", help="the four jobs alone, which is faster")
    asked = parser.parse_args()
    wrong = 0
    for seed in range(asked.seeds):
        folder = Path(tempfile.mkdtemp(prefix="npulens-month-"))
        try:
            every = nights(run(folder, seed, not asked.no_folder))
            print(f"seed {seed}\n{table(every)}")
            for holds, text in promises(every, not asked.no_folder):
                wrong += not holds
                print(f"{'holds' if holds else 'DOES NOT HOLD'}: {text}")
        finally:
            shutil.rmtree(folder)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main_())
