"""Traces read straight into their tables, beside the same by statements alone: every row and every word must be equal.

    python -m tests.twin [--hostile] [--seconds N] [CAPTURE...]

A capture is a file or a directory, read with all its ranks as if none were small. ``--hostile``: every hostile trace.
``--seconds``: mutated traces for so long. Exits with 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import duckdb

from npulens.ingest.archive.opener import Opener
from npulens.ingest.errors import IngestError
from npulens.ingest.events import scan
from npulens.ingest.loading import capture, parsing
from npulens.ingest.loading.quota import Quota
from npulens.ingest.readers.ascend.text import trace_view
from npulens.ingest.readers.kineto import read_kineto
from npulens.ingest.tables import runs
from npulens.ingest.tables.finish import Part
from tests.fuzz.targets import kineto
from tests.fuzz.targets import trace_view as ascend
from tests.hostile.kinds import FAMILIES
from tests.text_export import KERNEL, L1, ROOT, write

#: What lies in a batch, in memory and in a piece, so small that few events take every way.
_TINY = {"_HELD": 2000, "_AT_ONCE": 40, "_STRETCH": 60}


@contextmanager
def by(statements: bool, *, tiny: bool) -> Iterator[None]:
    """Read as large ranks are read, straight or by statements."""
    with ExitStack() as patched:
        patched.enter_context(patch.object(parsing, "_SMALL", 0))
        patched.enter_context(patch.object(parsing, "_STRAIGHT", not statements))
        if tiny:
            for name, value in _TINY.items():
                patched.enter_context(patch.object(runs, name, value))
            for reader in (read_kineto, trace_view):
                patched.enter_context(patch.object(reader, "scan", partial(scan, chunk_size=1 << 12)))
        yield


def read(path: Path, scratch: Path, *, statements: bool, tiny: bool = False) -> list[Part | str]:
    """The parts of every rank, or why one cannot be read."""
    told: list[Part | str] = []
    with by(statements, tiny=tiny):
        try:
            found = capture.find([path], Opener(scratch / "unpacked", Quota()))
        except IngestError as error:
            return [repr(error.said())]
        for number, source in enumerate(found.sources):
            try:
                told.append(parsing.put_together(source, scratch / str(number), lambda done: None))
            except IngestError as error:
                told.append(f"{error.kind} {error.said()!r}".replace(str(scratch), ""))
    return told


def differences(path: Path, scratch: Path, *, tiny: bool = False) -> list[str]:
    """What the two ways say differently of a capture."""
    shutil.rmtree(scratch, ignore_errors=True)
    ways = [read(path, scratch / way, statements=way == "statements", tiny=tiny) for way in ("straight", "statements")]
    if len(ways[0]) != len(ways[1]):
        return [f"{len(ways[0])} ranks and {len(ways[1])}"]
    return [f"rank {at}: {said}" for at, pair in enumerate(zip(*ways, strict=True)) for said in _unlike(*pair)]


def _unlike(one: Part | str, other: Part | str) -> Iterator[str]:
    if isinstance(one, str) or isinstance(other, str):
        if one != other:
            yield f"{one} and {other}"
        return
    if _told(one) != _told(other):
        yield f"{_told(one)}\n and {_told(other)}"
    with duckdb.connect(config={"threads": 1}) as con:
        for table in other.rows:
            files = [f"read_parquet('{part.directory}/{table}.parquet')" for part in (one, other)]
            types = [con.execute(f"DESCRIBE FROM {file}").fetchall() for file in files]
            if types[0] != types[1]:
                yield f"columns of {table}: {types[0]} and {types[1]}"
                continue
            for first, second in (files, files[::-1]):
                alone = con.execute(f"FROM {first} EXCEPT ALL FROM {second} LIMIT 3").fetchall()
                if alone:
                    yield f"{table} has {alone} {'straight' if first == files[0] else 'by statements'} only"


def _told(part: Part) -> str:
    told = asdict(part) | {"directory": "", "seconds": 0}
    return json.dumps(told, default=repr, sort_keys=True, ensure_ascii=False)


def _hostile(home: Path) -> Iterator[tuple[str, Path]]:
    for kind in (*FAMILIES["kineto"], *FAMILIES["trace_view"]):
        for number in range(kind.count):
            place = home / f"{number}"
            place.mkdir(parents=True)
            yield f"{kind.name} {number}", kind.make(place, kind.dice(number), number).path
            shutil.rmtree(place)


def _mutated(home: Path, seconds: float, seed: int) -> Iterator[tuple[str, Path]]:
    draw, until, number = random.Random(seed), time.monotonic() + seconds, 0
    seeds = {target: target.seeds() for target in (kineto, ascend)}
    while time.monotonic() < until:
        target, number = draw.choice([*seeds]), number + 1
        yield f"mutant {number} of seed {seed}", planted(target.mutate(draw.choice(seeds[target]), draw), target, home)
        shutil.rmtree(home)


def planted(data: bytes, target: ModuleType, home: Path) -> Path:
    """A trace of one of the two forms, as its profiler would leave it."""
    home.mkdir(parents=True, exist_ok=True)
    if target is ascend:
        return write(home / ROOT, trace_view_json=data, kernel_details_csv=f"{L1}\n{KERNEL}\n")
    path = home / "trace.pt.trace.json"
    path.write_bytes(data)
    return path


def compare(named: Iterable[tuple[str, Path]], scratch: Path, *, tiny: bool) -> tuple[int, int]:
    """How many there were, and how many differ; each difference is printed."""
    many = unlike = 0
    for name, path in named:
        many += 1
        if said := differences(path, scratch, tiny=tiny):
            unlike += 1
            print(f"{name}: " + "\n".join(said)[:4000], flush=True)
    return many, unlike


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("captures", nargs="*", type=Path)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    unlike = 0
    with tempfile.TemporaryDirectory() as temporary:
        home, scratch = Path(temporary) / "files", Path(temporary) / "scratch"
        for what, named, tiny in (
            ("captures", ((str(path), path.resolve()) for path in asked.captures), False),
            ("hostile traces", _hostile(home) if asked.hostile else (), True),
            ("mutated traces", _mutated(home, asked.seconds, asked.seed) if asked.seconds else (), True),
        ):
            many, differ = compare(named, scratch, tiny=tiny)
            unlike += differ
            if many:
                print(f"{many} {what}: {differ} differ", flush=True)
    return 1 if unlike else 0


if __name__ == "__main__":
    sys.exit(main())
