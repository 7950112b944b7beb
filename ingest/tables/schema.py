"""The contract as data: schema.sql read once, so that no table or column is named twice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SCHEMA_FILE = Path(__file__).with_name("schema.sql")


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    required: bool
    comment: str


@dataclass(frozen=True)
class Table:
    name: str
    comment: str
    columns: tuple[Column, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


_TABLE = re.compile(r"((?:^--[^\n]*\n)+)CREATE TABLE (\w+) \(\n(.*?)\n\);", re.M | re.S)
_COLUMN = re.compile(r"^\s+(\w+)\s+([A-Z]+(?:\[\])?)(\s+NOT NULL)?\s*,?\s*(?:--\s*(.*))?$")


@cache
def tables() -> dict[str, Table]:
    """Every table of schema.sql, in the order of the file."""
    found: dict[str, Table] = {}
    for comment, name, body in _TABLE.findall(SCHEMA_FILE.read_text("utf-8")):
        columns = tuple(_column(line) for line in body.splitlines() if line.strip())
        text = " ".join(line.removeprefix("--").strip() for line in comment.strip().splitlines())
        found[name] = Table(name, text, columns)
    return found


def _column(line: str) -> Column:
    match = _COLUMN.match(line)
    if match is None:
        raise ValueError(f"schema.sql: cannot read the column {line!r}")
    name, kind, required, comment = match.groups()
    return Column(name, kind, bool(required), comment or "")


@cache
def version() -> int:
    """The version that a store must carry to be read by this program."""
    match = re.search(r"^-- schema-version: (\d+)$", SCHEMA_FILE.read_text("utf-8"), re.M)
    if match is None:
        raise ValueError("schema.sql names no schema-version")
    return int(match.group(1))
