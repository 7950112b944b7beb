"""One run, one place: the verdict, the ranked problems, the job as a picture, the evidence of what is chosen."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.problems.shown import glance
from npulens.app import context
from npulens.app.context import Context
from npulens.app.intake import visitor_drops
from npulens.app.pages.bench import about
from npulens.app.pages.laboratory import page as laboratory
from npulens.app.pages.workspace import checks, chosen, head, problems, ranks, recorded, split
from npulens.app.panels import sentence, store_empty
from npulens.app.report.subject import Subject
from npulens.app.text import wording
from npulens.ingest.errors import IngestError
from npulens.ingest.store.runs import RunInfo

TITLE = "workspace.title"
ICON = ":material/space_dashboard:"
ORDER = 0
GROUP = ""


def render(ctx: Context) -> None:
    """The chosen run, or how to bring one in."""
    if ctx.run is None:
        if not visitor_drops.visit().busy:
            store_empty.show(ctx, drop=True)
        return
    visitor_drops.visit().shown(ctx.run.run_id)
    if ctx.asked_for:
        st.text(ctx.say("runs.unknown_run", {"id": ctx.asked_for}))
    if "bench" in ctx.run.formats or "lab" in ctx.run.formats:
        sentence.show(ctx, ctx.run)
        (about.brief if "bench" in ctx.run.formats else laboratory.brief)(ctx)
        recorded.show(ctx, ctx.run)
        return
    st.html(head.STYLE)
    _run(ctx, ctx.run)


def _run(ctx: Context, run: RunInfo) -> None:
    """Head and chosen view. The split is there first: a judgement may take longer."""
    seen = glance(context.breakdown(ctx))
    top = st.empty()
    if not context.judged(ctx):
        with top.container():
            head.show(ctx, run, seen, None, ctx.say("workspace.verdict_working"), waits=True)
    view, body = st.container(), st.container()
    with view:
        _views(ctx)
    shown = chosen.view()
    with body:
        if shown == "time":
            split.show(ctx)
        elif shown == "ranks":
            ranks.show(ctx)
        elif shown == "recorded":
            recorded.show(ctx, run)
    found, failed = _judged(ctx)
    every = () if found is None else chosen.problems(ctx, found)
    if found is not None or failed is not None:
        said = ctx.say("workspace.verdict_failed") if found is None else head.verdict(ctx, found.check, every)
        with top.container():
            head.show(ctx, run, seen, found.check if found else None, said, waits=False)
    if failed is not None:
        with body:
            st.error(ctx.say("findings.failed"))
            st.text(failed)
    elif found is None:
        _wait(ctx)
    with body:
        if shown == "problems":
            problems.show(ctx, run, found, every)
        elif shown == "checks" and found is not None:
            checks.show(ctx, found)


def _views(ctx: Context) -> None:
    """Problems, time, ranks, what was recorded, checks."""
    key = f"view_{ctx.run.run_id if ctx.run else ''}_{ctx.lang}"
    if st.session_state.get(key) != chosen.view():
        st.session_state[key] = chosen.view()
    st.segmented_control(
        ctx.say("workspace.view"), chosen.VIEWS, key=key, required=True, label_visibility="collapsed",
        format_func=lambda name: ctx.say(f"workspace.view_{name}"),
        on_change=lambda: chosen.choose_view(st.session_state[key]),
    )  # fmt: skip


def _judged(ctx: Context) -> tuple[Subject | None, str | None]:
    """The judgement, or why there can be none; neither while it is at work."""
    try:
        return context.judgement(ctx), None
    except IngestError as error:
        return None, wording.error(error, ctx.lang)


@st.fragment(run_every=0.3)
def _wait(ctx: Context) -> None:
    """How long the judgement has been at work; when it is done, the page is drawn again."""
    with st.container(border=True):
        st.text(ctx.say("findings.working", {"n": round(context.judging_for(ctx))}))
    if context.judged(ctx):
        st.rerun()
