"""A contract table that a reader writes as it is stored, while it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from npulens.ingest.tables.concatenate import arrow, writer
from npulens.ingest.tables.draft import ROW_GROUP
from npulens.ingest.tables.finish import SPAN_BITS, SPAN_IDS


class Ready:
    """Rows of one table on their way to its file. What is provided for the table besides is put behind them."""

    def __init__(self, table: str, path: Path, rank: int) -> None:
        self.path, self.rows = path, 0
        self.few = False  # what is provided besides are few rows
        self._shape, self._rank = arrow(table), rank
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._many = 0

    @property
    def offset(self) -> int:
        """What is added to the ids of the rank's spans."""
        return self._rank << SPAN_BITS

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Rows with ids of spans as the reader numbers them; a column that is not given is NULL."""
        many = len(next(iter(columns.values())))
        made = []
        for field in self._shape:
            column = columns.get(field.name)
            if field.name == "rank":
                column = pa.repeat(pa.scalar(self._rank, field.type), many)
            elif column is None:
                column = pa.nulls(many, field.type)
            elif field.name in SPAN_IDS and self.offset:
                column = pc.add(column, self.offset)
            made.append(column if column.type == field.type else column.cast(field.type))
        self.append(pa.Table.from_arrays(made, schema=self._shape))

    def append(self, rows: pa.Table) -> None:
        """Rows as they are stored."""
        self.rows += len(rows)
        self._many += len(rows)
        self._held.append(rows)
        if self._many >= ROW_GROUP:
            self._flush()

    def _flush(self) -> pq.ParquetWriter:
        rows = pa.concat_tables([*self._held, self._shape.empty_table()])
        if self._writer is None:
            self._writer = writer(self._shape, self.path, rows)
        if len(rows):
            self._writer.write_table(rows)
        self._held, self._many = [], 0
        return self._writer

    def close(self) -> None:
        """Finish the file; harmless when done twice."""
        if self._writer is None or self._writer.is_open:
            self._flush().close()
