"""Whether something in a watched folder has stopped growing.

Looking once says nothing: a copy keeps old stamps. So an entry is settled under three conditions. Nothing of it changed
for a while as we looked. No name in it is that of a copy under way. Nobody on this machine has a file of it open for
writing: a read lease would be refused. Without leases the last condition is left out.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

#: Names that rsync, scp wrappers, browsers and editors give to what is not whole yet.
_UNDER_WAY = re.compile(r"^\.|~$|\.(part|partial|tmp|temp|crdownload|download|filepart|swp|lock)$", re.IGNORECASE)
#: Leases asked for per look; a directory of more files is believed by its sizes and stamps.
_MOST_LEASES = 2_000


@dataclass(frozen=True)
class Look:
    """What an entry looks like: a print of every path, size and stamp in it; None while a copy is under way."""

    print: str | None
    files: int


def look(entry: Path) -> Look:
    """One look at a file or directory."""
    digest, files = blake3(), 0
    for path in _files(entry):
        if path != entry and _UNDER_WAY.search(path.name):
            return Look(None, files)
        try:
            stat = path.stat()
        except OSError:  # gone between listing and looking: still moving
            return Look(None, files)
        name = "" if path == entry else str(path.relative_to(entry))
        digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\n".encode("utf-8", "surrogateescape"))
        files += 1
    return Look(digest.hexdigest() if files else None, files)


def candidate(entry: Path) -> bool:
    """Whether an entry of a watched folder may be a capture at all."""
    return not _UNDER_WAY.search(entry.name) and not entry.is_symlink() and (entry.is_file() or entry.is_dir())


def being_written(entry: Path) -> bool:
    """Whether a process of this machine has a file of it open for writing, as far as the system tells."""
    return any(_open_for_writing(path) for path in _files(entry)[:_MOST_LEASES])


def _files(entry: Path) -> list[Path]:
    """Every file of an entry; links are not followed."""
    if entry.is_file():
        return [entry]
    return sorted(
        Path(folder) / name for folder, _, names in os.walk(entry) for name in names
        if not os.path.islink(os.path.join(folder, name))
    )  # fmt: skip


def _open_for_writing(path: Path) -> bool:
    with suppress(AttributeError, OSError):  # no leases on this system
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
    return False
