"""Do the ranks do the same, step after step, and if not, which one is different?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.look import path, rank_sums
from npulens.analysis.look import ranks as look
from npulens.analysis.look.ranks import Compared, Grid, Stand
from npulens.app import context
from npulens.app.charts import critical_path as path_chart
from npulens.app.context import Context
from npulens.app.pages.workspace import charts as chart
from npulens.app.panels import cells, unmeasured
from npulens.app.panels.moment import PLAIN, Moment, go, key
from npulens.app.text import i18n


def show(ctx: Context) -> None:
    """The sentence, the grid, how each rank stands, the critical path, one step as a picture, the clocks."""
    st.header(ctx.say("ranks.question"), anchor=False)
    first = context.measured(ctx, look.across)
    if "dur" not in first.grids:
        if not unmeasured.show(ctx, ("step", "kernel"), "ranks"):
            unmeasured.nothing(ctx, "ranks.none")
        return
    sums = context.measured(ctx, rank_sums.only)
    if sums:
        st.text(ctx.say("ranks.sums"))
    # The sentence needs to know who waits for whom, which takes seconds with many ranks; the grid does not.
    top = st.container()
    show_grid(ctx, first)
    found = context.measured(ctx, look.compared)
    with top:
        sentence(ctx, found)
    standing(ctx, found)
    if sums:  # nothing has a time that a step or a clock could be drawn from
        return
    show_path(ctx)
    show_step(ctx, found)
    clocks(ctx, found)


# One step, rank by rank, with the bubbles of a pipeline; and the clocks that this picture rests on.
_SLICES, _FEW, _CHOICES = 320, 16, 1000
#: With fewer clocks beside the reference the sentence says all there is.
_DRAWN_CLOCKS = 3


def show_step(ctx: Context, found: look.Compared) -> None:
    """The picture of a step; with many ranks only when asked for."""
    title = "pipeline" if found.staged else "step"
    st.subheader(ctx.say(f"ranks.{title}"), anchor="step", help=ctx.say(f"ranks.{title}_means"))
    few = len(found.stands) <= _FEW
    with st.container(horizontal=True, vertical_alignment="bottom"):
        step = _step(ctx, found)
        if not few and not st.toggle(ctx.say("ranks.draw"), key=key(ctx, "ranks_draw")):
            return
    rows = context.measured(ctx, look.pipeline, step, _SLICES)
    if not rows:
        st.text(ctx.say("ranks.no_lanes"))
        return
    _said(ctx, rows, found.staged)
    alt = ctx.say("ranks.step_alt")
    picture = context.once(chart.lanes, rows, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, f"lanes_{step}"), config=PLAIN, alt=alt)
    if not all(row.told for row in rows):
        st.caption(ctx.say("ranks.untold"))
    whole = round(rows[0].slice_ns * _SLICES)
    go(ctx, [Moment(row.rank, row.begin_ns, whole, None, ctx.say("ranks.one_step")) for row in rows], "step")
    with st.expander(ctx.say("ranks.step_table")):
        _table(ctx, rows)


def _step(ctx: Context, found: look.Compared) -> int | None:
    numbers = [stand for stand in found.grids["dur"].steps if stand.isdigit()]
    if not numbers:
        return None
    if len(numbers) == 1:
        return int(numbers[0])
    choices = [int(number) for number in numbers[:_CHOICES]]
    picked = st.selectbox(ctx.say("ranks.axis_step"), choices, key=key(ctx, "ranks_step"), width=160)
    return None if picked is None else int(picked)


def _said(ctx: Context, rows: Sequence[look.Lane], staged: bool) -> None:
    """What the step holds for the ranks together, in a sentence."""
    whole = sum(row.dur_ns for row in rows)
    lost = sum(row.waiting_ns + row.idle_ns for row in rows)
    most = max(rows, key=lambda row: (row.waiting_ns + row.idle_ns) / max(row.dur_ns, 1))
    computing = sum(row.computing_ns for row in rows)
    st.text(ctx.say("ranks.bubbles" if staged else "ranks.shares", {
        "computing": i18n.share(computing, whole), "lost": i18n.share(lost, whole), "rank": most.rank,
        "most": i18n.share(most.waiting_ns + most.idle_ns, most.dur_ns),
        "most_ns": i18n.duration(most.waiting_ns + most.idle_ns),
    }))  # fmt: skip


def _table(ctx: Context, rows: Sequence[look.Lane]) -> None:
    frame = pd.DataFrame([
        {"rank": row.rank, "dur": row.dur_ns / 1e6, "computing": row.computing_ns / 1e6, "moving": row.moving_ns / 1e6,
         "waiting": row.waiting_ns / 1e6 if row.told else None, "idle": row.idle_ns / 1e6}
        for row in rows
    ])  # fmt: skip
    heads = {name: ctx.say(f"ranks.lane_{name}") for name in frame.columns}
    cells.show(frame, heads, key(ctx, "lanes"), ctx.say("ranks.step_table"))


def clocks(ctx: Context, found: look.Compared) -> None:
    """How well the ranks' clocks are known, in words and drawn."""
    if len(found.clocks) < 2:
        return
    st.subheader(ctx.say("ranks.clocks"), anchor="clocks", help=ctx.say("ranks.clocks_means"))
    known = [row for row in found.clocks if row.offset_ns is not None and row.uncertainty_ns is not None]
    lost = [row.rank for row in found.clocks if row.offset_ns is None]
    others = [row for row in known if row.rank != found.reference]
    if others:
        worst = max(others, key=lambda row: row.uncertainty_ns or 0)
        far = max(others, key=lambda row: abs(row.offset_ns or 0))
        st.text(ctx.say("ranks.clocks_known", {
            "reference": found.reference, "n": len(known), "unsure": i18n.duration(worst.uncertainty_ns),
            "worst": worst.rank, "offset": i18n.duration(abs(far.offset_ns or 0)), "far": far.rank,
        }))  # fmt: skip
    if lost:
        st.text(ctx.say("ranks.clocks_lost", {"n": len(lost), "ranks": i18n.ranges(lost)}))
    if len(others) < _DRAWN_CLOCKS:
        return
    picture = context.once(chart.clocks, known, ctx.say, context.ink(), context.accent())
    st.plotly_chart(picture, key=key(ctx, "clocks"), config=PLAIN, alt=ctx.say("ranks.clocks"))
    with st.expander(ctx.say("ranks.clocks_table")):
        frame = pd.DataFrame([
            {"rank": row.rank, "offset": None if row.offset_ns is None else row.offset_ns / 1e3,
             "unsure": None if row.uncertainty_ns is None else row.uncertainty_ns / 1e3}
            for row in found.clocks
        ])  # fmt: skip
        heads = {name: ctx.say(f"ranks.clock_{name}") for name in frame.columns}
        cells.show(frame, heads, key(ctx, "clock_table"), ctx.say("ranks.clocks"))


