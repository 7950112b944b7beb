"""Where deleted runs lie until they are collected: whole, or under a name that nobody takes for a run.

STORE/.trash/<run_id>          a deleted run, as it was
STORE/.trash/.<run_id>.<word>  one that is being removed, or whose remover was killed
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = ".trash"  # below the store


def discard(store: Path, run_id: str) -> None:
    """Put a run there; FileNotFoundError if it is not in the store. Its time begins before it lies there."""
    target = store / FOLDER / run_id
    with _alone(store):
        os.utime(store / run_id)
        _remove(target)  # the same run, deleted before and loaded again
        os.rename(store / run_id, target)


def bring_back(store: Path, run_id: str) -> None:
    """Take a run out of it. One that was loaded again meanwhile has the same bytes: then this copy goes."""
    with _alone(store):
        try:
            os.rename(store / FOLDER / run_id, store / run_id)
        except OSError:
            if not (store / run_id).exists():
                raise
            _remove(store / FOLDER / run_id)


def listed(store: Path) -> list[Path]:
    """Deleted runs that can be had back."""
    trash = store / FOLDER
    return [entry for entry in trash.iterdir() if not entry.name.startswith(".")] if trash.is_dir() else []


def empty(store: Path, after_s: float) -> list[str]:
    """Remove what has lain there for longer; the ids of the runs."""
    gone = []
    with _alone(store):
        for entry in (store / FOLDER).glob(".*"):  # whoever was removing it is dead
            shutil.rmtree(entry, ignore_errors=True)
        for entry in listed(store):
            if time.time() - entry.stat().st_mtime > after_s:
                _remove(entry)
                gone.append(entry.name)
    return gone


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """One process at a time moves runs in and out; a lock on the folder itself dies with its holder."""
    (store / FOLDER).mkdir(exist_ok=True)
    handle = os.open(store / FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove(entry: Path) -> None:
    """Remove a run, under another name first: what a kill leaves of it must not be brought back."""
    aside = entry.with_name(f".{entry.name}.{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        os.rename(entry, aside)
        shutil.rmtree(aside, ignore_errors=True)
