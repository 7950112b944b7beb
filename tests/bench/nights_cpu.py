"""Truly measured on this machine: `npulens nightly` on base against base, and on a head that does 5 % more work.

A side is a fresh process that does the same arithmetic three times and says the shortest of them, as time on the clock
and as time of the processor; well under a second. Each comparison is a night of ten pairs, and of ten more where the
first ten show a change. Printed: alarms, detections, intervals, and the noise of the machine while it was measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner

from npulens.app.cli import main as npulens
from npulens.app.nightly import kept
from npulens.app.nightly.night import Row

JOB = """
import json, os, time
count = int(200_000 * float(os.environ.get("WORK", "1")))
def work():
    total = 0.0
    for i in range(count):
        total += i * 0.5
    return total
wall, cpu = [], []
for _ in range(3):
    began, used = time.perf_counter(), time.process_time()
    work()
    wall.append(time.perf_counter() - began)
    cpu.append(time.process_time() - used)
times = {"wall": min(wall), "cpu": min(cpu)}
json.dump({"metrics": {name: {"value": value * 1e9, "unit": "ns"} for name, value in times.items()}},
          open(os.environ["NPULENS_RESULT"], "w"))
"""
CONFIG = """
[night]
rounds = {rounds}
[[job]]
name = "loop"
command = ["{{python}}", "-S", "-E", "job.py"]
measure = "result"
base = {{ env = {{ WORK = "1", SIDE = "base" }} }}
head = {{ env = {{ WORK = "{work}" }} }}
"""


def main() -> None:
    """Runs both halves and prints what came of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.nights_cpu", description=__doc__)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=100, help="pairs a night")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning")
    for work in (1.0, 1.05):
        with tempfile.TemporaryDirectory() as place:
            rows = _nights(Path(place), work, asked)
        for metric in ("wall", "cpu"):
            _print(work, metric, [row for row in rows if row.metric == metric])
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def _nights(folder: Path, work: float, asked: argparse.Namespace) -> list[Row]:
    """Each comparison in a store of its own: every one is the first night of its life."""
    (folder / "job.py").write_text(JOB)
    (folder / "nightly.toml").write_text(CONFIG.format(work=work, rounds=asked.rounds))
    found: list[Row] = []
    for number in range(asked.nights):
        store = folder / f"store-{number}"
        words = ["nightly", str(folder / "nightly.toml"), "--night", "2026-03-01", "--store", str(store)]
        CliRunner().invoke(npulens, words, catch_exceptions=False)
        night = kept.nights(store, "nightly")["2026-03-01"]
        assert night is not None
        found += night.rows
    return found


def _print(work: float, metric: str, rows: Sequence[Row]) -> None:
    said = {word: sum(row.verdict == word for row in rows) for word in ("regressed", "improved", "same", "ambiguous")}
    ratios = [row.ratio for row in rows if row.ratio is not None]
    held = sum(row.low is not None and row.high is not None and row.low <= work <= row.high for row in rows)
    reach = statistics.median((row.high - row.low) / 2 for row in rows if row.low is not None and row.high is not None)
    spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    print(
        f"head does {work:.2f} of the work, {metric}: {len(rows)} comparisons: {said['regressed']} regressed, "
        f"{said['improved']} improved, {said['same']} same, {said['ambiguous']} ambiguous; median ratio "
        f"{statistics.median(ratios):.4f}, 99 % interval +-{reach:.1%} (median), holds the truth in {held}; "
        f"a comparison's ratio varies by {spread:.1%}"
    )


if __name__ == "__main__":
    main()
