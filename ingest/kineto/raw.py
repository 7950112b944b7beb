"""Small words over the raw tables of a draft."""

from __future__ import annotations

from ingest.draft import Draft


def store(draft: Draft, name: str, select: str) -> None:
    """Compute a SELECT once, to disk, and make it the view ``name``."""
    draft.keep(name, select)


def count(draft: Draft, select: str) -> int:
    """The one number that a SELECT gives."""
    return int(draft.con.execute(select).fetchall()[0][0])
