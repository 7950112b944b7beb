"""What a benchmark measured: what is faster and by how much, latencies, batch curve, interference, numerics."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import bench as look
from npulens.analysis.look.bench import Bench
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.bench import about, table, versus
from npulens.app.pages.bench import charts as chart
from npulens.app.panels import store_empty, unmeasured
from npulens.app.text import wording

TITLE = "bench.title"
ICON = ":material/speed:"
ORDER = 36
GROUP = "look"


def render(ctx: Context) -> None:
    """The answer first, then what it rests on."""
    st.header(ctx.say("bench.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    found = context.measured(ctx, look.bench)
    if found is None:
        about.none(ctx)
        return
    about.answer(ctx, found)
    versus.show(ctx, found)
    show_latency(ctx, found)
    for part in ("batch", "together", "throughput", "sweep", "numerics"):
        show_more(ctx, found, part)
    about.environment(ctx, found)


# What a benchmark measured besides: batch curve, several at once, throughput, shapes, numerics.
def show_more(ctx: Context, found: Bench, part: str) -> None:
    """One part, if it was measured."""
    figures = found.part(part)
    if not figures:
        return
    run = ctx.run.run_id if ctx.run else ""
    why = ctx.say(f"bench.stopped_{figures[0]['stopped']}") if part == "batch" else ""
    table.head(ctx, part, ctx.say(f"bench.{part}_means", {"why": why}))
    pictures = []
    if part == "batch":
        pictures = [
            context.once(chart.batch, figure, ctx.say, context.ink()) for figure in figures if figure["points"]
        ]
    elif part == "together":
        pictures = [context.once(chart.together, figures, ctx.say, context.ink())]
    for place, picture in enumerate(pictures):
        st.plotly_chart(picture, key=f"bench_{part}_{place}_{run}_{ctx.lang}", config={"displayModeBar": False},
                        alt=ctx.say(f"bench.{part}"))  # fmt: skip
    table.show(ctx, found, part)


# How long a call takes: the distributions, the table, and one series call by call.
def show_latency(ctx: Context, found: look.Bench) -> None:
    """Distributions with the intervals of their percentiles."""
    figures = found.part("latency")
    if not figures:
        return
    run = ctx.run.run_id if ctx.run else ""
    table.head(ctx, "latency")
    rows = context.measured(ctx, look.distribution, tuple(figure["series"] for figure in figures),
                            tuple(figure["steadiness"]["kept_from"] for figure in figures))  # fmt: skip
    if len(rows):
        picture = context.once(chart.latency, rows, figures, ctx.say, context.ink())
        st.plotly_chart(picture, key=f"bench_ecdf_{run}_{ctx.lang}",
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
        picture = context.once(chart.course, rows, figure, ctx.say, context.ink())
        st.plotly_chart(picture, key=f"bench_calls_{run}_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("bench.course"))  # fmt: skip
