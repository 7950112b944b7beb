"""Changed files read as small ranks and as large ones: `python -m tests.fuzz.twice [--seconds N] [--only TARGET]...`.

A small rank is made of arrays or finished in memory, a large one by statements over files. Both must say the same of
any file: tables, coverage, facts, refusals. Inputs that differ lie in .fuzz/twice. Ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import parsing
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.readers.ascend.db import few as of_db
from npulens.ingest.readers.ascend.text import few as of_text
from npulens.ingest.readers.kineto import few as of_kineto
from npulens.ingest.tables.finish import Part
from npulens.ingest.tables.sqltext import literal
from tests.fuzz import reading
from tests.fuzz.targets import target

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("database", "trace_view", "tables", "side_files", "kineto")
#: Where contract tables are made of arrays.
MODULES: tuple[Any, ...] = (of_db, of_text, of_kineto)
_SMALL = 4_000_000


class Differs(Exception):
    """Two readings of one file that disagree."""


def tables(part: Part) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every table of a part, in one order."""
    with duckdb.connect() as con:
        return {
            name: con.execute(f"FROM {literal(f'{part.directory}/{name}.parquet')} ORDER BY ALL").fetchall()
            for name in part.rows
        }


def both(source: RankSource, scratch: Path, progress: Callable[[int], None]) -> Part:
    """A rank put together as a small one; what it comes to as a large one must be the same."""
    parts: list[Part] = []
    refused: list[IngestError] = []
    for limit in (_SMALL, 0):
        with _small(limit):
            try:
                parts.append(parsing.put_together(source, scratch / str(limit), progress))
            except IngestError as error:
                refused.append(error)
    if not parts and refused[0].kind == refused[1].kind and refused[0].said() == refused[1].said():
        raise refused[0]
    if refused:
        raise Differs(f"only one is refused: {refused[0].kind} {refused[0].said()}")
    small, large = parts
    one, other = tables(small), tables(large)
    if unlike := [name for name in other if one.get(name) != other[name]]:
        name = unlike[0]
        rows = [sorted({*map(repr, mine)} - {*map(repr, theirs)}) for mine, theirs in (
            (one[name], other[name]), (other[name], one[name]))]  # fmt: skip
        raise Differs(f"{unlike}: {name} has {rows[0][:2]} or {rows[1][:2]}")
    if (told := replace(small, directory="")) != (said := replace(large, directory="")):
        parts_ = [key for key, value in vars(told).items() if value != vars(said)[key]]
        raise Differs(f"{parts_}: {[(vars(told)[key], vars(said)[key]) for key in parts_]}"[:2000])
    return small


@contextmanager
def _small(limit: int) -> Iterator[None]:
    before, parsing._SMALL = parsing._SMALL, limit
    try:
        yield
    finally:
        parsing._SMALL = before


@contextmanager
def _counted(ways: Counter[str]) -> Iterator[None]:
    """Note how often arrays were enough."""
    before = [(module, module.make) for module in MODULES]
    for module, make in before:

        def counted(*asked: Any, make: Callable[..., Any] = make) -> Any:
            made = make(*asked)
            ways["arrays" if made is not None else "statements"] += 1
            return made

        module.make = counted
    try:
        yield
    finally:
        for module, make in before:
            module.make = make


def fuzz(name: str, seconds: float, seed: int) -> tuple[Counter[str], int]:
    """One target for so long: which way how many inputs went, and how many of them differ."""
    this, ways, differ = target(name), Counter[str](), 0
    seeds, end = this.seeds(), time.monotonic() + seconds
    kept = ROOT / ".fuzz" / "twice"
    number = 0
    reads, reading.put_together = reading.put_together, both
    try:
        with _counted(ways):
            while time.monotonic() < end:
                draw = Random(f"{seed} {number}")
                data = draw.choice(seeds)
                if number >= len(seeds):
                    data = this.mutate(data, draw)
                number += 1
                with tempfile.TemporaryDirectory() as scratch:
                    try:
                        this.check(data, Path(scratch))
                    except Differs as error:
                        differ += 1
                        kept.mkdir(parents=True, exist_ok=True)
                        place = kept / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
                        place.write_bytes(data)
                        print(f"{place.relative_to(ROOT)}: {error}", flush=True)
                    except AssertionError as error:  # what the target itself holds, whichever way
                        ways["finding"] += 1
                        print(f"{name}: {str(error)[:200]}", flush=True)
    finally:
        reading.put_together = reads
    ways["inputs"] = number
    return ways, differ


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="for each target")
    parser.add_argument("--only", action="append", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    for name in options.only or TARGETS:
        ways, differ = fuzz(name, options.seconds, options.seed)
        wrong += differ
        print(f"{name:12} {ways['inputs']:6} inputs, ranks by arrays {ways['arrays']}, by statements "
              f"{ways['statements']}; {differ} differ", flush=True)  # fmt: skip
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
