"""What a benchmark measured besides: batch curve, several at once, throughput, shapes, numerics."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look.bench import Bench
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.bench import charts as chart
from npulens.app.pages.bench import table


def show(ctx: Context, found: Bench, part: str) -> None:
    """One part, if it was measured."""
    figures = found.part(part)
    if not figures:
        return
    run = ctx.run.run_id if ctx.run else ""
    why = ctx.say(f"bench.stopped_{figures[0]['stopped']}") if part == "batch" else ""
    table.head(ctx, part, ctx.say(f"bench.{part}_means", {"why": why}))
    pictures = []
    if part == "batch":
        pictures = [chart.batch(figure, ctx.say, context.ink()) for figure in figures if figure["points"]]
    elif part == "together":
        pictures = [chart.together(figures, ctx.say, context.ink())]
    for place, picture in enumerate(pictures):
        st.plotly_chart(picture, key=f"bench_{part}_{place}_{run}_{ctx.lang}", config={"displayModeBar": False},
                        alt=ctx.say(f"bench.{part}"))  # fmt: skip
    table.show(ctx, found, part)
