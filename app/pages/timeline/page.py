"""Every span of every rank over time."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.panels import store_empty, unmeasured
from npulens.app.timeline import component

TITLE = "timeline.title"
ICON = ":material/view_timeline:"
ORDER = 10
GROUP = ""

#: The canvas takes the whole width, on any screen.
WIDE = """<style>[data-testid="stMainBlockContainer"] { max-width: none; padding-bottom: 1rem; }</style>"""
_TABLES = ("span", "link", "step", "sample", "stack")


def render(ctx: Context) -> None:
    """The canvas, and below it what the capture does not hold."""
    if ctx.run is None:
        store_empty.show(ctx)
        return
    st.html(WIDE)
    component.show(ctx, ctx.run.run_id)
    with st.expander(ctx.say("timeline.limits")):
        if not unmeasured.show(ctx, _TABLES, "timeline"):
            st.text(ctx.say("timeline.all_recorded"))
