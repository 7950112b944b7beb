"""How long a call takes: the distributions, the table, and one series call by call."""

from __future__ import annotations

import streamlit as st

from analysis.look import bench as look
from app import context, telling
from app.charts import bench as chart
from app.context import Context
from app.panels import bench_table, unmeasured


def show(ctx: Context, found: look.Bench) -> None:
    """Distributions with the intervals of their percentiles."""
    figures = found.part("latency")
    if not figures:
        return
    run = ctx.run.run_id if ctx.run else ""
    bench_table.head(ctx, "latency")
    rows = context.measured(ctx, look.distribution, tuple(figure["series"] for figure in figures),
                            tuple(figure["steadiness"]["kept_from"] for figure in figures))  # fmt: skip
    if len(rows):
        st.plotly_chart(chart.latency(rows, figures, ctx.say, context.ink()), key=f"bench_ecdf_{run}_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("bench.latency"))  # fmt: skip
    else:
        unmeasured.show(ctx, ("sample",), "bench")
    bench_table.show(ctx, found, "latency")
    if len(rows):
        _course(ctx, figures, run)


def _course(ctx: Context, figures: tuple[look.Figure, ...], run: str) -> None:
    with st.expander(ctx.say("bench.course")):
        st.caption(ctx.say("bench.course_means"))
        names = [figure["series"] for figure in figures]
        picked = st.selectbox(ctx.say("bench.course_pick"), names, key=f"bench_course_{run}", width=360,
                              format_func=telling.plain)  # fmt: skip
        figure = figures[names.index(picked)]
        rows = context.measured(ctx, look.course, picked)
        st.plotly_chart(chart.course(rows, figure, ctx.say, context.ink()), key=f"bench_calls_{run}_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("bench.course"))  # fmt: skip
