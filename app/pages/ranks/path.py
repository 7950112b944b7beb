"""The critical path: which rank and which kind of work the run's length is made of, and its longest pieces."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import path as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.ranks import path_chart as chart
from npulens.app.panels import cells
from npulens.app.panels.moment import PLAIN, Moment, go, key
from npulens.app.text import i18n


def show(ctx: Context) -> None:
    """One bar a rank, a sentence, the longest pieces as a way into the timeline, all numbers."""
    found = context.measured(ctx, look.path)
    if found.rank is None or not found.wall_ns:
        return
    st.subheader(ctx.say("path.title"), anchor="path", help=ctx.say("path.about"))
    kind, ns = next(iter(found.by_kind().items()))
    st.text(ctx.say("path.headline", {
        "kind": ctx.say(f"path.kind_{kind}"), "share": i18n.share(ns, found.wall_ns), "length": i18n.duration(ns),
        "whole": i18n.duration(found.wall_ns),
    }))  # fmt: skip
    picture = chart.figure(found, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, "path"), config=PLAIN, alt=ctx.say("path.title"))
    if len(found.by_rank()) > chart.MOST:
        st.caption(ctx.say("path.cut", {"n": len(found.by_rank())}))
    go(ctx, [
        Moment(one.rank, one.ts_ns, one.dur_ns, one.span_id, one.name)
        for one in found.longest if one.rank is not None
    ], "path")  # fmt: skip
    with st.expander(ctx.say("path.numbers")):
        _table(ctx, found)


def _table(ctx: Context, found: look.Path) -> None:
    frame = pd.DataFrame([
        {"kind": ctx.say(f"path.kind_{part.kind}"), "rank": chart.rank_name(part.rank, ctx.say),
         "time": part.ns / 1e6, "share": 100 * part.ns / found.wall_ns, "pieces": part.pieces}
        for part in found.parts
    ])  # fmt: skip
    heads = {name: ctx.say(f"path.col_{name}") for name in frame.columns}
    cells.show(frame, {**heads, "share": f"{heads['share']}, %"}, key(ctx, "path_parts"), ctx.say("path.numbers"))
