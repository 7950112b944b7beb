"""What ran on both sides: kernels by type and shape, host calls by name. New, gone, more often, longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.look import compare
from npulens.analysis.look.matched import matched
from npulens.app.context import Context
from npulens.app.pages.compare.half import Pair
from npulens.app.panels import cells

_GROUPS = {"type": ("op",), "shape": ("op", "core", "shapes", "dtypes")}
_STATES = ("new", "gone", "count", "time", "same")


def kernels(ctx: Context, pair: Pair) -> None:
    """Kernels of both sides, the largest change first."""
    st.subheader(ctx.say("compare.kernels"), anchor=False, help=ctx.say("compare.kernels_help"))
    base, head = (half.together(compare.kernels) for half in (pair.base, pair.head))
    if base.empty and head.empty:
        st.text(ctx.say("compare.kernels_none"))
        return
    if not base.empty and not head.empty and bool(base["typed"].any()) != bool(head["typed"].any()):
        st.text("◐ " + ctx.say("compare.kernels_untyped"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        group = st.segmented_control(
            ctx.say("compare.group"), list(_GROUPS), default="type", required=True, key="compare_group",
            format_func=lambda name: ctx.say(f"compare.group_{name}"),
        ) or "type"  # fmt: skip
        only = st.toggle(ctx.say("compare.only_changed"), key="compare_only_kernels")
    keys = _GROUPS[group]
    found = matched(base, head, keys, _counts(pair))
    _show(ctx, pair, found, {name: ctx.say(f"compare.col_{name}") for name in keys}, only, "kernels")


def host(ctx: Context, pair: Pair) -> None:
    """Host calls of both sides, folded: there are many, and they nest."""
    with st.expander(ctx.say("compare.host")):
        st.caption(ctx.say("compare.host_help"))
        base, head = (half.together(compare.host_calls) for half in (pair.base, pair.head))
        if base.empty and head.empty:
            st.text(ctx.say("compare.host_none"))
            return
        if any(len(each) >= compare.MOST_NAMES for half in (pair.base, pair.head)
               for each in half.each(compare.host_calls)):  # fmt: skip
            st.text("◐ " + ctx.say("compare.host_cut", {"most": f"{compare.MOST_NAMES:,}"}))
        only = st.toggle(ctx.say("compare.only_changed"), key="compare_only_host")
        found = matched(base, head, ("kind", "name"), _counts(pair))
        _show(ctx, pair, found, {name: ctx.say(f"compare.col_{name}") for name in ("name", "kind")}, only, "host")


def _counts(pair: Pair) -> tuple[int, int]:
    return len(pair.base.side.windows), len(pair.head.side.windows)


def _show(
    ctx: Context, pair: Pair, found: pd.DataFrame, heads: Mapping[str, str], only_changed: bool, key: str
) -> None:
    st.text(ctx.say("compare.states", {state: int((found["state"] == state).sum()) for state in _STATES}))
    if only_changed:
        found = found[found["state"] != "same"]
    _table(ctx, pair, found, heads, key)


def _table(ctx: Context, pair: Pair, found: pd.DataFrame, heads: Mapping[str, str], key: str) -> None:
    """Numbers stay numbers here, so that a click on a head sorts by them."""
    names: Sequence[str] = list(heads)
    shown = found[names].copy()
    shown["state"] = [ctx.say(f"compare.state_{state}") for state in found["state"]]
    sides = {"base": pair.base.short, "head": pair.head.short}
    number = st.column_config.NumberColumn
    columns = {name: st.column_config.TextColumn(head, width="medium") for name, head in heads.items()}
    columns["state"] = st.column_config.TextColumn(ctx.say("compare.state"), width="small")
    for side, name in sides.items():
        shown[f"{side}_count"] = found[f"{side}_count"]
        columns[f"{side}_count"] = number(ctx.say("compare.col_count", {"side": name}), format="%,.4g")
    for side, name in sides.items():
        shown[f"{side}_us"] = found[f"{side}_ns"] / 1000
        columns[f"{side}_us"] = number(ctx.say("compare.col_time", {"side": name}), format="%,.3f")
    shown["change_us"] = found["change_ns"] / 1000
    columns["change_us"] = number(ctx.say("compare.col_change_us"), format="%+,.3f")
    st.dataframe(
        cells.safe(shown), hide_index=True, key=f"compare_{key}_{ctx.lang}", column_config=columns,
        alt=ctx.say(f"compare.{key}_help"), placeholder=cells.ABSENT,
    )  # fmt: skip
