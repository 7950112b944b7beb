"""Launches as a whole: the sentence, and the latency by route and rank."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import launch as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.launch import charts as chart
from npulens.app.panels import pick_rows as table
from npulens.app.text import i18n

_TIMES = ("min_ns", "median_ns", "p90_ns", "p99_ns", "max_ns")


def answer(ctx: Context, found: look.Headline) -> None:
    """How long launches take, what the device idles for them, and what of that the clocks blur."""
    ranks = max(1, len(found.ranks))
    late = ctx.say("launch.answer_late", {
        "n": f"{found.late:,}", "of": f"{found.led:,}", "share": i18n.share(found.late, found.led),
    })  # fmt: skip
    text = ctx.say("launch.answer", {
        "median": i18n.duration(found.median_ns), "p99": i18n.duration(found.p99_ns), "late": late,
        "idle": i18n.duration(found.late_idle_ns // ranks), "wall": i18n.duration(found.wall_ns // ranks),
        "share": i18n.share(found.late_idle_ns, found.wall_ns),
    })  # fmt: skip
    st.text(text + (" " + ctx.say("launch.answer_mean", {"n": ranks}) if ranks > 1 else ""))
    if found.kernels:
        st.text(ctx.say("launch.answer_short", {
            "n": f"{found.short:,}", "of": f"{found.kernels:,}", "share": i18n.share(found.short, found.kernels),
        }))  # fmt: skip
    if found.negative:
        st.text(
            "◐ "
            + ctx.say("launch.answer_negative", {"n": f"{found.negative:,}", "most": i18n.duration(found.negative_ns)})
        )
    if found.launched < found.tasks:
        values = {"n": f"{found.tasks - found.launched:,}", "of": f"{found.tasks:,}"}
        st.text("◐ " + ctx.say("launch.answer_unlinked", values))


def route(ctx: Context, name: str) -> str:
    """A route in words."""
    key = f"launch.route_{name}"
    return ctx.say(key) if i18n.known(key) else name


def latency(ctx: Context, found: look.Latency) -> None:
    """The distribution, one line a rank, and every number of it."""
    say = ctx.say
    st.subheader(say("launch.latency"), anchor="latency", help=say("launch.latency_means"))
    run = ctx.run.run_id if ctx.run else ""
    routes = sorted(set(found.quantiles["route"]))
    chosen = routes[0] if len(routes) == 1 else st.segmented_control(
        say("launch.route"), routes, default=routes[0], required=True, key=f"launch_route_{run}",
        format_func=lambda one: route(ctx, one), help=say("launch.route_help"),
    )  # fmt: skip
    mine = found.quantiles[found.quantiles["route"] == chosen]
    ranks = sorted({int(rank) for rank in mine["rank"]})
    st.plotly_chart(chart.latency(mine, ranks, say, context.ink()), key=f"launch_latency_{run}_{chosen}_{ctx.lang}",
                    config={"displayModeBar": False}, alt=say("launch.latency_alt"))  # fmt: skip
    rows = table.in_us(found.rows, _TIMES).assign(
        route=[route(ctx, str(one)) for one in found.rows["route"]],
        kind=[say(f"launch.kind_{one}") for one in found.rows["kind"]],
    )
    with st.expander(say("launch.table")):
        table.plain(rows, {
            "route": table.text(say("launch.col_route"), say("launch.route_help")),
            "kind": table.text(say("launch.col_kind")),
            "rank": table.count(say("launch.col_rank")), "count": table.count(say("launch.col_count")),
            **{name: table.micro(say(f"launch.col_{name.removesuffix('_ns')}")) for name in _TIMES},
            "negative": table.count(say("launch.col_negative"), say("launch.col_negative_help")),
        }, say("launch.latency_alt"))  # fmt: skip
