"""How work reaches the device: how long launches take, how many wait there, and where the host comes late."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import launch as look
from npulens.analysis.look.copies import origin_of
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.launch import charts as chart
from npulens.app.panels import link, store_empty, unmeasured
from npulens.app.panels import pick_rows as table
from npulens.app.selection import bar
from npulens.app.text import i18n, wording

TITLE = "launch.title"
ICON = ":material/rocket_launch:"
ORDER = 31
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the latency, both curves, and the calls behind them."""
    st.header(ctx.say("launch.question"), anchor="launch")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    every = context.selected(ctx, look.launches)
    found = every.headline
    if not found.tasks and not len(every.syncs) and bar.nothing(ctx):
        return
    if not found.launched:
        if found.tasks:
            st.text(ctx.say("launch.unlinked", {"n": f"{found.tasks:,}"}))
        if not unmeasured.show(ctx, ("kernel", "link"), "launch") and not found.tasks:
            unmeasured.nothing(ctx, "launch.none")
        syncs(ctx, every)
        return
    with st.container(key="answer", gap="xxsmall"):
        answer(ctx, found)
    latency(ctx, every.latency)
    show_curves(ctx, found)
    late(ctx, every)
    short(ctx, every)
    syncs(ctx, every)


# The queue of the device and the lead of the host over time, one rank at a time.
def show_curves(ctx: Context, found: look.Headline) -> None:
    """Both curves of the chosen rank."""
    st.subheader(ctx.say("launch.over_time"), anchor="time")
    run = ctx.run.run_id if ctx.run else ""
    rank = found.ranks[0] if len(found.ranks) == 1 else st.selectbox(
        ctx.say("launch.rank"), found.ranks, key=f"launch_rank_{run}_{hash(ctx.part)}", width=160,
    )  # fmt: skip
    queued = context.selected(ctx, look.queue, rank)
    _draw(ctx, "queue", rank, queued)
    ahead = context.selected(ctx, look.lead, rank)
    if not len(ahead.slices):
        unmeasured.nothing(ctx, "launch.lead_none")
        return
    _draw(ctx, "lead", rank, ahead)


def _draw(ctx: Context, name: str, rank: int, curve: look.Curve) -> None:
    say, run = ctx.say, ctx.run.run_id if ctx.run else ""
    picture = context.once(chart.lead if name == "lead" else chart.queue, curve, say, context.ink())
    st.markdown(f"**{say(f'launch.{name}')}**", help=say(f"launch.{name}_means"))
    key = f"launch_{name}_{run}_{rank}_{hash(ctx.part)}_{ctx.lang}"
    st.plotly_chart(picture, key=key, config={"displayModeBar": False}, alt=say(f"launch.{name}"),
                    on_select=bar.area(ctx, key), selection_mode="box")  # fmt: skip
    with st.expander(say("launch.table")):
        st.text(say("launch.slices", {"n": f"{curve.points:,}", "slices": f"{len(curve.slices):,}"}))
        rows = table.in_ms(curve.slices, ("ts_ns",))
        rows = table.in_us(rows, ("least", "middle", "most")) if name == "lead" else rows
        value = table.micro if name == "lead" else table.count
        table.plain(rows, {
            "ts_ns": table.milli(say("launch.col_at")), "least": value(say("launch.col_least")),
            "middle": value(say("launch.median" if name == "lead" else "launch.mean")),
            "most": value(say("launch.col_most")),
        }, say(f"launch.{name}"))  # fmt: skip


