"""The first screen: what this run is, how good its capture, what gives time back, where the time goes."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.intake import drop_zone, visitor_drops
from npulens.app.pages.bench import about
from npulens.app.pages.overview import breakdown, recorded
from npulens.app.panels import findings, sentence, store_empty

TITLE = "shell.overview"
ICON = ":material/insights:"
ORDER = 0
GROUP = ""


def render(ctx: Context) -> None:
    """Drop zone, and the chosen run."""
    if ctx.run is not None:
        visitor_drops.visit().shown(ctx.run.run_id)
    drop_zone.show(ctx)
    if ctx.run is None:
        if not visitor_drops.visit().busy:
            store_empty.show(ctx, drop=True)
        return
    if ctx.asked_for:
        st.text(ctx.say("runs.unknown_run", {"id": ctx.asked_for}))
    sentence.show(ctx, ctx.run)
    if "bench" in ctx.run.formats:
        about.brief(ctx)
        recorded.show(ctx, ctx.run)
        return
    answer = st.container()  # stands first, and is drawn last: a judgement may take longer than the split
    breakdown.show(ctx)
    cards = st.container()
    recorded.show(ctx, ctx.run)
    findings.brief(ctx, answer, cards)
