"""Calls of the host: launches that came late, launches longer than their kernels, and calls that wait."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import launch as look
from npulens.analysis.look.copies import origin_of
from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import link, unmeasured
from npulens.app.panels import pick_rows as table
from npulens.app.text import i18n, wording


def late(ctx: Context, every: look.Launches) -> None:
    """Host operators by what the device idled for their late launches."""
    say = ctx.say
    st.subheader(say("launch.late"), anchor="late", help=say("launch.late_means"))
    rows = every.late.calls
    if not len(rows):
        unmeasured.nothing(ctx, "launch.late_none")
        return
    place = table.pick(table.in_ms(rows, ("idle_ns", "most_ns")), {
        "op": table.text(say("launch.col_op"), wide=True), "call": table.text(say("launch.col_call")),
        "count": table.count(say("launch.col_late_count")),
        "idle_ns": table.milli(say("launch.col_idle"), say("launch.late_means")),
        "most_ns": table.milli(say("launch.col_most_idle")), "rank": table.count(say("launch.col_rank")),
        "name": table.text(say("launch.col_first"), wide=True),
    }, _key(ctx, "late"), say("launch.late_alt"))  # fmt: skip
    row = rows.iloc[place]
    found = context.measured(ctx, origin_of, int(row["span_id"]))
    if found.op and found.code:
        st.text(wording.plain(say("launch.origin", {"op": found.op, "code": found.code})))
    _link(ctx, row, "late")


def short(ctx: Context, every: look.Launches) -> None:
    """Kernels that are over before their launch call is, by operator type."""
    say = ctx.say
    help_ = say("launch.short_means", {"pace": i18n.duration(every.headline.ordinary_ns)})
    st.subheader(say("launch.short"), anchor="short", help=help_)
    rows = every.short
    if not len(rows):
        unmeasured.nothing(ctx, "launch.short_none" if every.headline.kernels else "launch.short_unknown")
        return
    shown = table.in_us(table.in_ms(rows, ("over_ns",)), ("kernel_ns", "call_ns"))
    place = table.pick(shown, {
        "op": table.text(say("launch.col_type"), wide=True), "call": table.text(say("launch.col_call")),
        "short": table.count(say("launch.col_short")), "count": table.count(say("launch.col_count")),
        "kernel_ns": table.micro(say("launch.col_kernel")), "call_ns": table.micro(say("launch.col_call_ns")),
        "over_ns": table.milli(say("launch.col_over"), say("launch.col_over_help")),
    }, _key(ctx, "short"), say("launch.short_alt"))  # fmt: skip
    _link(ctx, rows.iloc[place], "short")


def syncs(ctx: Context, every: look.Launches) -> None:
    """Calls that return only when the device is done."""
    say = ctx.say
    st.subheader(say("launch.syncs"), anchor="syncs", help=say("launch.syncs_means"))
    rows = every.syncs
    if not len(rows):
        unmeasured.nothing(ctx, "launch.syncs_none")
        return
    shown = table.in_ms(rows, ("blocked_ns", "working_ns", "dur_ns"))
    place = table.pick(shown, {
        "name": table.text(say("launch.col_name"), wide=True), "rank": table.count(say("launch.col_rank")),
        "count": table.count(say("launch.col_count")),
        "blocked_ns": table.milli(say("launch.col_blocked"), say("launch.col_blocked_help")),
        "working_ns": table.milli(say("launch.col_working")), "dur_ns": table.milli(say("launch.col_longest")),
    }, _key(ctx, "syncs"), say("launch.syncs"))  # fmt: skip
    _link(ctx, rows.iloc[place], "sync")


def _key(ctx: Context, name: str) -> str:
    return f"launch_{name}_{ctx.run.run_id if ctx.run else ''}_{ctx.lang}"


def _link(ctx: Context, row: pd.Series, key: str) -> None:
    link.to_timeline(ctx, "shell.on_timeline", int(row["ts_ns"]), int(row["dur_ns"]), int(row["rank"]),
                     int(row["span_id"]), key=f"launch_{key}")  # fmt: skip
