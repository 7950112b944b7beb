"""python -m tests.bench.nightly: what a night costs after its measuring, with 10,000 runs of history behind it.

A store of its own holds 500 nights of 20 tasks with 20 metrics each, the journals of those nights included. Tonight's
sessions are in its journal already, as if the night had been killed just after the last one: `npulens nightly` goes on
from there in a process of its own. It judges 400 metrics, compares the runs of those that moved kernel by kernel,
writes HTML, Markdown, JSON and JUnit in both languages, and puts the night into the history.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens import ingest
from npulens.app.nightly import journal, kept, place
from npulens.app.nightly.night import NAME
from npulens.app.nightly.written import leave
from npulens.ingest.store import history as points
from tests.bench import history
from tests.bench.captures import ROOT
from tests.bench.history import METRICS, NIGHTS, WORKLOADS, label
from tests.bench.measure import measure

LAB, ROUNDS = "lab", 10
#: Tasks that the history shows to be slower since a few nights; tasks of base and head where head is slower.
SLOWER, PAIRED = range(4), range(4, 8)
REPORTS = (leave.HTML, leave.MARKDOWN, NAME, leave.JUNIT)
#: Pairs of runs that are compared part by part: four that the history shows, two of base and head.
PAIRS = 6
STEPS = 20  # of the captures that are compared


@dataclass(frozen=True)
class Runs:
    """Loaded captures: two of a job, two of the same job with a fault."""

    clean: tuple[str, str]
    faulty: tuple[str, str]

    def before(self, task: int) -> str:
        return self.clean[task % 2] if task in SLOWER else self.faulty[1 - task % 2]

    def tonight(self, task: int) -> str:
        return self.faulty[task // 2 % 2] if task in SLOWER else self.faulty[task % 2]


def loaded(folder: Path, store: Path) -> Runs:
    """The captures in the store."""
    found = []
    for what, seed in (("clean", 3), ("clean", 4), ("host_late", 3), ("host_late", 4)):
        out = folder / f"{what}{seed}"
        command = [sys.executable, "-m", "npulens.collectors.planting", what, "--seed", str(seed), "--ranks", "1",
                   "--steps", str(STEPS), "--format", "kineto", "-o", str(out)]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        found.append(str(ingest.load(out / "capture", store).runs[0].run_id))
    return Runs((found[0], found[1]), (found[2], found[3]))


def config() -> str:
    """A job that would have to run ends the benchmark: everything is measured already."""
    jobs = "".join(
        f'[[job]]\nname = "{history.workload(task)}"\ncommand = ["false"]\nmeasure = "result"\n'
        + ('base = { env = { RELEASE = "1" } }\n' if task in PAIRED else "")
        for task in range(WORKLOADS)
    )
    return f'[night]\nname = "{LAB}"\nrounds = {ROUNDS}\nout = "reports"\ndashboard = "http://127.0.0.1:8501"\n{jobs}'


def sessions(task: int, runs: Runs) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every session of a task with its result; pairs have their second look."""
    known = history.values(task, task in SLOWER)[:, -1]
    sides = {"base": 1 / history.SLOWER, "head": 1.0} if task in PAIRED else {"head": 1.0}
    for turn in range(2 * ROUNDS if task in PAIRED else 3):
        for side, factor in sides.items():
            noise = factor * (1 + 0.002 * (turn % 3 - 1) + (0.001 if side == "head" else 0) * (turn % 2))
            metrics = {history.metric(row): {"value": known[row] * noise, "unit": "ns"} for row in range(METRICS)}
            run = f"tonight{task}"
            if task in (*SLOWER, *PAIRED):
                run = runs.before(task) if side == "base" else runs.tonight(task)
            result = {"metrics": metrics, "run_id": run, "covariates": history.conditions(NIGHTS)}
            yield f"{history.workload(task)}/{turn:03d}/{side}", result


