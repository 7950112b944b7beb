"""How a run is called, and in which words its format and its loading are told."""

from __future__ import annotations

from datetime import UTC, datetime

from npulens.app.context import Context
from npulens.app.text import i18n
from npulens.ingest.store.runs import RunInfo


def name(ctx: Context, run: RunInfo) -> str:
    """What a run is called: its label, else the beginning of its id."""
    return run.label or ctx.say("runs.unnamed", {"id": run.run_id[:12]})


def formats(ctx: Context, run: RunInfo) -> str:
    """The formats of a run in words."""
    known = [f"shell.format_{fmt}" for fmt in run.formats]
    return ctx.say("runs.and").join(
        ctx.say(key) if i18n.known(key) else fmt for key, fmt in zip(known, run.formats, strict=True)
    )


def when(text: str) -> datetime | None:
    """The moment a run was loaded."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None
