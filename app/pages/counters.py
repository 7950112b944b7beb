"""What the hardware counted over time: clock, bandwidth, utilisation, and how that goes with the work."""

from __future__ import annotations

import streamlit as st

from analysis.look import counters as look
from app import context
from app.context import Context
from app.panels import counter_panels, store_empty, unmeasured

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
    counter_panels.sentence(ctx, rows)
    counter_panels.show(ctx, rows)
    counter_panels.table(ctx, rows)
