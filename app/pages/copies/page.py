"""What memory copies take, how fast they are, and which of them the device waits for."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import copies as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.copies import charts as chart
from npulens.app.panels import link, store_empty, unmeasured
from npulens.app.panels import pick_rows as table
from npulens.app.selection import bar
from npulens.app.text import i18n, wording, written

TITLE = "copies.title"
ICON = ":material/swap_horiz:"
ORDER = 32
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, directions and sizes, speeds, and the worst one by one."""
    st.header(ctx.say("copies.question"), anchor="copies")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    found = context.selected(ctx, look.copies)
    if not found.count and bar.nothing(ctx):
        return
    if not found.count:
        if not unmeasured.show(ctx, ("transfer",), "copies"):
            unmeasured.nothing(ctx, "copies.none")
        return
    with st.container(key="answer", gap="xxsmall"):
        answer(ctx, found)
    ways(ctx, found)
    groups(ctx, found.groups)
    scatter(ctx, found)
    worst(ctx, found)


# Copies one by one: speed by size, and the most exposed ones with where they come from.
def scatter(ctx: Context, found: look.Copies) -> None:
    """Speed by size, with what the links carry."""
    st.subheader(ctx.say("copies.scatter"), anchor="speed")
    cloud = found.cloud
    if not cloud.count:
        unmeasured.nothing(ctx, "copies.scatter_none")
        return
    st.caption(ctx.say("copies.scatter_cells" if cloud.cells else "copies.scatter_points", {"n": f"{cloud.count:,}"}))
    run = ctx.run.run_id if ctx.run else ""
    picture = context.once(chart.scatter, cloud, found.ways, ctx.say, context.ink())
    st.plotly_chart(picture, key=f"copies_cloud_{run}_{ctx.lang}",
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


# Copies by direction: the sentence, the table against the links, and the picture by direction and size.
_BARS = 14


def answer(ctx: Context, found: look.Copies) -> None:
    """The sentences: what copies take and how much of it shows, and how fast the longest direction is."""
    held = [total for total in found.totals if total.exposed_ns is not None and total.wall_ns]
    if not held:
        st.text(ctx.say("copies.answer_unknown", {"n": f"{found.count:,}"}))
    else:
        copied, shown, wall = (
            sum(getattr(one, name) or 0 for one in held) // len(held) for name in ("copy_ns", "exposed_ns", "wall_ns")
        )
        text = ctx.say("copies.answer", {
            "n": len(held), "copy": i18n.duration(copied), "wall": i18n.duration(wall),
            "exposed": i18n.duration(shown), "share": i18n.share(shown, wall),
        })  # fmt: skip
        worst = max(held, key=lambda one: one.exposed_ns or 0)
        if len(held) > 1:
            values = {"rank": worst.rank, "exposed": i18n.duration(worst.exposed_ns)}
            text = i18n.joined(ctx.lang, (text, ctx.say("copies.answer_worst", values)))
        st.text(text)
    longest = max(found.ways, key=lambda one: one.busy_ns, default=None)
    if longest is not None:
        st.text(_fastness(ctx, longest))


def _fastness(ctx: Context, way: look.Way) -> str:
    called = chart.way(way.direction, ctx.say)
    called = called[:1].upper() + called[1:]
    if way.bytes is None or way.bytes_per_s is None:
        values: dict[str, object] = {"way": called, "count": f"{way.count:,}", "busy": i18n.duration(way.busy_ns)}
        return ctx.say("copies.answer_way_bare", values)
    link = "" if way.link_bytes_per_s is None else ctx.say("copies.answer_link", {
        "share": i18n.share(round(way.bytes_per_s), round(way.link_bytes_per_s)),
        "link": ctx.say(f"copies.link_{way.link}"),
    })  # fmt: skip
    return ctx.say("copies.answer_way", {
        "way": called, "bytes": i18n.size(way.bytes), "count": f"{way.count:,}", "speed": chart.rate(way.bytes_per_s),
        "link": link,
    })  # fmt: skip


def ways(ctx: Context, found: look.Copies) -> None:
    """One row a direction, against what the links carry."""
    say = ctx.say
    st.subheader(say("copies.ways"), anchor="directions")
    rows = pd.DataFrame([
        {
            "way": chart.way(one.direction, say), "count": one.count, "busy_ns": one.busy_ns / 1e6,
            "exposed_ns": None if one.exposed_ns is None else one.exposed_ns / 1e6,
            "bytes": None if one.bytes is None else i18n.size(one.bytes), "speed": chart.rate(one.bytes_per_s),
            "best": chart.rate(one.best_bytes_per_s), "link": chart.rate(one.link_bytes_per_s),
            "of_link": one.bytes_per_s / one.link_bytes_per_s if one.bytes_per_s and one.link_bytes_per_s else None,
            "blocking": one.blocking, "pageable": one.pageable,
        }
        for one in sorted(found.ways, key=lambda one: -one.busy_ns)
    ])  # fmt: skip
    rows["exposed_ns"] = rows["exposed_ns"].astype("Float64")
    table.plain(rows, {
        "way": table.text(say("copies.col_way")), "count": table.count(say("copies.col_count")),
        "bytes": table.text(say("copies.col_bytes"), say("copies.col_bytes_help")),
        "busy_ns": table.milli(say("copies.col_busy"), say("copies.col_busy_help")),
        "exposed_ns": table.milli(say("copies.col_exposed"), say("copies.col_exposed_help")),
        "speed": table.text(say("copies.col_speed"), say("copies.col_speed_help")),
        "best": table.text(say("copies.col_best")),
        "link": table.text(say("copies.col_link"), say("copies.col_link_help")),
        "of_link": table.share(say("copies.col_of_link")),
        "blocking": table.count(say("copies.col_blocking"), say("copies.col_blocking_help")),
        "pageable": table.count(say("copies.col_pageable"), say("copies.col_pageable_help")),
    }, say("copies.ways"))  # fmt: skip
    _yardstick(ctx, found)


def _yardstick(ctx: Context, found: look.Copies) -> None:
    """Where the speeds of the links come from, or that they are not known."""
    if any(one.link_bytes_per_s for one in found.ways):
        sources = sorted({written.source(each, ctx.lang) for one in found.links for each in one.sources})
        st.caption("  \n".join([ctx.say("copies.sources"), *sources]))
        return
    names = sorted({one.device for one in found.links if one.named})
    device = wording.plain(", ".join(names)) or ctx.say("copies.this_device")
    st.text(ctx.say("copies.no_link", {"device": device}))


def groups(ctx: Context, rows: pd.DataFrame) -> None:
    """Time by direction and size, hidden and exposed, and all numbers of it."""
    say = ctx.say
    st.subheader(say("copies.groups"), anchor="sizes")
    run = ctx.run.run_id if ctx.run else ""
    picture = context.once(chart.groups, rows.head(_BARS), say, context.ink())
    st.plotly_chart(picture, key=f"copies_groups_{run}_{ctx.lang}",
                    config={"displayModeBar": False}, alt=say("copies.groups_alt"))  # fmt: skip
    if len(rows) > _BARS:
        st.text(say("copies.cut", {"shown": _BARS, "n": len(rows)}))
    with st.expander(say("copies.table")):
        shown = table.in_ms(rows, ("busy_ns", "exposed_ns")).assign(
            way=[chart.way(one, say) for one in rows["direction"]],
            size=[chart.size_class(one, say) for one in rows["from_bytes"]],
            speed=[chart.rate(one) for one in rows["bytes_per_s"]],
            moved=["–" if pd.isna(one) else i18n.size(int(one)) for one in rows["bytes"]],
        )
        table.plain(shown, {
            "way": table.text(say("copies.col_way")), "size": table.text(say("copies.col_size")),
            "count": table.count(say("copies.col_count")), "moved": table.text(say("copies.col_bytes")),
            "busy_ns": table.milli(say("copies.col_busy"), say("copies.col_busy_help")),
            "exposed_ns": table.milli(say("copies.col_exposed"), say("copies.col_exposed_help")),
            "speed": table.text(say("copies.col_speed"), say("copies.col_speed_help")),
        }, say("copies.groups_alt"))  # fmt: skip
