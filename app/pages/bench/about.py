"""What a benchmark is of, its answer, its environment; and where the benchmarks are if this run is none."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import bench as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.bench import sentences, versus
from npulens.app.panels import cells, run_list
from npulens.app.text import wording
from npulens.ingest.messages import render

_COMMAND = "npulens bench conv_bn_relu"
#: What is no trace -> its page and icon.
_PAGES = {"bench": ("bench", ":material/speed:"), "lab": ("laboratory", ":material/experiment:")}


def answer(ctx: Context, found: look.Bench) -> None:
    """One sentence that says what is faster, then what it is of and how far it can be believed."""
    with st.container(key="answer", gap="xxsmall"):
        best = look.headline(found)
        st.text(wording.plain(sentences.sentence(best, ctx.lang)) if best else ctx.say("bench.no_versus"))
        st.text(wording.plain(ctx.say("bench.what", {
            "workload": found.about.get("workload"), "shape": found.about.get("shape"),
            "device": found.device or ctx.say("bench.unknown"),
            "evidence": ctx.say(f"bench.evidence_{found.about.get('evidence')}"),
        })))  # fmt: skip
        if ctx.run is not None and ctx.run.status == "partial":
            st.text(wording.plain(ctx.say("bench.partial", {"why": render(ctx.run.reason, ctx.lang)})))


def brief(ctx: Context) -> None:
    """What the first screen says of a benchmark: its answer and the comparisons behind it."""
    found = context.measured(ctx, look.bench)
    if found is not None:
        answer(ctx, found)
        versus.show(ctx, found)


def environment(ctx: Context, found: look.Bench) -> None:
    """Everything that may explain why tomorrow's figures are others."""
    run = ctx.run.run_id if ctx.run else ""
    with st.expander(ctx.say("bench.about")):
        rows = pd.DataFrame(sentences.about(found, ctx.lang), columns=["name", "value"])
        cells.show(rows, {"name": "", "value": " "}, f"bench_about_{run}_{ctx.lang}", ctx.say("bench.about"))


def none(ctx: Context) -> None:
    """This run is a trace: how to make a benchmark, and those that the store holds."""
    with st.container(key="prose"):
        st.text(ctx.say("bench.none"))
        st.code(_COMMAND, language="bash")
    held = [run for run in ctx.runs if "bench" in run.formats]
    page = context.page("bench")
    if held and page is not None:
        st.text(ctx.say("bench.others"))
        for run in held[:10]:
            st.page_link(page, label=wording.plain(run_list.name(ctx, run)), icon=":material/speed:",
                         query_params={"run": run.run_id, "lang": ctx.lang})  # fmt: skip


def elsewhere(ctx: Context) -> None:
    """On pages of traces: that this run is a benchmark or a result of the laboratory, and the way to its page."""
    kind = next((kind for kind in _PAGES if ctx.run is not None and kind in ctx.run.formats), None)
    if ctx.run is None or kind is None:
        return
    name, icon = _PAGES[kind]
    page = context.page(name)
    with st.container(border=True, key=f"is_{kind}", horizontal=True, vertical_alignment="center"):
        st.text(ctx.say(f"{name}.is_one"))
        if page is not None:
            st.page_link(page, label=ctx.say(f"{name}.title"), icon=icon,
                         query_params={"run": ctx.run.run_id, "lang": ctx.lang})  # fmt: skip
