"""How the job is split over its ranks, and what each way of splitting it costs: bubbles, and waits per domain."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from npulens.analysis.selection import domains
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.parallel import charts
from npulens.app.panels import cells, store_empty, unmeasured
from npulens.app.panels.moment import PLAIN, answer, key, scaled
from npulens.app.selection import bar
from npulens.app.text import i18n

TITLE = "parallel.title"
ICON = ":material/grid_view:"
ORDER = 36
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the grid of ranks, the domains, and every number."""
    st.header(ctx.say("parallel.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    found = context.measured(ctx, domains.strategy, ctx.part)
    if not found.places:
        _not_recorded(ctx, found)
        return
    sentence(ctx, found)
    grid(ctx, found)
    costs(ctx, found)
    table(ctx, found)


def _not_recorded(ctx: Context, found: domains.Strategy) -> None:
    """Which groups there are without a kind; without any, what would record them."""
    if found.untold:
        unmeasured.nothing(ctx, "parallel.untold")
        st.text(ctx.say("parallel.untold_groups", {"n": len(found.untold)}))
    elif not unmeasured.show(ctx, ("parallel_group",), "parallel"):
        unmeasured.nothing(ctx, "parallel.none")


def sentence(ctx: Context, found: domains.Strategy) -> None:
    """The sizes, and the bubble of the mean rank."""
    sizes = " × ".join(f"{kind.upper()} {size}" for kind, _, size in found.sizes if kind in _AXES)
    if (times := found.repeated) > 1:
        sizes = ctx.say("parallel.answer_times", {"sizes": sizes, "times": i18n.count(times)})
    held = [place for place in found.places if place.captured]
    parts = [ctx.say("parallel.answer", {"sizes": sizes, "n": len(found.places), "held": i18n.count(len(held))})]
    idle = [(place.bubble_ns, place.dur_ns) for place in held if place.bubble_ns is not None and place.dur_ns]
    if idle:
        lost, whole = sum(ns for ns, _ in idle), sum(ns or 0 for _, ns in idle)
        parts.append(ctx.say("parallel.answer_idle", {
            "idle": i18n.duration(lost // len(idle)), "share": i18n.share(lost, whole),
        }))  # fmt: skip
    answer(ctx, parts)


_AXES = (*domains.ROWS, *domains.COLUMNS)


def grid(ctx: Context, found: domains.Strategy) -> None:
    """One square a rank, coloured by what is asked for; a click selects the rank."""
    st.subheader(ctx.say("parallel.grid"), anchor="grid", help=ctx.say("parallel.grid_means"))
    kinds = [kind for kind, *_ in found.sizes]
    options = ["bubble", "computing", *(f"wait {kind}" for kind in kinds)]
    shown = st.segmented_control(
        ctx.say("parallel.colour"), options, default="bubble", required=True, key=key(ctx, "parallel_colour"),
        format_func=lambda one: _value_name(ctx, one),
    ) or "bubble"  # fmt: skip
    values = [charts.value(place, shown) for place in found.places]
    if all(value is None for value in values):
        unmeasured.nothing(ctx, "parallel.not_told")
        return
    drawn = key(ctx, f"parallel_grid_{shown}")
    picture = context.once(charts.grid, found, shown, _value_name(ctx, shown), ctx.say, context.ink())
    st.plotly_chart(
        picture, key=drawn, config=PLAIN,
        alt=ctx.say("parallel.grid_alt"), on_select=lambda: _chosen(ctx, found, drawn), selection_mode="points",
    )  # fmt: skip


def _value_name(ctx: Context, value: str) -> str:
    kind = value.removeprefix("wait ")
    return ctx.say(f"parallel.value_{value}") if kind == value else ctx.say("parallel.value_wait", {
        "kind": kind.upper(),
    })  # fmt: skip


def _chosen(ctx: Context, found: domains.Strategy, drawn: str) -> None:
    """A click on a rank selects it, and on the selected one lets it go."""
    state = st.session_state.get(drawn)
    points = state["selection"]["points"] if state else []
    ranks = tuple(sorted({int(found.places[int(point["customdata"][0])].rank) for point in points}))
    held = tuple(rank for rank in ranks if ctx.run and rank in ctx.run.ranks)
    if held:
        context.select(ctx, replace(ctx.selection, ranks=() if held == ctx.selection.ranks else held, span=None))


def costs(ctx: Context, found: domains.Strategy) -> None:
    """Each domain's time of a rank: beside computing, transferring, waiting."""
    st.subheader(ctx.say("parallel.domains"), anchor="domains", help=ctx.say("parallel.domains_means"))
    means = domains.mean(found.places)
    if not means:
        unmeasured.nothing(ctx, "parallel.no_communication")
        return
    st.plotly_chart(
        context.once(charts.domains, means, ctx.say, context.ink()), key=key(ctx, "parallel_domains"), config=PLAIN,
        alt=ctx.say("parallel.domains"),
    )  # fmt: skip


def table(ctx: Context, found: domains.Strategy) -> None:
    """Every rank with its place, its bubble and its waits."""
    rows = []
    for place in found.places:
        row: dict[str, object] = {"rank": place.rank, "place": ", ".join(f"{kind} {at}" for kind, at in place.at)}
        row |= {"dur_ns": place.dur_ns, "computing_ns": place.computing_ns, "bubble_ns": place.bubble_ns}
        for domain in place.domains:
            name = domain.kind.upper() or ctx.say("parallel.other")
            row |= {f"{name} exposed": domain.exposed_ns, f"{name} waiting": domain.waiting_ns}
        rows.append(row)
    frame = pd.DataFrame(rows)
    times = [name for name in frame.columns if name not in ("rank", "place")]
    heads = {name: ctx.say(f"parallel.col_{name}") for name in ("rank", "place", "dur_ns", "computing_ns", "bubble_ns")}
    for name in times[3:]:
        kind, _, what = name.rpartition(" ")
        heads[name] = ctx.say(f"parallel.col_{what}", {"kind": kind})
    with st.expander(ctx.say("parallel.table", {"n": len(frame)})):
        cells.show(scaled(frame, times), heads, key(ctx, "parallel_table"), ctx.say("parallel.grid_alt"))
        st.caption(ctx.say("parallel.sources", {"sources": ", ".join(found.sources) or "–"}))
