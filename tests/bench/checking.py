"""What `npulens check` costs: a small run, jobs of many small ranks, one large rank, one whose shapes hardly repeat.

    python -m tests.bench.checking [--case small|ranks|large|dynamic]... [--ranks 64,256] [--events N] [--repeat 3]

Captures are made and loaded first, which is not measured, and stay in .bench. Then the command itself runs, as a
process of its own, with compiled bytecode in place. CPU is user and system time of the whole tree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench import captures
from tests.bench.__main__ import MB, machine
from tests.bench.captures import CACHE, ROOT
from tests.bench.measure import measure

STORE = CACHE / "store-checking"
TOOL = [sys.executable, "-m", "npulens.app.cli"]
STEPS = 2  # about 2,000 spans of a rank each


def cases(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """What is checked, and its capture."""
    wanted = options.case or ["small", "ranks", "large", "dynamic"]
    if "small" in wanted:
        yield "sample late_rank", ROOT / "sample_traces" / "late_rank"
    for ranks in map(int, options.ranks.split(",")) if "ranks" in wanted else ():
        yield f"{ranks} ranks", cluster(ranks)
    if "large" in wanted:
        yield f"one rank, {options.events:,} events, Kineto", captures.kineto(options.events)
    if "dynamic" in wanted:
        yield f"one rank, {options.dynamic:,} events, dynamic shapes", dynamic(options.dynamic)


def cluster(ranks: int) -> Path:
    """A job of so many ranks as database exports."""
    return _made(CACHE / f"cluster_{ranks}", "cluster", str(ranks), str(STEPS))


def dynamic(events: int) -> Path:
    """A Kineto file whose shapes hardly repeat."""
    return _made(CACHE / f"dynamic_{events}.json", "dynamic", str(events))


def _made(path: Path, program: str, *arguments: str) -> Path:
    if not path.exists():
        part = path.with_name(f"part-{path.name}")
        part.parent.mkdir(parents=True, exist_ok=True)
        make = [sys.executable, "-m", f"tests.bench.programs.{program}", str(part), *arguments]
        subprocess.run(make, cwd=ROOT, check=True)
        part.rename(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=("small", "ranks", "large", "dynamic"))
    parser.add_argument("--ranks", default="64,256")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--dynamic", type=int, default=1_000_000, help="events with dynamic shapes")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=1_200.0, help="seconds one command may take")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(CACHE / "bytecode"))
    print("# npulens check\n")
    print("\n".join(f"- {line}" for line in machine()), flush=True)
    print("\n| run | spans | CPU s | s | peak MB | findings |\n|---|--:|--:|--:|--:|--:|")
    for name, path in cases(options):
        load = [*TOOL, "load", str(path), "--store", str(STORE), "--json"]
        said = json.loads(subprocess.run(load, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        run = next(one["run_id"] for one in said["runs"] if one["run_id"])
        costs = []
        for _ in range(options.repeat + 1):  # the first writes the bytecode
            log = CACHE / "logs" / "checking.json"
            log.unlink(missing_ok=True)
            costs.append(measure([*TOOL, "check", run, "--store", str(STORE), "--json"], log, ROOT, options.limit))
        failure = next((cost.failure for cost in costs if cost.failure), None)
        if failure:
            print(f"| {name} | | | | | **{failure}** |", flush=True)
            continue
        told = json.loads(log.read_text())
        broken = [one["detector"] for one in told["outcomes"] if one["outcome"] == "failed"]
        cpu, wall = (statistics.median(getattr(cost, which) for cost in costs[1:]) for which in ("cpu_s", "wall_s"))
        print(f"| {name} | {spans(run):,} | {cpu:.2f} | {wall:.2f} | {max(c.tree_bytes for c in costs) / MB:,.0f} "
              f"| {len(told['findings'])}{f', failed: {broken}' if broken else ''} |", flush=True)  # fmt: skip


def spans(run: str) -> int:
    """How many the store holds."""
    ask = [*TOOL, "sql", run, "SELECT count(*) AS n FROM span", "--store", str(STORE), "--json"]
    found = json.loads(subprocess.run(ask, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    return int(found["rows"][0][0])


if __name__ == "__main__":
    main()
