"""The manual: every detector, the words, how to collect, about. ?detector=late_rank opens one detector."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.pages.learn import about, collect, detectors, glossary

TITLE = "learn.title"
ICON = ":material/school:"
ORDER = 90
GROUP = "data"

_PARTS = {
    "detectors": detectors.show, "words": glossary.show, "collect": collect.show,
    "about": about.show,
}  # fmt: skip


def render(ctx: Context) -> None:
    """One of four parts; the link keeps which."""
    st.header(ctx.say("learn.title"), anchor=False)
    wanted = st.query_params.get("part", "detectors")
    part = st.segmented_control(
        ctx.say("learn.part"), list(_PARTS), default=wanted if wanted in _PARTS else "detectors", required=True,
        key="learn_part", label_visibility="collapsed", format_func=lambda name: ctx.say(f"learn.part_{name}"),
    )  # fmt: skip
    chosen = part or "detectors"
    st.query_params["part"] = chosen
    if chosen != "detectors":
        st.query_params.pop("detector", None)
    _PARTS[chosen](ctx)
