"""The first screen: what this run is, how good its capture, what gives time back, where the time goes."""

from __future__ import annotations

import streamlit as st

from app import deliveries
from app.context import Context
from app.panels import bench_about, breakdown, findings, intake, recorded, sentence, store_empty

TITLE = "shell.overview"
ICON = ":material/insights:"
ORDER = 0
GROUP = ""


def render(ctx: Context) -> None:
    """Drop zone, and the chosen run."""
    if ctx.run is not None:
        deliveries.visit().shown(ctx.run.run_id)
    intake.show(ctx)
    if ctx.run is None:
        if not deliveries.visit().busy:
            store_empty.show(ctx, drop=True)
        return
    if ctx.asked_for:
        st.text(ctx.say("runs.unknown_run", {"id": ctx.asked_for}))
    sentence.show(ctx, ctx.run)
    if "bench" in ctx.run.formats:
        bench_about.brief(ctx)
        recorded.show(ctx, ctx.run)
        return
    answer = st.container()  # stands first, and is drawn last: a judgement may take longer than the split
    breakdown.show(ctx)
    cards = st.container()
    recorded.show(ctx, ctx.run)
    findings.brief(ctx, answer, cards)
