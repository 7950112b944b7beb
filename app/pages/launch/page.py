"""How work reaches the device: how long launches take, how many wait there, and where the host comes late."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import launch as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.launch import calls, curves, summary
from npulens.app.panels import store_empty, unmeasured

TITLE = "launch.title"
ICON = ":material/rocket_launch:"
ORDER = 31
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the latency, both curves, and the calls behind them."""
    st.subheader(ctx.say("launch.question"), anchor="launch")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    every = context.measured(ctx, look.launches)
    found = every.headline
    if not found.launched:
        if found.tasks:
            st.text(ctx.say("launch.unlinked", {"n": f"{found.tasks:,}"}))
        if not unmeasured.show(ctx, ("kernel", "link"), "launch") and not found.tasks:
            unmeasured.nothing(ctx, "launch.none")
        calls.syncs(ctx, every)
        return
    with st.container(key="answer", gap="xxsmall"):
        summary.answer(ctx, found)
    summary.latency(ctx, every.latency)
    curves.show(ctx, found)
    calls.late(ctx, every)
    calls.short(ctx, every)
    calls.syncs(ctx, every)
