"""Operators: by type and group, the groups themselves, and the longest operators one by one."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import communication as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.communication import charts as chart
from npulens.app.panels import cells
from npulens.app.panels.moment import PLAIN, Moment, answer, go, key, rank_choice, scaled
from npulens.app.text import i18n, wording

_BARS, _ROWS, _MOMENTS = 12, 200, 20


def sentence(ctx: Context, told: look.Summary) -> None:
    """What communication costs, in one breath."""
    values = {
        "n": told.ranks, "operators": f"{told.operators:,}", "busy": i18n.duration(told.busy_ns),
        "whole": i18n.duration(told.whole_ns), "share": i18n.share(told.busy_ns, told.whole_ns),
        "exposed": i18n.duration(told.exposed_ns), "exposed_share": i18n.share(told.exposed_ns, told.whole_ns),
        "waiting": i18n.duration(told.only_waiting_ns), "fused": f"{told.fused:,}",
    }  # fmt: skip
    parts = [ctx.say("communication.busy", values)]
    if told.exposed_ns is not None:
        parts.append(ctx.say("communication.exposed", values))
    if told.only_waiting_ns is not None:
        parts.append(ctx.say("communication.of_that_waiting", values))
    if told.fused:
        parts.append(ctx.say("communication.fused", values))
    answer(ctx, parts)


def kinds(ctx: Context) -> None:
    """Bars and numbers by type and group."""
    rows = context.measured(ctx, look.kinds)
    st.subheader(ctx.say("communication.kinds"), anchor="kinds", help=ctx.say("communication.kinds_means"))
    names = {group.name: group for group in context.measured(ctx, look.groups)}
    drawn = [
        chart.Bar(f"{row.collective or ctx.say('communication.unnamed')} · {_group(names.get(row.group), row.group)}",
                  row.busy_ns, row.transfer_ns, row.only_waiting_ns)
        for row in rows[:_BARS]
    ]  # fmt: skip
    alt = ctx.say("communication.kinds_alt")
    st.plotly_chart(chart.bars(drawn, ctx.say, context.ink()), key=key(ctx, "comm_kinds"), config=PLAIN, alt=alt)
    if len(rows) > _BARS:
        st.caption(ctx.say("communication.kinds_cut", {"shown": _BARS, "all": len(rows)}))
    frame = pd.DataFrame([vars(row) for row in rows])
    times = ["busy_ns", "exposed_ns", "transfer_ns", "only_waiting_ns", "late_launch_ns", "longest_ns"]
    frame = scaled(frame, [*times, "bytes"])
    heads = {name: ctx.say(f"communication.col_{name}") for name in frame.columns if frame[name].notna().any()}
    cells.show(frame, heads, key(ctx, "kinds"), alt)


def _group(held: look.Group | None, name: str) -> str:
    """A group as people call it: its kind and how many belong to it, before what the profiler calls it."""
    if held is None:
        return name
    return f"{held.kind or ''} ×{len(held.members)} {name}".strip()


def groups(ctx: Context) -> None:
    """Who belongs to each group."""
    rows = context.measured(ctx, look.groups)
    st.subheader(ctx.say("communication.groups"), anchor="groups", help=ctx.say("communication.groups_means"))
    if not rows:
        st.text(ctx.say("communication.no_groups"))
        return
    frame = pd.DataFrame([
        {"name": row.name, "kind": row.kind, "size": len(row.members), "members": i18n.ranges(row.members),
         "captured": i18n.ranges(row.captured) or "–", "source": row.source}
        for row in rows
    ])  # fmt: skip
    heads = {name: ctx.say(f"communication.group_{name}") for name in frame.columns}
    cells.show(frame, heads, key(ctx, "groups"), ctx.say("communication.groups"))
    if any(row.source == "communication" for row in rows):
        st.caption(ctx.say("communication.groups_seen"))


def longest(ctx: Context) -> None:
    """The longest operators, one by one."""
    st.subheader(ctx.say("communication.longest"), anchor="operators", help=ctx.say("communication.longest_means"))
    ranks = ctx.run.ranks if ctx.run else ()
    rank = rank_choice(ctx, ranks, "comm_rank")
    frame = context.measured(ctx, look.longest, rank, _ROWS)
    if frame.empty:
        st.text(ctx.say("communication.none_of_rank"))
        return
    drawn = [
        chart.Bar(
            f"rank {row.rank} · {row.name}", int(row.dur_ns), _known(row.transfer_ns), _known(row.only_waiting_ns)
        )
        for row in frame.head(_BARS).itertuples()
    ]
    alt = ctx.say("communication.longest_alt", {"n": len(drawn)})
    picture = chart.bars(drawn, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, f"comm_longest_{rank}"), config=PLAIN, alt=alt)
    go(ctx, [Moment(int(row.rank), int(row.ts_ns), int(row.dur_ns), int(row.span_id), wording.plain(str(row.name)))
             for row in frame.head(_MOMENTS).itertuples()], "longest")  # fmt: skip
    with st.expander(ctx.say("communication.table", {"n": len(frame)})):
        times = ["ts_ns", "dur_ns", "transfer_ns", "only_waiting_ns", "late_launch_ns"]
        shown = scaled(frame, [*times, "bytes"])
        names = [name for name in shown.columns if name != "span_id"]
        heads = {name: ctx.say(f"communication.col_{name}") for name in names} | {"bytes": "MB"}
        cells.show(shown, heads, key(ctx, "ops"), alt)


def _known(value: object) -> int | None:
    return None if pd.isna(value) else int(value)  # type: ignore[call-overload]


def planes(ctx: Context) -> None:
    """What each plane carried."""
    frame = context.measured(ctx, look.planes)
    if frame.empty:
        return
    with st.expander(ctx.say("communication.planes")):
        st.caption(ctx.say("communication.planes_means"))
        shown = scaled(frame, ["transfer_ns", "only_waiting_ns", "bytes"])
        heads = {name: ctx.say(f"communication.plane_{name}") for name in shown.columns}
        cells.show(shown, heads, key(ctx, "planes"), ctx.say("communication.planes"))
