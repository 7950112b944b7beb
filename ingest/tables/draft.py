"""What a reader writes to: the tables of one rank while they are being made.

A reader streams what it finds into spools (Parquet files of its own shape). Then it says with one SELECT per contract
table how they become that table. Nothing is held in memory but the batch at hand. DuckDB, told how much memory it may
use, does the joining and the sorting.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from npulens.ingest.messages import Message
from npulens.ingest.tables import schema
from npulens.ingest.tables.checks import FileSum
from npulens.ingest.tables.sqltext import literal, quoted

#: Memory DuckDB may use in one child before it spills to the draft's directory.
MEMORY_LIMIT = "160MB"
#: What it may use when that was not enough.
AMPLE_MEMORY = "1GB"
#: Rows of a row group that DuckDB writes: it holds one in memory beside the limit, stacks of half a kilobyte included.
ROW_GROUP = 40_960
#: Bytes of a spool that are gathered before they are written.
HELD_BYTES = 2 << 20
#: Bytes of a spool that make a file.
FILE_BYTES = 256 << 20
#: Arrow types of raw tables as SQL knows them.
_EMPTY = {
    pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.uint8(): "UTINYINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN", pa.list_(pa.int32()): "INTEGER[]",
}  # fmt: skip
#: How an intermediate table is written.
SPOOL_SHAPE = f"FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE {ROW_GROUP}"


@dataclass
class Cover:
    """What became of one contract table, as the reader tells it."""

    dropped: Counter[Message] = field(default_factory=Counter)
    absent: Message | None = None
    collect_with: str | None = None
    partial: list[Message] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)
    expected: int | None = None


class Spool:
    """Rows of one raw table on their way to disk.

    They are gathered to row groups of some megabytes, and those to files of some hundred. Whoever writes or reads a
    file remembers each of its row groups, and 10 GB of events come in a thousand batches. Where no rows come there is
    no file. Most raw tables of a capture are empty, and DuckDB need not open them again for each query.
    """

    def __init__(self, draft: Draft, name: str, schema_: pa.Schema) -> None:
        self._draft, self._name, self._schema = draft, name, schema_
        self._paths: list[Path] = []
        self.rows = 0
        self._told = [name for name in ("row", "ts") if name in schema_.names]  # who asks for a stretch of either skips
        self._held: list[pa.Table] = []
        self._held_bytes = self._file_bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        self.rows += rows.num_rows
        self._held.append(pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= HELD_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            self._paths.append(self._draft.dir / f"{self._name}.{len(self._paths)}.spool.parquet")
            self._writer = pq.ParquetWriter(
                self._paths[-1], self._schema, compression="none", use_dictionary=False, write_statistics=self._told
            )
        self._writer.write_table(pa.concat_tables(self._held))
        self._file_bytes += self._held_bytes
        self._held, self._held_bytes = [], 0
        if self._file_bytes >= FILE_BYTES:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._file_bytes = None, 0

    def close(self) -> None:
        if self.rows or not set(self._schema.types) <= _EMPTY.keys():
            self._held.append(self._schema.empty_table())
            self._flush()
            self._end_file()
            self._draft.show(self._name, self._paths)
        else:
            nothing = ", ".join(f"NULL::{_EMPTY[field.type]} AS {quoted(field.name)}" for field in self._schema)
            self._draft.show(self._name, f"(SELECT {nothing} WHERE false)")

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Draft:
    """The tables of one rank while a reader fills them."""

    def __init__(
        self,
        directory: Path,
        rank: int,
        *,
        threads: int = 1,
        memory_limit: str = MEMORY_LIMIT,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.dir, self.rank = directory, rank
        directory.mkdir(parents=True, exist_ok=True)
        self.con = connect(directory, threads, memory_limit)
        self.raw: dict[str, str] = {}
        self.selects: dict[str, list[str]] = {}
        self.apart: set[str] = set()
        self.covers: dict[str, Cover] = {name: Cover() for name in schema.tables()}
        self.facts: dict[str, object] = {}
        self.broken: list[Message] = []
        self.said: list[FileSum] = []  # sums of the profiler's own that no table holds
        self._progress = progress

    def spool(self, name: str, schema_: pa.Schema) -> Spool:
        """Open a raw table; it becomes the view ``name`` when closed."""
        return Spool(self, name, schema_)

    def table(
        self, name: str, rows: Sequence[Mapping[str, object]] | pa.Table, schema_: pa.Schema | None = None
    ) -> None:
        """A small raw table in one go. Rows given as mappings need ``schema_`` when there are none."""
        made = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([dict(row) for row in rows], schema=schema_)
        with self.spool(name, made.schema) as spool:
            spool.write(made)

    def show(self, name: str, rows: Sequence[Path] | str) -> None:
        """Make Parquet files of ours, or a SELECT, visible as a view; ``raw`` has it whatever replaces the view."""
        files = rows if isinstance(rows, str) else ", ".join(literal(str(path)) for path in rows)
        self.raw[name] = files if isinstance(rows, str) else f"read_parquet([{files}])"
        self.con.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS FROM {self.raw[name]}")

    def keep(self, name: str, select: str, parts: Iterable[str] = ("true",)) -> int:
        """Make a SELECT a view, computed once and held on disk; the number of its rows.

        What is too much at once is computed in ``parts``: conditions, each of which {part} of the SELECT stands for.
        """
        paths, rows = [], 0
        for number, part in enumerate(parts):
            paths.append(self.dir / f"{name}.{number}.spool.parquet")
            written = self.con.execute(
                f"COPY ({select.replace('{part}', part)}) TO {literal(str(paths[-1]))} ({SPOOL_SHAPE})"
            ).fetchall()
            rows += int(written[0][0])
        self.show(name, paths)
        return rows

    def provide(self, table: str, select: str, *, apart: bool = False) -> None:
        """Say how a contract table is made; several SELECTs for one table add up.

        ``apart``: all of its sources are by span, so that a few spans' rows can be made without reading the others'.
        """
        if table not in self.covers:
            raise ValueError(f"{table} is not in schema.sql")
        self.selects.setdefault(table, []).append(select)
        if apart:
            self.apart.add(table)

    def drop(self, table: str, reason: Message, count: int = 1) -> None:
        """Count events or rows that were met and not kept."""
        if count:
            self.covers[table].dropped[reason] += count

    def note(self, table: str, text: Message) -> None:
        """Say something about a table that loses nothing (merged twins, negative latencies...)."""
        self.covers[table].notes.append(text)

    def absent(self, table: str, reason: Message, collect_with: str | None = None) -> None:
        """Say that a table was not recorded, and which setting records it."""
        cover = self.covers[table]
        cover.absent, cover.collect_with = reason, collect_with or cover.collect_with

    def partial(self, table: str | None, reason: Message) -> None:
        """Say that a table, or without one the whole rank, is incomplete."""
        (self.broken if table is None else self.covers[table].partial).append(reason)

    def expect(self, table: str, count: int) -> None:
        """How many rows there would be if nothing were missing."""
        self.covers[table].expected = (self.covers[table].expected or 0) + count

    def fact(self, key: str, value: object) -> None:
        """A column of ``rank``, or what tells which run it is of (world_size, clock, groups); the first word stands."""
        if value is not None:
            self.facts.setdefault(key, value)

    def advance(self, done_bytes: int) -> None:
        """Report bytes read since the last call."""
        if self._progress is not None:
            self._progress(done_bytes)

    def close(self) -> None:
        """Forget the raw tables."""
        self.con.close()
        for path in self.dir.glob("*.spool.parquet"):
            path.unlink()


def give_back() -> None:
    """Return what parsing has freed to the system, before DuckDB takes its share."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def connect(scratch: Path, threads: int, memory_limit: str = MEMORY_LIMIT) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB that spills to ``scratch`` and reaches for nothing else."""
    con = duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "memory_limit": memory_limit,
            "temp_directory": str(scratch / "spill"),
            "preserve_insertion_order": False,
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    return con


def columns(con: duckdb.DuckDBPyConnection, select: str) -> set[str]:
    """Names of the columns that a SELECT gives."""
    return {row[0] for row in con.execute(f"DESCRIBE {select}").fetchall()}


def copy(select: str, target: Path) -> str:
    """A SELECT written as Parquet of ours: light compression, deltas for what grows."""
    shape = f"FORMAT parquet, COMPRESSION lz4, PARQUET_VERSION V2, ROW_GROUP_SIZE {ROW_GROUP}"
    return f"COPY ({select}) TO {literal(str(target))} ({shape})"


def union(selects: Iterable[str]) -> str:
    """Several SELECTs of one table as one."""
    return " UNION ALL BY NAME ".join(f"({select})" for select in selects)
