"""What very large captures cost: a job of a thousand ranks, and one rank with gigabytes of events.

    python -m tests.bench.scale [--only ranks|size] [--ranks N] [--steps N] [--gb N] [--limit S] [--keep]

Prints Markdown. Captures are made in .bench and, the large files at least, removed again. CPU seconds are user and
system time of everything that a command starts; memory is the largest sum over its processes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench import captures
from tests.bench.__main__ import MB, machine
from tests.bench.captures import CACHE, ROOT, size
from tests.bench.measure import Cost, measure

STORE = CACHE / "store-scale"
TOOL = [sys.executable, "-m", "npulens.app.cli"]
#: What is asked of a stored run, and what it is called in the table.
QUESTIONS = {
    "breakdown": "the split of every rank and step", "grid": "ranks x steps", "standing": "who is late, whose clock",
    "runs": "the list of runs", "arrange": "the timeline's file, once", "tile": "the timeline's first picture",
    "check": "every detector", "efficiency": "the page Efficiency: its operators",
    "waterfall": "... and its waterfall and modules",
}  # fmt: skip
#: Bytes of an event, roughly: how many make a file of a size.
EVENT = {"torch_npu text": 228, "Kineto": 242, "Kineto, gz": 242}
_MAKE: dict[str, Callable[[int], Path]] = {
    "torch_npu text": captures.npu, "Kineto": captures.kineto, "Kineto, gz": captures.kineto_gz,
}  # fmt: skip


def loaded(path: Path, name: str, limit_s: float) -> Cost:
    """Into an empty store."""
    shutil.rmtree(STORE, ignore_errors=True)
    command = [*TOOL, "load", str(path), "--store", str(STORE), "--label", name, "--json"]
    return measure(command, CACHE / "logs" / f"scale-{name}.txt", ROOT, limit_s)


def ranks_part(options: argparse.Namespace) -> None:
    """Load a job of very many ranks and ask it what a page asks first."""
    home = CACHE / f"ranks_{options.ranks}"
    if not home.exists():
        part = home.with_name(f"part-{home.name}")
        shutil.rmtree(part, ignore_errors=True)
        make = [sys.executable, "-m", "tests.bench.programs.cluster", part, str(options.ranks), str(options.steps)]
        subprocess.run(make, cwd=ROOT, check=True)
        part.rename(home)
    cost = loaded(home, "ranks", options.limit)
    print(f"\n## {options.ranks:,} ranks as one run ({size(home) / MB:,.0f} MB, {options.steps} steps)\n")
    if cost.failure:
        print(f"load: **{cost.failure}** ({cost.cpu_s:.0f} CPU s, {cost.tree_bytes / MB:,.0f} MB)")
        return
    print(f"load: {cost.cpu_s:.0f} CPU s, {cost.wall_s:.0f} s, peak {cost.tree_bytes / MB:,.0f} MB of all processes, "
          f"store {size(STORE) / MB:,.0f} MB\n")  # fmt: skip
    asked(STORE, "ranks", options.limit)


def asked(store: Path, name: str, limit_s: float) -> None:
    """A table of answers; each is found in a process of its own."""
    print("| question | CPU s | s | peak MB | answer |\n|---|--:|--:|--:|---|")
    for question, means in QUESTIONS.items():
        log = CACHE / "logs" / f"scale-{question}.txt"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.bench.programs.answer", str(store), name, question]
        cost = measure(command, log, ROOT, limit_s)
        if cost.failure:
            print(f"| {means} | {cost.cpu_s:.2f} | {cost.wall_s:.2f} | | **{cost.failure}** |")
            continue
        said = json.loads(log.read_text().splitlines()[-1])
        print(f"| {means} | {said['cpu_s']:.2f} | {said['wall_s']:.2f} | {cost.tree_bytes / MB:,.0f} "
              f"| {said['found']} |", flush=True)  # fmt: skip


def size_part(options: argparse.Namespace) -> None:
    """Load the same kind of file small and large: neither memory nor CPU per byte should follow its size."""
    print(f"\n## One rank, 100 MB and {options.gb:g} GB\n")
    print("| | MB | CPU s | MB per CPU s | of 100 MB | peak MB | of 100 MB | largest process MB |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for kind, make in _MAKE.items():
        first: tuple[float, int] | None = None
        for wanted in (100 * MB, options.gb * 1000 * MB):
            path = make(int(wanted / EVENT[kind]))
            # A packed file counts by what is in it.
            whole = size(captures.kineto(int(wanted / EVENT[kind]))) if kind == "Kineto, gz" else size(path)
            cost = loaded(path, "size", options.limit)
            rate = whole / MB / cost.cpu_s
            first = first or (rate, cost.tree_bytes)
            note = f" **{cost.failure}**" if cost.failure else ""
            print(f"| {kind}{note} | {whole / MB:,.0f} | {cost.cpu_s:.1f} | {rate:.0f} | {rate / first[0]:.2f} "
                  f"| {cost.tree_bytes / MB:,.0f} | {cost.tree_bytes / first[1]:.2f} "
                  f"| {cost.process_bytes / MB:,.0f} |", flush=True)  # fmt: skip
        if not options.keep and kind != "Kineto":  # the packed one is made from it
            events = int(options.gb * 1000 * MB / EVENT[kind])
            for made in CACHE.glob(f"*_{events}*"):
                shutil.rmtree(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("ranks", "size"))
    parser.add_argument("--ranks", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=10, help="2,000 spans of a rank each")
    parser.add_argument("--gb", type=float, default=10.0)
    parser.add_argument("--limit", type=float, default=3_600.0, help="seconds one command may take")
    parser.add_argument("--keep", action="store_true", help="leave the large files in .bench")
    options = parser.parse_args()
    print("# npulens and very large captures\n")
    print("\n".join(f"- {line}" for line in machine()), flush=True)
    if options.only != "size":
        ranks_part(options)
    if options.only != "ranks":
        size_part(options)
    shutil.rmtree(STORE, ignore_errors=True)


if __name__ == "__main__":
    main()
