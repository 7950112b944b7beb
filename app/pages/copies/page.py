"""What memory copies take, how fast they are, and which of them the device waits for."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import copies as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.copies import instances, summary
from npulens.app.panels import store_empty, unmeasured

TITLE = "copies.title"
ICON = ":material/swap_horiz:"
ORDER = 32
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, directions and sizes, speeds, and the worst one by one."""
    st.subheader(ctx.say("copies.question"), anchor="copies")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    found = context.measured(ctx, look.copies)
    if not found.count:
        if not unmeasured.show(ctx, ("transfer",), "copies"):
            unmeasured.nothing(ctx, "copies.none")
        return
    with st.container(key="answer", gap="xxsmall"):
        summary.answer(ctx, found)
    summary.ways(ctx, found)
    summary.groups(ctx, found.groups)
    instances.scatter(ctx, found)
    instances.worst(ctx, found)
