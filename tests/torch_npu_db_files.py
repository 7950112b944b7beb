"""Databases for the tests of their reader: loading one, and making a small one."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from npulens.ingest.readers.ascend import read_torch_npu_db
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.finish import Part, finish

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
DB = TRACES / "Ascend+msinsight" / "test" / "data" / "pytorch" / "db"
RANKS = [f"{level}/rank{rank}_ascend_pt" for level in ("level0", "level1", "level2") for rank in (0, 1)]
PRISTINE = TRACES / "Ascend+msinsight@hist-84c4977b" / "test/data/pytorch/db/level1/rank0_ascend_pt"

real = pytest.mark.skipif(not DB.is_dir(), reason="the shared real captures are not here")


@dataclass(frozen=True)
class Loaded:
    """A rank's contract tables, and a connection that sees them."""

    part: Part
    con: duckdb.DuckDBPyConnection

    def all(self, query: str) -> list[tuple[Any, ...]]:
        return self.con.execute(query).fetchall()

    def one(self, query: str) -> Any:
        return self.all(query)[0][0]

    def cover(self, table: str) -> dict[str, Any]:
        return next(row for row in self.part.coverage if row["table"] == table)


def load(path: Path, scratch: Path, reader: ModuleType = read_torch_npu_db) -> Loaded:
    claim = reader.sniff(path)
    assert claim is not None
    draft = Draft(scratch / "draft", claim.facts.rank or 0)
    reader.read(claim, draft)
    part = finish(draft, scratch / "tables")
    draft.close()
    con = duckdb.connect()
    for table in part.rows:
        con.execute(f"CREATE VIEW {table} AS FROM '{scratch / 'tables' / table}.parquet'")
    return Loaded(part, con)


NOW = 1_700_000_000_000_000_000
TASK = (
    "TASK(startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, streamId, taskId, "
    "modelId)"
)
CANN = "CANN_API(startNs, endNs, type, globalTid, connectionId, name)"
PYTORCH = "PYTORCH_API(startNs, endNs, globalTid, connectionId, name, type)"
NONE = 4294967295


@dataclass
class Maker:
    """Writes a small database."""

    path: Path

    def __post_init__(self) -> None:
        self.con = sqlite3.connect(self.path, isolation_level=None)
        self.con.execute("PRAGMA synchronous=OFF")
        self.strings: dict[str, int] = {}
        self.table("STRING_IDS(id INTEGER, value TEXT)")

    def table(self, declaration: str, *rows: tuple[Any, ...]) -> None:
        """Texts become string ids, except those in a tuple."""
        name = declaration.partition("(")[0]
        self.con.execute(f"CREATE TABLE IF NOT EXISTS {declaration}")
        for row in rows:
            cells = [self.text(cell) if isinstance(cell, str) else cell for cell in row]
            cells = [cell[0] if isinstance(cell, tuple) else cell for cell in cells]
            self.con.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(cells))})", cells)

    def text(self, value: str) -> int:
        if value not in self.strings:
            self.strings[value] = len(self.strings) + 100
            self.con.execute("INSERT INTO STRING_IDS VALUES (?, ?)", (self.strings[value], value))
        return self.strings[value]

    def task(self, number: int, kind: str, begin: int, end: int, stream: int = 1, connection: int = NONE) -> None:
        self.table(TASK, (NOW + begin, NOW + end, 3, connection, number, 77, kind, NONE, stream, number, NONE))
