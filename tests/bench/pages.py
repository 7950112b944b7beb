"""What every measurement of a page costs on a run of ten million spans.

    python -m tests.bench.pages [--times 2] [--only NAME] [--replicate 160 | --store DIR --run RUN] [--fresh | --plain]

Each is asked in a process of its own, so that the first call finds nothing computed; the calls after it find the
connection warm. What pages keep of a run is made once before that and told on its own (`--fresh`: made anew, `--plain`:
not used).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from npulens.app import run_open
from npulens.ingest.store import kept
from tests.bench import large
from tests.bench.captures import ROOT

PROGRAM = [sys.executable, "-m", "tests.bench.programs.page"]
#: Seconds that a page may take for one of them.
WANTED_S = 1.0


@dataclass(frozen=True)
class Asked:
    """CPU and wall seconds of the first call and of the best one after it."""

    name: str
    first: tuple[float, float]
    later: tuple[float, float]


def names(store: Path, run: str, only: str) -> list[str]:
    found = subprocess.run([*PROGRAM, store, run], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in json.loads(found.stdout) if only in name]


def asked(store: Path, run: str, name: str, times: int, plain: bool) -> Asked | str:
    """What it costs, or why it could not be asked."""
    command = [*PROGRAM, store, run, name, str(times), *(["plain"] if plain else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"{name}: {(done.stderr.strip().splitlines() or [f'exit {done.returncode}'])[-1]}"
    said = json.loads(done.stdout.splitlines()[-1])
    if "absent" in said:
        return f"{name}: nothing to ask for ({said['absent']})"
    calls = [(float(cpu), float(wall)) for cpu, wall in said["calls"]]
    return Asked(name, calls[0], min(calls[1:] or calls))


def keeping(store: Path, run: str, fresh: bool) -> None:
    """What pages keep of the run, made now where it is not there."""
    if fresh:
        for path in (store / kept.FOLDER).glob(f"{run}.*.parquet"):
            path.unlink()
    used, begin = time.process_time(), time.perf_counter()
    found = run_open.keep(store, run)
    size = sum(path.stat().st_size for path in found.values())
    print(f"kept once: {time.process_time() - used:.2f} CPU s, {time.perf_counter() - begin:.2f} s, "
          f"{size / 1e6:.1f} MB in {len(found)} files\n", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2, help="calls; the first one is told on its own")
    parser.add_argument("--only", default="", help="those whose name holds this")
    parser.add_argument("--fresh", action="store_true", help="what is kept of the run is made anew")
    parser.add_argument("--plain", action="store_true", help="nothing that is kept is used")
    large.options(parser)
    options = parser.parse_args()
    store, run, spans = large.chosen(options)
    print(f"# Measurements of pages, {spans:,} spans\n")
    if not options.plain:
        keeping(store, run, options.fresh)
    found = [asked(store, run, name, options.times, options.plain) for name in names(store, run, options.only)]
    told = sorted((one for one in found if isinstance(one, Asked)), key=lambda one: -one.first[1])
    print("| measurement | first CPU s | first s | later CPU s | later s |\n|---|--:|--:|--:|--:|")
    for one in told:
        print(f"| {one.name} | {one.first[0]:.2f} | {one.first[1]:.2f} | {one.later[0]:.2f} | {one.later[1]:.2f} |")
    for why in (one for one in found if isinstance(one, str)):
        print(f"- {why}")
    slow = [one.name for one in told if one.first[1] > WANTED_S]
    total = sum(one.first[0] for one in told)
    print(f"\n{len(told)} measurements, {total:.1f} CPU s; above {WANTED_S:g} s: {', '.join(slow) or 'none'}")


if __name__ == "__main__":
    main()
