"""The problems by what they cost, the job as a picture with their windows, and the evidence of the chosen one."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from npulens.analysis.causes import CAUSES
from npulens.analysis.engine import Check
from npulens.analysis.finding import Evidence
from npulens.analysis.problems.shown import moments, ranks_of, spans_of
from npulens.analysis.say import ONCE, duration
from npulens.analysis.serving import look
from npulens.analysis.serving.served import TIMES
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.requests import charts
from npulens.app.pages.workspace import chosen, evidence, head, operators, picker
from npulens.app.panels import run_list
from npulens.app.report.subject import Subject
from npulens.app.text import wording
from npulens.app.timeline import component
from npulens.ingest.store.runs import RunInfo

_CHIPS = ("masked", "clean", "not_measured", "failed")
_MOMENTS_PX = 180
_LIST_PX = 330
#: Letters of a name in a list.
_NAME = 70
#: What of a capture belongs beside the picture: what it does not show.
_TOLD = ("part", "sums", "devices", "unused", "outside", "backlog", "early")


def show(ctx: Context, run: RunInfo, found: Subject | None, every: Sequence[chosen.Problem]) -> None:
    """List and picture side by side, the evidence below."""
    now = chosen.problem(ctx, every)
    with st.container(key="problem_row"):
        left, centre = st.columns([3, 7], gap="medium")
    with left:
        _list(ctx, run, found, every, now)
    logged = run_list.without_spans(ctx, run) == "log"  # which counts seconds, and says of no moment when it was
    windows = _reached_first(run, moments(now.finding)) if now and not logged else ()
    spans = context.measured(ctx, spans_of, windows) if windows else ()
    with centre:
        if now is not None:
            evidence.title(ctx, now.finding)
        told = [] if found is None else [one for one in found.check.quality.doubts if one.name in _TOLD]
        if not any(one.name == "sums" for one in told):  # else there is no time to draw
            _picture(ctx, run, now, windows, spans)
        for doubt in told:
            st.text(wording.plain(wording.of(ctx.lang, doubt.text)))
        if now is not None:
            _moments(ctx, run, now, windows, spans)
        if found is not None and found.check.host is not None:
            for sentence in wording.beside_operators(found.check.host, ctx.lang):
                st.text(sentence)
            operators.show(ctx, found.check.host)
    if now is None or found is None:
        return
    at = chosen.moment(ctx, windows, spans) or 0
    evidence.show(ctx, found, now, windows[at] if windows else None, spans[at] if spans else None)


def _picture(
    ctx: Context, run: RunInfo, now: chosen.Problem | None, windows: Sequence[Evidence], spans: Sequence[int | None]
) -> None:  # fmt: skip
    """The ranks over time; for a problem of requests these, and the stages of a job where no rank was recorded."""
    kind = run_list.without_spans(ctx, run)
    if now is not None and now.finding.measure in TIMES and run_list.holds(ctx, run, "request"):
        kind = "request"
    moment = windows[chosen.moment(ctx, windows, spans) or 0] if windows else None
    if kind == "request":
        _requests(ctx, f"requests_{run.run_id}_{now.key if now else ''}", moment)
    elif kind in ("stage", "log"):
        _stages(ctx, f"stages_{run.run_id}_{now.key if now else ''}", moment)
    else:
        component.strip(ctx, run.run_id, _painted(windows))


def _requests(ctx: Context, key: str, moment: Evidence | None) -> None:
    """The request of a moment with the engine; without one the percentiles."""
    if moment is None:
        found = head.requests(ctx)
        if found is not None:
            st.plotly_chart(context.once(charts.percentiles, found.percentiles, ctx.say, context.ink()), key=key,
                            config={"displayModeBar": False}, alt=ctx.say("requests.percentiles_alt"))  # fmt: skip
        return
    around = context.measured(ctx, look.at, moment.ts_ns, moment.dur_ns, moment.note)
    if around is None:
        st.text(ctx.say("workspace.no_request"))
        return
    picture = context.once(charts.axis, around, ctx.say, context.ink(), _ends(moment))
    st.plotly_chart(picture, key=f"{key}_{moment.ts_ns}", config={"displayModeBar": False},
                    alt=ctx.say("requests.axis_alt"))  # fmt: skip


def _stages(ctx: Context, key: str, moment: Evidence | None) -> None:
    """The stages of a job, or what its log counts of a step; there a moment has no place."""
    found = head.job(ctx)
    if found is None or not len(found.rows):
        st.text(ctx.say("workspace.no_stages"))
        return
    where = _ends(moment) if moment and found.windows else None
    picture = context.once(charts.stages, found, ctx.say, context.ink(), where)
    st.plotly_chart(picture, key=f"{key}_{where}", config={"displayModeBar": False},
                    alt=ctx.say("requests.stages_alt"))  # fmt: skip
    if not found.windows:
        st.caption(ctx.say("workspace.no_windows"))


def _ends(moment: Evidence) -> tuple[int, int]:
    return moment.ts_ns, moment.ts_ns + moment.dur_ns


def _reached_first(run: RunInfo, windows: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Moments that the trace holds before those beyond it: an engine is often recorded longer than its device."""
    return tuple(sorted(windows, key=lambda one: run.dur_ns is not None and one.ts_ns >= run.dur_ns))


