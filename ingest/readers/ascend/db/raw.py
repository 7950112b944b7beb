"""The tables of a database as raw views, the same whichever version wrote them.

Every table and column that any version has is there afterwards. What this file lacks is empty or NULL, and texts stand
where the file has their numbers. So the SQL that makes the contract tables need not know about versions, and joins no
more than it must. Each join of a query takes its share of a small memory, whatever the size of its tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message, of_file
from npulens.ingest.readers.ascend.db.tables import ADDED, API_TYPES, LOOKUPS, Raw
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.sqlite import Database, Scan, wanted
from npulens.ingest.readers.sqlite_values import ARROW
from npulens.ingest.tables.draft import Draft

#: A longer text is cut: no name, list of shapes or frame is as long.
LONGEST = 1 << 16
#: A text is repeated wherever its number stands. Where the texts of a batch are more than this, 2 KB each, they are cut
#: to the shorter length. One text of a file must not become its length times the rows of the file.
_BATCH_BYTES, _SHORT = 4 << 20, 1 << 10
#: Texts held at most; real databases have a few MB of them.
_MAX_BYTES = 128 << 20


class Texts:
    """Looks numbers up. ``damage`` holds sentences on what of the texts could not be had."""

    def __init__(self, database: Database) -> None:
        self._database, self.damage = database, dict[Message, None]()
        self._known: dict[str, tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Array]] = {}

    def of(self, table: str, numbers: pa.Array) -> pa.Array:
        """The texts of numbers; NULL where there is none."""
        if table not in self._known:
            self._known[table] = self._read(table)
        ids, texts = self._known[table]
        if not len(ids):
            return pa.nulls(len(numbers), pa.string())
        asked = pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False)
        at = np.minimum(np.searchsorted(ids, asked), len(ids) - 1)
        found = texts.take(pa.array(at, mask=ids[at] != asked))
        if found.nbytes <= _BATCH_BYTES:
            return found
        self.damage[Message("long_texts_that_are_used", {"table": table, "letters": _SHORT})] = None
        return pc.utf8_slice_codeunits(found, 0, _SHORT)

    def _read(self, table: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Array]:
        """All of a table, sorted by number; of a repeated number the first."""
        result, size, cut = Scan(), 0, 0
        ids, texts = [np.empty(0, np.int64)], [pa.array([], pa.string())]
        if table in self._database.tables:
            column = "value" if table == "STRING_IDS" else "name"
            for batch in self._database.scan(table, wanted(f"id:i {column}:s"), result):
                batch = batch.filter(pc.and_kleene(pc.greater_equal(batch["id"], 0), pc.is_valid(batch[column])))
                cut += pc.sum(pc.greater(pc.utf8_length(batch[column]), LONGEST)).as_py() or 0
                ids.append(batch["id"].to_numpy(zero_copy_only=False))
                texts.append(pc.utf8_slice_codeunits(batch[column], 0, LONGEST))
                size += texts[-1].nbytes
                if size > _MAX_BYTES:
                    self.damage[Message("holds_more_than_mb_texts", {"table": table, "n": _MAX_BYTES >> 20})] = None
                    break
        if cut:
            self.damage[Message("texts_are_cut_after_letters", {"n": cut, "table": table, "letters": LONGEST})] = None
        if result.damage:
            self.damage[result.damage] = None
        if table == "ENUM_API_TYPE":
            ids.append(np.array(list(API_TYPES), np.int64))
            texts.append(pa.array(API_TYPES.values(), pa.string()))
        numbers, first = np.unique(np.concatenate(ids), return_index=True)
        return numbers, pa.concat_arrays(texts).take(pa.array(first))


#: Rows and bytes that are written at a time.
_ROWS, _BYTES = 1 << 16, 16 << 20


def spool(database: Database | None, tables: Mapping[str, Raw], draft: Draft, total_bytes: int) -> dict[str, int]:
    """Make every table a view ``raw_NAME``; the rows of each. Without a database they are all empty."""
    rows, texts = {}, Texts(database) if database else None
    for name, raw in tables.items():
        result = Scan()
        source = next((known for known in raw.names if database and known in database.tables), None)
        schema = _shape(raw)
        with draft.spool(f"raw_{name}", schema) as spooled:
            if database and texts and source:
                batches = database.scan(source, [column.wanted for column in raw.columns], result)
                for table in _gathered(_texted(batch, raw, texts, schema) for batch in batches):
                    spooled.write(table)
        for column, bad in result.bad.items():
            draft.drop(raw.into, Message("values_that_are_no_numbers", {"column": f"{name}.{column}"}), bad)
        if database and result.damage:
            draft.partial(raw.into, of_file(database.path, result.damage))
        rows[name] = result.rows
        draft.advance(total_bytes // len(tables))
    for damage in texts.damage if texts else ():
        draft.partial("span", damage)
    return rows


@cache
def _shape(raw: Raw) -> pa.Schema:
    fields = [(c.wanted.name, pa.string() if c.lookup else ARROW[c.wanted.type]) for c in raw.columns]
    return pa.schema([("row", pa.int64()), *fields])


def _texted(batch: pa.RecordBatch, raw: Raw, texts: Texts, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the texts that its numbers stand for."""
    columns = [
        texts.of(column.lookup, numbers) if column.lookup else numbers
        for column, numbers in zip(raw.columns, batch.columns[1:], strict=True)
    ]
    return pa.RecordBatch.from_arrays([batch.column(0), *columns], schema=schema)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to row groups of a size that reads well."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def count_unread(database: Database, tables: Mapping[str, Raw], draft: Draft) -> None:
    """Tables that nothing here has a place for are counted, not passed over."""
    read = {name for raw in tables.values() for name in raw.names} | set(LOOKUPS)
    for table in sorted(set(database.tables) - read):
        if not ADDED.match(table):
            draft.drop("arg", Message("rows_table_which_has_no", {"table": table}), database.count(table))


