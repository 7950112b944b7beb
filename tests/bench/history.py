"""python -m tests.bench.history: how long 10,000 runs of history take to judge, and in how much memory.

A store of its own is filled with 20 workloads x 500 nights x 20 metrics; some have changes. Then one process reads and
judges all of it, as the nightly report and `npulens history` do, and says what it took.
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
from pathlib import Path

import numpy as np

from ingest import history
from ingest.history import Identity, Point

WORKLOADS, NIGHTS, METRICS = 20, 500, 20
DAY = 86_400 * 10**9
#: What issue and readers ask of a nightly report on two cores.
MOST_SECONDS, MOST_BYTES = 30.0, 1 << 30


def fill(store: Path) -> int:
    """The points; every fourth metric has a change every hundred nights."""
    rng, kept = np.random.default_rng(7), 0
    for workload in range(WORKLOADS):
        logs = rng.normal(0, 0.01, (METRICS, NIGHTS))
        for metric in range(0, METRICS, 4):
            logs[metric] += np.repeat(rng.normal(0, 0.06, NIGHTS // 100), 100)
        values = 20e6 * np.exp(logs)
        points = [
            Point("", f"metric_{metric}", "ns", "lower", float(values[metric, night]), night * DAY, None,
                  f"run{workload}.{night}", night % 50 != 49, {"cann": f"8.{night // 100}", "commit": f"{night:07x}"})
            for night in range(NIGHTS) for metric in range(METRICS)
        ]  # fmt: skip
        kept += history.add(store, Identity(f"workload {workload}"), points)
    return kept


def judge(store: Path) -> dict[str, float]:
    """Everything judged once, with what it took this process."""
    from app.histories import judged

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
