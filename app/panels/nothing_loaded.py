"""What a page shows while the store holds no run: where to bring one in."""

from __future__ import annotations

import streamlit as st

from app import context
from app.context import Context


def show(ctx: Context) -> None:
    """One sentence and the way there."""
    with st.container(key="prose"):
        st.subheader(ctx.say("runs.empty_title"), anchor=False)
        st.text(ctx.say("shell.bring_one"))
        if page := context.page("overview"):
            st.page_link(page, label=ctx.say("shell.overview"), icon=":material/insights:")
