"""One SELECT at a time over the chosen run, with the documented tables beside it."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.pages.sql import answer, ask, tables

TITLE = "sql.title"
ICON = ":material/database:"
ORDER = 70
GROUP = "data"


def render(ctx: Context) -> None:
    """The editor left, the documentation right, the answer below both."""
    st.header(ctx.say("sql.title"), anchor=False)
    if ctx.run is None:
        st.text(ctx.say("sql.empty"))
        return
    st.text(ctx.say("sql.lead"))
    left, right = st.columns([3, 2], gap="medium")
    with right:
        tables.show(ctx)
    with left:
        asked = ask.show(ctx, ctx.run.run_id)
        st.caption(answer.limits(ctx))
    if asked:
        answer.show(ctx, *asked)
