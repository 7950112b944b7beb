"""What the hardware counted over time: clock, bandwidth, utilisation, and how that goes with the work."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import counters as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.counters import multiples
from npulens.app.panels import store_empty, unmeasured

TITLE = "counters.title"
ICON = ":material/monitoring:"
ORDER = 35
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the small multiples, the table of all series."""
    st.subheader(ctx.say("counters.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    rows = context.measured(ctx, look.series)
    if rows.empty:
        if not unmeasured.show(ctx, ("sample",), "counters"):
            unmeasured.nothing(ctx, "counters.none")
        return
    multiples.sentence(ctx, rows)
    multiples.show(ctx, rows)
    multiples.table(ctx, rows)
