"""One kind of kernels: how its durations spread, its slow tail, its pipes and cores, where it comes from."""

from __future__ import annotations

import re

import pandas as pd
import streamlit as st

from npulens.analysis.look import kernel_detail as deeper
from npulens.analysis.look import kernels as look
from npulens.app import context
from npulens.app.charts import kernels as chart
from npulens.app.context import Context
from npulens.app.pages.kernels import table as kernel_table
from npulens.app.panels import kernel_inside, link, unmeasured
from npulens.app.panels import pick_rows as table
from npulens.app.text import i18n, wording

VIEWS = ("durations", "slow", "pipes", "source", "instances")
#: Instances on one page.
_PAGE = 500


def show(ctx: Context, level: str, what: look.Filter, row: pd.Series) -> None:
    """The chosen kind in words, and the view of it that the visitor asks for."""
    st.subheader(ctx.say("kernels.detail"), anchor="kind")
    key = int(row["key"])
    with st.container(key="prose", gap="xxsmall"):
        core = row["core"] if isinstance(row["core"], str) else ""
        st.text(wording.plain(f"{kernel_table.title(row)} · {core}" if core else kernel_table.title(row)))
        if isinstance(row.get("input_shapes"), str):
            values = {"shapes": row["input_shapes"], "dtypes": row["input_dtypes"]}
            st.text(wording.plain(ctx.say("kernels.shapes_line", values)))
        st.text(ctx.say("kernels.detail_line", {
            "count": f"{int(row['count']):,}", "busy": i18n.duration(int(row["busy_ns"])),
            "mean": i18n.duration(int(row["mean_ns"])), "median": i18n.duration(int(row["median_ns"])),
            "p99": i18n.duration(int(row["p99_ns"])), "most": i18n.duration(int(row["max_ns"])),
        }))  # fmt: skip
    view = st.segmented_control(
        ctx.say("kernels.view"), VIEWS, default=VIEWS[0], required=True, key="kernels_view",
        format_func=lambda one: ctx.say(f"kernels.view_{one}"), label_visibility="collapsed",
    )  # fmt: skip
    if view == "slow":
        _slow(ctx, level, key, what)
    elif view == "pipes":
        show_pipes(ctx, level, key, what)
    elif view == "source":
        _source(ctx, level, key, what)
    elif view == "instances":
        _instances(ctx, level, key, what, int(row["count"]))
    else:
        _durations(ctx, level, key, what)


def _durations(ctx: Context, level: str, key: int, what: look.Filter) -> None:
    found = context.selected(ctx, look.durations, level, key, what)
    drawn = st.segmented_control(
        ctx.say("kernels.as"), ["histogram", "ecdf"], default="histogram", required=True, key="kernels_as",
        format_func=lambda one: ctx.say(f"kernels.as_{one}"), label_visibility="collapsed",
    )  # fmt: skip
    ranks = [int(rank) for rank in found.ranks["rank"]]
    picture = (
        context.once(chart.ecdf, found.quantiles, ranks, found.logarithmic, ctx.say, context.ink())
        if drawn == "ecdf"
        else context.once(chart.histogram, found.bins, ranks, found.logarithmic, ctx.say, context.ink())
    )
    st.plotly_chart(picture, key=f"kernels_durations_{key}_{drawn}_{ctx.lang}", config={"displayModeBar": False},
                    alt=ctx.say("kernels.durations_alt"))  # fmt: skip
    times = ("mean_ns", "min_ns", "median_ns", "p90_ns", "p99_ns", "max_ns")
    shown = table.in_us(table.in_ms(found.ranks, ("total_ns",)), times)
    table.plain(shown, {
        "rank": table.count(ctx.say("kernels.rank")), "count": table.count(ctx.say("kernels.col_count")),
        "total_ns": table.milli(ctx.say("kernels.col_total"), ctx.say("kernels.col_total_help")),
        **{name: table.micro(ctx.say(f"kernels.col_{name.removesuffix('_ns')}")) for name in times},
    }, ctx.say("kernels.durations_alt"))  # fmt: skip


def _slow(ctx: Context, level: str, key: int, what: look.Filter) -> None:
    every = context.selected(ctx, look.slow)
    mine = every[every[f"key_{level}"] == key]
    if not len(mine):
        unmeasured.nothing(ctx, "kernels.slow_none")
        return
    st.text(ctx.say("kernels.slow_some", {"n": len(mine), "excess": i18n.duration(int(mine["excess_ns"].sum()))}))
    columns = {
        "rank": table.count(ctx.say("kernels.rank")), "step": table.count(ctx.say("kernels.step")),
        "ts_ns": table.milli(ctx.say("kernels.col_start"), ctx.say("kernels.col_start_help")),
        "dur_ns": table.micro(ctx.say("kernels.col_dur")),
        "usual_ns": table.micro(ctx.say("kernels.col_usual"), ctx.say("kernels.col_usual_help")),
        "excess_ns": table.micro(ctx.say("kernels.col_excess")),
    }  # fmt: skip
    shown = table.in_us(table.in_ms(mine, ("ts_ns",)), ("dur_ns", "usual_ns", "excess_ns"))
    place = table.pick(shown, columns, f"slow_{key}_{hash(what)}_{ctx.lang}", ctx.say("kernels.slow_alt"))
    to_timeline(ctx, mine.iloc[place], "slow")


