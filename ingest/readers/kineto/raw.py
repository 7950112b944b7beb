"""Short helpers for the raw tables of a draft."""

from __future__ import annotations

from npulens.ingest.tables.draft import Draft


def count(draft: Draft, select: str) -> int:
    """The one number that a SELECT gives."""
    return int(draft.con.execute(select).fetchall()[0][0])
