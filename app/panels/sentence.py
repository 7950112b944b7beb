"""What a run is, in one sentence, and what it lacks in one more."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.panels import run_list
from npulens.app.text import i18n
from npulens.ingest.messages import render
from npulens.ingest.store.runs import RunInfo


def title(ctx: Context, run: RunInfo) -> None:
    """What the run is called; names from the capture are shown as plain text only."""
    with st.container(key="run_title"):
        st.text(run_list.name(ctx, run))


def show(ctx: Context, run: RunInfo) -> None:
    """The heading and the sentences."""
    title(ctx, run)
    with st.container(key="prose", gap="xxsmall"):
        about(ctx, run)


def about(ctx: Context, run: RunInfo) -> None:
    """The sentences alone: what it is, the ranks that are missing, why it is partial."""
    st.text(what(ctx, run))
    if run.missing_ranks:
        values = {"n": len(run.missing_ranks), "ranks": i18n.ranges(run.missing_ranks)}
        st.text(ctx.say("runs.missing_ranks", values))
    if run.status == "partial":
        key = "runs.partial_because" if run.reason else "runs.partial_unsaid"
        st.text("◐ " + ctx.say(key, {"reason": render(run.reason, ctx.lang)}))


def what(ctx: Context, run: RunInfo) -> str:
    """One sentence: ranks, format, steps, length, when."""
    values = {
        "n": len(run.ranks), "ranks": i18n.ranges(run.ranks), "world": i18n.count(run.world_size),
        "formats": run_list.formats(ctx, run),
    }  # fmt: skip
    alone = run_list.without_spans(ctx, run)
    if alone:
        text = ctx.say(f"runs.holds_{alone}s", values)
    elif run.world_size is None:
        text = ctx.say("runs.holds", values)
    elif run.world_size == 1 == len(run.ranks):
        text = ctx.say("runs.holds_only", values)
    elif run.world_size == len(run.ranks):
        text = ctx.say("runs.holds_all", values)
    else:
        text = ctx.say("runs.holds_of", values)
    if run.dur_ns is None:
        return text + ctx.say("runs.no_length") + ctx.say("runs.stop")
    key = "runs.with_steps" if run.steps else "runs.long" if alone else "runs.no_steps"
    text += ctx.say(key, {"n": run.steps, "length": i18n.duration(run.dur_ns)})
    when = i18n.moment(run.origin_ns, ctx.lang)
    return text + (ctx.say("runs.since", {"when": when}) if when else ctx.say("runs.stop"))
