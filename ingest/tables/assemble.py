"""Parts to a run: ranks put into one file per table, with the tables that only a run has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from npulens.ingest.loading.capture import HIGHEST_RANK
from npulens.ingest.messages import Message, dumped, joined, stored
from npulens.ingest.tables import schema
from npulens.ingest.tables.concatenate import arrow, concatenate, is_packed
from npulens.ingest.tables.finish import Part


@dataclass(frozen=True)
class Piece:
    """One parsed rank with everything a run wants to know of it."""

    part: Part
    rank_source: str
    path: str
    formats: tuple[str, ...]
    files: dict[str, str]  # path within the rank's directory -> BLAKE3
    bytes: int


@dataclass(frozen=True)
class Source:
    """A directory of contract tables whose times count from ``origin_ns``: a part, or a stored run to join. What has
    no times has no origin, and moves that of no other."""

    directory: Path
    origin_ns: int | None
    movable: bool = True


@dataclass(frozen=True)
class Assembled:
    """A staged run, ready to commit."""

    run_id: str
    manifest: dict[str, Any]
    coverage: list[dict[str, Any]]


#: Writes tables of a run: of every part its directory, and by how much its origin comes after the run's.
Write = Callable[[Sequence[str], Sequence[tuple[Path, int]], Path], None]


def write_tables(tables: Sequence[str], parts: Sequence[tuple[Path, int]], staged: Path) -> None:
    """Write tables of a run on this machine, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: concatenate(name, parts, staged / f"{name}.parquet"), tables))


def assemble(
    pieces: Sequence[Piece], sources: Sequence[Source], run_id: str, staged: Path, write: Write = write_tables
) -> Assembled:
    """Write every table of the run to ``staged``; ``write`` does it where parts have to be put together."""
    origin = min((source.origin_ns for source in sources if source.origin_ns is not None), default=0)
    staged.mkdir(parents=True)
    tables = [name for name in schema.tables() if name not in ("run", "rank", "coverage")]
    if len(sources) == 1 and sources[0].movable and not is_packed(sources[0].directory):
        for name in tables:
            shutil.move(sources[0].directory / f"{name}.parquet", staged / f"{name}.parquet")
    else:
        parts = [(source.directory, 0 if source.origin_ns is None else source.origin_ns - origin) for source in sources]
        write(tables, parts, staged)
    coverage = [dict(row, rank=piece.part.rank) for piece in pieces for row in piece.part.coverage]
    _write(
        staged,
        "coverage",
        [
            dict(row, table_name=row["table"], said=stored(row["reason"]), collect_said=_phrase(row["collect_with"]))
            for row in coverage
        ],
    )
    ranks = [_rank_row(piece, origin) for piece in pieces]
    _write(staged, "rank", [dict(row, said=stored(row["reason"])) for row in ranks])
    run = _run_row(pieces, run_id, origin, ranks)
    _write(staged, "run", [dict(run, said=stored(run["reason"]))])
    manifest = _manifest(pieces, run, ranks, coverage)
    (staged / "manifest.json").write_text(dumped(manifest, indent=1), "utf-8")
    return Assembled(run_id, manifest, coverage)


def _rank_row(piece: Piece, origin: int) -> dict[str, Any]:
    part, facts = piece.part, piece.part.facts
    reasons = part.reasons
    rows = sum(row["rows"] for row in part.coverage)
    stamped = rows and part.stamped
    return {
        "rank": part.rank, "rank_source": piece.rank_source, "path": piece.path, "formats": list(piece.formats),
        "status": "partial" if reasons else "complete", "reason": joined(reasons) if reasons else None,
        "first_ns": part.origin_ns - origin if stamped else None, "last_ns": part.end_ns - origin if stamped else None,
        "events": rows, "dropped": sum(row["dropped"] for row in part.coverage),
        **{
            name: facts.get(name)
            for name in ("backend", "device_id", "device_name", "host", "pid", "profiler_level")
        },
        **{name: _as_json(facts.get(name)) for name in ("settings", "versions", "environment")},
    }  # fmt: skip


def _as_json(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _phrase(setting: str | None) -> str | None:
    return stored(setting) if isinstance(setting, Message) else None


def _by_reason(said: Iterable[tuple[int, str]]) -> list[Message]:
    """Each reason once, with the ranks it holds for: hundreds may lack the same thing."""
    ranks: dict[str, list[int]] = {}
    for rank, reason in sorted(said):
        ranks.setdefault(reason, []).append(rank)
    return [
        Message("of_ranks" if len(of) > 1 else "of_rank", {"ranks": _ranges(of), "reason": reason})
        for reason, of in ranks.items()
    ]


def _ranges(ranks: Sequence[int]) -> str:
    """Ascending numbers, neighbours joined: 0-3, 7."""
    begins = [at for at, rank in enumerate(ranks) if not at or rank != ranks[at - 1] + 1]
    runs = [ranks[at:until] for at, until in zip(begins, [*begins[1:], len(ranks)], strict=True)]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _run_row(pieces: Sequence[Piece], run_id: str, origin: int, ranks: list[dict[str, Any]]) -> dict[str, Any]:
    captured = sorted(piece.part.rank for piece in pieces)
    said = _sizes(piece.part.facts.get("world_size") for piece in pieces)
    peers = _sizes(None if (p := piece.part.facts.get("peers")) is None else p + 1 for piece in pieces)
    world = max([*said, captured[-1] + 1]) if said else None
    known = world or (max([*peers, captured[-1] + 1]) if peers else None)
    partial = _by_reason([(row["rank"], row["reason"]) for row in ranks if row["reason"]])
    return {
        "run_id": run_id, "schema_version": schema.version(), "origin_ns": origin,
        "clock": str(next((p for p in pieces if p.part.stamped), pieces[0]).part.facts.get("clock", "unix")),
        "status": "partial" if partial else "complete",
        "reason": (joined(partial) if len(ranks) > 1 else ranks[0]["reason"]) if partial else None,
        "formats": sorted({name for piece in pieces for name in piece.formats}),
        "world_size": world,
        "missing_ranks": None if known is None else sorted(set(range(known)) - set(captured)),
    }  # fmt: skip


def _sizes(told: Iterable[object]) -> list[int]:
    """Numbers of ranks that there can be; a larger one is damage, and its ranks could not even be listed."""
    return [size for size in told if isinstance(size, int) and size <= HIGHEST_RANK + 1]


def _write(staged: Path, table: str, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow(table)), staged / f"{table}.parquet", compression="zstd")


def _manifest(
    pieces: Sequence[Piece], run: dict[str, Any], ranks: list[dict[str, Any]], coverage: list[dict[str, Any]]
) -> dict[str, Any]:
    ends = [row["last_ns"] for row in ranks if row["last_ns"] is not None]
    return {
        **{key: run[key] for key in (
            "run_id", "schema_version", "origin_ns", "status", "reason", "formats", "world_size", "missing_ranks")},
        "loaded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "ranks": [row["rank"] for row in ranks],
        "dur_ns": max(ends) if ends else None,
        "steps": max((piece.part.steps for piece in pieces), default=0),
        "events": sum(row["events"] for row in ranks),
        "bytes": sum(piece.bytes for piece in pieces),
        "coverage": coverage,
        "warnings": _by_reason((p.part.rank, text) for p in pieces for text in p.part.warnings),
        "pieces": [
            {"rank": p.part.rank, "rank_source": p.rank_source, "path": p.path, "formats": list(p.formats),
             "files": p.files, "bytes": p.bytes, "part": p.part.as_dict() | {"directory": ""}}
            for p in pieces
        ],
    }  # fmt: skip
