"""How much device memory the job holds, what holds it at the peak, and whether it grows."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.look import memory as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.memory import charts as chart
from npulens.app.panels import cells, store_empty, unmeasured
from npulens.app.panels.moment import PLAIN, Moment, answer, go, key, rank_choice, scaled
from npulens.app.selection import bar
from npulens.app.text import i18n, wording

TITLE = "memory.title"
ICON = ":material/memory:"
ORDER = 34
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the curve of a pool, its peak, its growth, the largest blocks."""
    st.header(ctx.say("memory.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    pools = context.selected(ctx, look.pools)
    if not pools and context.measured(ctx, look.pools) and bar.nothing(ctx):
        return
    if not pools:
        if not unmeasured.show(ctx, ("memory_sample", "memory_event"), "memory"):
            unmeasured.nothing(ctx, "memory.none")
        return
    sentence(ctx, main_pool(pools))
    pool = choose(ctx, pools)
    show_pool(ctx, pool)
    growth(ctx, pool)
    largest(ctx, pool.rank)
    everyone(ctx, pools)
    unmeasured.show(ctx, ("memory_sample", "memory_event"), "memory")


# One pool of one rank: its curve, its peak and what holds it, its level over the steps.
_BARS, _LARGEST, _MOMENTS = 12, 100, 20


def main_pool(pools: Sequence[look.Pool]) -> look.Pool:
    """The pool with the highest known allocation; a sum of two pools only where there is nothing else."""
    known = [pool for pool in pools if pool.allocated is not None]
    single = [pool for pool in known if "+" not in pool.name]
    return max(single or known or pools, key=lambda pool: (pool.allocated or 0, pool.reserved or 0, -pool.rank))


def pool_name(ctx: Context, name: str) -> str:
    """What a pool is called."""
    return ctx.say("memory.from_events") if name == look.EVENTS else wording.plain(name)


def sentence(ctx: Context, pool: look.Pool) -> None:
    """The peak of the whole run, in numbers."""
    peak = context.selected(ctx, look.peak, pool.rank, pool.name)
    if peak is None:
        return
    values = {
        "pool": pool_name(ctx, pool.name), "rank": pool.rank, "at": i18n.duration(peak.ts_ns),
        "allocated": _size(peak.allocated), "reserved": _size(peak.reserved),
    }  # fmt: skip
    kind = "relative" if pool.relative else "reserved_only" if peak.allocated is None else "peak"
    parts = [ctx.say(f"memory.answer_{kind}", values)]
    if peak.allocated is not None and peak.reserved is not None:
        unused = peak.reserved - peak.allocated
        parts.append(ctx.say("memory.answer_reserved", {
            **values, "unused": _size(unused), "share": i18n.share(unused, peak.reserved),
        }))  # fmt: skip
    held = context.selected(ctx, look.holders, pool.rank, peak.ts_ns)
    if not held.empty and isinstance(held["name"].iloc[0], str):
        first = held.iloc[0]
        parts.append(ctx.say("memory.answer_holder", {
            "name": wording.plain(str(first["name"])), "bytes": _size(int(first["bytes"])), "n": int(first["blocks"]),
        }))  # fmt: skip
    answer(ctx, parts)


def _size(value: int | None) -> str:
    return "–" if value is None else i18n.size(value)


def choose(ctx: Context, pools: Sequence[look.Pool]) -> look.Pool:
    """Rank, then pool; the one that holds most is offered first."""
    first = main_pool(pools)
    ranks = sorted({pool.rank for pool in pools}, key=lambda rank: (rank != first.rank, rank))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rank = rank_choice(ctx, ranks, "memory_rank")
        mine = [pool for pool in pools if pool.rank == rank]
        best = main_pool(mine)
        names = [best.name, *(pool.name for pool in mine if pool.name != best.name)]
        name = st.selectbox(
            ctx.say("memory.pool"), names, key=f"{key(ctx, 'memory_pool')}_{rank}", width=260,
            format_func=lambda option: pool_name(ctx, option),
        )  # fmt: skip
    return next(pool for pool in mine if pool.name == name)


def show_pool(ctx: Context, pool: look.Pool) -> None:
    """The curve and the peak in it."""
    rows = context.selected(ctx, look.curve, pool.rank, pool.name)
    peak = context.selected(ctx, look.peak, pool.rank, pool.name)
    marks = context.selected(ctx, look.marks, pool.rank)
    if pool.relative:
        st.caption(ctx.say("memory.relative"))
    if pool.samples > len(rows):
        st.caption(ctx.say("memory.thinned", {"all": f"{pool.samples:,}", "shown": f"{len(rows):,}"}))
    alt = ctx.say("memory.curve_alt", {"pool": pool_name(ctx, pool.name), "rank": pool.rank})
    picture = context.once(chart.curve, rows, peak.ts_ns if peak else None, marks, ctx.say, context.ink())
    curve = key(ctx, f"memory_curve_{pool.rank}_{pool.name}")
    st.plotly_chart(picture, key=curve, config=PLAIN, alt=alt, on_select=bar.area(ctx, curve), selection_mode="box")
    if peak is None:
        return
    if peak.most_unused is not None and peak.most_unused_ns is not None:
        st.text(ctx.say("memory.fragmented", {
            "unused": _size(peak.most_unused), "at": i18n.duration(peak.most_unused_ns),
            "peak": _size((peak.reserved or 0) - (peak.allocated or 0)),
        }), help=ctx.say("memory.fragmented_means"))  # fmt: skip
    go(ctx, _moments(ctx, pool, peak), "memory_peak")
    with st.expander(ctx.say("memory.curve_table")):
        shown = scaled(rows, [name for name in rows.columns])
        heads = {name: ctx.say(f"memory.col_{name}") for name in shown.columns}
        cells.show(shown, heads, key(ctx, f"memory_rows_{pool.rank}_{pool.name}"), alt)
    _holders(ctx, pool, peak)


def _moments(ctx: Context, pool: look.Pool, peak: look.Peak) -> list[Moment]:
    found = [Moment(pool.rank, peak.ts_ns, 100_000, None, ctx.say("memory.the_peak"), _size(peak.allocated))]
    if peak.most_unused_ns is not None:
        unused = ctx.say("memory.the_unused")
        found.append(Moment(pool.rank, peak.most_unused_ns, 100_000, None, unused, _size(peak.most_unused)))
    return found


def _holders(ctx: Context, pool: look.Pool, peak: look.Peak) -> None:
    """What is alive at the peak, by operator."""
    st.subheader(ctx.say("memory.holders"), anchor="peak", help=ctx.say("memory.holders_means"))
    rows = context.selected(ctx, look.holders, pool.rank, peak.ts_ns)
    if rows.empty:
        st.text(ctx.say("memory.no_pairs" if pool.relative else "memory.no_events"))
        return
    if peak.allocated is None or "+" in pool.name:
        st.caption(ctx.say("memory.other_pool"))
    rest = None if peak.allocated is None else peak.allocated - int(rows["bytes"].sum())
    picture = context.once(chart.holders, rows, rest, ctx.say, context.ink(), _BARS)
    alt = ctx.say("memory.holders_alt")
    st.plotly_chart(picture, key=key(ctx, f"holders_{pool.rank}_{pool.name}"), config=PLAIN, alt=alt)
    with st.expander(ctx.say("memory.holders_table", {"n": len(rows)})):
        heads = {name: ctx.say(f"memory.held_{name}") for name in rows.columns}
        cells.show(scaled(rows, ["bytes"]), heads, key(ctx, f"holders_table_{pool.rank}_{pool.name}"), alt)


def growth(ctx: Context, pool: look.Pool) -> None:
    """The level of the pool, step by step; numbers, no verdict."""
    rows = context.selected(ctx, look.growth, pool.rank, pool.name)
    if rows.empty:
        return
    st.subheader(ctx.say("memory.growth"), anchor="growth", help=ctx.say("memory.growth_means"))
    found = look.trend(rows)
    if found is None:
        st.text(ctx.say("memory.too_few_steps"))
        return
    st.text(ctx.say("memory.trend", {
        "steps": found.steps, "first": _size(found.first), "last": _size(found.last),
        "change": _signed(found.last - found.first), "slope": _signed(round(found.per_step)),
    }))  # fmt: skip
    alt = ctx.say("memory.growth")
    picture = context.once(chart.growth, rows, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, f"growth_{pool.rank}_{pool.name}"), config=PLAIN, alt=alt)
    with st.expander(ctx.say("memory.growth_table")):
        heads = {name: ctx.say(f"memory.step_{name}") for name in rows.columns}
        shown = scaled(rows, ["end_bytes", "peak_bytes", "low_bytes"])
        cells.show(shown, heads, key(ctx, f"growth_table_{pool.rank}_{pool.name}"), alt)


def _signed(value: int) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else '±'}{i18n.size(abs(value))}"


