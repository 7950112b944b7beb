"""What the hardware counted over time: clock, bandwidth, utilisation, and how that goes with the work."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.look import counters as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.counters import charts as chart
from npulens.app.panels import cells, store_empty, unmeasured
from npulens.app.panels.moment import PLAIN, Moment, answer, go, key, rank_choice, scaled
from npulens.app.selection import bar
from npulens.app.text import i18n, wording

TITLE = "counters.title"
ICON = ":material/monitoring:"
ORDER = 35
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the small multiples, the table of all series."""
    st.header(ctx.say("counters.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    rows = context.selected(ctx, look.series)
    if rows.empty and not context.measured(ctx, look.series).empty and bar.nothing(ctx):
        return
    if rows.empty:
        if not unmeasured.show(ctx, ("sample",), "counters"):
            unmeasured.nothing(ctx, "counters.none")
        return
    sentence(ctx, rows)
    show_multiples(ctx, rows)
    table(ctx, rows)


# Counters: which of them, drawn as small multiples, and all in one table.
_FIRST, _MOMENTS = 6, 20
_AROUND = 500_000  # ns to both sides of a sample


def sentence(ctx: Context, rows: pd.DataFrame) -> None:
    """What there is, and the clock of the cores if it was sampled."""
    moving = rows[rows["low"] < rows["high"]]
    parts = [ctx.say("counters.answer", {
        "n": int(rows[["counter", "series"]].drop_duplicates().shape[0]),
        "ranks": i18n.count(int(rows["rank"].nunique())),
        "samples": f"{int(rows['samples'].sum()):,}",
        "moving": int(moving[["counter", "series"]].drop_duplicates().shape[0]),
    })]  # fmt: skip
    clock = rows[rows["counter"].str.contains("core freq", case=False)]
    if not clock.empty:
        steady = clock["low"].min() == clock["high"].max()
        parts.append(ctx.say("counters.clock_steady" if steady else "counters.clock", {
            "low": f"{clock['low'].min():,.0f}", "mean": f"{clock['mean'].mean():,.0f}",
            "high": f"{clock['high'].max():,.0f}",
        }))  # fmt: skip
        parts += _slowed(ctx)
    answer(ctx, parts)


def _slowed(ctx: Context) -> list[str]:
    """Kernels below the rated clock, where the rating is known."""
    known = [one for one in context.selected(ctx, look.clocks) if one.rated_mhz is not None]
    if not known:
        return []
    worst = max(known, key=lambda one: one.lost_ns)
    if not worst.kernels:
        return [ctx.say("counters.at_rating", {"rated": f"{worst.rated_mhz:,.0f}"})]
    return [ctx.say("counters.below_rating", {
        "rank": worst.rank, "n": worst.kernels, "lost": i18n.duration(worst.lost_ns),
        "rated": f"{worst.rated_mhz:,.0f}",
    })]  # fmt: skip


def show_multiples(ctx: Context, every: pd.DataFrame) -> None:
    """Choose a rank and families, and see them."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rank = rank_choice(ctx, sorted(int(one) for one in every["rank"].unique()), "counter_rank")
        rows = every[every["rank"] == rank]
        families = _families(rows)
        told = rows[rows["low"] < rows["high"]]
        moves = set(told["family"] + "\0" + told["series"])
        first = [name for name in families[:_FIRST] if name in moves or _is_clock(name)] or families[:1]
        picked = st.multiselect(
            ctx.say("counters.families"), families, default=first, width=620,
            key=f"{key(ctx, 'counter_families')}_{rank}", format_func=_title,
        )  # fmt: skip
        behind = st.toggle(ctx.say("counters.behind"), key=key(ctx, "counter_behind"),
                           help=ctx.say("counters.behind_means"))  # fmt: skip
    if not picked or rank is None:
        return
    panels, left = _panels(rows, picked)
    if left:
        st.caption(ctx.say("counters.cut", {"most": chart.MOST_LINES, "n": left}))
    _draw(ctx, rank, rows, panels, behind)
    _lows(ctx, rank, rows, panels)


def _draw(ctx: Context, rank: int, rows: pd.DataFrame, panels: Sequence[chart.Panel], behind: bool) -> None:
    names = tuple(line for panel in panels for line in panel.lines)
    begin, end = int(rows["first_ns"].min()), int(rows["last_ns"].max())
    curves = context.selected(ctx, look.points, rank, names, begin, end)
    busy = context.selected(ctx, look.busy, rank, begin, end) if behind else None
    alt = ctx.say("counters.alt", {"rank": rank})
    picture = context.once(chart.figure, panels, curves, busy, (begin, end), ctx.say, context.ink())
    drawn = key(ctx, f"counters_{rank}_{hash(names)}_{behind}")
    st.plotly_chart(picture, key=drawn, config=PLAIN, alt=alt, on_select=bar.area(ctx, drawn), selection_mode="box")
    with st.expander(ctx.say("counters.points", {"n": f"{len(curves):,}"})):
        heads = {name: ctx.say(f"counters.col_{name}") for name in curves.columns}
        cells.show(scaled(curves, ["ts_ns"]), heads, key(ctx, f"counter_points_{rank}_{hash(names)}"), alt)


def _families(rows: pd.DataFrame) -> list[str]:
    """Family and series as one key: the clock first, then those that move most for their size, then by name."""
    size = rows[["low", "high"]].abs().max(axis=1)
    told = rows.assign(key=rows["family"] + "\0" + rows["series"], moves=(rows["high"] - rows["low"]) / size)
    moves = told.groupby("key")["moves"].max().fillna(0.0)
    return sorted(moves.index, key=lambda name: (not _is_clock(name), -moves[name], name))


def _is_clock(name: str) -> bool:
    return "core freq" in name.lower()


def _title(name: str) -> str:
    """Family and series as people read them."""
    family, series = name.split("\0", 1)
    return wording.plain(family if series in family else f"{family} · {series}")


def _panels(rows: pd.DataFrame, picked: Sequence[str]) -> tuple[list[chart.Panel], int]:
    """The series of each family, those with the widest range first; and how many are left out."""
    panels, left = [], 0
    for name in picked:
        family, series = name.split("\0", 1)
        mine = rows[(rows["family"] == family) & (rows["series"] == series)]
        wide = mine.assign(range=mine["high"] - mine["low"]).sort_values(["range", "counter"], ascending=[False, True])
        kept = sorted(wide["counter"].head(chart.MOST_LINES))
        left += len(wide) - len(kept)
        panels.append(chart.Panel(_title(name), tuple((str(counter), series) for counter in kept)))
    return panels, left


def _lows(ctx: Context, rank: int, rows: pd.DataFrame, panels: Sequence[chart.Panel]) -> None:
    """The moment of the highest and the lowest sample of each drawn series."""
    names = tuple(line for panel in panels for line in panel.lines)
    begin, end = int(rows["first_ns"].min()), int(rows["last_ns"].max())
    curves = context.selected(ctx, look.points, rank, names, begin, end)
    moments = []
    for (counter, _), some in curves.groupby(["counter", "series"]):
        if some["value"].min() == some["value"].max():
            continue
        for pick, text in ((some["value"].idxmin(), "lowest"), (some["value"].idxmax(), "highest")):
            at, value = int(some.loc[pick, "ts_ns"]), float(some.loc[pick, "value"])
            more = ctx.say(f"counters.{text}", {"value": i18n.digits(value)})
            moments.append(Moment(rank, max(0, at - _AROUND), 2 * _AROUND, None, str(counter), more))
    go(ctx, moments[:_MOMENTS], "counter")


def table(ctx: Context, rows: pd.DataFrame) -> None:
    """Every series of every rank."""
    st.subheader(ctx.say("counters.table"), anchor="series", help=ctx.say("counters.table_means"))
    still = rows[rows["low"] == rows["high"]]
    if len(still):
        st.text(ctx.say("counters.still", {
            "n": len(still), "zero": int((still["high"] == 0).sum()), "all": len(rows),
        }))  # fmt: skip
    shown = rows.assign(moves=rows["low"] < rows["high"]).sort_values(
        ["moves", "counter", "rank"], ascending=[False, True, True]
    )
    names = ("rank", "counter", "series", "samples", "low", "mean", "high")
    cells.show(shown, {name: ctx.say(f"counters.col_{name}") for name in names}, key(ctx, "counter_table"),
               ctx.say("counters.table"))  # fmt: skip
