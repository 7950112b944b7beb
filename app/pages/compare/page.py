"""Runs, ranks or steps, one or several a side: the verdict, what the change is made of, its parts, findings."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.pages.compare import findings, pick, split, verdict, work

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
    pair = pick.show(ctx)
    if pair is None:
        return
    if pair.base.empty or pair.head.empty:
        st.text(ctx.say("compare.no_time"))
        return
    verdict.show(ctx, pair)
    split.show(ctx, pair)
    split.gaps(ctx, pair)
    work.kernels(ctx, pair)
    work.host(ctx, pair)
    findings.show(ctx, pair)
