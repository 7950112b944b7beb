"""What is known of the chosen problem: the sentence, its numbers, the line of code, what to do, what to record next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import pandas as pd
import streamlit as st

from npulens.analysis.finding import Evidence, Finding
from npulens.analysis.problems.shown import Source, source, source_of_idle
from npulens.analysis.say import number
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.workspace import chosen
from npulens.app.panels import cells, run_list
from npulens.app.report.subject import Subject
from npulens.app.team.who import Act
from npulens.app.text import wording
from npulens.app.text.snippets import snippet
from npulens.ingest.store import notes, runs
from npulens.ingest.store.notes import Remark

_PLACE = re.compile(r"^(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.*)$")
#: Lines that are shown before and behind the one that a frame names.
_BEFORE, _BEHIND = 1, 11


def show(ctx: Context, found: Subject, now: chosen.Problem, moment: Evidence | None, span: int | None) -> None:
    """Two columns: what it is and what to do; where it comes from, its numbers, what people say."""
    left, right = st.columns(2, gap="large")
    with left:
        _do(ctx, now.finding)
        if ctx.run is None or not run_list.without_spans(ctx, ctx.run):
            _source(ctx, moment, span)
    with right:
        _numbers(ctx, now.finding)
        _remark(ctx, now)
        _next(ctx, found)


def title(ctx: Context, finding: Finding) -> None:
    """The problem in a sentence."""
    with st.container(key="finding_chosen"):
        st.text(wording.plain(finding.words[ctx.lang].title))


def _do(ctx: Context, finding: Finding) -> None:
    st.header(ctx.say("workspace.do"), anchor=False)
    st.text(wording.plain(finding.words[ctx.lang].advice))
    if between := wording.interval(finding, ctx.lang):
        st.text(between)
    code = snippet(finding)
    if code is None:
        return
    before, after = st.columns(2, gap="small")
    with before:
        st.caption(ctx.say("workspace.before"))
        st.code(code.before, language="python", wrap_lines=True)
    with after:
        st.caption(ctx.say("workspace.after"))
        st.code(code.after, language="python", wrap_lines=True)


def _source(ctx: Context, moment: Evidence | None, span: int | None) -> None:
    """The line that the chosen moment belongs to; without a call stack, what would record it."""
    st.header(ctx.say("workspace.source"), anchor=False)
    held = None
    if span is not None:
        held = context.measured(ctx, source, span)
    elif moment is not None:
        held = context.measured(ctx, source_of_idle, moment)
    if held is None or held.line is None:
        if held is not None and held.op:
            st.text(ctx.say("workspace.source_op", {"op": wording.plain(held.op)}))
        st.text(ctx.say("workspace.source_none"))
        setting = next((row.collect_with for row in context.coverage(ctx) if row.table == "stack"), None)
        if setting:
            st.text(ctx.say("workspace.source_how", {"setting": wording.plain(setting)}))
        return
    st.code(wording.plain(held.line), language=None)
    if lines := kept_lines(runs.manifest(ctx.store, ctx.run.run_id) if ctx.run else {}, held.place or held.line):
        st.code("\n".join(map(wording.plain, lines)), language="python")
        st.caption(ctx.say("workspace.source_kept"))
    _editor(ctx, held)
    if held.op:
        st.text(ctx.say("workspace.source_op", {"op": wording.plain(held.op)}))
    if len(held.stack) > 1:
        with st.expander(ctx.say("workspace.stack", {"n": len(held.stack)})):
            st.code("\n".join(map(wording.plain, held.stack)), language=None)


def kept_lines(manifest: Mapping[str, Any], frame: str) -> list[str]:
    """The lines around a frame as the recording kept them, each with its number; none where it kept none of these."""
    place, collected = _PLACE.match(frame), manifest.get("collected")
    sources = collected.get("sources") if isinstance(collected, dict) else None
    lines = sources.get(place["file"]) if isinstance(sources, dict) and place is not None else None
    if place is None or not isinstance(lines, dict):
        return []
    at = int(place["line"])
    near = range(max(1, at - _BEFORE), at + _BEHIND + 1)
    return [f"{number:>5}  {lines[str(number)]}" for number in near if isinstance(lines.get(str(number)), str)]


def _editor(ctx: Context, held: Source) -> None:
    """A link that an editor on this machine opens; only for a whole path."""
    place = _PLACE.match(held.place or "")
    if place is None or not PurePosixPath(place["file"]).is_absolute():
        return
    st.link_button(
        ctx.say("workspace.editor"), f"vscode://file{quote(place['file'])}:{place['line']}", icon=":material/code:"
    )


def _numbers(ctx: Context, finding: Finding) -> None:
    rows = [
        (wording.number_name(name, ctx.lang), cells.cell(wording.plain(number(name, value))))
        for name, value in wording.shown_numbers(finding)
    ]
    if not rows:
        return
    st.header(ctx.say("workspace.numbers"), anchor=False)
    heads = [ctx.say("workspace.number"), ctx.say("workspace.value")]
    st.dataframe(pd.DataFrame(rows, columns=heads), hide_index=True, height="content" if len(rows) <= 12 else 400)


def _remark(ctx: Context, now: chosen.Problem) -> None:
    """Whether it is open, done or ignored, whose it is, and what there is to say: for every run of the workload."""
    job = chosen.workload(ctx)
    key = f"{now.key}_{ctx.run.run_id if ctx.run else ''}_{ctx.lang}"
    said = now.remark
    with st.expander(ctx.say("workspace.remark"), expanded=said != Remark()), st.form(f"remark_{key}", border=False):
        st.segmented_control(
            ctx.say("workspace.state"), notes.STATES, default=said.state, required=True, key=f"state_{key}",
            format_func=lambda name: ctx.say(f"workspace.state_{name}"),
        )  # fmt: skip
        st.text_input(ctx.say("workspace.owner"), said.owner, key=f"owner_{key}", max_chars=notes.MOST_LABEL)
        st.text_area(ctx.say("workspace.note"), said.note, key=f"note_{key}", max_chars=notes.MOST_NOTE, height=80)
        st.text(ctx.say("workspace.kept_for", {"workload": wording.plain(job)}))
        st.form_submit_button(
            ctx.say("workspace.keep"), icon=":material/save:", key=f"keep_{key}",
            on_click=lambda: _keep(ctx, job, now.key, key), disabled=not ctx.may(Act.SAY),
        )  # fmt: skip


def _keep(ctx: Context, job: str, finding: str, key: str) -> None:
    state = st.session_state
    said = Remark(state[f"state_{key}"] or "open", state[f"owner_{key}"] or "", state[f"note_{key}"] or "")
    notes.set_remark(ctx.to(Act.SAY, finding), job, finding, said)


def _next(ctx: Context, found: Subject) -> None:
    """The next capture: what would show more than this one."""
    quality = found.check.quality
    if not quality.missing:
        return
    with st.expander(ctx.say("workspace.next")):
        st.text(wording.collect(found.check, ctx.lang))
        st.code(quality.collect.code(ctx.lang), language=quality.collect.language)
