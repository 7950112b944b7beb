"""Between ranks: what goes over each link, and who waits for whom."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import communication as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.communication import charts as chart
from npulens.app.panels import cells
from npulens.app.panels.moment import PLAIN, Moment, go, key, scaled
from npulens.app.text import i18n

_MOST = 128
_FEW_PEERS = 40


def links(ctx: Context) -> None:
    """The link matrix, from tasks or as the profiler summed it up."""
    st.subheader(ctx.say("communication.links"), anchor="links", help=ctx.say("communication.links_means"))
    held = {source: context.measured(ctx, look.links, source) for source in ("tasks", "summary")}
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
    if (rows["src"] == rows["dst"]).all():
        st.text(ctx.say("communication.only_local"))
    else:
        picture = chart.links(rows, each, value, ctx.say, context.ink())
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
            "transport": cells.cell(str(transport)), "n": len(some), "src": int(low["src"]), "dst": int(low["dst"]),
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
    rows, waits = context.measured(ctx, look.peers), context.measured(ctx, look.peer_waits)
    if rows:
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
    st.plotly_chart(chart.waits(waits, ctx.say, context.ink()), key=key(ctx, "comm_waits"), config=PLAIN, alt=alt)
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
        return ctx.say("communication.local_peer", {"local": row.local, "group": cells.cell(row.group or "–")})
    return ctx.say("communication.some_peer")
