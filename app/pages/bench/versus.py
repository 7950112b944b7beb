"""Fused against unfused: ratios of time with their intervals, the control among them."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look.bench import Bench
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.bench import charts as chart
from npulens.app.pages.bench import table


def show(ctx: Context, found: Bench) -> None:
    """The picture, then the table with its verdicts."""
    figures = found.part("versus")
    if not figures:
        return
    run = ctx.run.run_id if ctx.run else ""
    table.head(ctx, "versus")
    picture = context.once(chart.versus, figures, ctx.say, context.ink())
    st.plotly_chart(picture, key=f"bench_versus_chart_{run}_{ctx.lang}",
                    config={"displayModeBar": False}, alt=ctx.say("bench.versus"))  # fmt: skip
    table.show(ctx, found, "versus")
