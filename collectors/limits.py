"""What a recording may take: of the disk that it writes to, and of the memory that it is held in.

torch_npu writes while it records. torch's profiler holds everything in memory and writes at the end: the whole trace
into the directory for temporary files, then packed into its own. What it holds is told from how much the process has
grown since the first recorded step; what the job itself has grown by counts too.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors.notes import host
from npulens.collectors.telemetry import machine

#: What stays free for logs and checkpoints of the job; on a disk below 50 GiB a fiftieth. A load leaves as much
#: (ingest/loading/quota.py).
KEEP_FREE = 1 << 30
_SMALL = 50
#: torch's profiler takes 5 to 9 times what it holds while it writes: measured with torch 2.13 on a CPU, with stacks,
#: with memory and with neither. Its trace has 0.6 to 1.1 times what it holds, and a twelfth of that when packed.
WRITING = 10
#: Looking takes one part in so many of the time.
_PAUSE = 100
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@dataclass(frozen=True)
class Reached:
    """A limit that was reached: what was found, what is allowed, and where."""

    name: str  # disk, free, memory
    bytes: int
    limit: int
    place: str

    def __str__(self) -> str:
        found, limit = amount(self.bytes), amount(self.limit)
        if self.name == "disk":
            return f"the recording came to {found}, and --max-disk allows {limit}"
        if self.name == "free":
            return f"{found} would stay free on the disk of {self.place}, and --keep-free wants {limit}"
        return f"writing the trace may take {found} of memory, and {limit} are there"


class Limits:
    """Looks at disk and memory at the end of a step, in the thread that makes it, and seldom."""

    def __init__(
        self, directory: Path, max_disk: int | None, keep_free: int | None, in_memory: bool, since_ns: int
    ) -> None:
        self._directory, self._max_disk, self._keep_free = directory, max_disk, keep_free
        self._in_memory, self._since_ns = in_memory, since_ns
        self._base: int | None = None
        self._next_ns = 0

    def before(self) -> Reached | None:
        """Why a recording should not begin."""
        return self._free(0)

    def recorded_from_here(self) -> None:
        """The next step is the first that is kept."""
        self._base = _resident() if self._in_memory else None

    def held(self) -> int | None:
        """What the profiler holds in memory at most; None: nothing, or nobody knows."""
        now = None if self._base is None else _resident()
        return None if now is None or self._base is None else max(0, now - self._base)

    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic_ns() >= self._next_ns

    def look(self, processes: Iterable[Mapping[str, Any]]) -> Reached | None:
        """The limit that is reached, of all processes together."""
        begun = time.monotonic_ns()
        held = [each for each in processes if each["state"] == "recording" and each.get("held_bytes")]
        here = sum(each["held_bytes"] for each in held if each.get("host") == host())
        reached = self._disk(sum(each["held_bytes"] for each in held)) or self._free(here) or _memory(here)
        now = time.monotonic_ns()
        self._next_ns = now + _PAUSE * (now - begun)
        return reached

    def _disk(self, held: int) -> Reached | None:
        if self._max_disk is None:
            return None
        size = written(self._directory, self._since_ns) + held
        return Reached("disk", size, self._max_disk, str(self._directory)) if size > self._max_disk else None

    def _free(self, held: int) -> Reached | None:
        if self._keep_free == 0:
            return None
        for place in (self._directory, Path(tempfile.gettempdir())) if self._in_memory else (self._directory,):
            try:
                disk = shutil.disk_usage(place)
            except OSError:  # it is not there yet, or no longer
                continue
            keep = min(KEEP_FREE, disk.total // _SMALL) if self._keep_free is None else self._keep_free
            if disk.free - held < keep:
                return Reached("free", max(0, disk.free - held), keep, str(place))
        return None


def _memory(held: int) -> Reached | None:
    """Whether there is room for the trace when it is written."""
    told = machine.memory() if held else None
    if told is None or held * WRITING <= told[0]:
        return None
    return Reached("memory", held * WRITING, told[0], host())


def written(directory: Path, since_ns: int) -> int:
    """Bytes of the files below a directory that were written since a moment; others are writing to it."""
    total, pending = 0, [str(directory)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        told = entry.stat(follow_symlinks=False)
                        total += told.st_size if told.st_mtime_ns >= since_ns else 0
        except OSError:  # finished and gone meanwhile
            continue
    return total


def _resident() -> int | None:
    """Memory of this process; None where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def size(text: str) -> int:
    """A size as people write it: 500M, 2GB, 1.5T, or plain bytes."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no size such as 500M or 2GB")
    return int(float(found[1]) * _UNITS[found[2]])


def amount(count: int) -> str:
    """A number of bytes for people."""
    for unit, least in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} bytes"
