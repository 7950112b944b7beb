"""The step on both sides: the picture, the table, and the idle time by cause."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.look import compare
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.compare import charts as chart
from npulens.app.pages.compare.half import Half, Pair
from npulens.app.panels import cells, link
from npulens.app.text import i18n, wording


def show(ctx: Context, pair: Pair) -> None:
    """The panel."""
    base, head = pair.base.side, pair.head.side
    change = compare.change(base, head)
    says = {part.key: ctx.say(f"breakdown.{part.key}") for part in change.parts}
    left, right = st.columns(2, gap="medium")
    names = (wording.plain(pair.base.name), wording.plain(pair.head.name))
    with left:
        st.subheader(ctx.say("compare.split"), anchor=False, help=ctx.say("compare.split_help"))
        picture = context.once(chart.splits, change, names, says, context.ink())
        st.plotly_chart(picture, key=f"compare_splits_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("compare.split"))  # fmt: skip
    with right:
        st.subheader(ctx.say("compare.waterfall"), anchor=False, help=ctx.say("compare.waterfall_help"))
        _waterfall(ctx, change.parts, change.step, {**says, "step": ctx.say("compare.whole_step")}, "compare_waterfall")
    _table(ctx, pair, (*change.parts, change.step), {**says, "step": ctx.say("compare.whole_step")}, change.step,
           "compare_parts")  # fmt: skip
    with st.container(horizontal=True):
        for key, half in (("base_moment", pair.base), ("head_moment", pair.head)):
            window = half.side.windows[0]
            link.to_timeline(
                half.ctx, f"compare.{key}", window.start_ns, window.dur_ns, window.rank, key=key, select=False
            )


def scope(ctx: Context, half: Half) -> str:
    """Which windows a side is made of."""
    found, runs = half.side, len(half.parts)
    key = "compare.scope_runs" if runs > 1 else "compare.scope_whole" if found.whole else "compare.scope"
    return ctx.say(key, {
        "side": wording.plain(half.name), "n": len(found.windows), "ranks": i18n.ranges(found.ranks),
        "steps": i18n.ranges(found.steps), "runs": runs,
    })  # fmt: skip


def _quiet(text: str) -> str:
    """A minus sign that a spreadsheet does not take for a formula, and none before a zero."""
    return text.removeprefix("-") if text.startswith("-0.0 ") else text.replace("-", "−")


def _waterfall(
    ctx: Context, deltas: tuple[compare.Delta, ...], whole: compare.Delta, says: Mapping[str, str], key: str
) -> None:
    if not any(delta.change_ns for delta in deltas):
        st.text(ctx.say("compare.unchanged"))
        return
    picture = context.once(chart.waterfall, deltas, whole, says, ctx.say("compare.axis"), context.ink())
    st.plotly_chart(picture, key=f"{key}_{ctx.lang}", config={"displayModeBar": False},
                    alt=ctx.say("compare.waterfall_help"))  # fmt: skip


def _table(
    ctx: Context, pair: Pair, deltas: tuple[compare.Delta, ...], says: Mapping[str, str], step: compare.Delta, key: str
) -> None:
    """Every figure to the nanosecond; text, so that no digit is lost."""
    frame = pd.DataFrame([{
        "part": says[delta.key], "base": i18n.exact(delta.base_ns).removesuffix(" ns"),
        "head": i18n.exact(delta.head_ns).removesuffix(" ns"),
        "change": i18n.exact(delta.change_ns).removesuffix(" ns"),
        "share": _quiet(i18n.share(delta.change_ns, delta.base_ns)),
        "of_step": _quiet(i18n.share(delta.change_ns, step.base_ns)),
    } for delta in deltas])  # fmt: skip
    heads = {
        "part": ctx.say("compare.cause" if key == "compare_gaps" else "compare.col_part"),
        "base": ctx.say("compare.col_base", {"side": pair.base.short}),
        "head": ctx.say("compare.col_base", {"side": pair.head.short}),
        "change": ctx.say("compare.col_change"), "share": ctx.say("compare.col_share"),
        "of_step": ctx.say("compare.col_of_step"),
    }  # fmt: skip
    right = ("base", "head", "change", "share", "of_step")
    about = ctx.say("compare.gaps" if key == "compare_gaps" else "compare.waterfall")
    cells.show(frame, heads, f"{key}_{ctx.lang}", about, right=right)


def gaps(ctx: Context, pair: Pair) -> None:
    """Idle time by cause on both sides."""
    st.subheader(ctx.say("compare.gaps"), anchor=False, help=ctx.say("compare.gaps_help"))
    base, head = (compare.idle_together(half.each(compare.idle_by_cause)) for half in (pair.base, pair.head))
    sides = (pair.base.side, pair.head.side)
    if base is None or head is None:
        st.text(ctx.say("compare.gaps_unmeasured"))
        return
    change, counts = compare.change(*sides), (len(sides[0].windows), len(sides[1].windows))
    whole = next(part for part in change.parts if part.key == "idle")
    deltas = compare.idle_change(base, head, counts, whole)
    if not deltas:
        st.text(ctx.say("compare.gaps_none"))
        return
    causes = {**CAUSES, **GAP_ONLY}
    says = {
        delta.key: wording.of(ctx.lang, causes[delta.key]) if delta.key in causes else ctx.say("compare.beyond")
        for delta in deltas
    } | {"idle": ctx.say("breakdown.idle")}
    if "launch_overhead" in says and not any(dict(side.parts)["computing"] for side in sides):
        says["launch_overhead"] = ctx.say("verdict.launching")  # there are no kernels that could be too short
    _waterfall(ctx, deltas, whole, says, "compare_gaps_waterfall")
    _table(ctx, pair, (*deltas, whole), says, change.step, "compare_gaps")
