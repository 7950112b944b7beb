"""How every check ended, what the capture cannot answer, and the limits: move one, and the run is judged again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import pandas as pd
import streamlit as st

from npulens.analysis.discovery import Detector
from npulens.analysis.engine import Outcome
from npulens.analysis.say import Whole
from npulens.analysis.settings import FILE
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.learn.words import LIMITS
from npulens.app.pages.workspace import chosen
from npulens.app.report.subject import Subject
from npulens.app.text import wording

#: A slider reaches so many times the value in force.
_REACH, _NOTCHES = 5, 100


def show(ctx: Context, found: Subject) -> None:
    """The outcomes, the capture, the limits."""
    st.text(wording.outcomes(found.check, ctx.lang))
    _outcomes(ctx, found.check.outcomes)
    if unseen := wording.not_looked_for(found.check, ctx.lang):
        with st.expander(f"{ctx.say('findings.not_looked_for')} · {len(found.check.not_looked_for)}"):
            st.text(unseen)
    _better(ctx, found)
    _limits(ctx, found)


def _outcomes(ctx: Context, outcomes: Sequence[Outcome]) -> None:
    """The detectors that found nothing: those that could not look say what would let them."""
    titles = (("masked", "masked"), ("not_measured", "not_measured"), ("failed", "broken"), ("clean", "clean"))
    for outcome, title in titles:
        ended = [found for found in outcomes if found.outcome == outcome]
        if not ended:
            continue
        told = wording.unmeasured if outcome == "not_measured" else wording.reason
        with st.expander(f"{ctx.say(f'findings.{title}')} · {len(ended)}"):
            for found in ended:
                with st.container(key=f"gap_{outcome}_{found.detector}", gap=None):
                    st.text(chosen.named(ctx, found.detector))
                    st.text(told(found, ctx.lang))


def _better(ctx: Context, found: Subject) -> None:
    """What the capture cannot answer, why, and the configuration that would."""
    quality = found.check.quality
    with st.expander(ctx.say("findings.collect")):
        for place, (entries, why, setting) in enumerate(wording.alike(quality.missing, ctx.lang)):
            what = ctx.say("findings.wide_comma").join(wording.of(ctx.lang, entry.what) for entry in entries)
            with st.container(key=f"gap_quality_{place}", gap=None):
                st.text(what)
                values = {"reason": why, "remedy": wording.remedy(setting, ctx.lang)}
                st.text(ctx.say("findings.reason_remedy", values))
        for doubt in quality.doubts:
            st.text("◐ " + wording.plain(wording.of(ctx.lang, doubt.text)))
        st.text(wording.collect(found.check, ctx.lang))
        st.code(quality.collect.code(ctx.lang), language=quality.collect.language)
        st.text(wording.points(found.check, ctx.lang))
        parts = [(wording.of(ctx.lang, p.text), str(p.points), wording.share(p.share)) for p in quality.parts]
        heads = [ctx.say(f"findings.col_{name}") for name in ("part", "points", "share")]
        st.dataframe(pd.DataFrame(parts, columns=heads), hide_index=True)


def _limits(ctx: Context, found: Subject) -> None:
    """Choose a detector, move its limits, see what it says then."""
    st.header(ctx.say("findings.limits"), anchor="limits")
    with st.container(key="prose_limits"):
        st.text(ctx.say("findings.limits_how"))
    known = context.detectors()
    first = [name for name in dict.fromkeys(one.detector for one in found.check.findings) if name in known]
    names = [*first, *(name for name in known if name not in first)]
    wanted = st.query_params.get("detector")
    picked = st.selectbox(
        ctx.say("findings.limits_of"), names, index=names.index(wanted) if wanted in names else 0,
        key=f"limits_of_{ctx.lang}", width=320,
        format_func=lambda name: chosen.named(ctx, name),
    )  # fmt: skip
    _judge(ctx, known[picked], found.check.whole)


@st.fragment
def _judge(ctx: Context, detector: Detector, of_what: Whole) -> None:
    """Sliders and what the detector says with them; only this part is drawn again."""
    force = context.limits_in_force(detector)
    sliders, said = st.columns([2, 3], gap="large")
    with sliders:
        values = {
            f.name: _slider(ctx, detector.name, f.name, getattr(force, f.name), f.metadata) for f in fields(force)
        }
    changed = {name: value for name, value in values.items() if value != getattr(force, name)}
    with said:
        _said(ctx, detector, changed, of_what)


def _slider(ctx: Context, detector: str, name: str, value: float, about: Mapping[str, str]) -> float:
    """One limit with its unit and its source."""
    told = {key: LIMITS.get(text, text) if ctx.lang == "zh" else text for key, text in about.items()}
    whole = isinstance(value, int)
    most = 1.0 if about["unit"].startswith("share") and value * _REACH > 1 else max(value, 1e-9) * _REACH
    kind = int if whole else float
    step = kind(max(1, round(most / _NOTCHES))) if whole else most / _NOTCHES
    moved = st.slider(
        wording.limit_name(name, ctx.lang), kind(0), kind(max(most, value)), kind(value), step,
        key=f"limit_{detector}_{name}",
        format=None if whole else "%.4g", help=ctx.say("findings.limits_source", dict(told)),
    )  # fmt: skip
    st.caption(ctx.say("findings.limits_default", {"value": f"{value:g}"}) + " · " + told["unit"])
    return kind(moved)


def _said(ctx: Context, detector: Detector, changed: Mapping[str, float], of_what: Whole) -> None:
    """The outcome with these limits, and the lines that keep them."""
    with st.spinner(ctx.say("findings.limits_working")):
        found, outcome = context.judged_with(ctx, detector, changed)
    with st.container(border=True, key="finding_again", gap="small"):
        st.text(ctx.say(f"findings.outcome_{outcome.outcome}"))
        if not found:
            st.text(wording.unmeasured(outcome, ctx.lang) if outcome.outcome == "not_measured"
                    else wording.reason(outcome, ctx.lang))  # fmt: skip
        for finding in found:
            st.text(wording.gives_back(finding, ctx.lang, of_what))
            st.text(wording.plain(finding.words[ctx.lang].title))
    if not changed:
        st.caption(ctx.say("findings.limits_same"))
        return
    lines = [f"[limits.{detector.name}]", *(f"{name} = {value:.6g}" for name, value in changed.items())]
    st.caption(FILE)
    st.code("\n".join(lines), language="toml")
