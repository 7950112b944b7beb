"""What a recording costs a step of the job, by setting: four jobs, each alone and recorded, in turns.

    python -m tests.bench.recording [--rounds 8] [--only WORD]

Every job times its own steps, on the wall clock and by the CPU time of its process, and looks at each whether torch's
profiler is on. So a step belongs to one of three: recorded, outside the recording, or one in which the profiler began,
ended or wrote. The first two are compared with the same job alone, started in the same round. The third is told as what
it costs once. Ratios are those of the steadier clock, with their 99 % interval. Give the machine nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path

from npulens.collectors.harness.steady import midmean
from npulens.collectors.harness.versus import Verdict, judge

_STEPS, _WARM = 80, 6
_WAIT, _ACTIVE = 30, 20
#: By its name in the table: what is added to the command line.
SETTINGS = {
    "default": (), "--no-shapes": ("--no-shapes",), "--memory": ("--memory",), "--modules": ("--modules",),
    "--stacks": ("--stacks",), "--defer": ("--defer",),
}  # fmt: skip
_LOOP = f"""
import json, time
def run(step):
    told = []
    for _ in range({_STEPS}):
        before, wall, cpu = torch.autograd.profiler._is_profiler_enabled, time.perf_counter_ns(), time.process_time_ns()
        step()
        told.append((time.perf_counter_ns() - wall, time.process_time_ns() - cpu, before,
                     torch.autograd.profiler._is_profiler_enabled))
    print(json.dumps(told))
"""
_HEAD = f"""
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
{_LOOP}
def train(model, *shape):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    def step():
        model(torch.randn(*shape)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    run(step)
"""
JOBS = {
    "trains a perceptron of 24 small layers": _HEAD + """
train(nn.Sequential(*(part for _ in range(24) for part in (nn.Linear(64, 64), nn.ReLU()))), 16, 64)
""",
    "trains a transformer of 4 layers": _HEAD + """
train(nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True), 4), 4, 64, 256)
""",
    "trains a convolutional network": _HEAD + """
def block(a, b): return nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU())
train(nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.Flatten(), nn.Linear(128 * 16, 10)), 16, 3, 32, 32)
""",
    "decodes, a token at a time": _HEAD + """
layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Embedding(500, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 500)).eval()
def step():
    global tokens
    with torch.no_grad():
        tokens = torch.cat([tokens[:, 1:], model(tokens)[:, -1:].argmax(-1)], 1)
tokens = torch.zeros(1, 32, dtype=torch.long)
run(step)
""",
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One step as the job itself saw it."""

    wall_ns: int
    cpu_ns: int
    before: bool  # the profiler was on when it began
    after: bool

    def ns(self, clock: str) -> int:
        return self.wall_ns if clock == "wall" else self.cpu_ns


@dataclass(frozen=True)
class Round:
    """One run of a job alone, and one with each setting."""

    alone: tuple[Step, ...]
    recorded: dict[str, tuple[Step, ...]]


def steps(source: str, place: Path, setting: Sequence[str] | None) -> tuple[Step, ...]:
    """Runs a job, alone or recorded; its steps after those that warm it up."""
    script = place / "job.py"
    script.write_text(source)
    job = [sys.executable, str(script)]
    window = ["--wait", str(_WAIT), "--warmup", "1", "--active", str(_ACTIVE)]
    collect = [sys.executable, "-m", "npulens.app.cli", "collect", "--no-load", "--backend", "cpu"]
    words = job if setting is None else [*collect, *window, *setting, "-o", str(place / "out"), "--", *job]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=600, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    told = tuple(Step(*each) for each in json.loads(done.stdout.splitlines()[-1]))
    if setting is not None:
        kept = json.loads((place / "out" / "manifest.json").read_text())
        assert kept["status"] == "complete", kept["reason"]
    return told[_WARM:]


def measured(source: str, rounds: int) -> list[Round]:
    """All settings and the job alone, each once a round, beginning with another one in every round."""
    found = []
    sides: list[str | None] = [None, *SETTINGS]
    for number in range(rounds):
        taken: dict[str | None, tuple[Step, ...]] = {}
        for side in islice(cycle(sides), number % len(sides), number % len(sides) + len(sides)):
            with tempfile.TemporaryDirectory(prefix="recording-") as place:
                taken[side] = steps(source, Path(place), None if side is None else SETTINGS[side])
        found.append(Round(taken[None], {name: taken[name] for name in SETTINGS}))
    return found


def ratios(found: Sequence[Round], setting: str, on: bool) -> tuple[str, Verdict]:
    """Steps recorded (or outside) over the steps alone, by the clock on which the rounds agree best."""
    by_clock = {}
    for clock in ("wall", "cpu"):
        each = []
        for one in found:
            kept = [step.ns(clock) for step in one.recorded[setting] if step.before is step.after is on]
            each.append(midmean(kept) / midmean([step.ns(clock) for step in one.alone]))
        by_clock[clock] = judge(each)
    steadier = min(by_clock, key=lambda clock: by_clock[clock].high / by_clock[clock].low)
    return steadier, by_clock[steadier]


def once_ns(found: Sequence[Round], setting: str) -> float:
    """What the job waits once: how much longer its steps took together than so many usual ones of both kinds."""
    each = []
    for one in found:
        told, usual = one.recorded[setting], dict[bool, float]()
        for on in (False, True):
            usual[on] = midmean([step.wall_ns for step in told if step.before is step.after is on])
        kept = sum(usual[step.before and step.after] for step in told)
        each.append(sum(step.wall_ns for step in told) - kept)
    return statistics.median(each)


def _told(clock: str, verdict: Verdict) -> str:
    return f"{verdict.ratio:.3f} [{verdict.low:.3f}, {verdict.high:.3f}] {clock}"


def main() -> None:
    parser = argparse.ArgumentParser(description="What a recording costs a step of a job.")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", default="", help="jobs whose name holds this")
    arguments = parser.parse_args()
    print(f"torch {version('torch')}, Python {platform.python_version()}, {os.cpu_count()} cores, "
          f"{arguments.rounds} rounds of {_ACTIVE} recorded steps\n")  # fmt: skip
    print("| job | ms a step | setting | recorded / alone | outside / alone | once, ms |\n|---|---:|---|---|---|---:|")
    for name, source in JOBS.items():
        if arguments.only not in name:
            continue
        found = measured(source, arguments.rounds)
        alone = statistics.median(midmean([step.wall_ns for step in one.alone]) for one in found)
        for setting in SETTINGS:
            figures = [_told(*ratios(found, setting, on)) for on in (True, False)]
            once = f"{once_ns(found, setting) / 1e6:.0f}"
            print("| " + " | ".join([name, f"{alone / 1e6:.2f}", f"`{setting}`", *figures, once]) + " |", flush=True)


if __name__ == "__main__":
    main()
