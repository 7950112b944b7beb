"""Two runs in one picture: their timelines one above the other, and one flame graph of both."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look.compare import Window
from npulens.analysis.selection import aligned, flame
from npulens.analysis.selection.within import Part
from npulens.app import context
from npulens.app.charts import flame as charts
from npulens.app.context import Context
from npulens.app.pages.compare.half import Half, Pair
from npulens.app.panels import pick_rows as table
from npulens.app.panels.moment import PLAIN
from npulens.app.text import i18n, wording
from npulens.app.timeline import component
from npulens.app.timeline.component import Painted

_NAME = 80


def timelines(ctx: Context, pair: Pair) -> None:
    """Both from the start of their first window on; where the time differs is painted, and told below."""
    st.subheader(ctx.say("compare.together"), anchor="timelines", help=ctx.say("compare.together_means"))
    base, head = _first(pair)
    found = None
    told = [
        context.measured_of(ctx, half.parts[0].run.run_id, aligned.pieces, window.rank, window.start_ns,
                            window.start_ns + window.dur_ns)
        for half, window in ((pair.base, base), (pair.head, head))
    ]  # fmt: skip
    if told[0] is not None and told[1] is not None:
        found = aligned.spots(told[0], told[1])
    component.pair(
        ctx, pair.base.parts[0].run.run_id, base.start_ns, pair.head.parts[0].run.run_id, head.start_ns,
        max(base.dur_ns, head.dur_ns),
        [Painted(base.rank, one.base_ns, one.base_dur_ns, one.change_ns) for one in found or ()],
        [Painted(head.rank, one.head_ns, one.head_dur_ns, one.change_ns) for one in found or ()],
    )  # fmt: skip
    if found is None:
        st.caption(ctx.say("compare.too_many_pieces"))
        return
    if not found:
        st.caption(ctx.say("compare.no_spots"))
        return
    rows = pd.DataFrame([
        {"name": wording.plain(one.name)[:_NAME], "change": one.change_ns / 1e6, "base": one.base_dur_ns / 1e6,
         "head": one.head_dur_ns / 1e6, "base_at": (one.base_ns - base.start_ns) / 1e6,
         "head_at": (one.head_ns - head.start_ns) / 1e6}
        for one in found
    ])  # fmt: skip
    with st.expander(ctx.say("compare.spots", {"n": len(rows)})):
        table.plain(rows, {
            "name": table.text(ctx.say("compare.spot_name"), wide=True),
            "change": table.milli(ctx.say("compare.spot_change"), ctx.say("compare.spot_change_means")),
            "base": table.milli(pair.base.short), "head": table.milli(pair.head.short),
            "base_at": table.milli(ctx.say("compare.spot_at", {"side": pair.base.short})),
            "head_at": table.milli(ctx.say("compare.spot_at", {"side": pair.head.short})),
        }, ctx.say("compare.together_means"))  # fmt: skip


def _first(pair: Pair) -> tuple[Window, Window]:
    """The first window of a rank that both sides have, else the first of each."""
    base, head = pair.base.first.side.windows, pair.head.first.side.windows
    both = [window for window in base if any(other.rank == window.rank for other in head)]
    chosen = both[0] if both else base[0]
    return chosen, next((window for window in head if window.rank == chosen.rank), head[0])


def flames(ctx: Context, pair: Pair) -> None:
    """Device time by the code that launched it, of a mean window of each side."""
    st.subheader(ctx.say("flame.differs"), anchor="flame", help=ctx.say("flame.differs_help"))
    found = [_flame(ctx, half.first) for half in (pair.base, pair.head)]
    if found[0] is None or found[1] is None:
        st.text(ctx.say("flame.too_many"))
        return
    (base, base_count), (head, head_count) = found[0], found[1]
    rows = flame.differences(base, head, base_count, head_count)
    if not rows:
        st.text(ctx.say("flame.none"))
        return
    a_step = base.total_ns // base_count, head.total_ns // head_count
    picture = context.once(charts.differing, rows, *a_step, ctx.say, context.ink())
    st.plotly_chart(picture, key=f"compare_flame_{ctx.lang}", config=PLAIN, alt=ctx.say("flame.differs"))
    st.caption(ctx.say("compare.flame_per", {
        "base": i18n.duration(base.total_ns // base_count), "head": i18n.duration(head.total_ns // head_count),
    }))  # fmt: skip


def _flame(ctx: Context, half: Half) -> tuple[flame.Flame, int] | None:
    """The graph of a side, and of how many windows it is."""
    side, part = half.side, half.parts[0]
    steps = None if side.whole or not side.steps else (min(side.steps), max(side.steps))
    found = context.measured_of(
        ctx, part.run.run_id, flame.flame, "device", part=Part(part.ranks or (), steps) if part.ranks or steps else None
    )
    return None if found is None else (found, max(1, len(side.windows)))
