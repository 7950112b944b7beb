"""How a run is called, and in which words its format and its loading are told."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from npulens.app.context import Context
from npulens.app.text import i18n, wording
from npulens.ingest.store import runs
from npulens.ingest.store.runs import RunInfo


def name(ctx: Context, run: RunInfo) -> str:
    """What a run is called."""
    return wording.run_name(run, ctx.lang)


def origin(ctx: Context, run: RunInfo) -> str:
    """Where a run comes from, as the description beside its capture says; empty where nothing says so."""
    key = f"runs.origin_{run.evidence}"
    return ctx.say(key) if run.evidence and i18n.known(key) else ""


def formats(ctx: Context, run: RunInfo) -> str:
    """The formats of a run in words."""
    return wording.formats(run, ctx.lang)


def holds(ctx: Context, run: RunInfo, table: str) -> bool:
    """Whether the run has rows of a table, by what its manifest says."""
    return table in _held(ctx.store, run.run_id, run.loaded_at)


@lru_cache(256)
def _held(store: Path, run_id: str, loaded_at: str) -> frozenset[str]:
    """The tables with rows; a run that is loaded again is asked anew."""
    said = runs.manifest(store, run_id).get("coverage")
    return frozenset(str(row.get("table")) for row in said or () if row.get("rows"))


def without_spans(ctx: Context, run: RunInfo) -> str | None:
    """What was recorded instead where nothing of the devices was: "request", "stage" of a job, its "log", or none."""
    if holds(ctx, run, "span"):
        return None
    tables = {"request": "request", "stage": "stage", "log": "serving_sample"}
    return next((kind for kind, table in tables.items() if holds(ctx, run, table)), None)


def when(text: str) -> datetime | None:
    """The moment a run was loaded."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None
