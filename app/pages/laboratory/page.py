"""What was tried on a module: which rewrites are right, which are faster, what each replaced and how to get it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import laboratory as look
from npulens.analysis.look.laboratory import Result
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.laboratory import charts as chart
from npulens.app.pages.laboratory import one, sentences
from npulens.app.panels import cells, run_list, store_empty
from npulens.app.text import wording
from npulens.ingest import messages

TITLE = "laboratory.title"
ICON = ":material/experiment:"
ORDER = 37
GROUP = "look"

_COMMANDS = (
    "npulens lab -o subject -- python serve.py", "npulens lab subject --try fold,sdpa,compile", "npulens lab RUN",
)  # fmt: skip


def _none(ctx: Context) -> None:
    """This run holds no trials: the three commands, and the results that the store holds."""
    with st.container(key="prose"):
        st.text(ctx.say("laboratory.none"))
        for place, command in enumerate(_COMMANDS):
            st.text(ctx.say(f"laboratory.command_{place}"))
            st.code(command, language="bash")
    held = [run for run in ctx.runs if "lab" in run.formats]
    page = context.page("laboratory")
    if held and page is not None:
        st.text(ctx.say("laboratory.others"))
        for run in held[:10]:
            st.page_link(page, label=wording.plain(run_list.name(ctx, run)), icon=ICON,
                         query_params={"run": run.run_id, "lang": ctx.lang})  # fmt: skip


def render(ctx: Context) -> None:
    """The answer first, then every rewrite, then one of them in full."""
    st.header(ctx.say("laboratory.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    found = context.measured(ctx, look.laboratory)
    if found is None:
        _none(ctx)
        return
    answer(ctx, found)
    trials(ctx, found)
    if found.trials:
        one.show(ctx, found)
    environment(ctx, found)


def brief(ctx: Context) -> None:
    """What the first screen says of a result: its answer and every rewrite."""
    found = context.measured(ctx, look.laboratory)
    if found is not None:
        answer(ctx, found)
        trials(ctx, found)


def answer(ctx: Context, found: Result) -> None:
    """What is faster and by how much, its error beside it; then what it was tried on."""
    with st.container(key="answer", gap="xxsmall"):
        st.text(wording.plain(sentences.headline(found, ctx.lang)))
        st.text(wording.plain(sentences.what(found, ctx.lang)))
        if ctx.run is not None and ctx.run.status == "partial":
            why = messages.render(ctx.run.reason, ctx.lang)
            st.text(wording.plain(ctx.say("laboratory.partial", {"why": why})))


def trials(ctx: Context, found: Result) -> None:
    """A bar with its interval for each that was timed, then the table with everything else."""
    if not found.trials:
        return
    run = ctx.run.run_id if ctx.run else ""
    st.subheader(ctx.say("laboratory.trials"), anchor="trials")
    st.caption(ctx.say("laboratory.trials_means"))
    timed = [each for each in found.trials if each.get("speed")]
    if timed:
        st.plotly_chart(context.once(chart.ratios, timed, ctx.say, context.ink()), key=f"lab_ratios_{run}_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("laboratory.trials"))  # fmt: skip
    heads = [ctx.say(f"laboratory.col_{name}") for name in sentences.COLUMNS]
    names = [f"c{place}" for place in range(len(heads))]
    rows = [sentences.row(found, each, ctx.lang) for each in found.trials]
    cells.show(pd.DataFrame(rows, columns=names), dict(zip(names, heads, strict=True)), f"lab_trials_{run}_{ctx.lang}",
               ctx.say("laboratory.trials"))  # fmt: skip
    st.caption(ctx.say("laboratory.columns"))


def environment(ctx: Context, found: Result) -> None:
    """Everything that may explain why tomorrow's figures are others."""
    run = ctx.run.run_id if ctx.run else ""
    with st.expander(ctx.say("laboratory.about")):
        rows = pd.DataFrame(sentences.about(found, ctx.lang), columns=["name", "value"])
        cells.show(rows, {"name": "", "value": " "}, f"lab_about_{run}_{ctx.lang}", ctx.say("laboratory.about"))
