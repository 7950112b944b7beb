"""A store with nothing in it says how to fill it, on every page the same."""

from __future__ import annotations

import streamlit as st

from npulens.app import context
from npulens.app.context import Context


def show(ctx: Context, drop: bool = False) -> None:
    """Every way in. ``drop`` where the page has a place to drop a capture, else the way to the page that has one."""
    with st.container(key="prose"):
        st.header(ctx.say("runs.empty_title"), anchor=False)
        if not drop:
            st.text(ctx.say("shell.bring_one"))
            if page := context.page("workspace"):
                st.page_link(page, label=ctx.say("workspace.title"), icon=":material/space_dashboard:")
            return
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
