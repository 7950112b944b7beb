"""Small words over the raw tables of a draft."""

from __future__ import annotations

from ingest.draft import SPOOL_SHAPE, Draft
from ingest.sqltext import literal


def store(draft: Draft, name: str, select: str) -> None:
    """Compute a SELECT once, to disk, and make it the view ``name``."""
    path = draft.dir / f"{name}.spool.parquet"
    draft.con.execute(f"COPY ({select}) TO {literal(str(path))} ({SPOOL_SHAPE})")
    draft.show(name, path)


def count(draft: Draft, select: str) -> int:
    """The one number that a SELECT gives."""
    return int(draft.con.execute(select).fetchall()[0][0])
