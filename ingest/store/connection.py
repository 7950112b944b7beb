"""A run as a locked-down DuckDB: every table a view over its Parquet, and no way to anything else.

Each process opens its own in-memory database over the files: no lock between the dashboard, the
command line and a nightly job. After the views are made, the connection can read the run's own
directory and nothing more, and that cannot be undone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from npulens.ingest import objects
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, loaded, restored
from npulens.ingest.tables import schema
from npulens.ingest.tables.sqltext import literal, quoted

#: What a reading process may use before it fails, and how many times the bytes of a large run. Seven of the detectors
#: failed on 128 ranks of 27 MB within 5 times as much, none within 11 times.
_LEAST_MEMORY, _MEMORY_PER_BYTE = 10**9, 20
#: A run may be deleted and had back while it is opened.
_ATTEMPTS = 3
_PAUSE_S = 0.02


#: What is said of a run whose manifest cannot be read.
DAMAGED = Message("manifest_run_cannot_be_read")


@dataclass(frozen=True)
class CoverageRow:
    """What a rank recorded of one table."""

    rank: int
    table: str
    status: str
    rows: int
    expected: int | None
    dropped: int
    reason: str | None
    collect_with: str | None


def manifest_of(directory: Path) -> dict[str, Any]:
    """What the manifest of a run says; refused in a sentence where it is damaged."""
    try:
        found = loaded((directory / "manifest.json").read_text("utf-8"))
    except (ValueError, RecursionError, PermissionError, IsADirectoryError) as error:
        raise IngestError("damaged_run", DAMAGED, str(directory)) from error
    if not isinstance(found, dict) or not isinstance(found.get("schema_version"), int):
        raise IngestError("damaged_run", DAMAGED, str(directory))
    return found


def _check_version(directory: Path) -> None:
    try:
        found = manifest_of(directory)["schema_version"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IngestError("unknown_run", Message("there_is_no_such_run"), str(directory)) from error
    if found != schema.version():
        raise IngestError(
            "old_run",
            Message("stored_in_schema_version_this", {"found": found, "known": schema.version()}),
            str(directory),
        )


def memory_limit(directory: Path) -> str:
    """What DuckDB may hold for the questions to a run: more for one of a thousand ranks, if the machine has it."""
    size = 0
    for path in directory.glob("*.parquet"):
        with suppress(FileNotFoundError):  # deleted meanwhile
            size += path.stat().st_size
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(_LEAST_MEMORY, min(_MEMORY_PER_BYTE * size, machine // 4)) // 10**6}MB"


def _connect(threads: int, memory: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        ":memory:",
        config={
            "threads": threads, "memory_limit": memory, "python_enable_replacements": False,
            "autoinstall_known_extensions": False, "autoload_known_extensions": False,
            "allow_community_extensions": False,
        },
    )  # fmt: skip


def open_run(
    store: Path, run_id: str, threads: int = 2, kept: Mapping[str, Path] | None = None
) -> duckdb.DuckDBPyConnection:
    """Open one run for reading; ``kept``: what was computed of it before (ingest/store/kept.py), by name."""
    directory = (store / run_id).resolve()
    for again in range(_ATTEMPTS):
        objects.fetch(store, run_id)
        _check_version(directory)
        con = _connect(threads, memory_limit(directory))
        try:
            for table in schema.tables():
                path = directory / f"{table}.parquet"
                con.execute(f"CREATE VIEW {quoted(table)} AS FROM read_parquet({literal(str(path))})")
            for name, path in (kept or {}).items():
                con.execute(f"CREATE VIEW {quoted(name)} AS FROM read_parquet({literal(str(path))})")
            break
        except duckdb.IOException as error:  # deleted meanwhile, and perhaps had back: then it opens now
            con.close()
            if again == _ATTEMPTS - 1:
                text = Message("file_run_is_missing_it")
                raise IngestError("unknown_run", text, str(directory)) from error
            time.sleep(_PAUSE_S)
    # No temp directory: COPY into an allowed directory would be writing. Only single files are allowed.
    con.execute("SET temp_directory = ''")
    files = [*(directory / f"{table}.parquet" for table in schema.tables()), *(kept or {}).values()]
    con.execute(f"SET allowed_paths = [{', '.join(literal(str(path)) for path in files)}]")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def coverage(con: duckdb.DuckDBPyConnection) -> list[CoverageRow]:
    """What each rank recorded, in the order of the contract."""
    order = {name: i for i, name in enumerate(schema.tables())}
    rows = con.execute(
        "SELECT rank, table_name, status, rows, expected, dropped, reason, said, collect_with, collect_said "
        "FROM coverage"
    ).fetchall()
    found = (
        CoverageRow(rank, table, status, kept, expected, lost, restored(reason, said), restored(setting, phrase))
        for rank, table, status, kept, expected, lost, reason, said, setting, phrase in rows
    )
    return sorted(found, key=lambda r: (r.rank, order[r.table]))
