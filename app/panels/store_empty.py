"""A store with nothing in it says how to fill it."""

from __future__ import annotations

import streamlit as st

from app.context import Context


def show(ctx: Context) -> None:
    """Every way in."""
    with st.container(key="prose"):
        st.subheader(ctx.say("runs.empty_title"), anchor=False)
        st.text(ctx.say("runs.empty_how"))
        st.text(ctx.say("runs.empty_drop"))
        st.text(ctx.say("runs.empty_load"))
        st.code("npulens load PATH", language="bash")
        st.text(ctx.say("runs.empty_watch"))
        st.code("npulens watch DIR", language="bash")
        st.text(ctx.say("runs.empty_demo"))
        st.code("npulens demo", language="bash")
        st.caption(" ")
        st.text(ctx.say("runs.empty_store", {"path": ctx.store}))