def keep_device(draft: Draft, tables: Mapping[str, Raw], device: int) -> None:
    """Leave the rows of one device, and those of none: the host's. Names of the views stay."""
    for name, raw in tables.items():
        if not any(column.wanted.name == "deviceId" for column in raw.columns):
            continue
        ours = f"coalesce(deviceId, {device}) = {device}"
        if name == "COMMUNICATION_OP":  # older versions do not say: its tasks do
            ours += " AND (deviceId IS NOT NULL OR connectionId IN (SELECT connectionId FROM raw_TASK))"
        rows = draft.raw[f"raw_{name}"]
        draft.make(f"CREATE OR REPLACE VIEW raw_{name} AS FROM {rows} WHERE {ours}")


def unique(draft: Draft, table: str, key: str) -> str:
    """SQL: the first row for each value of a key that ought to be unique, looked for only where it is not."""
    if not count(draft, f"SELECT count({key}) - count(DISTINCT {key}) FROM {table}"):
        return f"(SELECT * FROM {table} WHERE {key} IS NOT NULL)"
    return f"(SELECT * FROM {table} WHERE row IN (SELECT min(row) FROM {table} WHERE {key} IS NOT NULL GROUP BY {key}))"


def macros(draft: Draft) -> None:
    """What the SQL of this format says often."""
    for statement in (
        # ns since 1970 and before 2096: any other number would overflow a subtraction or stretch the timeline
        "CREATE TEMP MACRO stamp(x) AS CASE WHEN x BETWEEN 0 AND 4000000000000000000 THEN x END",
        "CREATE TEMP MACRO told(x) AS CASE WHEN x NOT IN ('N/A', 'NA', '', 'INVALID_TYPE') THEN x END",
        # 4294967295 and -1 stand for "none"
        "CREATE TEMP MACRO number(x) AS CASE WHEN x BETWEEN 0 AND 4294967294 THEN x END",
        "CREATE TEMP MACRO small(x) AS CASE WHEN x BETWEEN 0 AND 2147483647 THEN x END",
        "CREATE TEMP MACRO times(x, factor) AS TRY_CAST(round(x * factor) AS BIGINT)",
    ):
        draft.make(statement)
