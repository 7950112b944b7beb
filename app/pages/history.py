"""Is it slower than it was, since when, and what changed then? One metric, night after night."""

from __future__ import annotations

import streamlit as st

from app.context import Context
from app.panels import history_notes, history_pick, history_series

TITLE = "history.title"
ICON = ":material/show_chart:"
ORDER = 62
GROUP = "data"


def render(ctx: Context) -> None:
    """Choose a series; the sentence, the picture, its changes, notes, and the numbers behind it."""
    st.subheader(ctx.say("history.question"), anchor=False)
    known = history_pick.read(ctx)
    chosen = history_pick.show(ctx, known) if known else None
    if chosen is None:
        _empty(ctx)
        return
    held, several = chosen
    history_series.sentence(ctx, held)
    history_series.picture(ctx, held)
    history_series.changes(ctx, held)
    history_notes.show(ctx, held)
    history_series.table(ctx, held)
    history_series.every(ctx, several)


def _empty(ctx: Context) -> None:
    """Why there is nothing, and what fills it."""
    with st.container(key="prose"):
        st.text(ctx.say("history.empty"))
        st.text(ctx.say("history.empty_load"))
        st.code("npulens load PATH", language="bash")
        st.text(ctx.say("history.empty_watch"))
        st.code("npulens watch DIR", language="bash")