def facts(runs: Runs) -> str:
    """What is in the journal of a night that has measured everything, without its first line."""
    lines: list[dict[str, Any]] = []
    clock = {"clock_ns": history.moment(NIGHTS), "spent_s": 1.0}
    for task in range(WORKLOADS):
        for step, result in sessions(task, runs):
            lines.append({"what": "begin", "step": step, "mark": "0" * 32} | clock)
            lines.append({"what": "step", "step": step, "ok": True, "results": [result], "read": {}, "notices": [],
                          "seconds": 1.0} | clock)  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines)


def nights(home: Path, runs: Runs) -> int:
    """The journals of all nights; how large they are."""
    told, size = facts(runs), 0
    for night in range(NIGHTS + 1):
        clock = {"clock_ns": history.moment(night)}
        first = {"what": "night", "label": label(night), "at_ns": history.moment(night), "steps": 1} | clock
        last = json.dumps({"what": "end", "outcome": "quiet"} | clock) + "\n" if night < NIGHTS else ""
        text = json.dumps(first) + "\n" + told + last
        (home / label(night)).mkdir(parents=True)
        (home / label(night) / journal.NAME).write_text(text)
        size += len(text)
    return size


def prepared(folder: Path, store: Path) -> str:
    """Everything that the night finds; in words."""
    runs = loaded(folder, store)
    count = history.fill(store, {task: runs.before(task) for task in SLOWER})
    size = nights(place.home(store, LAB), runs)
    (folder / "nightly.toml").write_text(config())
    return (f"{WORKLOADS * NIGHTS:,} runs, {count:,} points in {(store / points.NAME).stat().st_size / 1e6:.0f} MB, "
            f"{NIGHTS} nights with journals of {size / 1e6:.0f} MB")  # fmt: skip


def checked(store: Path, folder: Path) -> Iterator[str]:
    """What the night has written, in words; an error where a part of it is missing."""
    night = kept.nights(store, LAB)[label(NIGHTS)]
    assert night is not None, "there is no report"
    wrong = [f"{task.name}: {task.status}" for task in night.tasks if task.status != "done"]
    explained = {(row.base_run, row.run_id) for row in night.rows if row.parts}
    held = sum(len(series) for (_, name), series in points.everything(store).items() if name == history.metric(1))
    assert not wrong, wrong
    assert len(night.rows) == WORKLOADS * METRICS, len(night.rows)
    assert held == WORKLOADS * (NIGHTS + 1), held
    assert len(explained) == PAIRS, explained
    words = Counter(row.verdict for row in night.rows)
    yield (f"{len(night.rows)} metrics judged ({', '.join(f'{n} {word}' for word, n in words.items())}), "
           f"{len(explained)} pairs of runs compared")  # fmt: skip
    sizes = {name: (folder / "reports" / night.label / name).stat().st_size for name in REPORTS}
    yield ", ".join(f"{name} {size / 1e3:,.0f} kB" for name, size in sizes.items())


def main() -> int:
    """Prints what it took; 1 if that was too much memory or CPU: the wall clock counts what else the machine does."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, store = Path(scratch), Path(scratch) / "store"
        began = time.perf_counter()
        print(f"{prepared(folder, store)} (made in {time.perf_counter() - began:.0f} s)", flush=True)
        command = [sys.executable, "-m", "npulens.app.cli", "nightly", str(folder / "nightly.toml"),
                   "--store", str(store), "--night", label(NIGHTS)]  # fmt: skip
        cost = measure(command, folder / "log.txt", ROOT, 600.0)
        print("\n".join(checked(store, folder)))
    print(f"npulens nightly: {cost.wall_s:.1f} s, {cost.cpu_s:.1f} CPU s, {cost.tree_bytes / 1e6:.0f} MB "
          f"(load of the machine {os.getloadavg()[0]:.1f})")  # fmt: skip
    return int(cost.cpu_s > history.MOST_SECONDS or cost.tree_bytes > history.MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
