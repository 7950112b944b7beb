"""A small SQLite file of our own, which every process over a store reads and writes at once, by a write-ahead log.

SQLite ends a log at the first frame that is not what was written, and says nothing. That commit and all later ones are
gone. So whoever has written puts that into the file itself, whose rows have sums, and leaves the log empty.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import proof

#: Transactions are of milliseconds; who has not had a turn after this many seconds meets something that hangs.
PATIENCE = 30.0
#: Who reads needs no longer than this; a log that somebody keeps for longer is left to the next who writes.
READING = 1.0
#: What SQLite says where there is no room for its log: what lies there can still be read.
_NO_ROOM = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)


@contextmanager
def transaction(path: Path, tables: Sequence[str], version: int, proved: bool = True) -> Iterator[sqlite3.Connection]:
    """One transaction over a file whose rows have sums (proof.py). ``proved``: what is read is compared."""
    with readable(), closing(connect(path)) as con:
        _prepare(con, path, tables, version)
        if proved:
            proof.believed(con, path)
        before = con.total_changes
        with con:
            yield con
        changed = con.total_changes != before
        if changed:
            empty_the_log(con)
    if changed:
        proof.written(path)


def empty_the_log(con: sqlite3.Connection) -> None:
    """What was committed is safe in the log; what hinders this is no failure of the write."""
    with suppress(sqlite3.OperationalError):
        con.execute(f"PRAGMA busy_timeout = {1e3 * READING:.0f}")
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def readable() -> Iterator[None]:
    """What Python cannot read of a damaged file, or of what SQLite says of it, is an error of that file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(str(error)) from error


def _prepare(con: sqlite3.Connection, path: Path, tables: Sequence[str], version: int) -> None:
    """Make the tables of a new file, and what one of an earlier release lacks; refuse what a newer program wrote."""
    found = _version(con)
    if found > version:
        text = Message("database_is_of_version", {"found": found, "known": version})
        raise IngestError("newer_database", text, str(path))
    if found == version or con.execute("PRAGMA query_only").fetchone()[0]:
        return
    con.execute("BEGIN IMMEDIATE")
    with con:
        if _version(con) < version:  # nobody was quicker
            if found and (said := proof.within(con)):  # new sums would make it believed
                raise IngestError("damaged_database", said, str(path))
            for table in tables:
                con.execute(table)
            proof.keep(con)
            con.execute(f"PRAGMA user_version = {version}")


def _version(con: sqlite3.Connection) -> int:
    return int(con.execute("PRAGMA user_version").fetchone()[0])


def connect(path: Path) -> sqlite3.Connection:
    """The file, made if it is new."""
    if not os.access(path.parent, os.W_OK):
        return only_read(path)
    with suppress(OSError):  # as open as the directory it lies in; what is wrong is said by SQLite
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, path.parent.stat().st_mode & 0o666))
    con = sqlite3.connect(path, timeout=PATIENCE)
    try:
        _keep_a_log(con)
    except BaseException as error:
        con.close()
        full = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _NO_ROOM
        if full and path.is_file() and path.stat().st_size:
            return only_read(path)
        raise
    proof.ready(con)
    return con


def only_read(path: Path) -> sqlite3.Connection:
    """The file where nothing may be written beside it: as it is, unless its log holds more."""
    log = path.with_name(f"{path.name}-wal")
    still = "" if log.is_file() and log.stat().st_size else "&immutable=1"
    con = sqlite3.connect(f"file:{quote(str(path))}?mode=ro{still}", timeout=PATIENCE, uri=True)
    con.execute("PRAGMA query_only = ON")
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
