"""Managing runs: bring captures in, find, name, note, tag, compare, delete and have back."""

from __future__ import annotations

from app import deliveries
from app.context import Context
from app.panels import intake, invite, run_edit, run_table, run_trash, store_empty

TITLE = "runs.title"
ICON = ":material/inventory_2:"
ORDER = 80
GROUP = "data"


def render(ctx: Context) -> None:
    """Drop zone, what was just deleted, the table with what can be done to a run, and what can be had back."""
    intake.show(ctx)
    run_trash.undo(ctx)
    if ctx.runs:
        chosen = run_table.show(ctx)
        run_edit.show(ctx, chosen)
    else:
        invite.show(ctx)
        if not deliveries.visit().busy:
            store_empty.show(ctx, drop=True)
    run_trash.show(ctx)
