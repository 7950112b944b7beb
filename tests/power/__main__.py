"""python -m tests.power [--rows N] [--rival-rows N] [-o FILE]: measures every cell and writes docs/power.md.

With `--only pairs` or `--only told` it measures the pairs of one night, or the history night by night, prints that and
writes nothing.

The gate was tuned on other numbers: seeds below 100, and 20270101 and 20270102, where five nights of a week looked
like a change. Exit code 1 if it does not hold what it promises.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: E402 -- before numpy: many small products, no threads

from tests.bench.rivals import environment  # noqa: E402
from tests.power.cells import Cell  # noqa: E402
from tests.power.measured import OTAVA, RUPTURES, ours, theirs  # noqa: E402
from tests.power.noise import KINDS  # noqa: E402
from tests.power.page import HISTORY, page  # noqa: E402
from tests.power.pairs import PairCell, alone, many, table  # noqa: E402
from tests.power.pairs import promises as of_pairs  # noqa: E402
from tests.power.told import Alarms, Seeing, alarms, seeing  # noqa: E402
from tests.power.told import promises as of_nights  # noqa: E402
from tests.power.told import table as by_level  # noqa: E402

SEED = 20_270_103
#: What the gate promises.
LEAST_DATED = 0.90
#: Where fewer are found, most of what is found was brought there by chance, and so was its date.
_OFTEN = 0.25
#: Series of each noise that are followed night by night, and series in which something is planted, of 4,000 rows.
_TOLD, _SEEN = 8, 10


def promises(cells: Sequence[Cell]) -> Iterator[tuple[bool, str]]:
    """The promise about dates: whether it holds, and the sentence that says so."""
    found = [cell for cell in cells if cell.rule == HISTORY and cell.effect == 0.05 and cell.alarms >= cell.n * _OFTEN]
    dated = sum(cell.dated or 0 for cell in found) / sum(cell.alarms for cell in found)
    worst = min(found, key=lambda cell: (cell.dated or 0) / cell.alarms)
    yield dated >= LEAST_DATED, (
        f"Of the changes of 5 % that the history finds, where it finds at least one in four, at least "
        f"{LEAST_DATED:.0%} dated within one night: {dated:.1%}; at worst {(worst.dated or 0) / worst.alarms:.1%} "
        f"({worst.noise}, {worst.nights} nights)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.power")
    parser.add_argument("--rows", type=int, default=4_000, help="repetitions a cell")
    parser.add_argument("--rival-rows", type=int, default=250, help="the same of Otava and ruptures; 0: without them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parents[2] / "docs" / "power.md")
    parser.add_argument("--only", choices=["pairs", "told"], help="measure these, print them and write nothing")
    arguments = parser.parse_args()
    asked, rows, jobs = arguments.only, arguments.rows, arguments.jobs
    pairs = [] if asked == "told" else _pairs(rows, jobs)
    quiet, seen = ([], []) if asked == "pairs" else _told(rows, jobs)
    cells = [] if asked else _measured(rows, arguments.rival_rows, jobs)
    kept = [*(of_pairs(pairs) if pairs else ()), *(of_nights(quiet, seen) if quiet else ()),
            *(promises(cells) if cells else ())]  # fmt: skip
    said = [("holds: " if holds else "DOES NOT HOLD: ") + text for holds, text in kept]
    if asked:
        print("\n".join(table(pairs) if pairs else by_level(quiet)))
    else:
        arguments.output.write_text(page(cells, pairs, quiet, said))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n".join(said), f"{spent.ru_utime + spent.ru_stime:.0f} CPU seconds", sep="\n")
    return 0 if all(line.startswith("holds") for line in said) else 1


def _pairs(rows: int, jobs: int) -> list[PairCell]:
    """The pairs of a night, kind by kind: alarms are rare, so tasks of one metric have five times the rows."""
    with ProcessPoolExecutor(jobs) as pool:
        asked = [pool.submit(_of_pairs, kind, rows) for kind in KINDS]
        for done in as_completed(asked):
            print(f"{len(done.result())} cells of {done.result()[0].noise}, pairs", file=sys.stderr, flush=True)
        return [cell for done in asked for cell in done.result()]


def _of_pairs(kind: str, rows: int) -> list[PairCell]:
    return [*alone(kind, 5 * rows, SEED), *many(kind, rows, SEED)]


def _told(rows: int, jobs: int) -> tuple[list[Alarms], list[Seeing]]:
    """The history as it speaks, kind by kind."""
    with ProcessPoolExecutor(jobs) as pool:
        planted = pool.submit(_seen, max(10, rows // _SEEN))
        asked = [pool.submit(_alarms, kind, max(10, rows // _TOLD)) for kind in KINDS]
        return [each for done in asked for each in done.result()], planted.result()


def _alarms(kind: str, rows: int) -> list[Alarms]:
    return list(alarms(kind, rows, SEED))


def _seen(rows: int) -> list[Seeing]:
    return list(seeing(rows, SEED))


def _measured(rows: int, rival_rows: int, jobs: int) -> list[Cell]:
    """Kind by kind; where a process ends does not change its numbers."""
    if rival_rows:
        environment(OTAVA, RUPTURES)
    with ProcessPoolExecutor(jobs) as pool:
        asked = [pool.submit(ours, kind, rows, SEED) for kind in KINDS]
        asked += [pool.submit(theirs, kind, rival_rows, SEED) for kind in KINDS if rival_rows]
        for done in as_completed(asked):
            print(f"{len(done.result())} cells of {done.result()[0].noise}", file=sys.stderr, flush=True)
        return [cell for done in asked for cell in done.result()]


if __name__ == "__main__":
    sys.exit(main())
