"""How much the ranks say to each other, what it costs, over which links, and who keeps whom waiting."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import communication as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.communication import charts as chart
from npulens.app.panels import cells, store_empty, unmeasured
from npulens.app.panels.moment import PLAIN, Moment, answer, go, key, scaled
from npulens.app.selection import bar
from npulens.app.text import i18n, wording

TITLE = "communication.title"
ICON = ":material/hub:"
ORDER = 33
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the operators, the groups, the links, the peers."""
    st.header(ctx.say("communication.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    told = context.selected(ctx, look.summary)
    if told is None and context.measured(ctx, look.summary) is not None and bar.nothing(ctx):
        return
    if told is None:
        if not unmeasured.show(ctx, ("comm",), "communication"):
            unmeasured.nothing(ctx, "communication.none")
        return
    sentence(ctx, told)
    if told.only_waiting_ns is None:
        st.caption(ctx.say("communication.no_tasks"))
    kinds(ctx)
    peers(ctx)
    links(ctx)
    longest(ctx)
    groups(ctx)
    planes(ctx)


# Between ranks: what goes over each link, and who waits for whom.
_MOST = 128
_FEW_PEERS = 40


def links(ctx: Context) -> None:
    """The link matrix, from tasks or as the profiler summed it up."""
    st.subheader(ctx.say("communication.links"), anchor="links", help=ctx.say("communication.links_means"))
    held = {source: context.selected(ctx, look.links, source) for source in ("tasks", "summary")}
    there = [source for source, frame in held.items() if not frame.empty]
    if not there:
        st.text(ctx.say("communication.no_links"))
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        value = _switch(ctx, "value", ["bytes_per_s", "bytes"])
        source = _switch(ctx, "source", there) if len(there) > 1 else there[0]
    rows, each = look.in_blocks(held[source], _MOST)
    if source == "summary":
        st.caption(ctx.say("communication.links_summary_note"))
        bar.whole(ctx, "steps", "window")
    if (rows["src"] == rows["dst"]).all():
        st.text(ctx.say("communication.only_local"))
    else:
        picture = context.once(chart.links, rows, each, value, ctx.say, context.ink())
        alt = ctx.say("communication.links_alt")
        st.plotly_chart(picture, key=key(ctx, f"comm_links_{source}_{value}"), config=PLAIN, alt=alt)
    _slowest(ctx, held[source])
    with st.expander(ctx.say("communication.links_table", {"n": len(held[source])})):
        shown = scaled(scaled(held[source], ["transit_ns", "bytes"]), ["bytes_per_s"], 1e9)
        heads = {name: ctx.say(f"communication.link_{name}") for name in shown.columns}
        cells.show(shown, heads, key(ctx, f"links_{source}"), ctx.say("communication.links"))


def _slowest(ctx: Context, rows: pd.DataFrame) -> None:
    """Fastest and slowest link of each transport, in a sentence; no verdict."""
    apart = rows[(rows["src"] != rows["dst"]) & rows["bytes_per_s"].notna()]
    for transport, some in apart.groupby(apart["transport"].fillna("–")):
        low, high = some.loc[some["bytes_per_s"].idxmin()], some.loc[some["bytes_per_s"].idxmax()]
        st.text(ctx.say("communication.link_range", {
            "transport": wording.plain(str(transport)), "n": len(some), "src": int(low["src"]), "dst": int(low["dst"]),
            "low": f"{low['bytes_per_s'] / 1e9:.2f}", "high": f"{high['bytes_per_s'] / 1e9:.2f}",
            "median": f"{some['bytes_per_s'].median() / 1e9:.2f}",
        }))  # fmt: skip


def _switch(ctx: Context, name: str, options: list[str]) -> str:
    picked = st.segmented_control(
        ctx.say(f"communication.{name}"), options, default=options[0], required=True, key=key(ctx, f"comm_{name}"),
        format_func=lambda option: ctx.say(f"communication.{name}_{option}"),
    )  # fmt: skip
    return picked or options[0]


def peers(ctx: Context) -> None:
    """Who came last, captured or not; and below, every wait for every peer."""
    st.subheader(ctx.say("communication.peers"), anchor="peers", help=ctx.say("communication.peers_means"))
    rows, waits = context.measured(ctx, look.peers), context.selected(ctx, look.peer_waits)
    if rows:
        bar.whole(ctx)
        _late(ctx, rows)
    elif waits.empty:
        st.text(ctx.say("communication.no_peers"))
    else:
        most = waits.loc[waits["wait_ns"].idxmax()]
        st.text(ctx.say("communication.most_waits", {
            "rank": int(most["rank"]), "peer": int(most["peer"]), "wait": i18n.duration(int(most["wait_ns"])),
        }))  # fmt: skip
    if waits.empty:
        return
    st.caption(ctx.say("communication.peer_waits_means"))
    alt = ctx.say("communication.peer_waits_alt")
    picture = context.once(chart.waits, waits, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, "comm_waits"), config=PLAIN, alt=alt)
    with st.expander(ctx.say("communication.table", {"n": len(waits)})):
        shown = scaled(waits, ["wait_ns", "longest_ns"])
        heads = {name: ctx.say(f"communication.wait_{name}") for name in shown.columns}
        cells.show(shown, heads, key(ctx, "peer_waits"), alt)


def _late(ctx: Context, rows: tuple[look.Peer, ...]) -> None:
    first = rows[0]
    with st.container(key="prose"):
        st.text(ctx.say(f"communication.last_{_held(first)}", {
            "who": name(ctx, first), "wait": i18n.duration(first.wait_ns), "gain": i18n.duration(first.gain_ns),
            "waiting": ctx.say("communication.waiting", {"n": len(first.waiting), "ranks": i18n.ranges(first.waiting)}),
        }))  # fmt: skip
    go(ctx, [Moment(one.rank, one.ts_ns, one.dur_ns, one.span_id, one.name) for one in first.moments], "peer")
    frame = pd.DataFrame([
        {"peer": name(ctx, row), "captured": ctx.say(f"communication.{_held(row)}"), "operators": row.operators,
         "waiting": i18n.ranges(row.waiting), "wait_ns": row.wait_ns, "gain_ns": row.gain_ns,
         "how": ctx.say(f"communication.how_{row.how}")}
        for row in rows[:_FEW_PEERS]
    ])  # fmt: skip
    heads = {head: ctx.say(f"communication.peer_{head}") for head in frame.columns}
    cells.show(scaled(frame, ["wait_ns", "gain_ns"]), heads, key(ctx, "peers"), ctx.say("communication.peers"))


def _held(row: look.Peer) -> str:
    return "unknown" if row.rank is None else "held" if row.captured else "not_held"


def name(ctx: Context, row: look.Peer) -> str:
    """A peer as it is known: the rank, its place in a group, or nobody in particular."""
    if row.rank is not None:
        return f"rank {row.rank}"
    if row.local is not None:
        return ctx.say("communication.local_peer", {"local": row.local, "group": wording.plain(row.group or "–")})
    return ctx.say("communication.some_peer")


# Operators: by type and group, the groups themselves, and the longest operators one by one.
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
    rows = context.selected(ctx, look.kinds)
    st.subheader(ctx.say("communication.kinds"), anchor="kinds", help=ctx.say("communication.kinds_means"))
    names = {group.name: group for group in context.measured(ctx, look.groups)}
    drawn = [
        chart.Bar(f"{row.collective or ctx.say('communication.unnamed')} · {_group(names.get(row.group), row.group)}",
                  row.busy_ns, row.transfer_ns, row.only_waiting_ns)
        for row in rows[:_BARS]
    ]  # fmt: skip
    alt = ctx.say("communication.kinds_alt")
    picture = context.once(chart.bars, drawn, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, "comm_kinds"), config=PLAIN, alt=alt)
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
    frame = context.selected(ctx, look.longest, None, _ROWS)
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
    picture = context.once(chart.bars, drawn, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, "comm_longest"), config=PLAIN, alt=alt)
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
    frame = context.selected(ctx, look.planes)
    if frame.empty:
        return
    with st.expander(ctx.say("communication.planes")):
        st.caption(ctx.say("communication.planes_means"))
        shown = scaled(frame, ["transfer_ns", "only_waiting_ns", "bytes"])
        heads = {name: ctx.say(f"communication.plane_{name}") for name in shown.columns}
        cells.show(shown, heads, key(ctx, "planes"), ctx.say("communication.planes"))