def to_timeline(ctx: Context, row: pd.Series, key: str) -> None:
    """A link to the moment of a row."""
    link.to_timeline(ctx, "shell.on_timeline", int(row["ts_ns"]), int(row["dur_ns"]), int(row["rank"]),
                     int(row["span_id"]), key=key)  # fmt: skip


def _source(ctx: Context, level: str, key: int, what: look.Filter) -> None:
    found = context.selected(ctx, deeper.source, level, key, what)
    if found.longest.code:
        values = {"op": found.longest.op or ctx.say("kernels.not_recorded"), "code": found.longest.code}
        st.text(wording.plain(ctx.say("kernels.source_line", values)))
    else:
        unmeasured.nothing(ctx, "kernels.source_no_code")
    if found.linked < found.count:
        values = {"n": f"{found.count - found.linked:,}", "count": f"{found.count:,}"}
        st.text(ctx.say("kernels.source_unlinked", values))
    if len(found.ops):
        st.caption(ctx.say("kernels.source_ops"))
        table.plain(table.in_us(found.ops, ("host_ns",)), {
            "op": table.text(ctx.say("kernels.col_host"), wide=True), "call": table.text(ctx.say("kernels.col_call")),
            "count": table.count(ctx.say("kernels.col_count")),
            "host_ns": table.micro(ctx.say("kernels.col_host_ns"), ctx.say("kernels.col_host_ns_help")),
        }, ctx.say("kernels.source_ops"))  # fmt: skip
    if found.stacks:
        st.caption(ctx.say("kernels.stacks"))
    for place, stack in enumerate(found.stacks):
        with st.container(key=f"gap_stack_{place}", gap=None):
            st.text(ctx.say("kernels.stack", {"n": stack.count, "frame": wording.plain(stack.frames[0])}))
            st.text("\n".join(wording.plain(frame) for frame in stack.frames[1:]))


def _instances(ctx: Context, level: str, key: int, what: look.Filter, count: int) -> None:
    pages = max(1, -(-count // _PAGE))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        order = st.segmented_control(
            ctx.say("kernels.order"), ["longest", "first"], default="longest", required=True, key="kernels_order",
            format_func=lambda one: ctx.say(f"kernels.order_{one}"),
        ) or "longest"  # fmt: skip
        page = 1 if pages == 1 else st.number_input(
            ctx.say("kernels.page", {"n": f"{pages:,}"}), 1, pages, key=f"kernels_page_{key}_{hash(what)}", width=160,
        )  # fmt: skip
    found = context.selected(ctx, look.instances, level, key, what, order, int(page) - 1, _PAGE)
    shown = table.in_us(table.in_ms(found, ("ts_ns",)), ("dur_ns",))
    columns = {
        "rank": table.count(ctx.say("kernels.rank")), "step": table.count(ctx.say("kernels.step")),
        "track": table.text(ctx.say("kernels.col_track")),
        "ts_ns": table.milli(ctx.say("kernels.col_start"), ctx.say("kernels.col_start_help")),
        "dur_ns": table.micro(ctx.say("kernels.col_dur")), "block_num": table.count(ctx.say("kernels.col_blocks")),
        "name": table.text(ctx.say("kernels.col_name"), wide=True),
    }  # fmt: skip
    place = table.pick(shown, columns, f"instances_{key}_{order}_{page}_{hash(what)}_{ctx.lang}",
                       ctx.say("kernels.instances_alt"))  # fmt: skip
    to_timeline(ctx, found.iloc[place], "instance")


# The pipes of the cores while kernels of one kind run, and how many of the cores they use.
#: A counter's name: the core, the pipe, and what is counted.
_METRIC = re.compile(r"(?:(aic|aiv)_)?(\w+?)(?:_(?:ratio|rate|time))?(?:\(\S+\))?")


def show_pipes(ctx: Context, level: str, key: int, what: look.Filter) -> None:
    """Ratios as bars with what each pipe is, all counters as a table, and blocks against cores."""
    found = context.selected(ctx, deeper.pipes, level, key, what)
    if not len(found):
        if not unmeasured.show(ctx, ("pmu",), "pipes"):
            unmeasured.nothing(ctx, "kernels.pipes_none")
    else:
        _bars(ctx, found, key)
    _blocks(ctx, level, key, what)
    kernel_inside.show(ctx)


def _bars(ctx: Context, found: pd.DataFrame, key: int) -> None:
    ratios = found[found["metric"].str.endswith("_ratio") & (found["most"] > 0)].sort_values("mean", ascending=False)
    if len(ratios):
        st.caption(ctx.say("kernels.pipes_means"))
        names, means = ([told(ctx, str(one)) for one in ratios["metric"]] for told in (_title, _means))
        picture = context.once(chart.pipes, names, ratios, means, context.ink())
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
    found = context.selected(ctx, deeper.blocks, level, key, what)
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
