"""What each process of a job says of itself: a small file, for the other processes and for whoever judges them all.

Nodes may share the directory, and processes of two nodes may have the same number. So the file's name has that of the
host in it, and the moment when it was made.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLACE = ".recordings"
_BLOCK = 4096


def host() -> str:
    """This machine's name; a container has its own."""
    return platform.node() or "unknown"


def name() -> str:
    """A name that no other process of any node has."""
    return f"{re.sub(r'[^A-Za-z0-9-]', '_', host())}_{os.getpid()}_{time.time_ns()}"


class Notes:
    """The file of one process."""

    def __init__(self, directory: Path) -> None:
        self._place = directory / PLACE
        self._path: Path | None = None

    def forget(self) -> None:
        """In a child that forked off: the file is its parent's."""
        self._path = None

    def withdraw(self) -> None:
        """As if nothing had been said."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    def write(self, said: Mapping[str, Any]) -> None:
        """Into the same block again and again: on a disk that has become full there is still room for it."""
        if self._path is None:
            self._path = self._place / f"{name()}.json"
        text = json.dumps(said).encode().ljust(_BLOCK)
        if self._path.exists():
            with self._path.open("r+b") as file:
                file.write(text)
                file.truncate()
            return
        self._place.mkdir(parents=True, exist_ok=True)
        half = self._path.with_suffix(".half")
        half.write_bytes(text)
        half.replace(self._path)


def read(place: Path, since_ns: int = 0) -> list[dict[str, Any]]:
    """What the processes have said since a moment; one that is writing just now is left out."""
    found = []
    for path in sorted(place.glob("*.json")):
        try:
            said = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if said.get("begun_ns", 0) >= since_ns:
            found.append(said)
    return found
