"""The account of a load: what was read of each rank and how long it took. Also what became of it table by table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.ingest.store.connection import CoverageRow
from npulens.ingest.store.runs import manifest
from npulens.ingest.tables import schema


@dataclass(frozen=True)
class RankRead:
    """One rank as it was read."""

    rank: int
    rank_source: str
    path: str  # within the capture; empty where the rank was the whole of it
    formats: tuple[str, ...]
    files: tuple[str, ...]
    bytes: int
    seconds: float
    kept: int
    dropped: int
    reasons: tuple[str, ...]  # why it is partial; none: it is complete
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Account:
    """Everything that was read for a run."""

    ranks: tuple[RankRead, ...]
    tables: tuple[CoverageRow, ...]


def account(store: Path, run_id: str) -> Account:
    """The account of a stored run, from its manifest."""
    said = manifest(store, run_id)
    order = {name: i for i, name in enumerate(schema.tables())}
    tables = sorted((_table(row) for row in said["coverage"]), key=lambda row: (row.rank, order.get(row.table, 99)))
    return Account(tuple(_rank(piece) for piece in said["pieces"]), tuple(tables))


def _table(row: Mapping[str, Any]) -> CoverageRow:
    return CoverageRow(
        row["rank"], row["table"], row["status"], row["rows"], row["expected"], row["dropped"], row["reason"],
        row["collect_with"],
    )  # fmt: skip


def _rank(piece: Mapping[str, Any]) -> RankRead:
    part = piece["part"]
    return RankRead(
        piece["rank"], piece["rank_source"], piece["path"], tuple(piece["formats"]), tuple(sorted(piece["files"])),
        piece["bytes"], part.get("seconds", 0.0), sum(row["rows"] for row in part["coverage"]),
        sum(row["dropped"] for row in part["coverage"]), tuple(part["reasons"]),
        _versions(part["facts"].get("versions")),
    )  # fmt: skip


def _versions(told: object) -> dict[str, str]:
    """A fact that a reader gives as an object or as JSON."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    return {str(name): str(value) for name, value in told.items() if value} if isinstance(told, dict) else {}
