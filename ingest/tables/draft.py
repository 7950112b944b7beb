"""What a reader writes to: the tables of one rank while they are being made.

A reader streams what it finds into spools (Parquet files of its own shape). Then it says with one SELECT per contract
table how they become that table. Nothing is held in memory but the batch at hand. DuckDB, told how much memory it may
use, does the joining and the sorting.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from npulens.ingest.messages import Message
from npulens.ingest.tables import schema
from npulens.ingest.tables.checks import FileSum
from npulens.ingest.tables.runs import Ordered
from npulens.ingest.tables.sqltext import literal, quoted

#: Memory DuckDB may use in one child before it spills to the draft's directory.
MEMORY_LIMIT = "160MB"
#: What it may use when that was not enough.
AMPLE_MEMORY = "1GB"
#: Rows of a row group that DuckDB writes: it holds one in memory beside the limit, stacks of half a kilobyte included.
ROW_GROUP = 40_960
#: Bytes of a spool that are gathered before they are written.
HELD_BYTES = 2 << 20
#: Bytes of a spool that are held where all of them are: more are left to DuckDB.
_MOST_HELD = 32 << 20
#: Bytes of a spool that make a file.
FILE_BYTES = 256 << 20
#: Rows that a small rank has at most.
_FEW = 400_000
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
        self._draft.spooled += rows.num_rows
        self._held.append(pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= (HELD_BYTES if self._draft.raws is None else _MOST_HELD):
            self._draft.let_go()
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
        if self._draft.raws is not None:
            self._draft.raws[self._name] = pa.concat_tables([*self._held, self._schema.empty_table()])
        elif self.rows and not self._paths and self._draft.hold(self._name, self._held):
            self._held = []
        elif self.rows or not set(self._schema.types) <= _EMPTY.keys():
            self._held.append(self._schema.empty_table())
            self._flush()
            self._end_file()
            self._draft.show(self._name, self._paths, str(self._schema))
        else:
            nothing = ", ".join(f"NULL::{_EMPTY[field.type]} AS {quoted(field.name)}" for field in self._schema)
            self._draft.show(self._name, f"(SELECT {nothing} WHERE false)")

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


#: Numbers in a SELECT: they say which rank it is or what its texts are coded by, and change no column.
_NUMBERS = re.compile(r"\b\d{1,9}\b(?:, -?\d{1,9}\b)*")
#: Optimizers of DuckDB without which a plan would not only be slower but of another order.
_NEEDED = {"filter_pushdown", "unused_columns", "cte_inlining", "deliminator", "unnest_rewriter", "in_clause"}
_MADE = re.compile(r"\s*CREATE (?:OR REPLACE )?((?:TEMP )?(VIEW|TABLE|MACRO)) (?:\"((?:[^\"]|\"\")+)\"|(\w+))")


@dataclass(frozen=True)
class _Made:
    """A view, a table or a macro as it was made: its kind, its name, and all that its columns depend on."""

    kind: str
    name: str
    text: str

    @property
    def place(self) -> tuple[bool, str]:
        """Where it lies: a macro may have the name of a view."""
        return self.kind.endswith("MACRO"), self.name


class Desk:
    """An open DuckDB that the ranks of one format share one after the other, and what is made in it.

    Ranks of a job make the same views and macros in the same order. Planning one costs a millisecond, whatever the size
    of its rows. So what the rank before has made stays, as long as a rank makes the same from the first statement on.
    Where it makes something else, everything after that goes. What is made twice under one name is made again.
    """

    def __init__(
        self, directory: Path, threads: int = 1, memory_limit: str = MEMORY_LIMIT, *, quick: bool = False,
        files: bool = True,
    ) -> None:  # fmt: skip
        """``quick``: for few rows, where the best plan costs more than it saves. ``files``: what is kept is one."""
        directory.mkdir(parents=True, exist_ok=True)
        self.dir, self._asked = directory, (threads, memory_limit, quick)
        self.files = files
        self._made: list[_Made] = []
        self._there: dict[tuple[bool, str], str] = {}  # the kind of what is there
        self._at = 0  # so many of them are this rank's
        self._twice: frozenset[tuple[bool, str]] = frozenset()
        self._columns: dict[tuple[int, str], set[str]] = {}

    @cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        """Opened when a statement is to run: a rank that is made of arrays needs none."""
        threads, memory_limit, quick = self._asked
        con = connect(self.dir, threads, memory_limit)
        if quick:
            every = {name for (name,) in con.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
            con.execute(f"SET disabled_optimizers = {literal(','.join(sorted(every - _NEEDED)))}")
        if not self.files:
            con.execute("SET python_enable_replacements = true")
        return con

    def close(self) -> None:
        """Close what was opened."""
        if "con" in self.__dict__:
            self.con.close()

    def begin(self) -> None:
        """Another rank comes."""
        self._forget(self._at)
        places = Counter(made.place for made in self._made)
        self._twice = frozenset(place for place, times in places.items() if times > 1)
        self._at = 0

    def make(self, statement: str, because: str = "") -> int:
        """Run a CREATE statement, if need be; the rows of a table. ``because``: what else its columns depend on."""
        found = _MADE.match(statement)
        if found is None:
            raise ValueError(f"makes nothing: {statement[:60]}")
        text = _NUMBERS.sub("0", statement) if found[2] == "TABLE" else statement
        made = _Made(found[1], found[3] or found[4], text + because)
        if self._is_there(made):
            self._at += 1
            return 0
        counted = self.con.execute(f"CREATE OR REPLACE {found[1]} {statement[found.end(1) :]}").fetchall()
        self._keep(made)
        return int(counted[0][0]) if counted else 0

    def take(self, name: str, rows: pa.Table) -> None:
        """Make Arrow rows a table."""
        rows_that_are_taken = rows  # noqa: F841 - DuckDB finds a variable of this frame by its name
        made = _Made("TABLE", name, str(rows.schema))
        self._is_there(made)
        self.con.execute(f"CREATE OR REPLACE TABLE {quoted(name)} AS FROM rows_that_are_taken")
        self._keep(made)

    def _is_there(self, made: _Made) -> bool:
        """Whether what is made next is there already; else there is room for it. A table always has other rows."""
        same = self._at < len(self._made) and self._made[self._at] == made
        if same and not made.kind.endswith("TABLE") and made.place not in self._twice:
            return True
        if not same:
            self._forget(self._at)
        if self._there.get(made.place, made.kind) != made.kind:
            self._drop(made.place)
        return False

    def _keep(self, made: _Made) -> None:
        """Note what was made."""
        self._made[self._at :] = [made, *self._made[self._at + 1 :]]
        self._there[made.place] = made.kind
        self._at += 1

    def columns(self, select: str) -> set[str]:
        """Names of the columns that a SELECT gives."""
        key = (self._at, select)
        if key not in self._columns:
            self._columns[key] = columns(self.con, select)
        return self._columns[key]

    def _forget(self, at: int) -> None:
        """Drop what was made from a place on, the last first."""
        kept = {made.place for made in self._made[:at]}
        for place in reversed(dict.fromkeys(made.place for made in self._made[at:])):
            if place not in kept and place in self._there:
                self._drop(place)
        del self._made[at:]
        self._columns = {key: found for key, found in self._columns.items() if key[0] <= at}
        self._twice &= kept

    def _drop(self, place: tuple[bool, str]) -> None:
        self.con.execute(f"DROP {self._there.pop(place).removeprefix('TEMP ')} {quoted(place[1])}")


class Written(Protocol):
    """A contract table that a reader has written as it is stored (ready.py)."""

    path: Path
    rows: int
    few: bool  # what is provided besides are few rows

    def append(self, rows: pa.Table) -> None:
        """More rows, as they are stored."""

    def close(self) -> None:
        """Finish the file."""


class Draft:
    """The tables of one rank while a reader fills them.

    ``desk``: the one that it shares with the ranks before it, of the same format. ``small``: its files are. ``alone``:
    no other format of the rank will be put to it.
    """

    def __init__(
        self,
        directory: Path,
        rank: int,
        *,
        threads: int = 1,
        memory_limit: str = MEMORY_LIMIT,
        progress: Callable[[int], None] | None = None,
        desk: Desk | None = None,
        small: bool = False,
        alone: bool = False,
    ) -> None:
        self._own = desk is None
        self._desk = Desk(directory, threads, memory_limit, quick=small) if desk is None else desk
        self._desk.begin()
        self.dir, self.rank, self.spooled, self._small = self._desk.dir, rank, 0, small
        self.raw: dict[str, str] = {}
        self.selects: dict[str, list[str]] = {}
        self.given: dict[str, list[pa.Table]] = {}  # contract tables that are there at once
        self.alone = small and alone  # whether tables may be given
        self.gives = False  # whether its reader gives them
        self.raws: dict[str, pa.Table] | None = None  # raw tables that are held, where they are
        self.apart: set[str] = set()
        self.covers: dict[str, Cover] = {name: Cover() for name in schema.tables()}
        self.facts: dict[str, object] = {}
        self.broken: list[Message] = []
        self.said: list[FileSum] = []  # sums of the profiler's own that no table holds
        self.is_cut = False  # whether a file of spans is not whole: what was recorded last may be missing
        self.straight = False  # whether a reader may write tables as they are stored, while it reads
        self.spans: Ordered | None = None  # the same as its SELECT of spans gives, in order
        self.ready: dict[str, Written] = {}  # tables that are written; what is provided of one comes behind that
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

    def take_hold(self) -> None:
        """Hold raw tables from now on: they are few rows, and a reader makes contract tables of them at once."""
        if self._small:
            self.raws = {}

    def give_up(self) -> None:
        """Forget the raw tables that are held: contract tables were made of them."""
        self.raws, self.gives = None, self.alone

    def let_go(self) -> None:
        """Make the raw tables that are held views, for the statements of a reader."""
        held, self.raws = self.raws, None
        for name, rows in (held or {}).items():
            with self.spool(name, rows.schema) as spool:
                if len(rows):
                    self.spooled -= len(rows)  # they are counted
                    spool.write(rows)

    def show(self, name: str, rows: Sequence[Path] | str, because: str = "") -> None:
        """Make Parquet files of ours, or a SELECT, visible as a view; ``raw`` has it whatever replaces the view.

        ``because``: what the columns of the files depend on.
        """
        files = rows if isinstance(rows, str) else ", ".join(literal(str(path)) for path in rows)
        self.raw[name] = files if isinstance(rows, str) else f"read_parquet([{files}])"
        self.make(f"CREATE VIEW {quoted(name)} AS FROM {self.raw[name]}", because)

    def make(self, statement: str, because: str = "") -> None:
        """Run a CREATE statement; what is there under its name is replaced."""
        self._desk.make(statement, because)

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB that its statements run in."""
        return self._desk.con

    @property
    def small(self) -> bool:
        """Whether what it comes to fits into memory, and is finished there."""
        return self._small and self.spooled <= _FEW

    def columns(self, select: str) -> set[str]:
        """Names of the columns that a SELECT gives."""
        return self._desk.columns(select)

    def hold(self, name: str, rows: Sequence[pa.Table]) -> bool:
        """Make a few rows visible as a view without a file between; whether this draft does that."""
        if not self._desk.files:
            self._desk.take(f"spooled_{name}", pa.concat_tables(rows))
            self.raw[name] = quoted(f"spooled_{name}")
            self.make(f"CREATE VIEW {quoted(name)} AS FROM {self.raw[name]}")
        return not self._desk.files

    def view(self, name: str, select: str) -> None:
        """Make a SELECT over finished tables a view; of a few rows it is a table, for it is asked for often."""
        self.make(f"CREATE {'VIEW' if self._desk.files else 'TABLE'} {quoted(name)} AS {select}")

    def keep(self, name: str, select: str, parts: Iterable[str] = ("true",)) -> int:
        """Make a SELECT a view, computed once and held on disk; the number of its rows. Of a few rows it is a table.

        What is too much at once is computed in ``parts``: conditions, each of which {part} of the SELECT stands for.
        """
        if not self._desk.files and not re.search(rf"\b{re.escape(name)}\b", select):
            self.raw[name] = quoted(name)
            pieces = (f"({select.replace('{part}', part)})" for part in parts)
            return self._desk.make(f"CREATE TABLE {self.raw[name]} AS {' UNION ALL '.join(pieces)}")
        paths, rows = [], 0
        for number, part in enumerate(parts):
            paths.append(self.dir / f"{name}.{number}.spool.parquet")
            written = self.con.execute(
                f"COPY ({select.replace('{part}', part)}) TO {literal(str(paths[-1]))} ({SPOOL_SHAPE})"
            ).fetchall()
            rows += int(written[0][0])
        self.show(name, paths, _NUMBERS.sub("0", select))
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

    def give(
        self, table: str, name: str, rows: Sequence[Mapping[str, object]] | pa.Table, schema_: pa.Schema | None = None
    ) -> None:
        """A contract table as it is, with the columns that a SELECT of ``provide`` would have; else a raw table."""
        if not self.gives:
            self.table(name, rows, schema_)
            return self.provide(table, f"SELECT * FROM {quoted(name)}")
        made = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([dict(row) for row in rows], schema=schema_)
        self.raw[name] = ""
        self.given.setdefault(table, []).append(made)

    def has(self, table: str) -> bool:
        """Whether a reader found out about a contract table, be it that it has no rows."""
        return table in self.selects or table in self.given or table in self.ready

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

    def cut(self, reason: Message, named: Message | None = None) -> None:
        """Say that the file of the spans is not whole; ``named``: the same with the file's name, for the rank."""
        self.is_cut = True
        self.partial(None, named or reason)
        self.partial("span", reason)

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
        """Forget the raw tables; those of a shared desk are written over by the next rank."""
        if not self._own:
            return
        self._desk.close()
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