# Launches as a whole: the sentence, and the latency by route and rank.
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
    mean = [ctx.say("launch.answer_mean", {"n": ranks})] if ranks > 1 else []
    st.text(i18n.joined(ctx.lang, [text, *mean]))
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
    key = f"launch_latency_{run}_{chosen}_{hash(ctx.part)}_{ctx.lang}"
    st.plotly_chart(context.once(chart.latency, mine, ranks, say, context.ink()), key=key,
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


# Calls of the host: launches that came late, launches longer than their kernels, and calls that wait.
def late(ctx: Context, every: look.Launches) -> None:
    """Host operators by what the device idled for their late launches."""
    say = ctx.say
    st.subheader(say("launch.late"), anchor="late", help=say("launch.late_means"))
    rows = every.late.calls
    if not len(rows):
        unmeasured.nothing(ctx, "launch.late_none")
        return
    place = table.pick(table.in_ms(rows, ("idle_ns", "most_ns")), {
        "op": table.text(say("launch.col_op"), wide=True), "call": table.text(say("launch.col_call")),
        "count": table.count(say("launch.col_late_count")),
        "idle_ns": table.milli(say("launch.col_idle"), say("launch.late_means")),
        "most_ns": table.milli(say("launch.col_most_idle")), "rank": table.count(say("launch.col_rank")),
        "name": table.text(say("launch.col_first"), wide=True),
    }, _key(ctx, "late"), say("launch.late_alt"))  # fmt: skip
    row = rows.iloc[place]
    found = context.measured(ctx, origin_of, int(row["span_id"]))
    if found.op and found.code:
        st.text(wording.plain(say("launch.origin", {"op": found.op, "code": found.code})))
    _link(ctx, row, "late")


def short(ctx: Context, every: look.Launches) -> None:
    """Kernels that are over before their launch call is, by operator type."""
    say = ctx.say
    help_ = say("launch.short_means", {"pace": i18n.duration(every.headline.ordinary_ns)})
    st.subheader(say("launch.short"), anchor="short", help=help_)
    rows = every.short
    if not len(rows):
        unmeasured.nothing(ctx, "launch.short_none" if every.headline.kernels else "launch.short_unknown")
        return
    shown = table.in_us(table.in_ms(rows, ("over_ns",)), ("kernel_ns", "call_ns"))
    place = table.pick(shown, {
        "op": table.text(say("launch.col_type"), wide=True), "call": table.text(say("launch.col_call")),
        "short": table.count(say("launch.col_short")), "count": table.count(say("launch.col_count")),
        "kernel_ns": table.micro(say("launch.col_kernel")), "call_ns": table.micro(say("launch.col_call_ns")),
        "over_ns": table.milli(say("launch.col_over"), say("launch.col_over_help")),
    }, _key(ctx, "short"), say("launch.short_alt"))  # fmt: skip
    _link(ctx, rows.iloc[place], "short")


def syncs(ctx: Context, every: look.Launches) -> None:
    """Calls that return only when the device is done."""
    say = ctx.say
    st.subheader(say("launch.syncs"), anchor="syncs", help=say("launch.syncs_means"))
    rows = every.syncs
    if not len(rows):
        unmeasured.nothing(ctx, "launch.syncs_none")
        return
    shown = table.in_ms(rows, ("blocked_ns", "working_ns", "dur_ns"))
    place = table.pick(shown, {
        "name": table.text(say("launch.col_name"), wide=True), "rank": table.count(say("launch.col_rank")),
        "count": table.count(say("launch.col_count")),
        "blocked_ns": table.milli(say("launch.col_blocked"), say("launch.col_blocked_help")),
        "working_ns": table.milli(say("launch.col_working")), "dur_ns": table.milli(say("launch.col_longest")),
    }, _key(ctx, "syncs"), say("launch.syncs"))  # fmt: skip
    _link(ctx, rows.iloc[place], "sync")


def _key(ctx: Context, name: str) -> str:
    return f"launch_{name}_{ctx.run.run_id if ctx.run else ''}_{hash(ctx.part)}_{ctx.lang}"


def _link(ctx: Context, row: pd.Series, key: str) -> None:
    link.to_timeline(ctx, "shell.on_timeline", int(row["ts_ns"]), int(row["dur_ns"]), int(row["rank"]),
                     int(row["span_id"]), key=f"launch_{key}")  # fmt: skip
