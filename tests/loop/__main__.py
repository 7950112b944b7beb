"""Real jobs with a real fault: what npulens says of a recording, against what the fix gives back.

    python -m tests.loop [--only WORD] [--pairs 3] [--kept DIR] [-o FILE]

Each job is recorded in both forms, in turns, loaded and checked. The first finding of the form with the fault names the
cause, and its saving is the prediction; the difference of the steps of both forms is what the fix gives back. Between
recordings both run without a profiler. Give the machine nothing else to do. Exit code 1 if the promises do not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.loop.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
NPULENS = str(Path(sys.executable).with_name("npulens"))
#: Of the jobs so many have their cause first, and of those the predicted saving is off by no more in the median.
LEAST_FIRST, MOST_OFF = 17, 0.20
_LIMIT_S = 600


@dataclass(frozen=True)
class Judged:
    """One recording."""

    step_ns: float
    first: str  # the detector of the first finding; "" without one
    title: str
    saving_ns: float


@dataclass(frozen=True)
class Closed:
    """One job, all the way round."""

    fault: Fault
    faulty: tuple[Judged, ...]
    fixed: tuple[Judged, ...]
    alone_ns: tuple[float, float]  # a step with the fault, and with its fix, without a profiler

    @property
    def said(self) -> Judged:
        """Of the recordings with the fault, the one in the middle by what it predicts, of those most agree with."""
        most = statistics.mode(one.first for one in self.faulty)
        return sorted((one for one in self.faulty if one.first == most), key=lambda one: one.saving_ns)[
            sum(one.first == most for one in self.faulty) // 2
        ]

    @property
    def step_ns(self) -> float:
        return statistics.median(one.step_ns for one in self.faulty)

    @property
    def achieved_ns(self) -> float:
        return self.step_ns - statistics.median(one.step_ns for one in self.fixed)

    @property
    def right(self) -> bool:
        return self.said.first in self.fault.causes

    @property
    def off(self) -> float:
        """By which share of what was achieved the prediction is wrong."""
        return abs(self.said.saving_ns - self.achieved_ns) / abs(self.achieved_ns)


def command(fault: Fault, fixed: bool) -> list[str]:
    module = ["-m", f"tests.loop.jobs.{fault.job}", *(["--fixed"] if fixed else [])]
    if fault.processes == 1:
        return [sys.executable, *module]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(fault.processes), *module]


def run(words: Sequence[str], **environ: str) -> str:
    """What a command prints; a failure is one of ours."""
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environ},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def step_ns(fault: Fault, fixed: bool) -> float:
    """How long a step takes without a profiler: that of the slowest process."""
    told = re.findall(r"step_ns=(\d+)", run(command(fault, fixed)))
    assert len(told) == fault.processes, told
    return max(map(float, told))


def in_turns(pairs: int) -> list[bool]:
    """Which form runs when: A B, B A, A B."""
    return [fixed for number in range(pairs) for fixed in ((False, True) if number % 2 == 0 else (True, False))]


def judged(fault: Fault, fixed: bool, home: Path) -> Judged:
    """A recording, and what `check` says of it."""
    home.mkdir(parents=True)
    store = {"NPULENS_STORE": str(home / "store")}
    settings = ["--wait", "3", "--active", str(fault.active), "--no-load"]
    run([NPULENS, "collect", "-o", str(home / "capture"), *settings, "--", *command(fault, fixed)], **store)
    run([NPULENS, "load", str(home / "capture"), "--label", fault.job], **store)
    said: dict[str, Any] = json.loads(run([NPULENS, "check", fault.job, "--json"], **store))
    first = said["findings"][0] if said["findings"] else {"detector": "", "title": "", "saving_ns": 0}
    return Judged(said["step_ns"], first["detector"], first["title"], first["saving_ns"])


def closed(fault: Fault, home: Path, pairs: int) -> Closed:
    recorded: dict[bool, list[Judged]] = {False: [], True: []}
    alone: dict[bool, list[float]] = {False: [], True: []}
    for number, fixed in enumerate(in_turns(pairs)):
        recorded[fixed].append(judged(fault, fixed, home / f"{number}-{'fixed' if fixed else 'fault'}"))
        alone[fixed].append(step_ns(fault, fixed))
    without = statistics.median(alone[False]), statistics.median(alone[True])
    return Closed(fault, tuple(recorded[False]), tuple(recorded[True]), without)


def promises(found: Sequence[Closed]) -> list[tuple[bool, str]]:
    right = [one for one in found if one.right]
    off = statistics.median(one.off for one in right) if right else 1.0
    least = min(LEAST_FIRST, len(found))
    return [
        (len(right) >= least, f"Of {len(found)} jobs at least {least} have their cause first: {len(right)}"),
        (off <= MOST_OFF, f"Predicted against achieved saving of those, off by at most {MOST_OFF:.0%} in the median: "
                          f"{off:.0%}"),
    ]  # fmt: skip


def line(one: Closed) -> str:
    first = one.said.first if one.right else f"**{one.said.first or 'nothing'}**"
    figures = [one.step_ns, one.said.saving_ns, one.achieved_ns]
    alone = f"{one.alone_ns[0] / 1e6:.1f} to {one.alone_ns[1] / 1e6:.1f}"
    told = " | ".join(f"{figure / 1e6:.2f}" for figure in figures)
    return f"| `{one.fault.job}` | {one.fault.what} | {first} | {told} | {one.off:.0%} | {alone} |"


def page(found: Sequence[Closed], pairs: int) -> str:
    """docs/loop.md."""
    return "\n".join([
        "# The loop, closed on real jobs", "",
        "Generated by `python -m tests.loop -o docs/loop.md`. Each job of `tests/loop/jobs` has a fault and a fix.",
        f"`npulens collect` records both forms, in {pairs} pairs whose order changes, and `npulens check` judges each",
        "recording. The prediction is the saving of the first finding in each step. What the fix achieved is the",
        "difference of the median steps of both forms. A first finding in bold is not the cause. The last column has",
        "the steps of the same forms without a profiler, which changes what allocations and Python cost.", "",
        "A saving is a ceiling: a fix may give back less. Jobs with two processes run under `torchrun` with Gloo. All",
        "of them ran on a CPU; nothing here has run on an NPU or a GPU.", "",
        "| job | fault | first finding | step, ms | predicted, ms | achieved, ms | off by | without a profiler, ms |",
        "|---|---|---|---|---|---|---|---|", *map(line, found), "",
        *(f"- {'holds' if holds else '**does not hold**'}: {text}" for holds, text in promises(found)), "",
        f"Measured with torch {version('torch')} and Python {platform.python_version()} on {os.cpu_count()} cores "
        f"({platform.machine()}).", "",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.loop")
    parser.add_argument("--only", default="", help="jobs whose name holds this")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--kept", type=Path, help="keep captures and stores here")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for fault in FAULTS:
            if asked.only in fault.job:
                found.append(closed(fault, (asked.kept or Path(scratch)) / fault.job, asked.pairs))
                print(line(found[-1]), found[-1].said.title, sep="\n", flush=True)
    if asked.output:
        asked.output.write_text(page(found, asked.pairs), "utf-8")
    told = promises(found)
    print(*(f"{'holds' if holds else 'DOES NOT HOLD'}: {text}" for holds, text in told), sep="\n")
    return 0 if all(holds for holds, _ in told) else 1


if __name__ == "__main__":
    raise SystemExit(main())
