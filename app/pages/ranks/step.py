"""One step, rank by rank, with the bubbles of a pipeline; and the clocks that this picture rests on."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.look import ranks as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.ranks import charts as chart
from npulens.app.panels import cells
from npulens.app.panels.moment import PLAIN, Moment, go, key
from npulens.app.text import i18n

_SLICES, _FEW, _CHOICES = 320, 16, 1000


def show(ctx: Context, found: look.Compared) -> None:
    """The picture of a step; with many ranks only when asked for."""
    title = "pipeline" if found.staged else "step"
    st.subheader(ctx.say(f"ranks.{title}"), anchor="step", help=ctx.say(f"ranks.{title}_means"))
    few = len(found.stands) <= _FEW
    with st.container(horizontal=True, vertical_alignment="bottom"):
        step = _step(ctx, found)
        if not few and not st.toggle(ctx.say("ranks.draw"), key=key(ctx, "ranks_draw")):
            return
    rows = context.measured(ctx, look.pipeline, step, _SLICES)
    if not rows:
        st.text(ctx.say("ranks.no_lanes"))
        return
    _said(ctx, rows, found.staged)
    alt = ctx.say("ranks.step_alt")
    st.plotly_chart(chart.lanes(rows, ctx.say, context.ink()), key=key(ctx, f"lanes_{step}"), config=PLAIN, alt=alt)
    if not all(row.told for row in rows):
        st.caption(ctx.say("ranks.untold"))
    whole = round(rows[0].slice_ns * _SLICES)
    go(ctx, [Moment(row.rank, row.begin_ns, whole, None, ctx.say("ranks.one_step")) for row in rows], "step")
    with st.expander(ctx.say("ranks.step_table")):
        _table(ctx, rows)


def _step(ctx: Context, found: look.Compared) -> int | None:
    numbers = [stand for stand in found.grids["dur"].steps if stand.isdigit()]
    if not numbers:
        return None
    if len(numbers) == 1:
        return int(numbers[0])
    choices = [int(number) for number in numbers[:_CHOICES]]
    picked = st.selectbox(ctx.say("ranks.axis_step"), choices, key=key(ctx, "ranks_step"), width=160)
    return None if picked is None else int(picked)


def _said(ctx: Context, rows: Sequence[look.Lane], staged: bool) -> None:
    """What the step holds for the ranks together, in a sentence."""
    whole = sum(row.dur_ns for row in rows)
    lost = sum(row.waiting_ns + row.idle_ns for row in rows)
    most = max(rows, key=lambda row: (row.waiting_ns + row.idle_ns) / max(row.dur_ns, 1))
    computing = sum(row.computing_ns for row in rows)
    st.text(ctx.say("ranks.bubbles" if staged else "ranks.shares", {
        "computing": i18n.share(computing, whole), "lost": i18n.share(lost, whole), "rank": most.rank,
        "most": i18n.share(most.waiting_ns + most.idle_ns, most.dur_ns),
        "most_ns": i18n.duration(most.waiting_ns + most.idle_ns),
    }))  # fmt: skip


def _table(ctx: Context, rows: Sequence[look.Lane]) -> None:
    frame = pd.DataFrame([
        {"rank": row.rank, "dur": row.dur_ns / 1e6, "computing": row.computing_ns / 1e6, "moving": row.moving_ns / 1e6,
         "waiting": row.waiting_ns / 1e6 if row.told else None, "idle": row.idle_ns / 1e6}
        for row in rows
    ])  # fmt: skip
    heads = {name: ctx.say(f"ranks.lane_{name}") for name in frame.columns}
    cells.show(frame, heads, key(ctx, "lanes"), ctx.say("ranks.step_table"))


def clocks(ctx: Context, found: look.Compared) -> None:
    """How well the ranks' clocks are known, in words and drawn."""
    if len(found.clocks) < 2:
        return
    st.subheader(ctx.say("ranks.clocks"), anchor="clocks", help=ctx.say("ranks.clocks_means"))
    known = [row for row in found.clocks if row.offset_ns is not None and row.uncertainty_ns is not None]
    lost = [row.rank for row in found.clocks if row.offset_ns is None]
    others = [row for row in known if row.rank != found.reference]
    if others:
        worst = max(others, key=lambda row: row.uncertainty_ns or 0)
        far = max(others, key=lambda row: abs(row.offset_ns or 0))
        st.text(ctx.say("ranks.clocks_known", {
            "reference": found.reference, "n": len(known), "unsure": i18n.duration(worst.uncertainty_ns),
            "worst": worst.rank, "offset": i18n.duration(abs(far.offset_ns or 0)), "far": far.rank,
        }))  # fmt: skip
    if lost:
        st.text(ctx.say("ranks.clocks_lost", {"n": len(lost), "ranks": i18n.ranges(lost)}))
    if not others:
        return
    picture = chart.clocks(known, ctx.say, context.ink(), context.accent())
    st.plotly_chart(picture, key=key(ctx, "clocks"), config=PLAIN, alt=ctx.say("ranks.clocks"))
    with st.expander(ctx.say("ranks.clocks_table")):
        frame = pd.DataFrame([
            {"rank": row.rank, "offset": None if row.offset_ns is None else row.offset_ns / 1e3,
             "unsure": None if row.uncertainty_ns is None else row.uncertainty_ns / 1e3}
            for row in found.clocks
        ])  # fmt: skip
        heads = {name: ctx.say(f"ranks.clock_{name}") for name in frame.columns}
        cells.show(frame, heads, key(ctx, "clock_table"), ctx.say("ranks.clocks"))
