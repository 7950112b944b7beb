"""Databases of torch_npu and msprof: bytes, whole pages, the schema and single values changed."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz import change
from tests.fuzz.reading import Read, read

#: Small pages: a change of a byte then hits something that matters.
_PAGE = 512
_VALUES: tuple[object, ...] = (
    None, 0, -1, 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 1.5, 1e300, float("inf"), -0.0, "",
    "12", "-1.5e3", "N/A", "x" * 3000, b"", b"\xff\x00", b"TASK", "'; --", "\u8ba1\u7b97", "{}", "[1]",
)  # fmt: skip


@cache
def seeds() -> list[bytes]:
    # pytest's own fixtures stand in that module, so it is imported where they are wanted only.
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from test_torch_npu_db_made import make_newest
    from torch_npu_db_files import Maker

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ascend_pytorch_profiler_2.db"
        maker = Maker(path)
        make_newest(maker)
        maker.con.execute(f"PRAGMA page_size={_PAGE}")
        maker.con.execute("VACUUM")
        maker.con.close()
        small = path.read_bytes()
        with closing(sqlite3.connect(path)) as con:
            con.execute("PRAGMA page_size=4096")
            con.execute("VACUUM")
        return [small, path.read_bytes()]


def mutate(data: bytes, draw: Random) -> bytes:
    how = draw.random()
    if how < 0.3:
        for _ in range(draw.choice((1, 2, 8))):
            data = change.anything(data, draw)
        return data
    if how < 0.5:
        return _pages(data, draw)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.db"
        path.write_bytes(data)
        with (
            suppress(sqlite3.Error, OverflowError, UnicodeError),
            closing(sqlite3.connect(path, isolation_level=None)) as con,
        ):
            con.execute("PRAGMA journal_mode=MEMORY")
            con.text_factory = bytes
            for _ in range(draw.choice((1, 2, 5))):
                _in_sql(con, draw)
        return path.read_bytes()


def _pages(data: bytes, draw: Random) -> bytes:
    """Whole pages doubled over others, emptied or cut off; fields of the header."""
    count = max(len(data) // _PAGE, 1)
    at, other = draw.randrange(count) * _PAGE, draw.randrange(count) * _PAGE
    changes = (
        data[:at] + data[other : other + _PAGE] + data[at + _PAGE :],
        data[:at] + bytes(_PAGE) + data[at + _PAGE :],
        data[: draw.randrange(len(data) + 1)],
        data[:16] + bytes(draw.randrange(256) for _ in range(2)) + data[18:],
        data[: 18 + draw.randrange(80)] + bytes([draw.randrange(256)]) + data[99:],
        data[:at] + bytes([draw.choice((2, 5, 10, 13, 0, 255))]) + data[at + 1 :],
    )
    return draw.choice(changes)


def _in_sql(con: sqlite3.Connection, draw: Random) -> None:
    """One change that SQLite itself makes: a value, a row, a column, a table, a view in its place."""
    tables = con.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    table = _quoted(bytes(draw.choice(tables)[0]).decode("utf-8", "replace"))
    columns = [bytes(row[1]).decode("utf-8", "replace") for row in con.execute(f"PRAGMA table_info({table})")]
    column, value = _quoted(draw.choice(columns)), draw.choice(_VALUES)
    one = f"WHERE rowid IN (SELECT rowid FROM {table} ORDER BY random() LIMIT 1)"
    changes: tuple[tuple[str, tuple[object, ...]], ...] = (
        (f"UPDATE {table} SET {column} = ? {one}", (value,)),
        (f"UPDATE {table} SET {column} = ? {one}", (value,)),
        (f"UPDATE {table} SET {column} = ?", (value,)),
        (f"INSERT INTO {table} SELECT * FROM {table}", ()),
        (f"DELETE FROM {table} {one}", ()),
        (f"ALTER TABLE {table} RENAME COLUMN {column} TO {_quoted('x' + str(draw.randrange(9)))}", ()),
        (f"ALTER TABLE {table} DROP COLUMN {column}", ()),
        (f"ALTER TABLE {table} ADD COLUMN {_quoted(draw.choice(columns).upper() + ' ')}", ()),
        (f"DROP TABLE {table}", ()),
        (f"ALTER TABLE {table} RENAME TO {_quoted('old' + str(draw.randrange(9)))}", ()),
        (f"CREATE VIEW {_quoted('v' + str(draw.randrange(99)))} AS SELECT * FROM {table}", ()),
    )
    con.execute(*draw.choice(changes))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def check(data: bytes, scratch: Path) -> None:
    path = scratch / "ascend_pytorch_profiler_2.db"
    path.write_bytes(data)
    aside = scratch / "again.sqlite"
    shutil.copyfile(path, aside)
    done = read([path], scratch)
    for part in done.parts:
        assert json.dumps(part.as_dict())
    _no_task_lost(aside, done)


def _no_task_lost(path: Path, done: Read) -> None:
    """Rows of TASK that the standard library's SQLite reads from a sound file are spans or counted."""
    damaged = (sqlite3.Error, UnicodeDecodeError)  # Python reads even the message of a damage as UTF-8
    with suppress(*damaged), closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as con:
        con.text_factory = bytes
        if con.execute("PRAGMA integrity_check").fetchone() != (b"ok",):
            return
        kinds = dict(con.execute("SELECT name, type FROM sqlite_schema").fetchall())
        columns = {bytes(row[1]) for row in con.execute("PRAGMA table_info(TASK)")}
        if kinds.get(b"TASK") != b"table" or not {b"startNs", b"endNs"} <= columns:
            return
        rows = con.execute("SELECT count(*) FROM TASK").fetchone()[0]
        for part in done.parts:
            told = next(row for row in part.coverage if row["table"] == "span")
            assert told["rows"] + told["dropped"] >= rows or told["reason"], f"{told} of {rows} tasks"
