"""Every judgement of the run: what was found, what was looked at, what could not be seen, and by which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import streamlit as st

from npulens.analysis.discovery import Detector
from npulens.analysis.say import duration
from npulens.analysis.settings import FILE
from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import findings, sentence, store_empty
from npulens.app.text import wording

TITLE = "shell.findings"
ICON = ":material/fact_check:"
ORDER = 15
GROUP = ""


def render(ctx: Context) -> None:
    """The findings, then the limits behind them."""
    if ctx.run is None:
        store_empty.show(ctx)
        return
    sentence.title(ctx, ctx.run)
    if findings.show(ctx):
        show_limits(ctx)


# The limits behind the findings: move one, and the run is judged again.
#: A slider reaches so many times the value in force.
_REACH, _NOTCHES = 5, 100


def show_limits(ctx: Context) -> None:
    """Choose a detector, move its limits, see what it says then."""
    st.subheader(ctx.say("findings.limits"), anchor="limits")
    with st.container(key="prose_limits"):
        st.text(ctx.say("findings.limits_how"))
    known = context.detectors()
    first = [name for name in findings.order(ctx) if name in known]
    names = [*first, *(name for name in known if name not in first)]
    wanted = st.query_params.get("detector")
    chosen = st.selectbox(
        ctx.say("findings.limits_of"), names, index=names.index(wanted) if wanted in names else 0,
        key=f"limits_of_{ctx.lang}", width=320,
    )  # fmt: skip
    _judge(ctx, known[chosen])


@st.fragment
def _judge(ctx: Context, detector: Detector) -> None:
    """Sliders and what the detector says with them; only this part is drawn again."""
    force = context.limits_in_force(detector)
    sliders, said = st.columns([2, 3], gap="large")
    with sliders:
        values = {
            f.name: _slider(ctx, detector.name, f.name, getattr(force, f.name), f.metadata) for f in fields(force)
        }
    changed = {name: value for name, value in values.items() if value != getattr(force, name)}
    with said:
        _said(ctx, detector, changed)


def _slider(ctx: Context, detector: str, name: str, value: float, about: Mapping[str, str]) -> float:
    """One limit with its unit and its source."""
    whole = isinstance(value, int)
    most = 1.0 if about["unit"].startswith("share") and value * _REACH > 1 else max(value, 1e-9) * _REACH
    kind = int if whole else float
    step = kind(max(1, round(most / _NOTCHES))) if whole else most / _NOTCHES
    moved = st.slider(
        name, kind(0), kind(max(most, value)), kind(value), step, key=f"limit_{detector}_{name}",
        format=None if whole else "%.4g", help=ctx.say("findings.limits_source", dict(about)),
    )  # fmt: skip
    st.caption(ctx.say("findings.limits_default", {"value": f"{value:g}"}) + " · " + about["unit"])
    return kind(moved)


def _said(ctx: Context, detector: Detector, changed: Mapping[str, float]) -> None:
    """The outcome with these limits, and the lines that keep them."""
    with st.spinner(ctx.say("findings.limits_working")):
        found, outcome = context.judged_with(ctx, detector, changed)
    with st.container(border=True, key="finding_again", gap="small"):
        st.text(ctx.say(f"findings.outcome_{outcome.outcome}"))
        if not found:
            st.text(wording.unmeasured(outcome, ctx.lang) if outcome.outcome == "not_measured"
                    else wording.reason(outcome, ctx.lang))  # fmt: skip
        for finding in found:
            values = {"saving": duration(finding.saving_ns), "share": wording.share(finding.saving_share)}
            st.text(ctx.say("findings.gives_back", values))
            st.text(wording.plain(finding.words[ctx.lang].title))
    if not changed:
        st.caption(ctx.say("findings.limits_same"))
        return
    lines = [f"[limits.{detector.name}]", *(f"{name} = {value:.6g}" for name, value in changed.items())]
    st.caption(FILE)
    st.code("\n".join(lines), language="toml")
