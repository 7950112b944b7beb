"""The nights of a store, for those who look back."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from npulens.app.nightly import night, place
from npulens.app.nightly.night import Night
from npulens.app.nightly.written import leave


def names(store: Path) -> list[str]:
    """The configurations that have nights here."""
    root = store / ".nights"
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and place.labels(entry))


def nights(store: Path, name: str) -> dict[str, Night | None]:
    """Every night of a configuration, the oldest first; None for one that has no report."""
    home = place.home(store, name)
    found = {label: _read(home / label, _written(home / label)) for label in place.labels(home)}
    return dict(sorted(found.items(), key=lambda pair: pair[0]))


def report(store: Path, name: str, label: str) -> str | None:
    """The page to forward."""
    path = place.home(store, name) / label / leave.HTML
    return path.read_text("utf-8") if path.is_file() else None


def _written(folder: Path) -> int:
    path = folder / night.NAME
    return path.stat().st_mtime_ns if path.is_file() else 0


@lru_cache(1024)
def _read(folder: Path, written_ns: int) -> Night | None:
    return night.read(folder) if written_ns else None
