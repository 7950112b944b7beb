"""How long a call takes: the distributions, the table, and one series call by call."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import bench as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.bench import charts as chart
from npulens.app.pages.bench import table
from npulens.app.panels import unmeasured
from npulens.app.text import wording


def show(ctx: Context, found: look.Bench) -> None:
    """Distributions with the intervals of their percentiles."""
    figures = found.part("latency")
    if not figures:
        return
    run = ctx.run.run_id if ctx.run else ""
    table.head(ctx, "latency")
    rows = context.measured(ctx, look.distribution, tuple(figure["series"] for figure in figures),
                            tuple(figure["steadiness"]["kept_from"] for figure in figures))  # fmt: skip
    if len(rows):
        st.plotly_chart(chart.latency(rows, figures, ctx.say, context.ink()), key=f"bench_ecdf_{run}_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("bench.latency"))  # fmt: skip
    else:
        unmeasured.show(ctx, ("sample",), "bench")
    table.show(ctx, found, "latency")
    if len(rows):
        _course(ctx, figures, run)


def _course(ctx: Context, figures: tuple[look.Figure, ...], run: str) -> None:
    with st.expander(ctx.say("bench.course")):
        st.caption(ctx.say("bench.course_means"))
        names = [figure["series"] for figure in figures]
        picked = st.selectbox(ctx.say("bench.course_pick"), names, key=f"bench_course_{run}", width=360,
                              format_func=wording.plain)  # fmt: skip
        figure = figures[names.index(picked)]
        rows = context.measured(ctx, look.course, picked)
        st.plotly_chart(chart.course(rows, figure, ctx.say, context.ink()), key=f"bench_calls_{run}_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("bench.course"))  # fmt: skip
