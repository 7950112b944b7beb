"""The whole of a step in parts, from what the matrix units need at their peak down to idle time."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look.efficiency import Fall
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.efficiency import charts
from npulens.app.panels import pick_rows as table
from npulens.app.panels import unmeasured
from npulens.app.text import i18n, wording


def head(ctx: Context) -> None:
    st.subheader(ctx.say("efficiency.whole"), anchor="whole", help=ctx.say("efficiency.whole_means"))


def show(ctx: Context, found: dict[str, Fall]) -> None:
    """The chart of all ranks or a chosen one, and its table."""
    say = ctx.say
    run = ctx.run.run_id if ctx.run else ""
    chosen = "all"
    if len(found) > 1:
        chosen = st.selectbox(
            say("efficiency.of"), list(found), key=f"efficiency_of_{run}_{hash(ctx.part)}", width=220,
            format_func=lambda one: _named(ctx, one),
        ) or "all"  # fmt: skip
    fall = found.get(chosen)
    if fall is None or not fall.parts:
        unmeasured.nothing(ctx, "efficiency.whole_none")
        return
    picture = context.once(charts.waterfall, fall.parts, say, context.ink())
    st.plotly_chart(
        picture, key=f"efficiency_whole_{run}_{chosen}_{ctx.lang}",
        config={"displayModeBar": False}, alt=say("efficiency.whole"),
    )  # fmt: skip
    with st.expander(say("efficiency.whole_table")):
        st.text(say("efficiency.whole_sums", {
            "n": fall.windows, "residual": f"{fall.residual_ns:,}", "dur": f"{fall.dur_ns:,}",
        }))  # fmt: skip
        rows = pd.DataFrame([
            {"part": say(f"efficiency.part_{part.name}"), "ms": part.ns / 1e6, "share": part.ns / fall.dur_ns,
             "means": say(f"efficiency.part_{part.name}_means")}
            for part in fall.parts
        ])  # fmt: skip
        table.plain(rows, {
            "part": table.text(say("efficiency.col_part")), "ms": table.milli(say("efficiency.col_time")),
            "share": table.percent(say("efficiency.col_of_whole")),
            "means": table.text(say("efficiency.col_means"), wide=True),
        }, say("efficiency.whole"))  # fmt: skip


def _named(ctx: Context, one: str) -> str:
    """A choice in words: all ranks, rank 3, decode."""
    if one == "all":
        return ctx.say("efficiency.of_all")
    name = wording.plain(one.removeprefix("phase "))
    key = f"efficiency.phase_{name}"
    return ctx.say(key) if i18n.known(key) else name
