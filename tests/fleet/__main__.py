"""python -m tests.fleet [RANKS]: what the fleet view of many ranks costs, from made summaries on disk.

Each size runs in a process of its own. Names of the planted rank, host and link are checked.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from npulens.analysis.fleet.fleet import fleet
from npulens.ingest.store import kept
from tests.bench.measure import measure
from tests.fleet import made
from tests.fleet.made import Planted

ROOT = Path(__file__).resolve().parents[2]
STEPS, TP, DP = 2, 80, 60
PLANTED = Planted(late=83, late_ns=5_000_000, host=3, host_ns=2_000_000, link=(40, 41), slower=2.0)


def write(folder: Path, ranks: int) -> None:
    """Summaries as they are kept."""
    con = made.opened(made.tables(ranks, STEPS, TP, DP, PLANTED))
    for name in ("fleet_rank", "fleet_team", "fleet_link"):
        con.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet, COMPRESSION lz4_raw)")


def look(folder: Path) -> None:
    """Read them and say what is slow."""
    with kept.opened({path.stem: path for path in folder.glob("*.parquet")}) as con:
        told = fleet(con)
    assert told.waited_for[0].rank == PLANTED.late, told.waited_for[0]
    assert {row.host for row in told.by_host[:2]} == {f"node{PLANTED.late // 8:04d}", f"node{PLANTED.host:04d}"}
    assert (told.links[0].rank, told.links[0].peer, told.links_slow) == (*PLANTED.link, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--look", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write, options.ranks[0])
        return
    if options.look:
        look(options.look)
        return
    print("| ranks | steps | collectives of a rank and step | bytes a rank and step | CPU s | wall s | peak MB |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory() as place:
            ours = [sys.executable, "-m", "tests.fleet"]
            subprocess.run([*ours, str(ranks), "--write", place], cwd=ROOT, check=True)
            size = sum(path.stat().st_size for path in Path(place).iterdir())
            cost = measure([*ours, "--look", place], Path(place) / "log.txt", ROOT, 600)
            failed = f" **{cost.failure}**" if cost.failure else ""
            print(f"| {ranks:,}{failed} | {STEPS} | {TP + DP} | {size / ranks / STEPS:,.0f} | {cost.cpu_s:.1f} | "
                  f"{cost.wall_s:.1f} | {cost.tree_bytes / 1e6:,.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
