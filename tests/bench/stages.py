"""Where the CPU of a load goes, stage by stage: a capture's ranks are put together in this process.

    python -m tests.bench.stages [--both] [CAPTURE...]

Without a capture: a million events of the simulated backend, Kineto and trace_view, and a Kineto trace whose shapes
hardly repeat. What a load costs beside (starting, importing, the sandbox, putting ranks together) is not in it. Prints
Markdown. ``--both``: straight, then by statements alone, as where a file does not fit.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from npulens.ingest import events
from npulens.ingest.archive.opener import Opener
from npulens.ingest.loading import capture, parsing
from npulens.ingest.loading.quota import Quota
from npulens.ingest.readers.ascend.text import trace_view
from npulens.ingest.readers.kineto import calls, spools
from npulens.ingest.tables import draft, finish, nest, ready, runs
from tests.bench import captures
from tests.bench.captures import CACHE
from tests.bench.programs import dynamic as programs

EVENTS = 1_000_000
#: Stages below this share are one line.
_LEAST = 0.005
_TARGET = re.compile(r" TO '[^']*/([a-z_0-9]+?)(?:\.\d+)?(\.spool)?\.parquet'")


class Clock:
    """CPU of this process by stage; what runs within another stage is not counted there."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._open: list[str] = []
        self._since = time.process_time_ns()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._book()
        self._open.append(name)
        try:
            yield
        finally:
            self._book()
            self._open.pop()

    def _book(self) -> None:
        now = time.process_time_ns()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = now


def statement(query: str) -> str:
    """What a statement is for: the table that it makes, or how it begins."""
    if found := _TARGET.search(query):
        return f"SQL, {'kept' if found[2] else 'table'}: {found[1]}"
    if "ORDER BY" in query and query.startswith("SELECT * FROM"):
        return f"SQL, sorted: {query.split()[3]}"
    return "SQL, small: " + " ".join(query.split())[:50]


class _Rows:
    """A result, whose fetching is timed as the statement's."""

    def __init__(self, clock: Clock, name: str, rows: Any) -> None:
        self._clock, self._name, self._rows = clock, name, rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def fetchall(self) -> Any:
        with self._clock.stage(self._name):
            return self._rows.fetchall()

    def to_arrow_table(self) -> Any:
        with self._clock.stage(self._name):
            return self._rows.to_arrow_table()

    def to_arrow_reader(self, batch: int) -> Iterator[Any]:
        with self._clock.stage(self._name):
            reader = self._rows.to_arrow_reader(batch)
        while True:
            with self._clock.stage(self._name):
                if (one := next(reader, None)) is None:
                    return
            yield one


class _Connection:
    def __init__(self, clock: Clock, con: Any) -> None:
        self._clock, self._con = clock, con

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def execute(self, query: str, values: object = None) -> _Rows:
        with self._clock.stage(statement(query)):
            return _Rows(self._clock, statement(query), self._con.execute(query, values))

    def sql(self, query: str) -> _Rows:
        with self._clock.stage(statement(query)):
            return _Rows(self._clock, statement(query), self._con.sql(query))


class _Scanner:
    def __init__(self, clock: Clock, scanner: Any) -> None:
        self._clock, self._scanner = clock, scanner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scanner, name)

    def feed(self, data: bytearray, start: int, end: int, last: bool) -> Any:
        with self._clock.stage("scan"):
            return self._scanner.feed(data, start, end, last)


def watch(clock: Clock) -> None:
    """Put the clock around the stages, for the rest of this process."""

    def timed(owner: type | ModuleType, name: str, stage: str) -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def within(*given: Any, **named: Any) -> Any:
            with clock.stage(stage):
                return plain(*given, **named)

        setattr(owner, name, within)

    def wrapped(owner: ModuleType, name: str, around: Callable[[Clock, Any], Any]) -> None:
        plain: Callable[..., Any] = getattr(owner, name)
        setattr(owner, name, lambda *given: around(clock, plain(*given)))

    wrapped(draft, "connect", _Connection)
    wrapped(events, "_scanner", _Scanner)
    timed(draft.Spool, "_flush", "spools written")
    timed(spools.Spools, "add", "events parted")
    timed(trace_view._Split, "write", "events parted")
    timed(nest.Nest, "place", "spans nested")
    timed(runs.Runs, "add", "spans put into runs")
    timed(ready.Ready, "append", "tables written straight")
    timed(ready.Ready, "close", "tables written straight")
    timed(calls.Calls, "link", "calls and tasks linked")
    for name, stage in (("_write_spans", "spans put together and written"), ("device_time", "device_time"),
                        ("of_work", "device_time"), ("write", "stretches written again")):  # fmt: skip
        if hasattr(finish, name):
            timed(finish, name, stage)


def profile(path: Path, clock: Clock) -> int:
    """Put together what lies at a path; its bytes."""
    scratch, size = CACHE / "stages", 0
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    with clock.stage("other Python"):
        with clock.stage("found"):
            found = capture.find([path], Opener(scratch / "unpacked", Quota()))
        for number, source in enumerate(found.sources):
            with clock.stage("hashed"):
                capture.hash_files(sorted(source.files))
            parsing.put_together(source, scratch / str(number), lambda done: None)
            size += source.size
    shutil.rmtree(scratch)
    return size


def report(path: Path, way: str, size: int, spent: Counter[str]) -> Iterator[str]:
    total = sum(spent.values())
    rate = f"{size / 1e6:,.0f} MB in {total / 1e9:.2f} CPU s: {size * 1e3 / total:,.0f} MB per CPU s"
    yield f"\n## {path}, {way} ({rate})\n"
    yield "| stage | CPU s | share |\n|---|--:|--:|"
    large = [(stage, ns) for stage, ns in spent.most_common() if ns >= _LEAST * total]
    rest = total - sum(ns for _, ns in large)
    for stage, ns in [*large, (f"{len(spent) - len(large)} smaller ones", rest)]:
        yield f"| {stage.replace('|', ' ')} | {ns / 1e9:.3f} | {ns / total:.1%} |"


def dynamic(events: int) -> Path:
    """A trace whose shapes hardly repeat, made once."""
    path = CACHE / f"dynamic_{events}" / "rank0.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name("part.json")
        with part.open("w") as file:
            programs.write(file, events)
        part.rename(path)
    return path


def main() -> None:
    asked = sys.argv[1:]
    ways = ("straight", "by statements") if "--both" in asked else ("straight",)
    given = [Path(each).resolve() for each in asked if each != "--both"]
    paths = given or [of(EVENTS) for of in (captures.kineto, captures.npu, dynamic)]
    clock = Clock()
    watch(clock)
    for path in paths:
        for way in ways:
            clock.spent.clear()
            with patch.object(parsing, "_STRAIGHT", way == "straight"):
                size = profile(path, clock)
            print("\n".join(report(path, way, size, clock.spent)), flush=True)


if __name__ == "__main__":
    main()
