"""What the detectors say of either side. A detector that could not look has not found nothing."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.finding import Finding
from npulens.analysis.say import duration
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.compare.half import Half, Pair
from npulens.app.panels import cells, run_list
from npulens.app.report.subject import Subject
from npulens.app.text import wording
from npulens.ingest.errors import IngestError


def show(ctx: Context, pair: Pair) -> None:
    """One row a detector that found something on a side; of several runs a side, on its first."""
    st.subheader(ctx.say("compare.findings"), anchor=False, help=ctx.say("compare.findings_help"))
    try:
        found = [context.judgement(half.ctx) for half in (pair.base, pair.head)]
    except IngestError as error:
        st.error(ctx.say("findings.failed"))
        st.text(wording.error(error, ctx.lang))
        return
    base, head = found
    if base is None or head is None:
        _wait(ctx, pair)
        return
    if pair.by != "runs":
        st.text(ctx.say("compare.findings_same_run"))
    for half in (half for half in (pair.base, pair.head) if len(half.parts) > 1):
        run = wording.plain(run_list.name(ctx, half.parts[0].run))
        st.text("◐ " + ctx.say("compare.findings_first", {"side": wording.plain(half.name), "run": run}))
    rows = _rows(ctx, pair, base, head)
    if not rows:
        st.text(ctx.say("compare.findings_none"))
        return
    heads = {
        "detector": ctx.say("compare.col_detector"),
        "base": ctx.say("compare.col_saving", {"side": pair.base.short}),
        "head": ctx.say("compare.col_saving", {"side": pair.head.short}),
        "title": ctx.say("compare.col_title"),
    }  # fmt: skip
    cells.show(pd.DataFrame(rows), heads, f"compare_findings_{ctx.lang}", ctx.say("compare.findings_help"),
               right=("base", "head"))  # fmt: skip


@st.fragment(run_every=1.0)
def _wait(ctx: Context, pair: Pair) -> None:
    halves = (pair.base.ctx, pair.head.ctx)
    st.text(ctx.say("compare.findings_working", {"n": round(max(context.judging_for(half) for half in halves))}))
    if all(context.judged(half) for half in halves):
        st.rerun()


def _rows(ctx: Context, pair: Pair, base: Subject, head: Subject) -> list[dict[str, str]]:
    ours, theirs = _of(pair.base, base), _of(pair.head, head)
    order = sorted(
        ours.keys() | theirs.keys(),
        key=lambda name: (-max(_saving(ours.get(name, [])), _saving(theirs.get(name, []))), name),
    )
    return [{
        "detector": name, "base": _cell(ctx, name, ours, base), "head": _cell(ctx, name, theirs, head),
        "title": wording.plain((theirs.get(name) or ours[name])[0].words[ctx.lang].title),
    } for name in order]  # fmt: skip


def _of(half: Half, subject: Subject) -> dict[str, list[Finding]]:
    """Findings with evidence in a side's windows, by detector."""
    first, windows = half.parts[0], half.first.side.windows
    found: dict[str, list[Finding]] = {}
    for finding in subject.check.findings:
        everywhere = first.ranks is None and first.steps is None
        if everywhere or any(
            e.rank == w.rank and e.ts_ns < w.start_ns + w.dur_ns and e.ts_ns + e.dur_ns > w.start_ns
            for e in finding.evidence for w in windows
        ):  # fmt: skip
            found.setdefault(finding.detector, []).append(finding)
    return found


def _saving(findings: list[Finding]) -> int:
    return sum(finding.saving_ns for finding in findings)


def _cell(ctx: Context, name: str, found: dict[str, list[Finding]], subject: Subject) -> str:
    """What a fix gives back, else how the detector ended."""
    if name in found:
        share = sum(finding.saving_share for finding in found[name])
        return f"{duration(_saving(found[name]))} · {wording.share(share)}"
    ended = next((outcome.outcome for outcome in subject.check.outcomes if outcome.detector == name), "not_measured")
    return ctx.say("compare.outcome_elsewhere" if ended == "found" else f"compare.outcome_{ended}")
