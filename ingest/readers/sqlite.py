"""SQLite files of strangers, read without letting them act.

A database can carry views that never end, triggers, and generated columns that ask for a gigabyte. It can carry values
that are not of their column's type. Here only real tables are seen, and nothing but reading a column is authorised. A
query without rows for a while is stopped, and every value is checked on its way to Arrow.

The file itself is opened immutable, so nothing appears beside it. Immutable also means that SQLite ignores a
write-ahead log or a rollback journal. A profiler killed before its checkpoint leaves most rows there. Such a database
is copied with them, settled, and read from the copy. A truncated file is read from a copy too, filled up with empty
pages to the length its header tells. SQLite then gives what lies on the pages that are left.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import apsw
import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers.sqlite_values import ARROW, CONVERT
from npulens.ingest.tables.sqltext import quoted

MAGIC = b"SQLite format 3\0"
#: Longest value or row: 16 MB, far above any call stack and far below the memory of a child process.
MAX_LENGTH = 16 << 20
#: Seconds without a batch of rows after which a query is stopped. Scanning a table never takes that long.
PATIENCE_S = 30.0
#: Rows fetched at a time: so few that they stay in the processor's cache on their way to Arrow.
BATCH = 1 << 11
#: How many times its length a truncated file may claim to have had.
MAX_GROWTH = 64
_PROGRESS_STEPS = 50_000
SIDE_FILES = ("-wal", "-journal")


@dataclass(frozen=True)
class Wanted:
    """A column of a spool: its type, and the names that versions of the profiler gave it, best first."""

    name: str
    type: str
    sources: tuple[str, ...]


def wanted(spec: str) -> tuple[Wanted, ...]:
    """Columns from "startNs:i blockNum|blockDim:i name:s"."""
    found = []
    for word in spec.split():
        names, _, kind = word.partition(":")
        sources = tuple(names.split("|"))
        found.append(Wanted(sources[0], kind, sources))
    return tuple(found)


@dataclass
class Scan:
    """What reading one table came to."""

    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)  # cells that are not what their column says, by column
    damage: Message | None = None  # why the rest of the table could not be read


def is_sqlite(path: Path) -> bool:
    """Whether the file starts like an SQLite database, whatever its name; a pipe starts like nothing."""
    return peek.head(path).startswith(MAGIC)


def side_files(path: Path) -> tuple[Path, ...]:
    """Files beside a database that hold a part of it."""
    beside = (path.with_name(path.name + ending) for ending in SIDE_FILES)
    return tuple(found for found in beside if found.is_file() and found.stat().st_size > 0)


class Database:
    """A database open for reading. ``tables`` holds the columns of its real tables."""

    def __init__(self, path: Path, scratch: Path | None = None, patience_s: float = PATIENCE_S) -> None:
        """Open it; without ``scratch`` only what is settled in the file itself is seen."""
        loss = _lost_pages(path)
        self.path, self.damage = path, loss.reason if loss else None
        self._copy = _settled_copy(path, scratch, loss) if scratch and (loss or side_files(path)) else None
        self._patience, self._deadline = patience_s, time.monotonic() + patience_s
        try:
            self._con = _connect(self._copy or path)
            self._con.set_progress_handler(self._out_of_patience, _PROGRESS_STEPS)
            self.tables: Mapping[str, tuple[str, ...]] = _real_tables(self._con)
        except (apsw.Error, UnicodeDecodeError, OSError) as error:
            self._remove_copy()
            if self.damage:
                said = Message("of", {"name": self.damage, "said": error})
            else:
                said = Message("cannot_be_read_as_sqlite", {"error": error})
            raise IngestError("bad_sqlite", said, str(path)) from error
        self._con.authorizer = self._authorize

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._con.close()
        self._remove_copy()

    def count(self, table: str) -> int:
        """Rows of a table, as far as they can be told."""
        try:
            found = self._con.execute(f"SELECT count(*) FROM {quoted(table)}").fetchall()[0][0]
            return found if isinstance(found, int) else 0
        except apsw.Error:
            return 0

    def scan(self, table: str, columns: Sequence[Wanted], result: Scan) -> Iterator[pa.RecordBatch]:
        """The table in batches, with its row numbers; ``result`` is filled while they pass.

        Text is fetched as bytes, because it need not be UTF-8. Numbers are fetched as they are. If one of them turns
        out to be broken text, the rest of the table is fetched as bytes as well.
        """
        schema, as_bytes = _schema(columns), False
        while True:
            query = _query(table, columns, self.tables[table], as_bytes, result.rows)
            try:
                cursor = self._con.execute(query)
                while True:
                    self._deadline = time.monotonic() + self._patience
                    rows = list(islice(cursor, BATCH))
                    if not rows:
                        return
                    yield _batch(rows, columns, schema, result)
            except UnicodeDecodeError:
                if as_bytes:
                    result.damage = Message("text_cannot_be_decoded", {"table": table})
                    return
                as_bytes = True
            except apsw.InterruptError:
                result.damage = Message("no_rows_for_seconds", {"table": table, "n": f"{self._patience:g}"})
                return
            except apsw.Error as error:
                result.damage = Message("of", {"name": table, "said": error})
                return

    def rows(
        self, table: str, columns: Sequence[Wanted], limit: int = 1000, among: tuple[str, Sequence[int]] | None = None
    ) -> list[dict[str, object]]:
        """The first rows of a table, or those ``among`` whose values a column is; none where it is absent."""
        if table not in self.tables or (among and among[0] not in self.tables[table]):
            return []
        chosen = f" WHERE {quoted(among[0])} IN ({', '.join(map(str, among[1]))})" if among else ""
        try:
            query = _query(table, columns, self.tables[table], True, 0) + f"{chosen} LIMIT {limit}"
            self._deadline = time.monotonic() + self._patience
            found = self._con.execute(query).fetchall()
        except apsw.Error:
            return []
        return _batch(found, columns, _schema(columns), Scan()).to_pylist() if found else []

    def _authorize(
        self, operation: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None
    ) -> int:
        reads = operation == apsw.SQLITE_SELECT or (operation == apsw.SQLITE_READ and first in self.tables)
        counts = operation == apsw.SQLITE_FUNCTION and second == "count"
        return apsw.SQLITE_OK if reads or counts else apsw.SQLITE_DENY

    def _out_of_patience(self) -> bool:
        return time.monotonic() > self._deadline

    def _remove_copy(self) -> None:
        if self._copy is not None:
            for path in (self._copy, *side_files(self._copy)):
                path.unlink(missing_ok=True)


def _connect(path: Path, *, write: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    name = f"file:{quote(bytes(path.absolute()))}" + ("" if write else "?mode=ro&immutable=1")
    con = apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_URI)
    con.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    for switch in (
        apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, apsw.SQLITE_DBCONFIG_ENABLE_VIEW, apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER,
        apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA,
    ):  # fmt: skip
        con.config(switch, 0)
    con.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    con.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_LENGTH)
    con.pragma("cell_size_check", True)
    con.pragma("mmap_size", 0)
    if not write:
        con.pragma("query_only", True)
    return con


def _real_tables(con: apsw.Connection) -> dict[str, tuple[str, ...]]:
    """Tables that hold rows of their own: no views, no virtual tables; and their stored columns."""
    found = {}
    stored = "SELECT CAST(name AS BLOB) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
    for (raw,) in con.execute(stored).fetchall():
        name = bytes(raw).decode("utf-8", "replace") if isinstance(raw, bytes) else ""
        if not name or name.startswith("sqlite_"):
            continue
        try:
            columns = con.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
        except (apsw.Error, UnicodeDecodeError):
            continue
        found[name] = tuple(str(column[1]) for column in columns if column[6] == 0)
    return found


@dataclass(frozen=True)
class _Loss:
    """What is missing at the end of a file, by its own header."""

    reason: Message
    whole_bytes: int


def _lost_pages(path: Path) -> _Loss | None:
    try:
        with path.open("rb") as file:
            head = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        raise IngestError("bad_sqlite", Message("cannot_be_opened", {"error": error}), str(path)) from error
    if len(head) < 100 or not head.startswith(MAGIC):
        raise IngestError("bad_sqlite", Message("is_not_sqlite_database"), str(path))
    page = struct.unpack(">H", head[16:18])[0]
    page = 65536 if page == 1 else page
    pages = struct.unpack(">I", head[28:32])[0] if head[24:28] == head[92:96] else 0
    if page < 512 or pages <= size // page:
        return None
    return _Loss(
        Message("is_truncated_pages_are_left", {"file": path.name, "left": size // page, "all": pages}), pages * page
    )


def _settled_copy(path: Path, scratch: Path, loss: _Loss | None) -> Path:
    """A copy in which nothing is pending: as long as its header says, and the logs applied."""
    copy = scratch / "settled.db"
    try:
        shutil.copyfile(path, copy)
        for beside in side_files(path):
            shutil.copyfile(beside, copy.with_name(copy.name + beside.name[len(path.name) :]))
        if loss:
            with copy.open("r+b") as file:
                file.truncate(min(loss.whole_bytes, MAX_GROWTH * path.stat().st_size))  # sparse: takes no room
        if not side_files(copy):
            return copy
        con = _connect(copy, write=True)
        try:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            con.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            con.close()
    except (apsw.Error, UnicodeDecodeError, OSError) as error:
        raise IngestError("bad_sqlite", Message("its_log_cannot_be_applied", {"error": error}), str(path)) from error
    return copy


def _schema(columns: Sequence[Wanted]) -> pa.Schema:
    return pa.schema([("row", pa.int64()), *((column.name, ARROW[column.type]) for column in columns)])


def _query(table: str, columns: Sequence[Wanted], have: Sequence[str], as_bytes: bool, skip: int) -> str:
    picked = []
    for column in columns:
        source = next((name for name in column.sources if name in have), None)
        if source is None:
            picked.append("NULL")
        elif column.type == "s" or as_bytes:
            picked.append(f"CAST({quoted(source)} AS BLOB)")
        else:
            picked.append(quoted(source))
    return f"SELECT {', '.join(picked)} FROM {quoted(table)}" + (f" LIMIT -1 OFFSET {skip}" if skip else "")


def _batch(
    rows: list[tuple[object, ...]], columns: Sequence[Wanted], schema: pa.Schema, result: Scan
) -> pa.RecordBatch:
    arrays = [pa.array(range(result.rows, result.rows + len(rows)), pa.int64())]
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        array, bad = CONVERT[column.type](list(values))
        arrays.append(array)
        if bad:
            result.bad[column.name] += bad
    result.rows += len(rows)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
