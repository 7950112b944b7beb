"""One night: what regressed, by how much, why, and where to look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.nightly import config as configs
from npulens.app.nightly import kept, regressions
from npulens.app.nightly import place as stored
from npulens.app.nightly.events import events
from npulens.app.nightly.night import ORDER, Night, Regression, Row, by_kernel
from npulens.app.nightly.written import figures, night_text
from npulens.app.pages.nights import charts
from npulens.app.panels import cells
from npulens.app.text import wording
from npulens.app.text.wording import plain
from npulens.ingest.errors import IngestError

_PARTS = 5  # of a change; the report has more
_DECISIONS = ("accept", "mute", "reopen")
_COLUMNS = ("task", "metric", "verdict", "change", "interval", "tonight", "before", "since", "by")


def show(ctx: Context, night: Night) -> None:
    """The headline, what was lost, what moved, and every metric in a table."""
    home = stored.home(ctx.store, night.name)
    known = {(each.number, each.metric): each for each in regressions.read(home)}
    with st.container(key="prose"):
        st.subheader(night_text.headline(night, ctx.lang), anchor=False)
        st.text(night_text.counts(night, ctx.lang))
        for sentence in (*night_text.failures(night, ctx.lang), *night_text.notices(night, ctx.lang)):
            st.text(f"• {sentence}")
    place = 0
    for event in events(night):
        if len(event.rows) > 1:
            st.text(plain(f"{night_text.tagged(event.lead, ctx.lang)}  {night_text.event_named(event, ctx.lang)}"))
        for row in event.named:
            with st.container(border=True, key=f"gap_night_{place}"):
                _moved(ctx, row, place)
                if each := known.get((row.number or 0, row.metric)):
                    _decided(ctx, home, each, place)
            place += 1
        if more := len(event.rows) - len(event.named):
            st.caption(ctx.say("nightly.more_metrics", {"n": more}))
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
    for kernel in by_kernel(row.parts)[:_PARTS]:
        kind = ctx.say(f"verdict.kind_{kernel[0].kind}")
        length = figures.signed(sum(part.delta_ns for part in kernel))
        st.text(plain(f"• {length} · {kind} · {night_text.part(kernel[0], ctx.lang)}"))
        if shapes := [f"{figures.signed(part.delta_ns)} {part.shapes}" for part in kernel if part.shapes]:
            st.caption(plain("; ".join(shapes)))
    for words, command in night_text.commands(row, ctx.lang):
        st.text(words)
        st.code(command, language="bash")
    if len(row.series) > 1:
        picture = context.once(charts.series, row, context.ink(), context.accent())
        st.plotly_chart(picture, key=f"night_series_{place}_{ctx.lang}",
                        config={"displayModeBar": False})  # fmt: skip
    _links(ctx, row, place)


def _decided(ctx: Context, home: Path, each: Regression, place: int) -> None:
    """What became of a regression since that night, and what can be decided of one that is open."""
    word = ctx.say("nightly.state_muted" if each.muted else f"nightly.state_{each.state}")
    until = ctx.say("nightly.until", {"day": each.until}) if each.until else ""
    owner = ctx.say("nightly.owned", {"owner": each.owner}) if each.owner else ""
    st.caption(plain(" · ".join(filter(None, (f"#{each.number} {word}", each.who, each.why, until, owner)))))
    if each.state == "fixed":
        return
    popover = st.popover(ctx.say("nights.decide"), icon=":material/gavel:")
    with popover, st.form(f"decide_{place}_{ctx.lang}", border=False):
        who = st.text_input(ctx.say("nights.who"), each.who)
        why = st.text_input(ctx.say("nights.why"), each.why)
        until = st.text_input(ctx.say("nights.until"), each.until, placeholder="2026-12-31")
        with st.container(horizontal=True):
            pressed = {name: st.form_submit_button(ctx.say(f"nights.{name}")) for name in _DECISIONS}
    wanted = next((name for name, is_pressed in pressed.items() if is_pressed), None)
    if wanted is None:
        return
    try:
        day = configs.day(until).isoformat() if until else ""
        decisions: dict[str, Callable[[Regression], Regression]] = {
            "accept": lambda one: regressions.accepted(one, who, why, day),
            "mute": lambda one: regressions.muted(one, who, why, day), "reopen": regressions.reopened,
        }  # fmt: skip
        regressions.decide(home, each.number, decisions[wanted])
    except IngestError as error:
        st.text(wording.error(error, ctx.lang))
        return
    st.rerun()


def _links(ctx: Context, row: Row, place: int) -> None:
    held = {run.run_id for run in ctx.runs}
    wanted = [("history", "open_history", ":material/show_chart:", {"identity": row.identity, "metric": row.metric})]
    if row.run_id in held:
        wanted.append(("workspace", "open_run", ":material/insights:", {"run": str(row.run_id)}))
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
