"""What a team's server writes down: tokens, who was here, what was done. One small SQLite file beside the stores.

It holds no token, only a hash of its secret.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import wal

FILE = "team.sqlite"
#: Characters of a text that the audit keeps.
MOST_TEXT = 300
_TABLES = (
    "CREATE TABLE IF NOT EXISTS seen(name TEXT PRIMARY KEY, groups TEXT NOT NULL, at REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS token(id TEXT PRIMARY KEY, name TEXT NOT NULL, project TEXT NOT NULL, "
    "role INTEGER NOT NULL, title TEXT NOT NULL, hash TEXT NOT NULL, made REAL NOT NULL, until REAL NOT NULL, "
    "used REAL, revoked REAL)",
    "CREATE TABLE IF NOT EXISTS audit(id INTEGER PRIMARY KEY, at REAL NOT NULL, name TEXT NOT NULL, by TEXT NOT NULL, "
    "act TEXT NOT NULL, project TEXT NOT NULL, what TEXT NOT NULL, allowed INTEGER NOT NULL, request TEXT NOT NULL, "
    "address TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS audit_at ON audit(at)",
)


@dataclass(frozen=True)
class Line:
    """One line of the audit: what somebody did, or was refused."""

    at: float
    name: str
    by: str
    act: str
    project: str
    what: str
    allowed: bool
    request: str
    address: str


@dataclass(frozen=True)
class Token:
    """What is known of a token."""

    id: str
    name: str
    project: str
    role: int
    title: str
    hash: str
    made: float
    until: float
    used: float | None = None
    revoked: float | None = None

    @property
    def works(self) -> bool:
        """Whether it is neither over nor revoked."""
        return self.revoked is None and time.time() < self.until


@contextmanager
def _book(home: Path) -> Iterator[sqlite3.Connection]:
    """The file, in one transaction."""
    file = home / FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():  # nobody else on the machine reads it; SQLite gives its log the same mode
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
        with closing(wal.connect(file)) as con:
            for table in _TABLES:
                con.execute(table)
            before = con.total_changes
            with con:
                yield con
            if con.total_changes != before:
                wal.empty_the_log(con)
    except (OSError, sqlite3.Error) as error:
        raise IngestError("team", Message("team_book_cannot_be_used", {"error": error}), str(file)) from error


def write(home: Path, line: Line) -> None:
    """Adds a line to the audit."""
    row = [line.at, line.name, line.by, line.act, line.project, line.what[:MOST_TEXT], line.allowed, line.request,
           line.address]  # fmt: skip
    with _book(home) as con:
        con.execute(
            "INSERT INTO audit(at, name, by, act, project, what, allowed, request, address) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row,
        )  # fmt: skip


def lines(home: Path, project: str | None = None, most: int = 500) -> list[Line]:
    """The audit of a project, or all of it; the newest first."""
    with _book(home) as con:
        rows = con.execute(
            "SELECT at, name, by, act, project, what, allowed, request, address FROM audit "
            "WHERE ? IS NULL OR project = ? ORDER BY id DESC LIMIT ?", [project, project, most],
        ).fetchall()  # fmt: skip
    return [Line(row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]), row[7], row[8]) for row in rows]


def forget(home: Path, before: float) -> int:
    """Removes lines that are older than a moment; how many."""
    with _book(home) as con:
        return con.execute("DELETE FROM audit WHERE at < ?", [before]).rowcount


_COLUMNS = "id, name, project, role, title, hash, made, until, used, revoked"


def add_token(home: Path, token: Token) -> None:
    """Keeps a new token."""
    row = [token.id, token.name, token.project, token.role, token.title, token.hash, token.made, token.until]
    with _book(home) as con:
        con.execute(f"INSERT INTO token({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)", row)


def token(home: Path, ident: str) -> Token | None:
    """The token of an id."""
    with _book(home) as con:
        row = con.execute(f"SELECT {_COLUMNS} FROM token WHERE id = ?", [ident]).fetchone()
    return Token(*row) if row else None


def tokens(home: Path, name: str | None = None, project: str | None = None) -> list[Token]:
    """Tokens of a person, of a project or of both, the newest first."""
    with _book(home) as con:
        rows = con.execute(
            f"SELECT {_COLUMNS} FROM token WHERE (? IS NULL OR name = ?) AND (? IS NULL OR project = ?) "
            "ORDER BY made DESC", [name, name, project, project],
        ).fetchall()  # fmt: skip
    return [Token(*row) for row in rows]


def used(home: Path, ident: str) -> None:
    """Notes that a token was used just now."""
    with _book(home) as con:
        con.execute("UPDATE token SET used = ? WHERE id = ?", [time.time(), ident])


def revoke(home: Path, ident: str) -> bool:
    """Ends one token; False where there is none to end."""
    with _book(home) as con:
        done = con.execute("UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL", [time.time(), ident])
        return done.rowcount > 0


def remember(home: Path, name: str, groups: tuple[str, ...]) -> None:
    """Keeps the groups that somebody has now."""
    with _book(home) as con:
        con.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", [name, json.dumps(groups), time.time()])


def groups(home: Path, name: str) -> tuple[str, ...]:
    """The groups that somebody had when they were last here."""
    with _book(home) as con:
        row = con.execute("SELECT groups FROM seen WHERE name = ?", [name]).fetchone()
    return tuple(map(str, json.loads(row[0]))) if row else ()