# Ranks times steps, and below it how each rank stands.
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
    with st.container(key="finding_ranks"):
        st.text(("" if ctx.lang == "zh" else " ").join(parts))


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


def show_grid(ctx: Context, found: Compared) -> None:
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
    picture = context.once(chart.grid, held, rows, how == "apart", ctx.say, context.ink(), metric)
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


def show_path(ctx: Context) -> None:
    """The critical path: one bar a rank, a sentence, the longest pieces as links to the timeline, all numbers."""
    found = context.measured(ctx, path.path)
    if found.rank is None or not found.wall_ns:
        return
    st.subheader(ctx.say("path.title"), anchor="path", help=ctx.say("path.about"))
    kind, ns = next(iter(found.by_kind().items()))
    st.text(ctx.say("path.headline", {
        "kind": ctx.say(f"path.kind_{kind}"), "share": i18n.share(ns, found.wall_ns), "length": i18n.duration(ns),
        "whole": i18n.duration(found.wall_ns),
    }))  # fmt: skip
    picture = context.once(path_chart.figure, found, ctx.say, context.ink())
    st.plotly_chart(picture, key=key(ctx, "path"), config=PLAIN, alt=ctx.say("path.title"))
    if len(found.by_rank()) > path_chart.MOST:
        st.caption(ctx.say("path.cut", {"n": len(found.by_rank())}))
    go(ctx, [
        Moment(one.rank, one.ts_ns, one.dur_ns, one.span_id, one.name)
        for one in found.longest if one.rank is not None
    ], "path")  # fmt: skip
    with st.expander(ctx.say("path.numbers")):
        _path_table(ctx, found)


def _path_table(ctx: Context, found: path.Path) -> None:
    frame = pd.DataFrame([
        {"kind": ctx.say(f"path.kind_{part.kind}"), "rank": path_chart.rank_name(part.rank, ctx.say),
         "time": part.ns / 1e6, "share": 100 * part.ns / found.wall_ns, "pieces": part.pieces}
        for part in found.parts
    ])  # fmt: skip
    heads = {name: ctx.say(f"path.col_{name}") for name in frame.columns}
    cells.show(frame, {**heads, "share": f"{heads['share']}, %"}, key(ctx, "path_parts"), ctx.say("path.numbers"))
