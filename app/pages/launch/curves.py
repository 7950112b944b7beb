"""The queue of the device and the lead of the host over time, one rank at a time."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import launch as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.launch import charts as chart
from npulens.app.panels import pick_rows as table
from npulens.app.panels import unmeasured


def show(ctx: Context, found: look.Headline) -> None:
    """Both curves of the chosen rank."""
    st.subheader(ctx.say("launch.over_time"), anchor="time")
    run = ctx.run.run_id if ctx.run else ""
    rank = found.ranks[0] if len(found.ranks) == 1 else st.selectbox(
        ctx.say("launch.rank"), found.ranks, key=f"launch_rank_{run}", width=160,
    )  # fmt: skip
    queued = context.measured(ctx, look.queue, rank)
    _draw(ctx, "queue", rank, queued)
    ahead = context.measured(ctx, look.lead, rank)
    if not len(ahead.slices):
        unmeasured.nothing(ctx, "launch.lead_none")
        return
    _draw(ctx, "lead", rank, ahead)


def _draw(ctx: Context, name: str, rank: int, curve: look.Curve) -> None:
    say, run = ctx.say, ctx.run.run_id if ctx.run else ""
    picture = (chart.lead if name == "lead" else chart.queue)(curve, say, context.ink())
    st.markdown(f"**{say(f'launch.{name}')}**", help=say(f"launch.{name}_means"))
    st.plotly_chart(picture, key=f"launch_{name}_{run}_{rank}_{ctx.lang}", config={"displayModeBar": False},
                    alt=say(f"launch.{name}"))  # fmt: skip
    with st.expander(say("launch.table")):
        st.text(say("launch.slices", {"n": f"{curve.points:,}", "slices": f"{len(curve.slices):,}"}))
        rows = table.in_ms(curve.slices, ("ts_ns",))
        rows = table.in_us(rows, ("least", "middle", "most")) if name == "lead" else rows
        value = table.micro if name == "lead" else table.count
        table.plain(rows, {
            "ts_ns": table.milli(say("launch.col_at")), "least": value(say("launch.col_least")),
            "middle": value(say("launch.median" if name == "lead" else "launch.mean")),
            "most": value(say("launch.col_most")),
        }, say(f"launch.{name}"))  # fmt: skip
