"""The first screen: what the store holds, and of the chosen run what it is, what gives time back, where its time goes,
what it recorded."""

from __future__ import annotations

import streamlit as st

from app import context
from app.context import Context
from app.panels import breakdown, findings, intake, recorded, run_list, sentence

TITLE = "runs.title"
ICON = ":material/list:"
ORDER = 0


def render(ctx: Context) -> None:
    """Drop zone, list, and the chosen run."""
    intake.show(ctx)
    if ctx.run is None:
        if not context.load_under_way():
            _empty(ctx)
        return
    run_list.show(ctx)
    sentence.show(ctx, ctx.run)
    place = st.container()  # the findings stand first, and are drawn last: they may take longer
    breakdown.show(ctx)
    recorded.show(ctx, ctx.run)
    with place:
        findings.show(ctx)


def _empty(ctx: Context) -> None:
    """A store with nothing in it says how to fill it."""
    with st.container(key="prose"):
        st.subheader(ctx.say("runs.empty_title"), anchor=False)
        st.text(ctx.say("runs.empty_how"))
        st.text(ctx.say("runs.empty_drop"))
        st.text(ctx.say("runs.empty_load"))
        st.code("npulens load PATH", language="bash")
        st.text(ctx.say("runs.empty_demo"))
        st.code("npulens demo", language="bash")
        st.caption(" ")
        st.text(ctx.say("runs.empty_store", {"path": ctx.store}))
