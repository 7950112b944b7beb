"""What a load costs per rank where the ranks are small: the fixed cost, which a cluster pays a thousand times.

    python -m tests.bench.ranks [16 64 256] [--forms db text both kineto] [--repeat N]

Each job is simulated once, two steps of it, and kept in .bench. CPU seconds are those of the load and of all it starts.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from tests.bench.captures import CACHE, ROOT, size
from tests.bench.measure import measure

MAKE = (
    "import sys; from pathlib import Path; from npulens.collectors.simulator import simulated as s; "
    "job = s.simulate(s.SimConfig(ranks=int(sys.argv[2]), steps=2)); getattr(s, 'write_' + sys.argv[1])(job, "
    "Path(sys.argv[3]))"
)


def made(form: str, ranks: int) -> Path:
    """The capture of a job of so many ranks, whole or not there."""
    home = CACHE / f"ranks_{form}_{ranks}"
    if not home.exists():
        print(f"making {home.relative_to(ROOT)}", file=sys.stderr, flush=True)
        part = home.with_name(f"part-{home.name}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        subprocess.run([sys.executable, "-c", MAKE, form, str(ranks), part], cwd=ROOT, check=True)
        part.rename(home)
    return home


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", nargs="*", type=int, default=[16, 64, 256])
    parser.add_argument("--forms", nargs="+", default=["db"], choices=["db", "text", "both", "kineto"])
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    store = CACHE / "store"
    print("| form | ranks | MB | load CPU s | ms a rank | wall s | peak MB, tree |\n|---|--:|--:|--:|--:|--:|--:|")
    for form in options.forms:
        for ranks in options.ranks:
            path = made(form, ranks)
            command = [sys.executable, "-m", "npulens.app.cli", "load", str(path), "--store", str(store), "--json"]
            costs = []
            for _ in range(options.repeat):
                shutil.rmtree(store, ignore_errors=True)
                costs.append(measure(command, CACHE / "logs" / f"ranks-{form}-{ranks}.txt", ROOT, 1800))
            cpu = statistics.median(cost.cpu_s for cost in costs)
            wall = statistics.median(cost.wall_s for cost in costs)
            peak = max(cost.tree_bytes for cost in costs)
            failed = "".join(f" **{cost.failure}**" for cost in costs if cost.failure)
            print(f"| {form}{failed} | {ranks} | {size(path) / 1e6:,.0f} | {cpu:.1f} | {cpu / ranks * 1e3:.0f} | "
                  f"{wall:.1f} | {peak / 1e6:,.0f} |", flush=True)  # fmt: skip
    shutil.rmtree(store, ignore_errors=True)


if __name__ == "__main__":
    main()
