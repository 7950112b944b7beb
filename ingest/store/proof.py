"""Sums over the small SQLite files of a store: what was written is what is read.

SQLite finds damage of its structure, not a changed letter. So a table `proof` holds a sum for every other table: the
hashes of its rows, put together by XOR. Triggers keep it, in the transaction that changes a row. Another row of `proof`
is the sum of the schema. A file is compared with its sums once a process, and again where it has changed since.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from blake3 import blake3

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, listed
from npulens.ingest.tables.sqltext import literal, quoted

#: Files that this process has compared, as they were then: of the file and of its log inode, size, time of change.
_LOOKED_AT: dict[Path, tuple[tuple[int, int, int] | None, ...]] = {}
_SCHEMA = ""  # the name of its sum
_WRITTEN = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"


def turned(found: int, *row: object) -> int:
    """A sum with a row more, or without one that was in it."""
    return found ^ int.from_bytes(blake3(repr(row).encode("utf-8", "surrogatepass")).digest(8), "little", signed=True)


def ready(con: sqlite3.Connection) -> None:
    """What the triggers need of a connection; without them a row that takes the place of another is not told."""
    con.create_function("turned", -1, turned, deterministic=True)
    con.execute("PRAGMA recursive_triggers = ON")


def keep(con: sqlite3.Connection) -> None:
    """Begin: sums of what is there now, and the triggers that keep them. Part of the caller's transaction."""
    con.execute("CREATE TABLE IF NOT EXISTS proof(name TEXT PRIMARY KEY, sum INTEGER NOT NULL) WITHOUT ROWID")
    con.execute("DELETE FROM proof")
    for table in _tables(con):
        columns = [str(row[1]) for row in con.execute(f"PRAGMA table_info({quoted(table)})")]
        new, old = (", ".join(f"{which}.{quoted(column)}" for column in columns) for which in ("NEW", "OLD"))
        changes = {
            "INSERT": f"turned(sum, {new})", "DELETE": f"turned(sum, {old})",
            "UPDATE": f"turned(turned(sum, {old}), {new})",
        }  # fmt: skip
        for change, asked in changes.items():
            name = quoted(f"proof_{table}_{change.lower()}")
            con.execute(f"DROP TRIGGER IF EXISTS {name}")
            con.execute(
                f"CREATE TRIGGER {name} AFTER {change} ON {quoted(table)} BEGIN "
                f"UPDATE proof SET sum = {asked} WHERE name = {literal(table)}; END"
            )
    sums = {table: _sum(con.execute(f"SELECT * FROM {quoted(table)}")) for table in _tables(con)}
    con.executemany("INSERT INTO proof VALUES (?, ?)", (sums | {_SCHEMA: _sum(con.execute(_WRITTEN))}).items())


def wrong(con: sqlite3.Connection) -> Message | None:
    """What is not what was written. A file without sums is of an earlier release: SQLite's own word counts."""
    con.execute("BEGIN")  # one moment of the file, whoever writes meanwhile
    try:
        return within(con)
    finally:
        con.rollback()


def within(con: sqlite3.Connection) -> Message | None:
    """The same, within the caller's transaction."""
    (said,) = con.execute("PRAGMA integrity_check").fetchone()
    if said != "ok":
        return Message("database_is_damaged", {"error": str(said).splitlines()[0]})
    if not con.execute("SELECT 1 FROM sqlite_master WHERE name = 'proof'").fetchone():
        return None
    known = dict(con.execute("SELECT name, sum FROM proof"))
    if known.pop(_SCHEMA, None) != _sum(con.execute(_WRITTEN)):
        return Message("schema_of_database_was_changed")
    tables = _tables(con)
    bad = [name for name in tables if known.get(name) != _sum(con.execute(f"SELECT * FROM {quoted(name)}"))]
    return Message("rows_are_not_what_was_written", {"tables": listed(bad, 3)}) if bad else None


def accepted(con: sqlite3.Connection) -> bool:
    """Takes the rows as they are now; False where more than rows is damaged."""
    con.execute("BEGIN IMMEDIATE")
    with con:
        said = within(con)
        if said is not None and said.key != "rows_are_not_what_was_written":
            return False
        keep(con)
    return True


def believed(con: sqlite3.Connection, path: Path) -> None:
    """Refuses, in a sentence, a file that is not what was written."""
    now = _state(path)
    if _LOOKED_AT.get(path) == now:
        return
    if said := wrong(con):
        raise IngestError("damaged_database", said, str(path))
    _LOOKED_AT[path] = now


def written(path: Path) -> None:
    """This process has changed a file that it had compared; the triggers have kept the sums."""
    if path in _LOOKED_AT:
        _LOOKED_AT[path] = _state(path)


def forget() -> None:
    """Compare every file again when it is asked for."""
    _LOOKED_AT.clear()


def _tables(con: sqlite3.Connection) -> list[str]:
    rows = con.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return sorted(str(name) for (name,) in rows if name != "proof")


def _sum(rows: Iterable[tuple[object, ...]]) -> int:
    found = 0
    for row in rows:
        found = turned(found, *row)
    return found


def _state(path: Path) -> tuple[tuple[int, int, int] | None, ...]:
    """Of the file and its log; whoever only reads makes an empty log."""
    found: list[tuple[int, int, int] | None] = []
    for each in (path, path.with_name(f"{path.name}-wal")):
        try:
            now = each.stat()
            found.append((now.st_ino, now.st_size, now.st_mtime_ns) if now.st_size else None)
        except FileNotFoundError:
            found.append(None)
    return tuple(found)
