"""The jobs of the seeds: is the planted cause named first, and is it gone with the fix?

    python -m tests.jobs [NAME ...] [--pairs 3] [--kept DIR] [-o docs/jobs.md]

Each job of collectors/jobs is recorded by `npulens collect` with each of its causes, and with the fix, in turns whose
order changes. `npulens check` judges every recording. Where rewrites of the laboratory take the cause away, the job is
heard with it and they are tried. Exit code 1 where a cause that a detector could name is not named first.
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
from pathlib import Path
from typing import Any

from npulens.collectors.jobs import job

ROOT = Path(__file__).resolve().parents[2]
NPULENS = str(Path(sys.executable).with_name("npulens"))
_LIMIT_S = 900


@dataclass(frozen=True)
class Judged:
    """One recording: what a step took, and its findings in order: the detector, and its saving in ns of a step."""

    step_ns: float
    findings: tuple[tuple[str, int], ...]
    alone_ns: int  # a step of the job without a profiler
    result: float

    @property
    def first(self) -> str:
        return self.findings[0][0] if self.findings else ""

    def saving_ns(self, detectors: Sequence[str]) -> int:
        """The largest that one of these detectors says; 0 where none says anything."""
        return max((saving for name, saving in self.findings if name in detectors), default=0)


@dataclass(frozen=True)
class Row:
    """One cause of one job."""

    name: str
    plant: str
    about: job.Plant
    planted: tuple[Judged, ...]
    fixed: tuple[Judged, ...]
    trials: tuple[dict[str, Any], ...] = ()

    @property
    def first(self) -> str:
        return statistics.mode(one.first for one in self.planted)

    @property
    def named(self) -> bool:
        return self.first in self.about.shows

    @property
    def gone(self) -> bool:
        """Whether the fix takes most of what the finding said away, and is not named first any more as large."""
        before, after = (statistics.median(one.saving_ns(self.about.shows) for one in group)
                         for group in (self.planted, self.fixed))  # fmt: skip
        return bool(after <= before / 2)


def command(name: str, plant: str, fixed: bool) -> list[str]:
    ranks = job.plants(name)[plant].ranks
    started = [] if ranks == 1 else ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    module = [sys.executable, *started, "-m", f"npulens.collectors.jobs.{name}", "--plant", plant]
    return [*module, "--fixed"] if fixed else module


def run(words: Sequence[str], store: Path) -> str:
    """What a command prints; a failure is one of ours."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NPULENS_STORE": str(store)}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def said(text: str) -> dict[str, Any]:
    """The last line of a job."""
    found: dict[str, Any] = json.loads([line for line in text.splitlines() if line.startswith('{"job"')][-1])
    return found


def judged(name: str, plant: str, fixed: bool, home: Path, active: int) -> Judged:
    """The job recorded, and what `check` says of it."""
    home.mkdir(parents=True)
    store, words = home / "store", command(name, plant, fixed)
    recording = ["--wait", "3", "--active", str(active), "--no-load"]
    run([NPULENS, "collect", "-o", str(home / "capture"), *recording, "--", *words], store)
    run([NPULENS, "load", str(home / "capture"), "--label", name], store)
    found = json.loads(run([NPULENS, "check", name, "--json"], store))
    alone = said(run(words, store))
    findings = tuple((each["detector"], round(each["saving_ns"])) for each in found["findings"])
    return Judged(found["step_ns"], findings, alone["step_ns"], alone["result"])


def trials(name: str, plant: str, about: job.Plant, home: Path) -> tuple[dict[str, Any], ...]:
    """What the laboratory says of the rewrites that take the cause away."""
    if not about.rewrites:
        return ()
    run([NPULENS, "lab", "-o", str(home / "subject"), "--", *command(name, plant, False)], home / "store")
    places = sorted(path.parent for path in (home / "subject").rglob("subject.json"))
    found: list[dict[str, Any]] = []
    for place in places[:1]:
        told = json.loads(
            run([NPULENS, "lab", str(place), "--try", ",".join(about.rewrites), "--json"], home / "store")
        )
        found += told["trials"]
    return tuple(found)


