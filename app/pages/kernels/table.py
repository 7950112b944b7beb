"""Kinds of kernels: the sentence, the filter, the longest as bars, and the table one chooses from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from npulens.analysis.look import efficiency
from npulens.analysis.look import kernels as look
from npulens.app import context
from npulens.app.charts import kernels as chart
from npulens.app.context import Context
from npulens.app.panels import cells
from npulens.app.panels import pick_rows as table
from npulens.app.text import i18n, wording

_BARS = 8
_TIMES = ("mean_ns", "min_ns", "median_ns", "p90_ns", "p99_ns", "max_ns")
T = TypeVar("T")


def choose(ctx: Context, there: look.Choices) -> tuple[str, look.Filter]:
    """The controls; each appears only where it changes something."""
    run = ctx.run.run_id if ctx.run else ""
    levels = [name for name, useful in (("type", True), ("shape", there.shaped), ("name", there.typed)) if useful]
    with st.container(horizontal=True, vertical_alignment="bottom", key="kernels_filter"):
        cores = [str(one) for one in _several(ctx, "cores", there.cores)]
        text = st.text_input(ctx.say("kernels.text"), key=f"kernels_text_{run}", width=260)
        level = levels[0]
        if len(levels) > 1:
            level = st.segmented_control(
                ctx.say("kernels.level"), levels, default=level, required=True, key=f"kernels_level_{run}",
                format_func=lambda one: ctx.say(f"kernels.level_{one}"), help=ctx.say("kernels.level_help"),
            ) or level  # fmt: skip
    return level, look.Filter(cores=tuple(cores), text=text or "")


def _several(ctx: Context, name: str, there: Sequence[T]) -> Sequence[T]:
    """Any of several; nothing chosen means all."""
    if len(there) < 2:
        return []
    run = ctx.run.run_id if ctx.run else ""
    return st.multiselect(
        ctx.say(f"kernels.{name}"), there, key=f"kernels_{name}_{run}", width=220,
        format_func=lambda one: wording.plain(str(one)), placeholder=ctx.say(f"kernels.all_{name}"),
    )  # fmt: skip


def answer(ctx: Context, level: str, found: look.Table) -> str:
    """The one sentence of the page, as a mean over ranks."""
    if not len(found.groups):
        return ctx.say("kernels.answer_no_match")
    top, ranks = found.groups.iloc[0], found.ranks
    share = None if found.busy_ns is None else i18n.share(int(top["busy_ns"]), found.busy_ns)
    return ctx.say("kernels.answer", {
        "n": ranks, "computing": i18n.duration(found.computing_ns // ranks),
        "wall": i18n.duration(found.wall_ns // ranks), "share": i18n.share(found.computing_ns, found.wall_ns),
        "count": f"{found.kernels:,}", "groups": f"{found.count:,}", "name": cut(chart.called(top)),
        "busy": i18n.duration(int(top["busy_ns"]) // ranks),
        "top": ctx.say("kernels.answer_top", {"share": share or "–"}),
    })  # fmt: skip


def cut(name: str, most: int = 60) -> str:
    """A name that fits into a sentence."""
    told = wording.plain(name)
    return told if len(told) <= most else told[: most - 1] + "…"


def title(row: pd.Series) -> str:
    """What a kind is called."""
    return str(row["op"] if "op" in row else row["name"])


def pick(ctx: Context, level: str, what: look.Filter, found: look.Table) -> pd.Series:
    """The bars and the table; the chosen row, at first the longest."""
    run = ctx.run.run_id if ctx.run else ""
    st.caption(ctx.say("kernels.chart"))
    picture = context.once(chart.shares, found.groups.head(_BARS), ctx.say, context.ink())
    st.plotly_chart(
        picture, key=f"kernels_shares_{run}_{ctx.lang}",
        config={"displayModeBar": False}, alt=ctx.say("kernels.chart"),
    )  # fmt: skip
    st.caption(ctx.say("kernels.table"))
    chosen = context.selected(ctx, look.members, level, what)
    rated = efficiency.of_kernels(context.measured(ctx, efficiency.rates), chosen)
    shown = table.in_us(table.in_ms(found.groups, ("busy_ns", "total_ns")), _TIMES).merge(rated, on="key", how="left")
    shown["tflops"] = shown["flops_per_s"] / 1e12
    most = float(found.groups["share"].max())
    most = most if most > 0 else 1.0
    there = tuple(name for name in ("core", "host_op", "roof_share", "tflops") if shown[name].notna().any())
    place = table.pick(
        shown,
        _columns(ctx, level, most, there),
        f"kernels_{run}_{level}_{hash((what, ctx.part))}_{ctx.lang}",
        ctx.say("kernels.table"),
    )
    if found.count > len(shown):
        st.text(ctx.say("kernels.cut", {"shown": f"{len(shown):,}", "n": f"{found.count:,}"}))
    return found.groups.iloc[place]


def _columns(ctx: Context, level: str, most: float, there: tuple[str, ...]) -> dict[str, ColumnConfig]:
    def head(name: str) -> str:
        return ctx.say(f"kernels.col_{name}")

    def means(name: str) -> str | None:
        return ctx.say(f"kernels.col_{name}_help") if i18n.known(f"kernels.col_{name}_help") else None

    called = "name" if level == "name" else "op"
    columns: dict[str, ColumnConfig] = {
        called: st.column_config.TextColumn(head("name" if "host_op" in there else called), width="medium"),
        "host_op": table.text(head("host_op"), means("host_op")),
        "core": table.text(head("core")),
        "share": table.share(head("share"), means("share"), most), "busy_ns": table.milli(head("busy"), means("busy")),
        "count": table.count(head("count")),
        "roof_share": table.share(head("roof_share"), means("roof_share")),
        "tflops": st.column_config.NumberColumn(head("tflops"), help=means("tflops"), format=cells.FOUR),
        **{
            name: table.micro(head(name.removesuffix("_ns")), means(name.removesuffix("_ns")))
            for name in _TIMES
        },
        "total_ns": table.milli(head("total"), means("total")),
    }  # fmt: skip
    for name in ("core", "host_op", "roof_share", "tflops"):
        if name not in there:
            columns.pop(name)
    if level == "shape":
        shapes = {
            "input_shapes": table.text(head("shapes"), means("shapes")), "input_dtypes": table.text(head("dtypes")),
            "output_shapes": table.text(head("out_shapes")), "output_dtypes": table.text(head("out_dtypes")),
        }  # fmt: skip
        first = [name for name in ("op", "host_op", "core") if name in columns]
        columns = {**{name: columns.pop(name) for name in first}, **shapes, **columns}
    return columns
