"""The ranks of a run put one after the other into one file per table. Each is moved from its own origin to the run's.

One part is open at a time, and of it one row group is held. A thousand ranks need no more memory or handles than two.
What a row group holds stays together, so that the statistics of a file still say which ranks lie where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


@cache
def arrow(table: str) -> pa.Schema:
    """A contract table as Arrow sees it."""
    columns = schema.tables()[table].columns
    return pa.schema([pa.field(column.name, _TYPES[column.type], not column.required) for column in columns])


def concatenate(table: str, parts: Sequence[tuple[Path, int]], out: Path) -> None:
    """Write one table of every part (its directory, and by how much its origin comes after the run's)."""
    shape = arrow(table)
    whole = [field.name for field in shape if pa.types.is_integer(field.type)]
    text = [field.name for field in shape if pa.types.is_string(field.type) and field.name not in _UNLIKE]
    with pq.ParquetWriter(
        out, shape, compression="lz4", use_dictionary=text, column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        write_statistics=[field.name for field in shape if field.name not in text],
    ) as writer:  # fmt: skip
        held: list[pa.Table] = []
        for piece in _pieces(table, parts):
            held.append(piece)
            if sum(each.num_rows for each in held) >= ROW_GROUP:
                writer.write_table(pa.concat_tables(held))
                held = []
        if held:
            writer.write_table(pa.concat_tables(held))


def _pieces(table: str, parts: Sequence[tuple[Path, int]]) -> Iterator[pa.Table]:
    shape = arrow(table)
    moved = [name for name in shape.names if name == "ts_ns" or name.endswith("_ts_ns")]
    for directory, shift in parts:
        with pq.ParquetFile(directory / f"{table}.parquet") as file:
            for group in range(file.num_row_groups):
                columns = file.read_row_group(group, columns=shape.names, use_threads=False)
                for name in moved if shift else ():
                    at = columns.column_names.index(name)
                    columns = columns.set_column(at, name, pc.add(columns.column(at), shift))
                if columns.num_rows:
                    yield pa.Table.from_arrays(columns.select(shape.names).columns, schema=shape)