def largest(ctx: Context, rank: int) -> None:
    """The largest blocks, each with its moment."""
    rows = context.selected(ctx, look.largest, rank, _LARGEST)
    if rows.empty:
        return
    st.subheader(ctx.say("memory.largest"), anchor="largest", help=ctx.say("memory.largest_means"))
    go(ctx, [_moment(ctx, rank, row) for _, row in rows.head(_MOMENTS).iterrows() if pd.notna(row["ts_ns"])], "largest")
    shown = scaled(rows, ["bytes", "ts_ns", "dur_ns", "allocated_bytes", "reserved_bytes"])
    heads = {name: ctx.say(f"memory.block_{name}") for name in shown.columns if shown[name].notna().any()}
    cells.show(shown, heads, key(ctx, f"largest_{rank}"), ctx.say("memory.largest"))


def _moment(ctx: Context, rank: int, row: pd.Series) -> Moment:
    name = row["name"] if isinstance(row["name"], str) else ctx.say("memory.unnamed")
    length = 100_000 if pd.isna(row["dur_ns"]) else int(row["dur_ns"])
    return Moment(rank, int(row["ts_ns"]), length, None, name, _size(int(row["bytes"])))


def everyone(ctx: Context, pools: Sequence[look.Pool]) -> None:
    """Every pool of every rank."""
    with st.expander(ctx.say("memory.pools", {"n": len(pools)})):
        st.caption(ctx.say("memory.pools_means"))
        frame = pd.DataFrame([
            {"rank": pool.rank, "pool": pool_name(ctx, pool.name), "allocated": pool.allocated,
             "reserved": pool.reserved, "samples": pool.samples}
            for pool in pools
        ])  # fmt: skip
        heads = {name: ctx.say(f"memory.pool_{name}") for name in frame.columns}
        cells.show(scaled(frame, ["allocated", "reserved"]), heads, key(ctx, "pools"), ctx.say("memory.pools_means"))
