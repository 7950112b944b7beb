"""Kill a load at every point where it touches the disk, and look at what it left.

`python -m tests.crashing WORKDIR CAPTURE [--every N] [--first N] [--naive] [--random N]` counts the points
of one load (files opened for writing, directories made, renames, removals, fsyncs, Parquet row groups and
DuckDB COPYs), then loads again once per point and kills the whole process group there with
SIGKILL. After each: no run, or one whole run; the next load heals; nothing stays in staging.
`--random N` kills N loads at random moments instead, whatever they are doing then. `--naive` puts a writer
without staging through the same mill, to show that the mill grinds.
Prints one JSON line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from npulens.ingest.loading import worker
from npulens.ingest.tables import assemble, finish, schema

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_EVENTS = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "shutil.move", "os.utime"}


class Mill:
    """Counts points in memory shared by every process of a load, and kills at one of them."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 16)

    def set(self, kill_at: int) -> None:
        self._shared[:] = struct.pack("qq", 0, kill_at)

    @property
    def points(self) -> int:
        return int(struct.unpack("qq", self._shared[:])[0])

    def point(self) -> None:
        count, kill_at = struct.unpack("qq", self._shared[:])
        self._shared[:8] = struct.pack("q", count + 1)
        if count + 1 == kill_at:
            os.killpg(0, signal.SIGKILL)

    def watch(self) -> None:
        """Put a point before and after everything that touches the disk."""

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event in _EVENTS or (event == "open" and isinstance(args[2], int) and args[2] & _WRITES):
                self.point()

        sys.addaudithook(hook)
        self._around(os, "fsync")
        self._around(os, "rename")
        for method in ("write_batch", "write_table", "close"):
            self._around(pq.ParquetWriter, method)
        for module in (finish, assemble):  # a COPY of DuckDB is a file written in one go
            for name in ("_write_table", "concatenate"):
                if hasattr(module, name):
                    self._around(module, name)

    def _around(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def wrapped(*args: Any, **keywords: Any) -> Any:
            self.point()
            result = real(*args, **keywords)
            self.point()
            return result

        setattr(owner, name, wrapped)


def in_a_child(work: Callable[[], None], mill: Mill | None = None, dies_after: float | None = None) -> int:
    """Run in a process group of its own, killed after some seconds if it is to be; the wait status."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if dies_after is not None:
            signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))
            signal.setitimer(signal.ITIMER_REAL, max(dies_after, 0.001))
        if mill is not None:
            mill.watch()
        try:
            work()
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    with suppress(ProcessLookupError):  # its own children die a moment later
        while True:
            os.killpg(pid, 0)
            time.sleep(0.002)
    return status


def naive_load(capture: Path, where: Path) -> None:
    """What not to do: tables written where readers look for them."""
    run = where / "naive"
    run.mkdir(parents=True, exist_ok=True)
    for name in schema.tables():
        with pq.ParquetWriter(run / f"{name}.parquet", pa.schema([("a", pa.int64())])) as writer:
            for _ in range(3):
                writer.write_batch(pa.record_batch([pa.array(range(1000))], names=["a"]))
    (run / "manifest.json").write_text(json.dumps({"run_id": "naive"}))


def fingerprint(where: Path) -> dict[str, str]:
    """Every visible run: its tables' rows, independent of how they were compressed."""
    found = {}
    for run in sorted(where.iterdir()) if where.is_dir() else ():
        if run.name.startswith(".") or not run.is_dir():
            continue
        digest = hashlib.sha256()
        for name in schema.tables():
            rows = pq.read_table(run / f"{name}.parquet").to_pylist()
            digest.update(repr(sorted(map(repr, rows))).encode())
        json.loads((run / "manifest.json").read_text())
        found[run.name] = digest.hexdigest()
    return found


def visible(where: Path) -> dict[str, str] | None:
    """The fingerprint, read in a child like any other reader; None if a run there cannot be read whole."""
    out = where.with_suffix(".seen")
    status = in_a_child(lambda: out.write_text(json.dumps(fingerprint(where))) and None)
    text = out.read_text() if out.exists() else ""
    out.unlink(missing_ok=True)
    return json.loads(text) if status == 0 and text else None


def grind(directory: Path, load: Callable[[Path], None], every: int, first: int) -> dict[str, int]:
    """Kill at every N-th point from the first; counts of what went wrong."""
    mill = Mill()
    mill.set(0)
    in_a_child(lambda: load(directory / "whole"), mill)
    whole, points = visible(directory / "whole"), mill.points
    if not whole:
        raise SystemExit("the load that nobody killed left no run")
    seen = {"points": points, "killed": 0, "half_visible": 0, "not_healed": 0, "leaked": 0}
    for at in range(first, points + 1, every):
        where = directory / f"at{at}"
        mill.set(at)
        if os.WIFSIGNALED(in_a_child(lambda where=where: load(where), mill)):  # type: ignore[misc]
            seen["killed"] += 1
        left = visible(where)
        seen["half_visible"] += left != {} and left != whole
        in_a_child(lambda where=where: load(where))  # type: ignore[misc]
        seen["not_healed"] += visible(where) != whole
        staging = where / ".staging"
        seen["leaked"] += bool(staging.is_dir() and list(staging.iterdir()))
        shutil.rmtree(where, ignore_errors=True)
    return seen


def shoot(directory: Path, load: Callable[[Path], None], times: int) -> dict[str, int]:
    """Kill at random moments of a load; counts of what went wrong."""
    began = time.monotonic()
    in_a_child(lambda: load(directory / "whole"))
    takes, whole, draw = time.monotonic() - began, visible(directory / "whole"), random.Random(times)
    if not whole:
        raise SystemExit("the load that nobody killed left no run")
    seen = {"killed": 0, "half_visible": 0, "not_healed": 0, "leaked": 0}
    for i in range(3 * times):  # a load that ends before its moment was not killed
        if seen["killed"] == times:
            break
        where = directory / f"shot{i}"
        moment = draw.random() * takes * 1.2
        seen["killed"] += os.WIFSIGNALED(in_a_child(lambda where=where: load(where), dies_after=moment))  # type: ignore[misc]
        left = visible(where) if where.is_dir() else {}
        seen["half_visible"] += left not in ({}, whole)
        in_a_child(lambda where=where: load(where))  # type: ignore[misc]
        seen["not_healed"] += visible(where) != whole
        staging = where / ".staging"
        seen["leaked"] += bool(staging.is_dir() and list(staging.iterdir()))
        shutil.rmtree(where, ignore_errors=True)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--naive", action="store_true")
    parser.add_argument("--random", type=int, default=0)
    asked = parser.parse_args()

    def honest(where: Path) -> None:
        worker.load(worker.Request((asked.capture,), where), lambda message: None)

    def naive(where: Path) -> None:
        naive_load(asked.capture, where)

    load = naive if asked.naive else honest
    if asked.random:
        print(json.dumps(shoot(asked.directory, load, asked.random)))
    else:
        print(json.dumps(grind(asked.directory, load, asked.every, asked.first)))


if __name__ == "__main__":
    main()
