"""What gives time back: the answer, each finding with its bar, advice and evidence, and what could not be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from npulens.analysis.engine import Outcome
from npulens.analysis.finding import Finding
from npulens.analysis.say import duration, number
from npulens.app import context
from npulens.app.charts import evidence as chart
from npulens.app.context import Context
from npulens.app.panels import link
from npulens.app.panels.cells import cell
from npulens.app.report.subject import Scene, Subject
from npulens.app.text import wording
from npulens.ingest.errors import IngestError

_OPEN = 3  # findings on the first page
_BADGE: Mapping[str, Literal["red", "orange", "gray"]] = {"high": "red", "medium": "orange", "low": "gray"}
_BAR = (
    '<div style="height:8px;border-radius:4px;background:rgba(128,138,150,.22)"><div style="height:8px;'
    'border-radius:4px;min-width:2px;width:{width:.2f}%;background:{colour}"></div></div>'
)


def brief(ctx: Context, first: DeltaGenerator, then: DeltaGenerator) -> None:
    """The answer in ``first``, what gives most back in ``then``; everything else is a page of its own."""
    with first:
        found = _judged(ctx)
        if found is None:
            return
        _answer(ctx, found)
    pairs = list(zip(found.check.findings, found.scenes, strict=True))
    with then:
        st.subheader(ctx.say("findings.title"), anchor="findings")
        for place, (finding, scene) in enumerate(pairs[:_OPEN], 1):
            _finding(ctx, place, finding, scene)
        with st.container(horizontal=True, vertical_alignment="center", key="prose_rest"):
            st.text(wording.outcomes(found.check, ctx.lang), width="content")
            if page := context.page("findings"):
                more = len(pairs) - _OPEN
                label = ctx.say("findings.more", {"n": more}) if more > 0 else ctx.say("findings.all")
                st.page_link(page, label=label, icon=":material/fact_check:")
        _next(ctx, found)


def show(ctx: Context) -> bool:
    """Every finding and every other outcome; whether the judgement is there. It runs beside the page."""
    st.subheader(ctx.say("findings.title"), anchor="findings")
    found = _judged(ctx)
    if found is None:
        return False
    _answer(ctx, found)
    pairs = list(zip(found.check.findings, found.scenes, strict=True))
    for place, (finding, scene) in enumerate(pairs, 1):
        _finding(ctx, place, finding, scene)
    _outcomes(ctx, found.check.outcomes)
    if unseen := wording.not_looked_for(found.check, ctx.lang):
        with st.expander(f"{ctx.say('findings.not_looked_for')} · {len(found.check.not_looked_for)}"):
            st.text(unseen)
    _better(ctx, found)
    return True


def order(ctx: Context) -> list[str]:
    """The detectors of the judgement, those that found most first."""
    found = context.judgement(ctx)
    return list(dict.fromkeys(finding.detector for finding in found.check.findings)) if found else []


def _judged(ctx: Context) -> Subject | None:
    """The judgement; until it is there, this says so."""
    try:
        found = context.judgement(ctx)
    except IngestError as error:
        st.error(ctx.say("findings.failed"))
        st.text(wording.error(error, ctx.lang))
        return None
    if found is None:
        _wait(ctx)
    return found


def _next(ctx: Context, found: Subject) -> None:
    """The next capture: what would show more than this one."""
    if not found.check.quality.missing:
        return
    with st.expander(ctx.say("findings.next", {"how": wording.collect(found.check, ctx.lang)})):
        st.code(found.check.quality.collect.code(ctx.lang), language="python")


@st.fragment(run_every=0.3)
def _wait(ctx: Context) -> None:
    """How long the judgement has been at work; when it is done, the page is drawn again."""
    with st.container(border=True):
        st.text(ctx.say("findings.working", {"n": round(context.judging_for(ctx))}))
    if context.judged(ctx):
        st.rerun()


def _answer(ctx: Context, found: Subject) -> None:
    with st.container(key="answer", gap="xxsmall"):
        st.text(wording.answer(found.check, ctx.lang))
        if said := wording.together(found.check, ctx.lang):
            st.text(said)
        st.text(wording.quality(found.check, ctx.lang))


def _finding(ctx: Context, place: int, finding: Finding, scene: Scene) -> None:
    """One card. Names from traces are in its title, advice and evidence: text only, never markdown."""
    with st.container(border=True, key=f"finding_{place}", gap="small"):
        with st.container(horizontal=True, vertical_alignment="center"):
            share = wording.share(finding.saving_share)
            values = {"saving": duration(finding.saving_ns), "share": share}
            st.text(f"{place} · {ctx.say('findings.gives_back', values)}")
            severity = ctx.say(f"findings.severity_{finding.severity}")
            st.badge(ctx.say("findings.severity", {"value": severity}), color=_BADGE[finding.severity])
            sure = ctx.say(f"findings.confidence_{finding.confidence}")
            st.badge(ctx.say("findings.confidence", {"value": sure}), color="gray")
        st.html(_BAR.format(width=100 * min(1.0, max(0.0, finding.saving_share)), colour=context.accent()))
        words = finding.words[ctx.lang]
        st.text(wording.plain(words.title))
        st.text(ctx.say("findings.advice_is", {"advice": wording.plain(words.advice)}))
        if between := wording.interval(finding, ctx.lang):
            st.text(between)
        _folded(ctx, place, finding, scene)


@st.fragment
def _folded(ctx: Context, place: int, finding: Finding, scene: Scene) -> None:
    """The evidence, drawn when it is opened: its pictures are most of what a page costs."""
    run = ctx.run.run_id if ctx.run else ""
    label, key = ctx.say("findings.evidence", {"n": len(finding.evidence)}), f"folded_{place}_{ctx.lang}_{run}"
    with st.expander(label, key=key, on_change="rerun") as folded:
        if folded.open:
            _evidence(ctx, place, finding, scene)


def _evidence(ctx: Context, place: int, finding: Finding, scene: Scene) -> None:
    st.text(f"{finding.detector} · {wording.cause(finding, ctx.lang)}")
    run = ctx.run.run_id if ctx.run else ""
    for name, strips in (("whole", scene.whole), ("near", (scene.near,) if scene.near else ())):
        if strips:
            st.caption(ctx.say("report.whole_run" if name == "whole" else "report.near"))
            picture = chart.figure(strips, finding.evidence, ctx.say, context.ink())
            st.plotly_chart(picture, key=f"evidence_{run}_{place}_{name}_{ctx.lang}",
                            config={"displayModeBar": False}, alt=ctx.say("findings.evidence_means"))  # fmt: skip
    if finding.evidence:
        first = finding.evidence[0]
        link.to_timeline(
            ctx, "shell.on_timeline", first.ts_ns, first.dur_ns, first.rank, first.span_id, f"finding_{place}"
        )
    _table(ctx, ("rank", "start", "length", "note"), [
        (str(e.rank), f"{e.ts_ns / 1e6:,.3f}", f"{e.dur_ns / 1e6:,.3f}", cell(e.note)) for e in finding.evidence
    ])  # fmt: skip
    numbers = [(name, cell(number(name, value))) for name, value in finding.numbers.items() if value is not None]
    _table(ctx, ("number", "value"), numbers)


def _table(ctx: Context, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    heads = [ctx.say(f"findings.col_{name}") for name in columns]
    st.dataframe(pd.DataFrame(rows, columns=heads), hide_index=True)


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
                    st.text(found.detector)
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
        st.code(quality.collect.code(ctx.lang), language="python")
        st.text(wording.points(found.check, ctx.lang))
        parts = [(wording.of(ctx.lang, p.text), str(p.points), wording.share(p.share)) for p in quality.parts]
        _table(ctx, ("part", "points", "share"), parts)
