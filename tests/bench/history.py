"""python -m tests.bench.history: how long 10,000 runs of history take to judge, and in how much memory.

A store of its own is filled with 20 workloads x 500 nights x 20 metrics; some have changes. Then one process reads and
judges all of it, as `npulens history` does, and says what it took. tests/bench/nightly.py measures the nightly report.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from npulens.ingest.store import history
from npulens.ingest.store.history import Identity, Point

WORKLOADS, NIGHTS, METRICS = 20, 500, 20
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
#: What issue and readers ask of a nightly report on two cores.
MOST_SECONDS, MOST_BYTES = 30.0, 1 << 30
#: A workload that is slower lately has been so for as many nights, by so much.
LATELY, SLOWER = 5, 1.1


def label(night: int) -> str:
    return f"{FIRST + timedelta(days=night):%Y-%m-%d}"


def workload(number: int) -> str:
    return f"workload {number}"


def metric(number: int) -> str:
    return f"metric_{number}" if number else "step_ns"


def values(number: int, slower: bool = False) -> NDArray[np.float64]:
    """A row a metric, a column a night, tonight in the last; every fourth metric changes every hundred nights."""
    rng = np.random.default_rng(number)
    logs = rng.normal(0, 0.01, (METRICS, NIGHTS + 1))
    for row in range(0, METRICS, 4):
        logs[row, :-1] += np.repeat(rng.normal(0, 0.06, NIGHTS // 100), 100)
        logs[row, -1] += logs[row, -101:-1].mean()
    found: NDArray[np.float64] = 20e6 * np.exp(logs)
    found[:, NIGHTS - LATELY :] *= SLOWER if slower else 1.0
    return found


def fill(store: Path, slower: Mapping[int, str] | None = None) -> int:
    """The points before tonight. ``slower``: the workloads that are so lately, with the last run before they were."""
    slower, kept = slower or {}, 0
    for number in range(WORKLOADS):
        known = values(number, number in slower)
        runs = {NIGHTS - LATELY - 1: slower[number]} if number in slower else {}
        points = [
            Point("", metric(row), "ns", "lower", float(known[row, night]), moment(night), label(night),
                  runs.get(night, f"run{number}.{night}"), night % 50 != 49, conditions(night))
            for night in range(NIGHTS) for row in range(METRICS)
        ]  # fmt: skip
        kept += history.add(store, Identity(workload(number)), points)
    return kept


def moment(night: int) -> int:
    return int((FIRST + timedelta(days=night)).timestamp()) * 10**9


def conditions(night: int) -> dict[str, str]:
    return {"cann": f"8.{night // 100}", "commit": f"{night:07x}"}


def judge(store: Path) -> dict[str, float]:
    """Everything judged once, with what it took this process."""
    from npulens.app.histories import judged

    begun = time.perf_counter()
    found = judged(store)
    wall = time.perf_counter() - begun
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "series": len(found), "points": sum(len(each.points) for each in found),
        "changes": sum(len(each.verdict.changes) for each in found), "seconds": wall,
        "cpu_seconds": spent.ru_utime + spent.ru_stime, "peak_bytes": spent.ru_maxrss * 1024,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.history")
    parser.add_argument("--judge", type=Path, help="a store that is filled already")
    asked = parser.parse_args()
    if asked.judge:
        print(json.dumps(judge(asked.judge)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch)
        begun = time.process_time()
        points = fill(store)
        print(f"{WORKLOADS * NIGHTS:,} runs, {points:,} points kept in {time.process_time() - begun:.1f} CPU s, "
              f"{(store / history.NAME).stat().st_size / 1e6:.0f} MB")  # fmt: skip
        command = [sys.executable, "-m", "tests.bench.history", "--judge", str(store)]
        done = subprocess.run(command, capture_output=True, text=True, check=True,
                              env={**os.environ, "OPENBLAS_NUM_THREADS": "2"})  # fmt: skip
    said = json.loads(done.stdout)
    print(f"judged {said['series']} series of {said['points']:,} points, {said['changes']} changes: "
          f"{said['cpu_seconds']:.1f} CPU s, {said['seconds']:.1f} s, {said['peak_bytes'] / 1e6:.0f} MB")  # fmt: skip
    return int(said["cpu_seconds"] > MOST_SECONDS or said["peak_bytes"] > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
