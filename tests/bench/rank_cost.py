"""What one small rank costs: statements asked of DuckDB and CPU seconds, stage by stage.

    python -m tests.bench.rank_cost CAPTURE... [--repeat N] [--most N]

Every rank of the captures is put together in this process, as a child of a load does it, --repeat times. A first round
warms what is imported and is left out. A stage is what a statement writes or begins with; CPU is this thread's.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npulens.ingest.archive.opener import Opener
from npulens.ingest.loading import capture
from npulens.ingest.loading.parsing import Desks, put_together
from npulens.ingest.loading.quota import Quota, UsageWatch
from npulens.ingest.tables import draft

_WRITTEN = re.compile(r"^(?:COPY .* TO '[^']*/([A-Za-z_]+)[^/']*'|(CREATE [A-Z ]*?(?:TABLE|VIEW)) \"?(\w+))", re.S)


@dataclass
class Ledger:
    """CPU seconds and statements by stage; of stages within each other the inner one counts."""

    cpu: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    _open: list[list[Any]] = field(default_factory=list)

    def enter(self, stage: str) -> None:
        now = time.thread_time()
        if self._open:
            self.cpu[self._open[-1][0]] += now - self._open[-1][1]
        self._open.append([stage, now])

    def leave(self) -> None:
        now = time.thread_time()
        stage, since = self._open.pop()
        self.cpu[stage] += now - since
        if self._open:
            self._open[-1][1] = now

    def of(self, stage: str, call: Callable[[], Any]) -> Any:
        self.enter(stage)
        try:
            return call()
        finally:
            self.leave()


class Timed:
    """A connection, a result or a relation whose every call is told to the ledger."""

    def __init__(self, inner: Any, ledger: Ledger, stage: str = "") -> None:
        self._inner, self._ledger, self._stage = inner, ledger, stage

    def execute(self, query: str, *more: Any) -> Timed:
        return self._ask(query, lambda: self._inner.execute(query, *more))

    def sql(self, query: str, *more: Any) -> Timed:
        return self._ask(query, lambda: self._inner.sql(query, *more))

    def to_arrow_reader(self, *more: Any) -> Iterator[Any]:
        rows = iter(self._ledger.of(self._stage, lambda: self._inner.to_arrow_reader(*more)))
        while (batch := self._ledger.of(self._stage, lambda: next(rows, None))) is not None:
            yield batch

    def _ask(self, query: str, call: Callable[[], Any]) -> Timed:
        stage = _stage(query)
        self._ledger.calls[stage] += 1
        return Timed(self._ledger.of(stage, call), self._ledger, stage)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._ledger.of(self._stage or name, lambda: found(*given, **named))


def _stage(query: str) -> str:
    if made := _WRITTEN.match(query):
        return f"sql {made[1]}" if made[1] else f"sql {made[2].lower()} {made[3]}"
    return "sql: " + " ".join(query.split())[:56]


def told(path: Path, repeat: int, most: int) -> None:
    """Put every rank of a capture together, and print what it took."""
    ledger, opened = Ledger(), draft.connect
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        quota = Quota()
        begun = time.thread_time()
        found = capture.find([path], Opener(home / "unpacked", quota, UsageWatch(quota, home)))
        finding = time.thread_time() - begun
        begun = time.thread_time()
        for source in found.sources:
            capture.hash_files(list(source.files))
        hashing = time.thread_time() - begun
        ranks = len(found.sources)
        print(f"{ranks} ranks, found in {finding / ranks * 1e3:.1f} ms each, hashed in {hashing / ranks * 1e3:.1f}\n")
        _together(found.sources, home / "0", ledger, Desks(home / "0"))

        def connect(*given: Any) -> Any:
            con = ledger.of("connect", lambda: opened(*given))
            con.execute("SET python_scan_all_frames = true")  # the one that asks is a few frames further up
            return Timed(con, ledger)

        draft.connect = connect
        desks = Desks(home / "desks")
        ledger.cpu.clear()
        _together(found.sources[:1], home / "1", ledger, desks)
        print(f"the first of a child: {sum(ledger.calls.values())} statements, {sum(ledger.cpu.values()):.3f} CPU s")
        ledger.cpu.clear()
        ledger.calls.clear()
        for turn in range(repeat):
            _together(found.sources, home / f"{turn + 2}", ledger, desks)
        draft.connect = opened
    times = repeat * ranks
    total = sum(ledger.cpu.values()) / times
    print(f"each after it: {sum(ledger.calls.values()) / times:.0f} statements, {total:.3f} CPU s\n")
    print("| ms | times | stage |\n|--:|--:|---|")
    for stage, cpu in ledger.cpu.most_common(most):
        print(f"| {cpu / times * 1e3:.2f} | {ledger.calls[stage] / times:.0f} | {stage} |")


def _together(sources: Sequence[capture.RankSource], home: Path, ledger: Ledger, desks: Desks) -> None:
    for number, source in enumerate(sources):
        ledger.enter("python")
        put_together(source, home / f"part{number}", lambda done: None, desks)
        ledger.leave()
    shutil.rmtree(home)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--most", type=int, default=25, help="stages that are listed")
    options = parser.parse_args()
    for path in options.captures:
        print(f"\n## {path.name}\n")
        told(path, options.repeat, options.most)


if __name__ == "__main__":
    main()
