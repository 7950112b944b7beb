"""Every judgement of the run: what was found, what was looked at, what could not be seen, and by which limits."""

from __future__ import annotations

from npulens.app.context import Context
from npulens.app.pages.findings import limits
from npulens.app.panels import findings, sentence, store_empty

TITLE = "shell.findings"
ICON = ":material/fact_check:"
ORDER = 15
GROUP = ""


def render(ctx: Context) -> None:
    """The findings, then the limits behind them."""
    if ctx.run is None:
        store_empty.show(ctx)
        return
    sentence.title(ctx, ctx.run)
    if findings.show(ctx):
        limits.show(ctx)
