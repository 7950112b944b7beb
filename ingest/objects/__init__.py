"""Runs in object storage. Nothing of it is imported before a store turns out to be a bucket."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from npulens.ingest.store.place import BUCKET

if TYPE_CHECKING:
    from npulens.ingest.objects.mirror import Mirror


def of(store: Path) -> Mirror | None:
    """The bucket that a store stands for, if it does."""
    try:
        address = (store / BUCKET).read_text("utf-8").strip()
    except OSError:
        return None
    from npulens.ingest.objects.mirror import Mirror

    return Mirror(store, address)


def fetch(store: Path, run_id: str, names: Iterable[str] | None = None) -> None:
    """Make sure that a run's files are here: all of them, or these. Nothing to do for an ordinary store."""
    if (mirror := of(store)) is not None:
        mirror.fetch(run_id, names)
