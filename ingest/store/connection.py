"""A run as a locked-down DuckDB: every table a view over its Parquet, and no way to anything else.

Each process opens its own in-memory database over the files: no lock between the dashboard, the
command line and a nightly job. After the views are made, the connection can read the run's own
directory and nothing more, and that cannot be undone.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from npulens.ingest import objects
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, listed, restored
from npulens.ingest.store import seal
from npulens.ingest.tables import schema
from npulens.ingest.tables.sqltext import literal, quoted

#: What a reading process may use before it fails, and how many times the bytes of a large run. Seven of the detectors
#: failed on 128 ranks of 27 MB within 5 times as much, none within 11 times.
_LEAST_MEMORY, _MEMORY_PER_BYTE = 10**9, 20
#: A run may be deleted and had back while it is opened.
_ATTEMPTS = 3
_PAUSE_S = 0.02
#: How every run is opened. Files are local: DuckDB's own eight threads for reading would only wait, in each open run.
LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False, "autoinstall_known_extensions": False, "autoload_known_extensions": False,
    "allow_community_extensions": False, "async_threads": 0,
}  # fmt: skip
#: Below the store, deleted runs until they are collected.
TRASH = ".trash"
_OPEN_FILES = Path("/proc/self/fd")


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
        found = seal.opened((directory / seal.MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (seal.Broken, OSError) as error:
        raise IngestError("damaged_run", DAMAGED, str(directory)) from error
    if not isinstance(found.get("schema_version"), int):
        raise IngestError("damaged_run", DAMAGED, str(directory))
    return found


def proved(store: Path, run_id: str) -> dict[str, Any]:
    """The manifest of a run of this version whose files are what was stored; refused in a sentence where they are not.

    What comes from a bucket was compared with its hashes when it came.
    """
    directory = (store / run_id).resolve()
    try:
        found = manifest_of(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IngestError("unknown_run", Message("there_is_no_such_run"), str(directory)) from error
    if found["schema_version"] != schema.version():
        key = "run_is_older_migrate" if found["schema_version"] < schema.version() else "run_is_newer_than_program"
        versions = {"found": found["schema_version"], "known": schema.version()}
        raise IngestError("old_run", Message(key, versions), str(directory))
    if objects.of(store) is None and (wrong := damage(directory, found)):
        if not (directory / seal.MANIFEST).exists():  # deleted while we looked
            raise IngestError("unknown_run", Message("there_is_no_such_run"), str(directory))
        raise IngestError("damaged_run", wrong, str(directory))
    return found


def damage(directory: Path, document: Mapping[str, Any], again: bool = False) -> Message | None:
    """What is wrong with the files of a run; ``again``: with those that this process has looked at, too."""
    try:
        names = seal.broken(directory, document, again)
    except OSError as error:
        return Message("files_of_run_cannot_be_read", {"error": error.strerror or error})
    missing = [name for name in names if not (directory / name).exists()]
    if missing:
        return Message("files_of_run_are_missing", {"files": listed(missing, 3)})
    return Message("files_of_run_are_damaged", {"files": listed(names, 3)}) if names else None


def memory_limit(directory: Path) -> str:
    """What DuckDB may hold for the questions to a run: more for one of a thousand ranks, if the machine has it."""
    size = 0
    for path in directory.glob("*.parquet"):
        with suppress(FileNotFoundError):  # deleted meanwhile
            size += path.stat().st_size
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(_LEAST_MEMORY, min(_MEMORY_PER_BYTE * size, machine // 4)) // 10**6}MB"


def _connect(threads: int, memory: str) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:", config={"threads": threads, "memory_limit": memory, **LOCKED})
    con.execute("SET enable_progress_bar = false")
    con.execute("SET parquet_metadata_cache = true")  # hundreds of statements ask the same files
    return con


def _held(directory: Path, con: duckdb.DuckDBPyConnection) -> Path:
    """A way to a directory that stays while ``con`` lives: a run that is deleted meanwhile only moves.

    Linux has such a way. Elsewhere whoever asks of a deleted run is told so.
    """
    if not _OPEN_FILES.is_dir():
        return directory
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    weakref.finalize(con, os.close, handle)
    return _OPEN_FILES / str(handle)


def _viewed(store: Path, run_id: str, threads: int, kept: Mapping[str, Path]) -> duckdb.DuckDBPyConnection:
    """A database with a view for every table of a run, and for what is kept of it."""
    objects.fetch(store, run_id)
    proved(store, run_id)
    directory = (store / run_id).resolve()
    con = _connect(threads, memory_limit(directory))
    try:
        within = _held(directory, con)
        places = {table: within / f"{table}.parquet" for table in schema.tables()} | dict(kept)
        con.execute("; ".join(
            f"CREATE VIEW {quoted(name)} AS FROM read_parquet({literal(str(path))})" for name, path in places.items()
        ))  # fmt: skip
    except (OSError, duckdb.IOException) as error:
        con.close()
        raise IngestError("unknown_run", Message("file_run_is_missing_it"), str(directory)) from error
    return con


def open_run(
    store: Path, run_id: str, threads: int = 2, kept: Mapping[str, Path] | None = None
) -> duckdb.DuckDBPyConnection:
    """Open one run for reading; ``kept``: what was computed of it before (ingest/store/kept.py), by name."""
    directory, deleted = (store / run_id).resolve(), store.resolve() / TRASH / run_id
    for _ in range(_ATTEMPTS - 1):
        with suppress(IngestError):  # deleted, perhaps had back: then it opens now
            con = _viewed(store, run_id, threads, kept or {})
            break
        time.sleep(_PAUSE_S)
    else:
        con = _viewed(store, run_id, threads, kept or {})
    # No temp directory: COPY into an allowed directory would be writing. Only single files are allowed.
    con.execute("SET temp_directory = ''")
    files = [place / f"{table}.parquet" for place in (directory, deleted) for table in schema.tables()]
    files += (kept or {}).values()
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
