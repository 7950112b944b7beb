"""Which kernels take the device's time, how evenly they run, and which line of code launched them."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import kernels as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.kernels import detail, table
from npulens.app.panels import kernel_inside, link, pick_rows, store_empty, unmeasured
from npulens.app.selection import bar

TITLE = "kernels.title"
ICON = ":material/memory:"
ORDER = 30
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the filter, the kinds, and the chosen one."""
    st.header(ctx.say("kernels.question"), anchor="kernels")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    there = context.measured(ctx, look.choices)
    if not there.ranks:
        if kernel_inside.show(ctx):
            return
        if not unmeasured.show(ctx, ("kernel",), "kernels"):
            unmeasured.nothing(ctx, "kernels.none")
        return
    bar.show(ctx)
    place = st.container(key="answer")
    level, what = table.choose(ctx, there)
    found = context.selected(ctx, look.table, level, what)
    if not found.ranks and not what.text and not what.cores and bar.nothing(ctx):
        return
    place.text(table.answer(ctx, level, found))
    if not len(found.groups):
        return
    row = table.pick(ctx, level, what, found)
    detail.show(ctx, level, what, row)
    _sequences(ctx, what)


def _sequences(ctx: Context, what: look.Filter) -> None:
    """Which kernels follow each other on a stream, and a way to the first of the chosen ones."""
    st.subheader(ctx.say("kernels.sequences"), anchor="sequences", help=ctx.say("kernels.sequences_means"))
    run = ctx.run.run_id if ctx.run else ""
    order = st.segmented_control(
        ctx.say("kernels.sequences_order"), ["gap", "total", "count"], default="gap", required=True,
        key=f"sequences_order_{run}", format_func=lambda one: ctx.say(f"kernels.sequences_{one}"),
    ) or "gap"  # fmt: skip
    found = context.selected(ctx, look.sequences, what.ranks, what.text, order)
    if not len(found):
        unmeasured.nothing(ctx, "kernels.sequences_none")
        return
    shown = pick_rows.in_us(pick_rows.in_ms(found, ("total_ns", "gap_ns")), ("median_gap_ns",))
    say = ctx.say
    place = pick_rows.pick(shown, {
        "ops": pick_rows.text(say("kernels.col_ops"), wide=True), "count": pick_rows.count(say("kernels.col_count")),
        "gap_ns": pick_rows.milli(say("kernels.col_gap"), say("kernels.col_gap_help")),
        "median_gap_ns": pick_rows.micro(say("kernels.col_median_gap")),
        "total_ns": pick_rows.milli(say("kernels.col_total"), say("kernels.col_total_help")),
    }, f"sequences_{run}_{order}_{hash(what)}_{ctx.lang}", say("kernels.sequences_alt"))  # fmt: skip
    row = found.iloc[place]
    link.to_timeline(ctx, "shell.on_timeline", int(row["ts_ns"]), int(row["dur_ns"]), int(row["rank"]),
                     int(row["span_id"]), key="sequence")  # fmt: skip
