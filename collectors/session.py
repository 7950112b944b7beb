"""Several ``npulens collect`` into one directory, one on each node: each knows its own processes, the last judges all.

Each holds a lock on a file of its own in that directory while its job runs. One that was killed holds none any more.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from npulens.collectors import notes

_ENDING = ".collecting"


class Session:
    """One ``npulens collect`` while it runs."""

    def __init__(self, directory: Path, begun_ns: int) -> None:
        self.name = notes.name()
        self.since_ns = begun_ns  # of the first of those that overlap
        self._place = directory / notes.PLACE
        self._file: IO[str] | None = None
        try:
            self._place.mkdir(exist_ok=True)
            self.since_ns = min([begun_ns, *(since for _, since in self._others())])
            self._file = (self._place / f"{self.name}{_ENDING}").open("w", encoding="ascii")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            json.dump({"since_ns": self.since_ns}, self._file)
            self._file.flush()
        except OSError:  # a full disk, or one without locks: the job runs, and this collect counts as the only one
            return

    def end(self) -> tuple[list[dict[str, Any]], int]:
        """What the processes noted, and how many other collects go on: the last one gets the notes of all."""
        mine = [each for each in notes.read(self._place) if each.get("session") == self.name]
        if self._file is None:
            return mine, 0
        self._file.close()
        with suppress(OSError):  # the job may have removed it
            Path(self._file.name).unlink()
        others = len(list(self._others()))
        if others:
            return mine, others
        judged = self._place.with_name(f"{notes.PLACE}-{self.name}")
        try:
            self._place.rename(judged)  # of two that end at once, one
        except FileNotFoundError:
            return mine, int(self._place.parent.is_dir())
        except OSError:
            return mine, 0
        every = notes.read(judged, self.since_ns)
        shutil.rmtree(judged, ignore_errors=True)
        return every, 0

    def _others(self) -> Iterator[tuple[Path, int]]:
        """The files that others hold, and since when they do."""
        for path in self._place.glob(f"*{_ENDING}"):
            try:
                with path.open(encoding="ascii") as file:
                    if not _held(file):
                        path.unlink(missing_ok=True)
                        continue
                    yield path, int(json.load(file)["since_ns"])
            except (OSError, ValueError):  # it has ended meanwhile, or begins just now
                continue


def _held(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
