"""A profiler's SQLite database without people, machines and places: every text of every table through one mapping."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from npulens.ingest.store.redact import Redactor


def redacted_database(data: bytes, redactor: Redactor) -> bytes | None:
    """The database with its texts redacted and its free pages empty; None for one that SQLite cannot read."""
    with tempfile.TemporaryDirectory(prefix="npulens-") as scratch:
        path = Path(scratch) / "database"
        path.write_bytes(data)
        con = sqlite3.connect(path)
        try:
            _redact(con, redactor)
        except sqlite3.DatabaseError:
            return None
        finally:
            con.close()
        return path.read_bytes()


def _redact(con: sqlite3.Connection, redactor: Redactor) -> None:
    con.create_function("redacted", 1, redactor.text, deterministic=True)
    for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if table.startswith("sqlite_"):
            continue
        for _, column, *_ in con.execute(f"PRAGMA table_info({_quoted(table)})").fetchall():
            place = _quoted(column)
            con.execute(
                f"UPDATE {_quoted(table)} SET {place} = redacted({place}) WHERE typeof({place}) = 'text'"
            )  # fmt: skip
    con.commit()
    con.execute("VACUUM")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
