"""One night: what regressed, by how much, why, and where to look."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.nightly import kept
from npulens.app.nightly.night import ORDER, Night, Row
from npulens.app.nightly.written import figures, night_text
from npulens.app.pages.nights import charts
from npulens.app.panels import cells
from npulens.app.text.wording import plain

_PARTS = 5  # of a change; the report has more
_COLUMNS = ("task", "metric", "verdict", "change", "interval", "tonight", "before", "since", "by")


def show(ctx: Context, night: Night) -> None:
    """The headline, what was lost, what moved, and every metric in a table."""
    with st.container(key="prose"):
        st.subheader(night_text.headline(night, ctx.lang), anchor=False)
        st.text(night_text.counts(night, ctx.lang))
        for sentence in (*night_text.failures(night, ctx.lang), *night_text.notices(night, ctx.lang)):
            st.text(f"• {sentence}")
    for place, row in enumerate(night_text.moved(night)):
        with st.container(border=True, key=f"gap_night_{place}"):
            _moved(ctx, row, place)
    _table(ctx, night)
    _foot(ctx, night)


def _moved(ctx: Context, row: Row, place: int) -> None:
    metric = figures.metric(ctx.lang, row.metric)
    verdict = night_text.tagged(row, ctx.lang)
    st.text(plain(f"{figures.change(row.ratio)}  {row.task} · {metric}  {verdict}"))
    since = ctx.say("nightly.since", {"night": row.since}) if row.since else ""
    judged = night_text.judged_by(row, ctx.lang)
    facts = (night_text.was(row, ctx.lang), since, figures.interval(row), judged, row.where)
    st.text(plain(" · ".join(text for text in facts if text)))
    for sentence in night_text.why(row, ctx.lang):
        st.text(plain(f"• {sentence}"))
    if row.parts:
        st.text(ctx.say("nightly.parts"))
    for part in row.parts[:_PARTS]:
        kind = ctx.say(f"verdict.kind_{part.kind}")
        length = figures.number(part.delta_ns, "ns")
        st.text(plain(f"• {'+' if part.delta_ns > 0 else ''}{length} · {kind} · {night_text.part(part, ctx.lang)}"))
    if row.confirm:
        st.text(ctx.say("nightly.confirm"))
        st.code(row.confirm, language="bash")
    if len(row.series) > 1:
        st.plotly_chart(charts.series(row, context.ink(), context.accent()), key=f"night_series_{place}_{ctx.lang}",
                        config={"displayModeBar": False})  # fmt: skip
    _links(ctx, row, place)


def _links(ctx: Context, row: Row, place: int) -> None:
    held = {run.run_id for run in ctx.runs}
    wanted = [("history", "open_history", ":material/show_chart:", {"identity": row.identity, "metric": row.metric})]
    if row.run_id in held:
        wanted.append(("overview", "open_run", ":material/insights:", {"run": str(row.run_id)}))
        if row.base_run in held:
            sides = {"base": str(row.base_run), "head": str(row.run_id)}
            wanted.append(("compare", "open_compare", ":material/compare_arrows:", sides))
    with st.container(horizontal=True, key=f"night_links_{place}"):
        for name, key, icon, query in wanted:
            if page := context.page(name):
                st.page_link(page, label=ctx.say(f"nightly.{key}"), icon=icon, query_params=query | {"lang": ctx.lang})


def _table(ctx: Context, night: Night) -> None:
    rows = sorted(night.rows, key=lambda row: (ORDER.index(row.verdict), row.task, row.metric))
    if not rows:
        return
    frame = pd.DataFrame([_cells(ctx, row) for row in rows])
    heads = {name: ctx.say(f"nightly.col_{name}") for name in _COLUMNS}
    right = ("change", "interval", "tonight", "before")
    cells.show(frame, heads, f"night_table_{ctx.lang}", ctx.say("nights.table"), right)


def _cells(ctx: Context, row: Row) -> dict[str, str]:
    return {
        "task": row.task, "metric": figures.metric(ctx.lang, row.metric),
        "verdict": night_text.tagged(row, ctx.lang), "change": _arrow(figures.change(row.ratio)),
        "interval": _arrow(figures.interval(row)), "tonight": figures.number(row.value, row.unit),
        "before": figures.number(row.level, row.unit), "since": row.since or "",
        "by": night_text.judged_by(row, ctx.lang),
    }  # fmt: skip


def _arrow(change: str) -> str:
    """A change that no spreadsheet takes for a formula."""
    return change.replace("+", "↑ ").replace("−", "↓ ")


def _foot(ctx: Context, night: Night) -> None:
    values = {"began": night.began, "took": figures.length(night.seconds), "budget": figures.length(night.budget_s)}
    st.caption(ctx.say("nights.took", values))
    if report := kept.report(ctx.store, night.name, night.label):
        st.download_button(
            ctx.say("nights.download"), report, f"{night.name}-{night.label}.html", "text/html",
            icon=":material/download:", key=f"night_report_{night.label}", on_click="ignore",
        )  # fmt: skip