def _painted(windows: Sequence[Evidence]) -> list[component.Painted]:
    return [component.Painted(one.rank, one.ts_ns, one.dur_ns) for one in windows]


def _list(
    ctx: Context, run: RunInfo, found: Subject | None, every: Sequence[chosen.Problem], now: chosen.Problem | None
) -> None:  # fmt: skip
    rows = [_row(ctx, run, one, found is not None and found.check.whole.steady) for one in every]
    nothing = "judging" if found is None else "no_problems" if head.looked(found.check) else "not_judged"
    none = ctx.say(f"workspace.{nothing}")
    chips = [] if found is None else _chips(ctx, found.check)
    picker.show(
        f"problems_{run.run_id}", picker.Listed(ctx.say("workspace.problems"), none, rows, chips, _LIST_PX),
        now.key if now else None, lambda key: chosen.choose_problem(ctx, key),
    )  # fmt: skip


def _row(ctx: Context, run: RunInfo, one: chosen.Problem, steady: bool) -> picker.Row:
    """Name and saving, ranks and share, the bar; the whole title where the pointer rests."""
    finding = one.finding
    said = [] if run_list.without_spans(ctx, run) else [chosen.where(ctx, ranks_of(finding), "rank")]
    if one.settled:
        said.append(ctx.say(f"workspace.state_{one.remark.state}"))
    if one.remark.owner:
        said.append(one.remark.owner)
    once = finding.numbers.get("per") == ONCE
    share = "of_once" if once else "of_rest" if steady else "of_step" if run.steps else "of_time"
    return picker.Row(
        one.key, chosen.titled(ctx, finding), duration(finding.saving_ns), " · ".join(filter(None, said)),
        wording.share_of(finding, f"workspace.{share}", ctx.lang),
        min(1.0, max(0.0, finding.saving_share)), wording.plain(finding.words[ctx.lang].title), one.settled,
    )  # fmt: skip


def _chips(ctx: Context, found: Check) -> list[picker.Chip]:
    """How the other checks ended, and what none of them looks for."""
    chips = []
    for outcome in _CHIPS:
        told = wording.unmeasured if outcome == "not_measured" else wording.reason
        items = tuple(
            picker.Item(chosen.named(ctx, one.detector), told(one, ctx.lang))
            for one in found.outcomes
            if one.outcome == outcome
        )
        if items:
            chips.append(picker.Chip(outcome, ctx.say(f"workspace.chip_{outcome}"), items))
    if found.not_looked_for:
        unseen = tuple(
            picker.Item(chosen.named(ctx, cause), wording.of(ctx.lang, CAUSES[cause])) for cause in found.not_looked_for
        )
        chips.append(picker.Chip("unseen", ctx.say("workspace.chip_unseen"), unseen))
    return chips


def _moments(
    ctx: Context, run: RunInfo, now: chosen.Problem, windows: Sequence[Evidence], spans: Sequence[int | None]
) -> None:  # fmt: skip
    """Every moment of the problem; a click goes there in the picture above."""
    longest = max((one.dur_ns for one in windows), default=1)
    rows = [
        picker.Row(
            str(place), wording.plain(one.note)[:_NAME] or ctx.say("workspace.at", {"start": duration(one.ts_ns)}),
            duration(one.dur_ns),
            "" if run_list.without_spans(ctx, run) else ctx.say("workspace.rank", {"ranks": one.rank}),
            ctx.say("workspace.at", {"start": duration(one.ts_ns)}) if one.note else "", one.dur_ns / max(longest, 1),
            wording.plain(one.note),
        )
        for place, one in enumerate(windows)
    ]  # fmt: skip
    at = chosen.moment(ctx, windows, spans)
    label, none = ctx.say("workspace.moments"), ctx.say("workspace.no_moments")
    picker.show(
        f"moments_{run.run_id}_{now.key}", picker.Listed(label, none, rows, (), _MOMENTS_PX, compact=True),
        None if at is None else str(at), lambda key: chosen.choose_moment(ctx, windows[int(key)], spans[int(key)]),
    )  # fmt: skip
    requests = context.page("requests")
    if requests is not None and now.finding.measure in TIMES:
        query = {"lang": ctx.lang, "run": run.run_id, "problem": now.key}
        st.page_link(requests, label=ctx.say("workspace.requests"), icon=":material/forum:", query_params=query)
