"""The tables of a database as raw views, the same whichever version wrote them.

Every table and column that any version has is there afterwards; what this file lacks is empty or NULL.
So the SQL that makes the contract tables need not know about versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from ingest.ascend.db_tables import ADDED, Raw
from ingest.ascend.stage import count, keep
from ingest.draft import Draft
from ingest.sqlite import Database, Scan
from ingest.sqlite_values import ARROW

_ROW_GROUP = 1 << 16


def spool(database: Database | None, tables: Mapping[str, Raw], draft: Draft, total_bytes: int) -> dict[str, int]:
    """Make every table a view ``raw_NAME``; the rows of each. Without a database they are all empty."""
    rows = {}
    for name, raw in tables.items():
        result = Scan()
        source = next((known for known in raw.names if database and known in database.tables), None)
        schema = pa.schema([("row", pa.int64()), *((column.name, ARROW[column.type]) for column in raw.columns)])
        with draft.spool(f"raw_{name}", schema) as spooled:
            if database and source:
                for rows_ in _gathered(database.scan(source, raw.columns, result)):
                    spooled.write(rows_)
        for column, bad in result.bad.items():
            draft.drop(raw.into, f"values of {name}.{column} that are no numbers", bad)
        if database and result.damage:
            draft.partial(raw.into, f"{database.path.name}: {result.damage}")
        rows[name] = result.rows
        draft.advance(total_bytes // len(tables))
    return rows


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to row groups of a size that reads well."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _ROW_GROUP:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def count_unread(database: Database, tables: Mapping[str, Raw], draft: Draft) -> None:
    """Tables that nothing here has a place for are counted, not passed over."""
    read = {name for raw in tables.values() for name in raw.names}
    for table in sorted(set(database.tables) - read):
        if not ADDED.match(table):
            draft.drop("arg", f"rows of the table {table}, which has no place here", database.count(table))


def first(table: str, key: str) -> str:
    """SQL: the first row for each value of a key that ought to be unique."""
    return f"(SELECT * FROM {table} WHERE row IN (SELECT min(row) FROM {table} WHERE {key} IS NOT NULL GROUP BY {key}))"


def unique(draft: Draft, table: str, key: str) -> str:
    """The same for a table that may be long: it is only looked through where the key does repeat."""
    repeats = count(draft, f"SELECT count({key}) - count(DISTINCT {key}) FROM {table}")
    return first(table, key) if repeats else f"(SELECT * FROM {table} WHERE {key} IS NOT NULL)"


def words(draft: Draft, name: str, *used: str, value: str = "value") -> None:
    """Make ``words_name``: the texts of the string ids in columns given as "table.column". Mostly they are few.

    ``value``: SQL for what of the text is wanted, done here once a text and not once a row.
    """
    ids = " UNION ".join(f"SELECT {column} AS id FROM {table}" for table, column in (one.split(".") for one in used))
    once = f"SELECT id, min(value) AS value FROM raw_STRING_IDS WHERE id IN ({ids}) GROUP BY id"
    keep(draft, f"words_{name}", f"SELECT id, {value} AS value FROM ({once})")


def texts(name: str, alias: str, *columns: str) -> str:
    """Joins that bring the texts of columns from ``words_name``, as ``column_.value``."""
    return " ".join(f"LEFT JOIN words_{name} {column}_ ON {column}_.id = {alias}.{column}" for column in columns)


def named(draft: Draft, table: str, *columns: str) -> str:
    """Both at once for columns of one table that goes by the alias r."""
    words(draft, table, *(f"raw_{table}.{column}" for column in columns))
    return texts(table, "r", *columns)


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
        draft.con.execute(statement)
