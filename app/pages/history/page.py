"""Is it slower than it was, since when, and what changed then? One metric, night after night."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.pages.history import notes, pick, series

TITLE = "history.title"
ICON = ":material/show_chart:"
ORDER = 62
GROUP = "data"


def render(ctx: Context) -> None:
    """Choose a series; the sentence, the picture, its changes, notes, and the numbers behind it."""
    st.subheader(ctx.say("history.question"), anchor=False)
    known = pick.read(ctx)
    chosen = pick.show(ctx, known) if known else None
    if chosen is None:
        _empty(ctx)
        return
    held, several = chosen
    series.sentence(ctx, held)
    series.picture(ctx, held)
    series.changes(ctx, held)
    notes.show(ctx, held)
    series.table(ctx, held)
    series.every(ctx, several)


def _empty(ctx: Context) -> None:
    """Why there is nothing, and what fills it."""
    with st.container(key="prose"):
        st.text(ctx.say("history.empty"))
        st.text(ctx.say("history.empty_load"))
        st.code("npulens load PATH", language="bash")
        st.text(ctx.say("history.empty_watch"))
        st.code("npulens watch DIR", language="bash")
