"""Requests of two serving runs, or of several a side: percentiles, goodput, what a change is made of, iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pandas as pd
import streamlit as st

from npulens.analysis.look.compare import Delta
from npulens.analysis.regression.verdict import RULE
from npulens.analysis.serving.compared import GOODPUT, Compared, Side, compared, side
from npulens.app import context, run_compare
from npulens.app import run_compare_requests as told
from npulens.app.context import Context
from npulens.app.pages.compare import charts as chart
from npulens.app.pages.compare import pick
from npulens.app.pages.compare.half import Half, Pair
from npulens.app.panels import cells
from npulens.app.settings.of_checks import in_force
from npulens.app.text import wording

BADGES: Mapping[str, tuple[Literal["red", "green", "blue", "orange"], str]] = {
    "regressed": ("red", ":material/trending_up:"), "improved": ("green", ":material/trending_down:"),
    "same": ("blue", ":material/drag_handle:"), "ambiguous": ("orange", ":material/help:"),
}  # fmt: skip
#: Parts of a change of less are drawn together.
_LEAST_NS = 1000


def show(ctx: Context, pair: Pair) -> bool:
    """False where whole runs are not compared, or one of them holds no requests."""
    if pair.by != "runs" or any(key in st.query_params for key in pick.KEYS):
        return False
    base, head = _sides(ctx, pair.base), _sides(ctx, pair.head)
    if base is None or head is None:
        return False
    ids = tuple(tuple(part.run.run_id for part in half.parts) for half in (pair.base, pair.head))
    drift = run_compare.drift(ctx.store, (list(ids[0]), list(ids[1])), None).share
    with st.spinner(ctx.say("shell.measuring")):
        found = context.once(compared, base, head, in_force(None).slo, RULE, drift or 0.0, pair.in_turns)
    st.subheader(ctx.say("requests_compared.title"), anchor="requests")
    _answer(ctx, pair, found)
    _figures(ctx, pair, found)
    _made_of(ctx, found)
    _iterations(ctx, found)
    return True


def _sides(ctx: Context, half: Half) -> list[Side] | None:
    found = [context.measured_of(ctx, part.run.run_id, side) for part in half.parts]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _answer(ctx: Context, pair: Pair, found: Compared) -> None:
    colour, icon = BADGES[found.said]
    with st.container(key="answer_requests", gap="xxsmall"):
        st.badge(ctx.say(f"verdict.{found.said}"), color=colour, icon=icon)
        st.text(told.answer(found, ctx.lang))
        for line in told.about(found, (pair.base.name, pair.head.name), ctx.lang):
            st.text(line)


def _figures(ctx: Context, pair: Pair, found: Compared) -> None:
    """Each percentile and goodput, and how sure its change is."""
    rows = []
    for line in found.lines:
        name, base, head, change, interval = told.cells_of(line, found, ctx.lang)
        rows.append({
            "figure": name, "base": base, "head": head, "change": _arrow(change), "interval": f"[{interval}]",
            "verdict": ctx.say(f"verdict.{line.verdict.said}"), "made": told.made_of(line, ctx.lang),
        })  # fmt: skip
    heads = {
        "figure": ctx.say("requests_compared.col_figure"), "base": pair.base.short, "head": pair.head.short,
        "change": ctx.say("requests_compared.col_change"),
        "interval": ctx.say("requests_compared.col_interval", {"sure": f"{100 * (1 - RULE.alpha):g} %"}),
        "verdict": ctx.say("requests_compared.col_verdict"), "made": ctx.say("requests_compared.made_of"),
    }  # fmt: skip
    cells.show(pd.DataFrame(rows), heads, f"compare_requests_{ctx.lang}", ctx.say("requests_compared.title"),
               right=("base", "head", "change", "interval"))  # fmt: skip
    for text in told.notes(found, ctx.lang, RULE):
        st.caption(text)


def _arrow(change: str) -> str:
    """A sign would be taken for a formula where a table is opened as a spreadsheet."""
    return {"+": "▲ ", "−": "▼ "}.get(change[:1], change[:1]) + change[1:]


def _made_of(ctx: Context, found: Compared) -> None:
    """One percentile: the parts by which it differs, from the mean requests around it."""
    lines = {line.name: line for line in found.lines if line.name != GOODPUT}
    first = next((name for name in told.FIRST if name in lines), None)
    if first is None:
        return
    name = st.segmented_control(
        ctx.say("requests_compared.made_of"), list(lines), default=first, required=True, key="compare_requests_of",
        format_func=lambda each: told.figure(lines[each], ctx.lang),
    ) or first  # fmt: skip
    line = lines[name]
    moved = [one for one in line.parts if abs(one.head - one.base) >= _LEAST_NS]
    if not moved:
        st.text(ctx.say("requests_compared.no_part"))
        return
    deltas = [Delta(one.kind, round(one.base), round(one.head)) for one in moved]
    says = {one.kind: ctx.say(f"serving.kind_{one.kind}") for one in moved}
    whole = Delta("step", round(sum(one.base for one in line.parts)), round(sum(one.head for one in line.parts)))
    says["step"] = told.figure(line, ctx.lang)
    picture = context.once(chart.waterfall, deltas, whole, says, ctx.say("compare.axis"), context.ink())
    st.plotly_chart(picture, key=f"compare_requests_parts_{ctx.lang}_{name}", config={"displayModeBar": False},
                    alt=ctx.say("requests_compared.around", {"figure": told.figure(line, ctx.lang)}))  # fmt: skip
    st.caption(ctx.say("requests_compared.around", {"figure": told.figure(line, ctx.lang)}))


def _iterations(ctx: Context, found: Compared) -> None:
    if not found.classes:
        return
    names = ("class", "base_count", "head_count", "base_mean", "head_mean", "change", "verdict")
    rows = [dict(zip(names, told.of_class(one, ctx.lang), strict=True)) for one in found.classes]
    for row in rows:
        row["change"] = _arrow(row["change"])
    heads = {name: ctx.say(f"requests_compared.col_{name}") for name in names}
    cells.show(pd.DataFrame(rows), heads, f"compare_iterations_{ctx.lang}", wording.plain(heads["class"]),
               right=names[1:6])  # fmt: skip
