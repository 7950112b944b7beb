"""The ranks of a run put one after the other into one file per table. Each is moved from its own origin to the run's.

One part is open at a time, and of it one row group is held. A thousand ranks need no more memory or handles than two.
What a row group holds stays together, so that the statistics of a file still say which ranks lie where.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from npulens.ingest.tables import schema
from npulens.ingest.tables.draft import ROW_GROUP

_TYPES = {
    "VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(),
    "VARCHAR[]": pa.list_(pa.string()), "INTEGER[]": pa.list_(pa.int32()),
}  # fmt: skip
#: Text that hardly ever repeats: a dictionary of it would be a copy.
_UNLIKE = ("args",)
#: The file of a part that holds all its tables.
_PACKED = "tables.arrow"


@cache
def arrow(table: str) -> pa.Schema:
    """A contract table as Arrow sees it."""
    columns = schema.tables()[table].columns
    return pa.schema([pa.field(column.name, _TYPES[column.type], not column.required) for column in columns])


def concatenate(table: str, parts: Sequence[tuple[Path, int]], out: Path) -> None:
    """Write one table of every part (its directory, and by how much its origin comes after the run's)."""
    write(table, pieces(table, parts), out)


def write(table: str, pieces: Iterable[pa.Table], out: Path) -> int:
    """Write a table as it comes, in row groups that read well; the number of its rows."""
    rows = written = 0
    with writer(arrow(table), out) as file:
        held: list[pa.Table] = []
        for piece in pieces:
            held.append(piece)
            rows += piece.num_rows
            if rows - written >= ROW_GROUP:
                file.write_table(pa.concat_tables(held))
                held, written = [], rows
        if held:
            file.write_table(pa.concat_tables(held))
    return rows


def write_all(tables: Mapping[str, pa.Table], out: Path) -> None:
    """Write contract tables that are there at once, one file each."""
    for name, table in tables.items():
        if len(table):
            write(name, [table], out / f"{name}.parquet")
        else:
            (out / f"{name}.parquet").write_bytes(_empty(name))


@cache
def _empty(table: str) -> bytes:
    """The file of a table without rows."""
    sink = pa.BufferOutputStream()
    writer(arrow(table), sink).close()
    return bytes(sink.getvalue())


def pack(tables: Mapping[str, pa.Table], out: Path) -> None:
    """Write contract tables that are there at once and will be put to others, all into one file.

    Behind the tables comes where each begins, and the length of that. What has no rows is left out.
    """
    begins: dict[str, int] = {}
    with pa.OSFile(str(out / _PACKED), "wb") as file:
        for name, table in tables.items():
            if len(table):
                begins[name] = file.tell()
                with pa.ipc.new_stream(file, table.schema) as stream:
                    stream.write_table(table)
        told = json.dumps(begins).encode()
        file.write(told + len(told).to_bytes(8, "little"))


def is_packed(directory: Path) -> bool:
    """Whether the tables of a part lie in one file."""
    return (directory / _PACKED).exists()


def _unpacked(directory: Path, table: str) -> Iterator[pa.Table]:
    with (directory / _PACKED).open("rb") as file:
        end = file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(8), "little")
        file.seek(end - length)
        begin = json.loads(file.read(length)).get(table)
        if begin is not None:
            file.seek(begin)
            yield pa.ipc.open_stream(file).read_all()


def shifted(table: pa.Table, by: int) -> pa.Table:
    """A table with its stamps moved."""
    for at, name in enumerate(table.column_names):
        if by and (name == "ts_ns" or name.endswith("_ts_ns")):
            table = table.set_column(at, table.schema.field(at), pc.add_checked(table.column(at), by))
    return table


def writer(shape: pa.Schema, out: Path | pa.NativeFile, begins: pa.Table | None = None) -> pq.ParquetWriter:
    """Writes a contract table as it is stored. ``begins``: its first rows, where they are known."""
    whole = [field.name for field in shape if pa.types.is_integer(field.type)]
    text = [field.name for field in shape if pa.types.is_string(field.type)]
    like = [name for name in text if name not in _UNLIKE and (begins is None or _repeats(begins[name]))]
    return pq.ParquetWriter(
        out, shape, compression="lz4", use_dictionary=like, column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        write_statistics=[field.name for field in shape if field.name not in text],
    )  # fmt: skip


def _repeats(texts: pa.ChunkedArray) -> bool:
    """Whether most of some texts are not the first of their kind."""
    return 2 * int(pc.count_distinct(texts).as_py()) <= len(texts)


def pieces(table: str, parts: Sequence[tuple[Path, int]]) -> Iterator[pa.Table]:
    shape = arrow(table)
    for directory, shift in parts:
        for rows in (_unpacked if is_packed(directory) else _row_groups)(directory, table):
            if rows.num_rows:
                yield pa.Table.from_arrays(shifted(rows, shift).select(shape.names).columns, schema=shape)


def columns_of(directory: Path, table: str, names: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of a part's table, a piece at a time; at least an empty one."""
    yield arrow(table).empty_table().select(names)
    if is_packed(directory):
        yield from (rows.select(names) for rows in _unpacked(directory, table))
        return
    with pq.ParquetFile(directory / f"{table}.parquet") as file:
        for batch in file.iter_batches(columns=list(names), use_threads=False):
            rows = pa.Table.from_batches([batch])
            yield rows.select(names).cast(pa.schema([arrow(table).field(name) for name in names]))


def _row_groups(directory: Path, table: str) -> Iterator[pa.Table]:
    with pq.ParquetFile(directory / f"{table}.parquet") as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=arrow(table).names, use_threads=False)
