"""A run for other tools: Parquet, one DuckDB file, or CSV."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store.connection import open_run
from npulens.ingest.tables import schema
from npulens.ingest.tables.sqltext import literal, quoted

#: A spreadsheet runs cells that begin so; the wide ones are what a Chinese or Japanese keyboard types.
_LIVE = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def harmless(cell: object) -> object:
    """Text that a spreadsheet would run as a formula gets a quote before it; numbers stay numbers."""
    return "'" + cell if isinstance(cell, str) and cell.startswith(_LIVE) else cell


def export(store: Path, run_id: str, target: Path, table: str, kind: str, views: Iterable[str] = ()) -> list[Path]:
    """Write a run to ``target``; the files written. ``views``: our own statements that make a database's views."""
    open_run(store, run_id).close()  # refuses an unknown or old run by name
    if table not in schema.tables():
        raise IngestError("unknown_table", Message("there_is_no_table_docs", {"table": f"{table!r}"}))
    try:
        if target.suffix == ".duckdb":
            return [_database(store / run_id, target, views)]
        if target.suffix in (".parquet", ".csv"):
            return [_table(store / run_id, table, target)]
        if target.suffix:
            raise IngestError("unknown_export", Message("name_duckdb_parquet_or_csv"), str(target))
        target.mkdir(parents=True, exist_ok=True)
        return [_table(store / run_id, name, target / f"{name}.{kind}") for name in schema.tables()]
    except (OSError, duckdb.IOException) as error:
        raise IngestError("write", Message("cannot_write", {"error": error}), str(target)) from error


def _table(run: Path, table: str, target: Path) -> Path:
    source = run / f"{table}.parquet"
    if target.suffix == ".parquet":
        shutil.copyfile(source, target)
        return target
    live = "".join(_LIVE).replace("-", "\\-")
    columns = ", ".join(
        f"CASE WHEN regexp_matches({c.name}, '^[{live}]') THEN chr(39) || {c.name} ELSE {c.name} END AS {c.name}"
        if c.type == "VARCHAR" else c.name
        for c in schema.tables()[table].columns
    )  # fmt: skip
    with duckdb.connect() as con:
        rows = f"SELECT {columns} FROM read_parquet({literal(str(source))})"
        con.execute(f"COPY ({rows}) TO {literal(str(target))} (FORMAT csv, HEADER)")
    return target


def _database(run: Path, target: Path, views: Iterable[str]) -> Path:
    if target.exists():
        raise IngestError("exists", Message("there_is_such_file_already"), str(target))
    with duckdb.connect(str(target)) as con:
        for name, table in schema.tables().items():
            con.execute(f"CREATE TABLE {quoted(name)} AS FROM read_parquet({literal(str(run / f'{name}.parquet'))})")
            con.execute(f"COMMENT ON TABLE {quoted(name)} IS {literal(table.comment)}")
            for column in table.columns:
                con.execute(f"COMMENT ON COLUMN {quoted(name)}.{quoted(column.name)} IS {literal(column.comment)}")
        for statement in views:
            con.execute(statement)
    return target
