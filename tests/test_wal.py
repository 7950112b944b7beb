"""Several processes at one file: each waits for its turn, none is told that it is locked, and no log is left."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.store import book, history, notes, proof, wal
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


def _line(store: Path) -> None:
    book.write(store, book.Line(1.0, "ann", "page", "look", "p", "run", True, "1", "::1"))


@pytest.mark.parametrize(("name", "use"), [("state.sqlite", _label), (history.NAME, _add), (book.FILE, _line)])
def test_what_was_written_lies_in_the_file_and_not_in_its_log(
    tmp_path: Path, name: str, use: Callable[[Path], None]
) -> None:
    """Another process has the file open, so SQLite itself would leave the log: a wrong bit there takes it all away."""
    use(tmp_path)
    log = tmp_path / f"{name}-wal"
    with closing(wal.connect(tmp_path / name)) as other:
        other.execute("SELECT * FROM sqlite_master").fetchall()
        use(tmp_path)
        assert log.stat().st_size == 0


def test_a_flipped_bit_in_the_log_takes_nothing_away(tmp_path: Path) -> None:
    """Files as a crash leaves them: every bit of a frame is one that ends the log."""
    notes.set_label(tmp_path, "r0", "zero")
    with closing(wal.connect(tmp_path / "state.sqlite")) as other:
        other.execute("SELECT * FROM label").fetchall()
        for number in range(1, 5):
            notes.set_label(tmp_path, f"r{number}", f"night {number}")
        left = {path.name: bytearray(path.read_bytes()) for path in tmp_path.iterdir() if path.suffix != ".sqlite-shm"}
    log = left["state.sqlite-wal"]
    log[40:41] = [byte ^ 1 for byte in log[40:41]]
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name, content in left.items():
        (crashed / name).write_bytes(content)
    proof.forget()
    assert notes.labels(crashed) == {"r0": "zero", **{f"r{number}": f"night {number}" for number in range(1, 5)}}


def test_who_reads_for_long_hinders_no_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log stays then, and the next who writes empties it."""
    monkeypatch.setattr(wal, "READING", 0.1)
    _label(tmp_path)
    log = tmp_path / "state.sqlite-wal"
    with closing(wal.connect(tmp_path / "state.sqlite")) as other:
        other.execute("BEGIN")
        assert other.execute("SELECT label FROM label").fetchall() == [("one",)]
        notes.set_label(tmp_path, "r1", "two")
        assert notes.labels(tmp_path) == {"r1": "two"} and log.stat().st_size > 0
        other.execute("COMMIT")
        notes.set_label(tmp_path, "r1", "three")
        assert log.stat().st_size == 0
