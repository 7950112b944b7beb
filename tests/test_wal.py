"""A new file that several processes make at once: each waits for its turn, none is told that it is locked."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.store import history, notes, wal
from npulens.ingest.store.history import Identity, Point


def _label(store: Path) -> None:
    notes.set_label(store, "r1", "one")
    assert notes.labels(store) == {"r1": "one"}


def _add(store: Path) -> None:
    assert history.add(store, Identity("w"), [Point("", "m", "ns", "lower", 1.0, 1, None, "a")]) == 1


@pytest.mark.parametrize(("name", "use"), [("state.sqlite", _label), (history.NAME, _add)])
def test_a_file_that_another_process_is_making_is_waited_for(
    tmp_path: Path, name: str, use: Callable[[Path], None]
) -> None:
    """Another holds what it takes to write, and the file is not in the mode of a log yet: SQLite refuses at once."""
    other = sqlite3.connect(tmp_path / name, isolation_level=None, check_same_thread=False)
    with closing(other):
        other.execute("BEGIN IMMEDIATE")
        ends = threading.Timer(0.3, other.execute, ["COMMIT"])
        ends.start()
        use(tmp_path)
        ends.join()


def test_who_never_lets_go_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "PATIENCE", 0.2)
    with closing(sqlite3.connect(tmp_path / history.NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IngestError, match="database is locked"):
            _add(tmp_path)
