"""Every detector: what it looks for, what it needs, its limits, what it says, how well it does. The link keeps which.

The text of our own detectors is markdown of ours. That of a user's own is shown as text.
"""

from __future__ import annotations

from dataclasses import fields

import pandas as pd
import streamlit as st

from npulens.analysis.capability import BY_NAME
from npulens.analysis.causes import CAUSES
from npulens.analysis.discovery import Detector, detectors
from npulens.analysis.limits import overridden
from npulens.analysis.settings import Settings
from npulens.app import context, docs_of, run_check
from npulens.app.context import Context
from npulens.app.pages.learn.words import LIMITS
from npulens.app.panels import cells
from npulens.app.settings.of_checks import in_force
from npulens.app.text import wording
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import render


def show(ctx: Context) -> None:
    """A choice of detectors and the page of the chosen one."""
    try:
        settings = in_force(None)
        run_check.ready(settings)
    except IngestError as error:
        st.error(ctx.say("learn.broken"))
        st.text(wording.error(error, ctx.lang))
        return
    known = {found.name: found for found in detectors(Settings(settings.limits, (), settings.folder))}
    wanted = st.query_params.get("detector")
    names = list(known)
    if wanted is not None and wanted not in known:
        st.text(ctx.say("learn.unknown", {"name": wording.plain(wanted)}))
    name = st.selectbox(
        ctx.say("learn.detector"), names, index=names.index(wanted) if wanted in known else 0, key="learn_detector",
        format_func=lambda each: _titled(ctx, each),
    )  # fmt: skip
    st.query_params["detector"] = name
    _page(ctx, known[name], settings)


def _titled(ctx: Context, name: str) -> str:
    meaning = CAUSES.get(name)
    return f"{name} · {wording.of(ctx.lang, meaning)}" if meaning else wording.plain(name)


def _ours(detector: Detector) -> bool:
    return detector.detect.__module__ == f"npulens.analysis.detectors.{detector.name}"


def _page(ctx: Context, detector: Detector, settings: Settings) -> None:
    left, right = st.columns([3, 2], gap="large")
    with left:
        _documentation(ctx, detector)
    with right:
        if detector.name in settings.off:
            st.text("◐ " + ctx.say("learn.off"))
        _outcome(ctx, detector)
        _accuracy(ctx, detector)
    _needs(ctx, detector)
    _limits(ctx, detector, settings)
    _says(ctx, detector)


def _documentation(ctx: Context, detector: Detector) -> None:
    written = detector.documentation.get(ctx.lang)
    text = (written or detector.documentation["en"]).strip()
    if not _ours(detector):
        st.text(ctx.say("learn.plugin"))
        if written is None and text:
            st.caption(ctx.say("learn.english"))
        st.text("\n".join(wording.plain(line) for line in text.splitlines()) or ctx.say("learn.undocumented"))
        return
    head, _, rest = text.partition("\n\n")
    st.subheader(detector.name, anchor=False)
    st.markdown(f"**{' '.join(head.split())}**\n\n" + rest.replace("## ", "#### "))


def _outcome(ctx: Context, detector: Detector) -> None:
    """How it ended in the chosen run, where that is known by now; this page does not wait for it."""
    if ctx.run is None or not context.judged(ctx):
        return
    try:
        found = context.judgement(ctx)
    except IngestError:
        return
    for outcome in found.check.outcomes if found else ():
        if outcome.detector == detector.name:
            st.text(ctx.say(f"learn.outcome_{outcome.outcome}", {"reason": wording.reason(outcome, ctx.lang)}))


def _needs(ctx: Context, detector: Detector) -> None:
    st.markdown(f"**{ctx.say('learn.needs')}**")
    if not detector.needs:
        st.text(ctx.say("learn.needs_nothing"))
        return
    held = [BY_NAME[need] for need in detector.needs]
    frame = pd.DataFrame([{
        "need": wording.of(ctx.lang, each.means), "npu": render(each.npu, ctx.lang),
        "torch": render(each.torch, ctx.lang) or ctx.say("learn.no_setting"),
    } for each in held])  # fmt: skip
    heads = {name: ctx.say(f"learn.col_{name}") for name in ("need", "npu", "torch")}
    cells.show(frame, heads, f"learn_needs_{ctx.lang}", ctx.say("learn.needs"))


def _limits(ctx: Context, detector: Detector, settings: Settings) -> None:
    """Those in force; where npulens.toml changed one, what it usually is."""
    st.markdown(f"**{ctx.say('learn.limits')}**", help=ctx.say("learn.limits_help", {"name": telling_name(detector)}))
    usual = detector.limits()
    used = overridden(usual, settings.limits_of(detector.name), "npulens.toml")
    rows = []
    for field in fields(usual):
        value, before = getattr(used, field.name), getattr(usual, field.name)
        text = f"{value:,g}" if value == before else ctx.say("learn.changed", {"value": value, "usual": before})
        rows.append({
            "limit": wording.limit_name(field.name, ctx.lang), "name": field.name, "value": text,
            "unit": _of_limit(ctx, field.metadata.get("unit", "")),
            "source": _of_limit(ctx, field.metadata.get("source", "")),
        })  # fmt: skip
    heads = {name: ctx.say(f"learn.col_{name}") for name in ("limit", "value", "unit", "source", "name")}
    cells.show(pd.DataFrame(rows), heads, f"learn_limits_{ctx.lang}", ctx.say("learn.limits"), right=("value",))


def _of_limit(ctx: Context, text: object) -> str:
    """A unit or a source; Chinese where it is one of ours."""
    return LIMITS.get(str(text), str(text)) if ctx.lang == "zh" else str(text)


def telling_name(detector: Detector) -> str:
    """The name as a tooltip may show it: tooltips are markdown, and a user's file may be called anything."""
    return detector.name if _ours(detector) else "…"


def _accuracy(ctx: Context, detector: Detector) -> None:
    found = docs_of.accuracy(detector.name) if _ours(detector) else None
    if found:
        st.markdown(f"**{ctx.say('learn.accuracy')}**")
        st.text(ctx.say("learn.accuracy_is", {
            "cases": found.cases, "recall": found.recall, "precision": found.precision, "error": found.saving_error,
        }))  # fmt: skip


def _says(ctx: Context, detector: Detector) -> None:
    with st.expander(ctx.say("learn.says")):
        st.caption(ctx.say("learn.says_help"))
        for words in detector.text[ctx.lang].values():
            with st.container(border=True):
                st.text(wording.plain(words.title))
                st.text(wording.plain(words.advice))
