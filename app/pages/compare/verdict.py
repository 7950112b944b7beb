"""Whether head is slower, how sure that is, what would settle it, and what the change is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pandas as pd
import streamlit as st

from npulens.analysis.look import alike
from npulens.analysis.look.compare import Delta
from npulens.analysis.regression.change import Contribution
from npulens.analysis.regression.compared import Compared, compared
from npulens.analysis.regression.matching import LEVELS
from npulens.analysis.regression.pieces import KINDS, NotExact, measure
from npulens.analysis.regression.verdict import RULE
from npulens.app import context, run_compare
from npulens.app.context import Context
from npulens.app.pages.compare import charts as chart
from npulens.app.pages.compare.half import Pair
from npulens.app.pages.compare.split import scope
from npulens.app.panels import cells
from npulens.app.text import wording

_MOST = 10  # bars of the waterfall
_LABEL = 33  # letters of a label beside a bar
_BADGES: Mapping[str, tuple[Literal["red", "green", "blue", "orange"], str]] = {
    "regressed": ("red", ":material/trending_up:"), "improved": ("green", ":material/trending_down:"),
    "same": ("blue", ":material/drag_handle:"), "ambiguous": ("orange", ":material/help:"),
}  # fmt: skip


def show(ctx: Context, pair: Pair) -> None:
    """The panel."""
    level = st.session_state.get("compare_by_level") or LEVELS[0]
    try:
        found = compared(pair.base.each(measure), pair.head.each(measure), level, in_turns=pair.in_turns)
    except NotExact as error:
        st.error(ctx.say("verdict.not_exact"))
        st.text(wording.error(error, ctx.lang))
        return
    _answer(ctx, pair, found)
    st.subheader(ctx.say("verdict.waterfall"), anchor=False, help=ctx.say("verdict.waterfall_help"))
    if found.change.delta_ns or any(one.delta_ns for one in found.change.contributions):
        _waterfall(ctx, found)
    else:
        st.text(ctx.say("compare.unchanged"))
    _movers(ctx, pair, found)


def _answer(ctx: Context, pair: Pair, found: Compared) -> None:
    """The sentence to take away, how sure it is, what it is about, and what makes the sides unlike."""
    colour, icon = _BADGES[found.verdict.said]
    with st.container(key="answer", gap="xxsmall"):
        st.badge(ctx.say(f"verdict.{found.verdict.said}"), color=colour, icon=icon)
        largest = next((one for one in found.change.contributions if one.delta_ns), None)
        text = run_compare.answer(found, ctx.lang)
        if largest is not None:
            text += " " + ctx.say("verdict.most_of_it", {
                "what": run_compare.called(largest, ctx.lang),
                "change": run_compare.signed(largest.delta_ns)})  # fmt: skip
        st.text(text)
        for line in run_compare.reasons(found, ctx.lang, RULE.margin, RULE.alpha, 0.0):
            st.text(line)
    for half in (pair.base, pair.head):
        st.text(scope(ctx, half))
    for note in alike.notes(pair.base.side, pair.head.side):
        st.text("◐ " + run_compare.unlike(note, ctx.lang))
    if untold := [kind for kind in KINDS if kind not in found.change.told]:
        kinds = ctx.say("shell.comma").join(ctx.say(f"verdict.kinds_{kind}") for kind in untold)
        st.text("◐ " + ctx.say("verdict.untold", {"kinds": kinds}))


def _waterfall(ctx: Context, found: Compared) -> None:
    change = found.change
    moved = [one for one in change.contributions if one.delta_ns]
    bars = [(Delta(f"{one.kind}#{place}", one.base_ns, one.head_ns), _label(ctx, one))
            for place, one in enumerate(moved[:_MOST])]  # fmt: skip
    if rest := moved[_MOST:]:
        others = Delta("others", sum(one.base_ns for one in rest), sum(one.head_ns for one in rest))
        bars.append((others, ctx.say("verdict.others", {"n": len(rest)})))
    residual = Delta("residual", change.base_residual_ns, change.head_residual_ns)
    bars.append((residual, ctx.say("verdict.kinds_residual")))
    whole = Delta("step", change.base_ns, change.head_ns)
    says = {delta.key: name for delta, name in bars} | {"step": ctx.say("compare.whole_step")}
    picture = chart.waterfall([delta for delta, _ in bars], whole, says, ctx.say("compare.axis"), context.ink())
    st.plotly_chart(picture, key=f"compare_contributions_{ctx.lang}", config={"displayModeBar": False},
                    alt=ctx.say("verdict.waterfall_help"))  # fmt: skip
    st.caption(ctx.say("verdict.sums", {"delta": f"{change.delta_ns:+,}".replace("-", "−")}))


def _label(ctx: Context, one: Contribution) -> str:
    """At most two lines beside a bar: its colour says what kind it is, the table below all of its name."""
    name = run_compare.what(one, ctx.lang)
    if one.kind == "gap":
        return name.partition(": ")[2] or name
    kind = "" if one.kind == "kernel" else ctx.say(f"verdict.kind_{one.kind}") + " · "
    mark = f" · {ctx.say(f'verdict.mark_{one.state}')}" if one.state in ("new", "gone") else ""
    room = _LABEL - len(kind) - len(mark)
    return kind + (name if len(name) <= room else name[: room - 1] + "…") + mark


def _movers(ctx: Context, pair: Pair, found: Compared) -> None:
    """Every contribution; numbers stay numbers, so that a click on a head sorts by them."""
    st.subheader(ctx.say("verdict.movers"), anchor=False, help=ctx.say("verdict.movers_help"))
    st.segmented_control(ctx.say("verdict.by"), LEVELS, default=LEVELS[0], required=True, key="compare_by_level",
                         format_func=lambda level: ctx.say(f"verdict.by_{level}"))  # fmt: skip
    moved = [one for one in found.change.contributions if one.delta_ns]
    sides = {"base": pair.base.short, "head": pair.head.short}
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    frame = pd.DataFrame([{
        "kind": ctx.say(f"verdict.kind_{one.kind}"), "what": run_compare.what(one, ctx.lang),
        "own_change": one.delta_ns / 1e3, "interval": run_compare.interval(one) if one.interval_ns else None,
        "state": ctx.say(f"verdict.mark_{one.state}", {"before": run_compare.short(wording.plain(one.before))}),
        "own_base": one.base_ns / 1e3, "own_head": one.head_ns / 1e3, "base_count": one.base_count,
        "head_count": one.head_count, "shapes": one.shapes,
    } for one in moved], columns=[
        "kind", "what", "own_change", "interval", "state", "own_base", "own_head", "base_count", "head_count", "shapes",
    ])  # fmt: skip
    columns = {
        "kind": text(ctx.say("verdict.col_kind"), width="small"), "what": text(ctx.say("verdict.col_what")),
        "own_change": number(ctx.say("verdict.col_change"), format="%+,.3f"),
        "interval": text(ctx.say("verdict.col_interval"), help=ctx.say("verdict.each_interval")),
        "state": text(ctx.say("verdict.col_state")), "shapes": text(ctx.say("verdict.col_shapes"), width="medium"),
    }  # fmt: skip
    for side, name in sides.items():
        columns[f"own_{side}"] = number(ctx.say("verdict.col_time", {"side": name}), format="%,.3f")
        columns[f"{side}_count"] = number(ctx.say("verdict.col_count", {"side": name}), format="%,.4g")
    st.dataframe(cells.safe(frame), hide_index=True, key=f"compare_movers_{ctx.lang}", column_config=columns,
                 alt=ctx.say("verdict.movers_help"), placeholder=cells.ABSENT)  # fmt: skip
    st.caption(ctx.say("verdict.each_interval" if any(one.interval_ns for one in moved) else "verdict.no_intervals"))
