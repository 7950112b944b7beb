"""Copies one by one: speed by size, and the most exposed ones with where they come from."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import copies as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.copies import charts as chart
from npulens.app.panels import link, unmeasured
from npulens.app.panels import pick_rows as table
from npulens.app.text import i18n, wording


def scatter(ctx: Context, found: look.Copies) -> None:
    """Speed by size, with what the links carry."""
    st.subheader(ctx.say("copies.scatter"), anchor="speed")
    cloud = found.cloud
    if not cloud.count:
        unmeasured.nothing(ctx, "copies.scatter_none")
        return
    st.caption(ctx.say("copies.scatter_cells" if cloud.cells else "copies.scatter_points", {"n": f"{cloud.count:,}"}))
    run = ctx.run.run_id if ctx.run else ""
    st.plotly_chart(chart.scatter(cloud, found.ways, ctx.say, context.ink()), key=f"copies_cloud_{run}_{ctx.lang}",
                    config={"displayModeBar": False}, alt=ctx.say("copies.scatter_alt"))  # fmt: skip
    if cloud.without:
        st.text(ctx.say("copies.scatter_without", {"n": f"{cloud.without:,}"}))
    with st.expander(ctx.say("copies.table")):
        shown = table.in_us(cloud.points, ("dur_ns",)).assign(
            way=[chart.way(one, ctx.say) for one in cloud.points["direction"]],
            size=[i18n.size(int(one)) for one in cloud.points["bytes"]],
            speed=[chart.rate(one) for one in cloud.points["bytes_per_s"]],
        )
        table.plain(shown, {
            "way": table.text(ctx.say("copies.col_way")), "size": table.text(ctx.say("copies.col_size")),
            "speed": table.text(ctx.say("copies.col_speed")), "count": table.count(ctx.say("copies.col_count")),
            "dur_ns": table.micro(ctx.say("copies.col_dur")),
        }, ctx.say("copies.scatter_alt"))  # fmt: skip


def worst(ctx: Context, found: look.Copies) -> None:
    """The most exposed copies; the chosen one with its operator, its line of code and the timeline."""
    st.subheader(ctx.say("copies.worst"), anchor="exposed")
    if not len(found.worst):
        unmeasured.nothing(ctx, "copies.worst_none")
        return
    st.text(ctx.say("copies.worst_some", {"count": f"{found.count:,}", "n": f"{found.exposed_count:,}"}))
    if found.exposed_count > len(found.worst):
        st.text(ctx.say("copies.worst_cut", {"shown": f"{len(found.worst):,}"}))
    row = found.worst.iloc[_choose(ctx, found.worst)]
    _origin(ctx, int(row["span_id"]))
    link.to_timeline(ctx, "shell.on_timeline", int(row["ts_ns"]), int(row["dur_ns"]), int(row["rank"]),
                     int(row["span_id"]), key="copy")  # fmt: skip


def _choose(ctx: Context, rows: pd.DataFrame) -> int:
    say = ctx.say
    shown = table.in_us(table.in_ms(rows, ("ts_ns",)), ("dur_ns", "exposed_ns")).assign(
        way=[chart.way(one, say) for one in rows["direction"]],
        size=["–" if pd.isna(one) else i18n.size(int(one)) for one in rows["bytes"]],
        speed=[chart.rate(one) for one in rows["bytes_per_s"]],
    )
    run = ctx.run.run_id if ctx.run else ""
    return table.pick(shown, {
        "rank": table.count(say("copies.col_rank")), "step": table.count(say("copies.col_step")),
        "way": table.text(say("copies.col_way")),
        "exposed_ns": table.micro(say("copies.col_exposed"), say("copies.col_exposed_help")),
        "dur_ns": table.micro(say("copies.col_dur")), "size": table.text(say("copies.col_size")),
        "speed": table.text(say("copies.col_speed")),
        "blocking": st.column_config.CheckboxColumn(say("copies.col_blocking"), help=say("copies.col_blocking_help")),
        "ts_ns": table.milli(say("copies.col_start"), say("copies.col_start_help")),
        "name": table.text(say("copies.col_name"), wide=True),
    }, f"copies_worst_{run}_{ctx.lang}", say("copies.worst"))  # fmt: skip


def _origin(ctx: Context, span_id: int) -> None:
    """The operator that launched a copy, and the line of code."""
    found = context.measured(ctx, look.origin_of, span_id)
    if found.op and found.code:
        st.text(wording.plain(ctx.say("copies.origin", {"op": found.op, "code": found.code})))
    elif found.op or found.code:
        st.text(wording.plain(ctx.say("copies.origin_op", {"op": found.op or found.code})))
    else:
        st.text(ctx.say("copies.origin_none"))
