"""A small SQLite file of our own, which every process over a store reads and writes at once, by a write-ahead log."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

#: Transactions are of milliseconds; who has not had a turn after this many seconds meets something that hangs.
PATIENCE = 30.0


def connect(path: Path) -> sqlite3.Connection:
    """The file, made if it is new."""
    with suppress(FileExistsError):  # as open as the directory it lies in
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, path.parent.stat().st_mode & 0o666))
    con = sqlite3.connect(path, timeout=PATIENCE)
    try:
        _keep_a_log(con)
    except BaseException:
        con.close()
        raise
    return con


def _keep_a_log(con: sqlite3.Connection) -> None:
    """SQLite waits for its turn, but not for this one. Of two that change the mode of a new file one is refused."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            con.execute("PRAGMA journal_mode=WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)
