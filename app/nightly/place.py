"""Where nights lie: STORE/.nights/NAME/LABEL/, one folder a night, its files written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

#: The system's words for a disk that takes no more.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: Exception) -> bool:
    """Whether something failed because a disk takes no more."""
    if isinstance(error, IngestError):
        return error.kind == "disk_full" or "disk is full" in error.message  # SQLite's own words
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def home(store: Path, name: str) -> Path:
    """The folder of all nights of one configuration."""
    return store / ".nights" / name


def claim(home: Path, config: Path) -> None:
    """Keeps which configuration the nights belong to; another file of the same name is not to hide them."""
    mine = home / "config"
    known = Path(mine.read_text("utf-8")) if mine.is_file() else config
    if known != config and known.is_file():
        raise IngestError("nightly_config", Message("nights_belong_to", {"name": home.name, "config": known}),
                          str(config))  # fmt: skip
    home.mkdir(parents=True, exist_ok=True)
    write(mine, str(config))


def labels(place: Path) -> list[str]:
    """The nights of one configuration that were begun, by name."""
    if not place.is_dir():
        return []
    return sorted(entry.name for entry in place.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def write(target: Path, text: str) -> None:
    """Writes a file so that whoever reads finds the old one or the whole new one."""
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
