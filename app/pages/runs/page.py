"""Managing runs: bring captures in, find, name, note, tag, compare, delete and have back."""

from __future__ import annotations

from npulens.app.context import Context
from npulens.app.intake import drop_zone, invite_panel, visitor_drops
from npulens.app.pages.runs import edit, table, trash
from npulens.app.panels import store_empty

TITLE = "runs.title"
ICON = ":material/inventory_2:"
ORDER = 80
GROUP = "data"


def render(ctx: Context) -> None:
    """Drop zone, what was just deleted, the table with what can be done to a run, and what can be had back."""
    drop_zone.show(ctx)
    trash.undo(ctx)
    if ctx.runs:
        chosen = table.show(ctx)
        edit.show(ctx, chosen)
    else:
        invite_panel.show(ctx)
        if not visitor_drops.visit().busy:
            store_empty.show(ctx, drop=True)
    trash.show(ctx)