def rows(names: Sequence[str], pairs: int, home: Path) -> list[Row]:
    found = []
    for name in names:
        for plant, about in job.plants(name).items():
            if not about.shows:
                continue
            kept: dict[bool, list[Judged]] = {False: [], True: []}
            for turn in range(pairs):
                for fixed in (False, True) if turn % 2 == 0 else (True, False):
                    place = home / f"{name}.{plant}.{turn}{'.fixed' if fixed else ''}"
                    kept[fixed].append(judged(name, plant, fixed, place, about.active))
            tried = trials(name, plant, about, home / f"{name}.{plant}.lab")
            found.append(Row(name, plant, about, tuple(kept[False]), tuple(kept[True]), tried))
            print(line(found[-1]), flush=True)
    return found


def line(row: Row) -> str:
    """One row of the table."""
    first = row.first if row.named else f"**{row.first or 'nothing'}**"
    said_ns = statistics.median(one.saving_ns(row.about.shows) for one in row.planted)
    steps = [statistics.median(one.step_ns for one in group) / 1e6 for group in (row.planted, row.fixed)]
    alone = [statistics.median(one.alone_ns for one in group) / 1e6 for group in (row.planted, row.fixed)]
    lab = "; ".join(f"{each['rewrite']}: {verdict(each)}" for each in row.trials) or "-"
    gone = "yes" if row.gone else "**no**"
    return (
        f"| `{row.name} --plant {row.plant}` | {row.about.what} | {first} | {said_ns / 1e6:.2f} | "
        f"{steps[0]:.2f} to {steps[1]:.2f} | {alone[0]:.2f} to {alone[1]:.2f} | {gone} | {lab} |"
    )


def verdict(trial: dict[str, Any]) -> str:
    """What the laboratory said of one rewrite, with the interval where it was timed."""
    speed = trial.get("speed")
    told = str(trial["verdict"]).replace("_", " ")
    return told if not speed else f"{told} {speed['ratio']:.2f} [{speed['low']:.2f}, {speed['high']:.2f}]"


def page(found: Sequence[Row], pairs: int) -> str:
    """docs/jobs.md."""
    named = sum(row.named for row in found)
    gone = sum(row.gone for row in found if row.named)
    return "\n".join([
        "# The jobs of the seeds", "",
        "Generated by `python -m tests.jobs -o docs/jobs.md`. Each job of `collectors/jobs` runs by itself, and",
        "`python -m npulens.collectors.jobs` lists them. `--plant` puts a cause into it, `--fixed` its fix.",
        f"`npulens collect` records both forms, in {pairs} pair{'s' * (pairs > 1)}, and `npulens check` judges each",
        "recording. A first finding in bold is not the planted cause. The saving is what the findings of the cause",
        "predict for each step. Gone: with the fix they predict less than half of it. The last column has what the",
        "laboratory says of its rewrites: the time of the rewrite divided by that of the original.", "",
        "| job | cause | first finding | saving, ms | step, ms | without a profiler, ms | gone | laboratory |",
        "|---|---|---|---|---|---|---|---|", *map(line, found), "",
        f"Of {len(found)} planted causes {named} are named first, and {gone} of those are gone with the fix.", "",
        f"Measured with torch {version('torch')} and Python {platform.python_version()} on {os.cpu_count()} cores "
        f"({platform.machine()}). Nothing here has run on an NPU or a GPU.", "",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.jobs")
    parser.add_argument("names", nargs="*", choices=[*job.names(), []], help="jobs; all unless said")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--kept", type=Path, help="keep captures and stores here")
    parser.add_argument("-o", "--output", type=Path)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = rows(told.names or job.names(), told.pairs, told.kept or Path(scratch))
    if told.output:
        told.output.write_text(page(found, told.pairs), "utf-8")
    return 0 if all(row.named and row.gone for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
