"""Which kernels follow each other on a stream."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import kernels as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import link, unmeasured
from npulens.app.panels import pick_rows as table


def show(ctx: Context, what: look.Filter) -> None:
    """The table, and a way to the first of the chosen ones."""
    st.subheader(ctx.say("kernels.sequences"), anchor="sequences", help=ctx.say("kernels.sequences_means"))
    run = ctx.run.run_id if ctx.run else ""
    order = st.segmented_control(
        ctx.say("kernels.sequences_order"), ["gap", "total", "count"], default="gap", required=True,
        key=f"sequences_order_{run}", format_func=lambda one: ctx.say(f"kernels.sequences_{one}"),
    ) or "gap"  # fmt: skip
    found = context.measured(ctx, look.sequences, what.ranks, what.text, order)
    if not len(found):
        unmeasured.nothing(ctx, "kernels.sequences_none")
        return
    shown = table.in_us(table.in_ms(found, ("total_ns", "gap_ns")), ("median_gap_ns",))
    say = ctx.say
    place = table.pick(shown, {
        "ops": table.text(say("kernels.col_ops"), wide=True), "count": table.count(say("kernels.col_count")),
        "gap_ns": table.milli(say("kernels.col_gap"), say("kernels.col_gap_help")),
        "median_gap_ns": table.micro(say("kernels.col_median_gap")),
        "total_ns": table.milli(say("kernels.col_total"), say("kernels.col_total_help")),
    }, f"sequences_{run}_{order}_{hash(what)}_{ctx.lang}", say("kernels.sequences_alt"))  # fmt: skip
    row = found.iloc[place]
    link.to_timeline(ctx, "shell.on_timeline", int(row["ts_ns"]), int(row["dur_ns"]), int(row["rank"]),
                     int(row["span_id"]), key="sequence")  # fmt: skip
