"""Runs, ranks or steps, one or several a side: the verdict, what the change is made of, its parts, findings."""

from __future__ import annotations

import streamlit as st

from app.context import Context
from app.panels import compare_findings, compare_pick, compare_split, compare_verdict, compare_work

TITLE = "compare.title"
ICON = ":material/compare_arrows:"
ORDER = 60
GROUP = "data"


def render(ctx: Context) -> None:
    """Choose two sides, then everything that differs."""
    st.subheader(ctx.say("compare.question"), anchor=False)
    if ctx.run is None:
        st.text(ctx.say("compare.empty"))
        return
    pair = compare_pick.show(ctx)
    if pair is None:
        return
    if pair.base.empty or pair.head.empty:
        st.text(ctx.say("compare.no_time"))
        return
    compare_verdict.show(ctx, pair)
    compare_split.show(ctx, pair)
    compare_split.gaps(ctx, pair)
    compare_work.kernels(ctx, pair)
    compare_work.host(ctx, pair)
    compare_findings.show(ctx, pair)
