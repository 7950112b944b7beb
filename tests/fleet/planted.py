"""python -m tests.fleet.planted [JOBS]: planted clusters, the fleet view beside the full way.

Each job has eight ranks, all captured, and one fault: a rank with more to do, a late rank, a slow link, or none. The
full way is `late_peers` and the detector `slow_link`, from the whole run. Asked is whether both name the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from npulens import ingest
from npulens.analysis.detectors import slow_link
from npulens.analysis.ranks.lateness import late_peers
from npulens.analysis.run import Run
from npulens.analysis.views import install
from npulens.app.run_fleet import fleet_of
from npulens.ingest.store import runs

ROOT = Path(__file__).resolve().parents[2]
FAULTS = ("imbalance", "slow_link", "late_rank", "clean")
#: Whoever is waited for less than this share of a step is nobody: as findings are scored.
LEAST = 0.01


@dataclass(frozen=True)
class Answer:
    """Who is waited for, and which link is slow; None: nobody, none."""

    late: int | None
    link: tuple[int, int] | None


def simulated(fault: str, seed: int, folder: Path) -> tuple[Path, dict[str, object]]:
    """A capture of all ranks, and the truth about it."""
    asked = ["simulate", fault, "--seed", str(seed), "--ranks", "8", "--missing-ranks", "0", "--steps", "2"]
    command = [sys.executable, "-m", "npulens.app.cli", *asked, "--format", "db", "-o", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder / "capture", json.loads((folder / "truth.json").read_text())


def full(store: Path, run_id: str) -> Answer:
    """From the whole run."""
    con = runs.open_run(store, run_id)
    install(con)
    run = Run(con)
    late = [each for each in run.get(late_peers) if each.gain_ns >= LEAST * run.wall_ns]
    found = list(slow_link.detect(con, run, slow_link.Limits()))
    first = found[0].numbers if found else None
    ends = None if first is None else (int(str(first["rank"])), int(str(first["peer"])))
    return Answer(late[0].rank if late else None, None if ends is None else (min(ends), max(ends)))


def quick(store: Path, run_id: str) -> Answer:
    """From the summaries."""
    told = fleet_of(store, run_id, 10)
    late = [row for row in told.waited_for if (row.waited_for_ns or 0) >= LEAST * (told.step_ns or 0)]
    link = told.links[0] if told.links and told.links[0].slow else None
    ends = None if link is None else (min(link.rank, link.peer), max(link.rank, link.peer))
    return Answer(late[0].rank if late else None, ends)


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    asked = same = 0
    print("| fault | seed | planted at | full: late, link | fleet: late, link |\n|---|--:|--:|---|---|")
    for number in range(jobs):
        fault = FAULTS[number % len(FAULTS)]
        with tempfile.TemporaryDirectory() as place:
            capture, truth = simulated(fault, number, Path(place) / "job")
            run = ingest.load(capture, Path(place) / "store").runs[0]
            faults = truth["faults"]
            assert isinstance(faults, list) and run.run_id is not None
            planted = [fault["rank"] for fault in faults]
            if len(run.ranks) < 8:
                print(f"| {fault} | {number} | {planted} | not all ranks were captured | |", flush=True)
                continue
            one, other = full(Path(place) / "store", run.run_id), quick(Path(place) / "store", run.run_id)
            asked, same = asked + 1, same + (one == other)
            print(
                f"| {fault} | {number} | {planted} | {one.late}, {one.link} | {other.late}, {other.link} |", flush=True
            )
    print(f"\n{same} of {asked} the same")


if __name__ == "__main__":
    main()
