"""The pipes of the cores while kernels of one kind run, and how many of the cores they use."""

from __future__ import annotations

import re

import pandas as pd
import streamlit as st

from npulens.analysis.look import kernel_detail as deeper
from npulens.analysis.look import kernels as look
from npulens.app import context
from npulens.app.charts import kernels as chart
from npulens.app.context import Context
from npulens.app.panels import pick_rows as table
from npulens.app.panels import unmeasured
from npulens.app.text import i18n, wording

#: A counter's name: the core, the pipe, and what is counted.
_METRIC = re.compile(r"(?:(aic|aiv)_)?(\w+?)(?:_(?:ratio|rate|time))?(?:\(\S+\))?")


def show(ctx: Context, level: str, key: int, what: look.Filter) -> None:
    """Ratios as bars with what each pipe is, all counters as a table, and blocks against cores."""
    found = context.measured(ctx, deeper.pipes, level, key, what)
    if not len(found):
        if not unmeasured.show(ctx, ("pmu",), "pipes"):
            unmeasured.nothing(ctx, "kernels.pipes_none")
    else:
        _bars(ctx, found, key)
    _blocks(ctx, level, key, what)


def _bars(ctx: Context, found: pd.DataFrame, key: int) -> None:
    ratios = found[found["metric"].str.endswith("_ratio") & (found["most"] > 0)].sort_values("mean", ascending=False)
    if len(ratios):
        st.caption(ctx.say("kernels.pipes_means"))
        names, means = ([told(ctx, str(one)) for one in ratios["metric"]] for told in (_title, _means))
        picture = chart.pipes(names, ratios, means, context.ink())
        st.plotly_chart(picture, key=f"kernels_pipes_{key}_{ctx.lang}", config={"displayModeBar": False},
                        alt=ctx.say("kernels.pipes_alt"))  # fmt: skip
    with st.expander(ctx.say("kernels.pipes_all")):
        shown = found.assign(meaning=[_means(ctx, str(one)) for one in found["metric"]])
        value = st.column_config.NumberColumn
        table.plain(shown, {
            "metric": table.text(ctx.say("kernels.col_metric")),
            "mean": value(ctx.say("kernels.col_mean_weighted"), format="%.4g"),
            "least": value(ctx.say("kernels.col_least"), format="%.4g"),
            "middle": value(ctx.say("kernels.col_middle"), format="%.4g"),
            "most": value(ctx.say("kernels.col_most"), format="%.4g"),
            "count": table.count(ctx.say("kernels.col_count")),
            "meaning": table.text(ctx.say("kernels.col_meaning"), wide=True),
        }, ctx.say("kernels.pipes_alt"))  # fmt: skip


def _title(ctx: Context, metric: str) -> str:
    """`aic_mac_ratio` as people call it: mac · cube core."""
    found = _METRIC.fullmatch(metric)
    if not found or not found[1]:
        return metric.removesuffix("_ratio")
    return f"{found[2]} · {ctx.say(f'kernels.pipe_core_{found[1]}')}"


def _means(ctx: Context, metric: str) -> str:
    """What a counter counts."""
    found = _METRIC.fullmatch(metric)
    pipe = found[2] if found else ""
    if found and metric in ("aicore_time(us)", "aiv_time(us)", "aic_time(us)"):
        pipe = "time"
    key = f"kernels.pipe_{pipe}"
    return ctx.say(key if i18n.known(key) else "kernels.pipe_other")


def _blocks(ctx: Context, level: str, key: int, what: look.Filter) -> None:
    found = context.measured(ctx, deeper.blocks, level, key, what)
    st.caption(ctx.say("kernels.blocks"))
    if not found:
        unmeasured.nothing(ctx, "kernels.blocks_none")
        return
    rows = pd.DataFrame([
        {
            "blocks": one.blocks, "core": one.core, "cores": one.cores, "waves": one.waves, "used": one.used,
            "count": one.count, "total_ns": one.total_ns / 1e6, "ranks": i18n.ranges(one.ranks),
            "device": wording.plain(one.device) if one.named and one.device else ctx.say("kernels.unnamed_device"),
        }
        for one in found
    ])  # fmt: skip
    table.plain(rows, {
        "blocks": table.count(ctx.say("kernels.col_blocks")), "core": table.text(ctx.say("kernels.col_core")),
        "cores": table.count(ctx.say("kernels.col_cores"), ctx.say("kernels.col_cores_help")),
        "waves": table.count(ctx.say("kernels.col_waves"), ctx.say("kernels.col_waves_help")),
        "used": table.share(ctx.say("kernels.col_used"), ctx.say("kernels.col_used_help")),
        "count": table.count(ctx.say("kernels.col_count")),
        "total_ns": table.milli(ctx.say("kernels.col_total"), ctx.say("kernels.col_total_help")),
        "ranks": table.text(ctx.say("kernels.ranks")), "device": table.text(ctx.say("kernels.col_device")),
    }, ctx.say("kernels.blocks_alt"))  # fmt: skip
