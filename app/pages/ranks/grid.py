"""Ranks times steps, and below it how each rank stands."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.look.ranks import Compared, Grid, Stand
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.ranks import charts as chart
from npulens.app.panels import cells
from npulens.app.panels.moment import PLAIN, answer, key
from npulens.app.text import i18n

_SHOWN = ("dur", "computing", "exposed", "waiting", "idle", "start")


def sentence(ctx: Context, found: Compared) -> None:
    """The spread of the ranks, and whom they wait for."""
    stands = [stand for stand in found.stands if stand.median_ns.get("dur") is not None]
    low, high = (pick(stands, key=lambda one: one.median_ns["dur"] or 0) for pick in (min, max))
    middle = sorted(stand.median_ns["dur"] or 0 for stand in stands)[(len(stands) - 1) // 2]
    values = {
        "n": len(stands), "steps": max(stand.steps for stand in stands), "middle": i18n.duration(middle),
        "apart": i18n.duration((high.median_ns["dur"] or 0) - (low.median_ns["dur"] or 0)), "low": low.rank,
        "high": high.rank,
    }  # fmt: skip
    whole = found.grids["dur"].steps == ("",)
    parts = [ctx.say("ranks.spread_whole" if whole else "ranks.spread", values)]
    parts += [ctx.say("ranks.missed", {"rank": found.missed.rank, "wait": i18n.duration(found.missed.wait_ns)})
              ] if found.missed else _waited(ctx, found.stands)  # fmt: skip
    answer(ctx, parts)


def _waited(ctx: Context, stands: Sequence[Stand]) -> list[str]:
    """Whom the others wait for, or who computes most."""
    if len(stands) < 2:
        return []
    first, last = stands[0], stands[-1]
    if first.waited_ns:
        return [ctx.say("ranks.waited", {"rank": first.rank, "wait": i18n.duration(first.waited_ns)})]
    more = first.apart_ns.get("computing")
    if more is None or first.rank == last.rank:
        return []
    return [ctx.say("ranks.computes", {"rank": first.rank, "more": i18n.duration(more)})]


def show(ctx: Context, found: Compared) -> None:
    """The grid with its switches."""
    st.subheader(ctx.say("ranks.grid"), anchor="grid", help=ctx.say("ranks.grid_means"))
    there = [name for name in _SHOWN if name in found.grids]
    several = len(found.stands) > 1
    with st.container(horizontal=True, vertical_alignment="bottom"):
        metric = _switch(ctx, "metric", there, _telling(found, there))
        how = _switch(ctx, "how", ["time", "apart"]) if several else "time"
        order = _switch(ctx, "order", ["rank", "far"]) if several else "rank"
    st.caption(ctx.say(f"ranks.means_{metric}"))
    held = found.grids[metric]
    rows = _ordered(held, found, metric) if order == "far" else list(held.ranks)
    picture = chart.grid(held, rows, how == "apart", ctx.say, context.ink())
    alt = ctx.say("ranks.grid_alt", {"what": ctx.say(f"ranks.metric_{metric}")})
    st.plotly_chart(picture, key=key(ctx, f"ranks_grid_{metric}_{how}_{order}"), config=PLAIN, alt=alt)
    if held.each > 1:
        st.caption(ctx.say("ranks.each", {"each": held.each}))
    _lacking(ctx, [name for name in _SHOWN if name not in found.grids])
    with st.expander(ctx.say("ranks.grid_table")):
        frame = pd.DataFrame(held.ns / 1e6, columns=[step or ctx.say("ranks.whole") for step in held.steps])
        frame.insert(0, "rank", held.ranks)
        cells.show(frame, {name: str(name) for name in frame.columns}, key(ctx, f"grid_table_{metric}"), alt)


def _lacking(ctx: Context, names: Sequence[str]) -> None:
    """Metrics that the capture cannot give, in words."""
    if names:
        what = ctx.say("shell.comma").join(ctx.say(f"ranks.metric_{name}") for name in names)
        st.caption(ctx.say("ranks.lacking", {"what": what}))


def _ordered(held: Grid, found: Compared, metric: str) -> list[int]:
    """The rank that is farthest above the median first."""
    apart = {stand.rank: stand.apart_ns.get(metric) for stand in found.stands}
    return sorted(held.ranks, key=lambda rank: (-(apart.get(rank) or 0), rank))


def _telling(found: Compared, names: Sequence[str]) -> str:
    """What tells the ranks apart most: the metric whose medians lie farthest from each other."""

    def spread(name: str) -> int:
        held = [value for stand in found.stands if (value := stand.median_ns.get(name)) is not None]
        return max(held, default=0) - min(held, default=0)

    return max(names, key=spread) if len(found.stands) > 1 else names[0]


def _switch(ctx: Context, name: str, options: Sequence[str], default: str = "") -> str:
    picked = st.segmented_control(
        ctx.say(f"ranks.{name}"), options, default=default or options[0], required=True, key=key(ctx, f"ranks_{name}"),
        format_func=lambda option: ctx.say(f"ranks.{name}_{option}"),
    )  # fmt: skip
    return picked or options[0]


def standing(ctx: Context, found: Compared) -> None:
    """One row a rank: how far it is from the median rank, and who waited for it."""
    if len(found.stands) < 2:
        return
    st.subheader(ctx.say("ranks.standing"), anchor="standing", help=ctx.say("ranks.standing_means"))
    frame = pd.DataFrame([_row(stand) for stand in found.stands])
    heads = {name: ctx.say(f"ranks.col_{name}") for name in frame.columns if not frame[name].isna().all()}
    cells.show(frame, heads, key(ctx, "standing"), ctx.say("ranks.standing"))


def _row(stand: Stand) -> dict[str, object]:
    row: dict[str, object] = {
        "rank": stand.rank, "waited": stand.waited_ns / 1e6, "last": stand.last, "dur": _ms(stand.median_ns.get("dur")),
    }  # fmt: skip
    row |= {f"apart_{name}": _ms(stand.apart_ns.get(name)) for name in _SHOWN}
    return row | {"kernels": stand.kernels_ns / 1e6, "kernel": stand.kernel, "kernel_ns": stand.kernel_ns / 1e6}


def _ms(value: int | None) -> float | None:
    return None if value is None else value / 1e6
