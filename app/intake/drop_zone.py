"""Drop a capture, watch it travel and load, see what became of it.

The page asks for a grant, sends every file through app/intake/http_upload.py, and says when it is done. The load then
runs in a child process that this panel asks twice a second. Captures dropped meanwhile queue up. The component only
moves files: every decision is made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.intake import drop_folders, http_upload, visitor_drops
from npulens.app.intake.invitations import TOKEN_HEADER
from npulens.app.intake.load_queue import Load, Outcome, Progress
from npulens.app.intake.visitor_drops import Visit
from npulens.app.text import i18n, wording
from npulens.ingest.messages import render
from npulens.ingest.store import runs

_HERE = Path(__file__).parent
_JS_TEXTS = (
    "title", "files", "directory", "cancel", "reading", "sending", "sent", "cancelled", "unreachable", "queued",
)  # fmt: skip
_REFUSALS = (
    "nothing", "too_many_files", "too_large", "disk_full", "bad_name", "name_taken", "bad_token", "no_length",
    "length_lies", "more_than_granted", "incomplete", "interrupted", "ticket_over", "ticket_used",
)  # fmt: skip

_drop_zone = st.components.v2.component(
    "npulens_drop_zone",
    css=(_HERE / "drop_zone.css").read_text("utf-8"),
    js=(_HERE / "drop_zone.js").read_text("utf-8"),
)


def _arrived(ctx: Context, visit: visitor_drops.Visit) -> None:
    visit.arrived(ctx.store)


def show(ctx: Context, ticket: str | None = None) -> None:
    """How the last loads ended, the captures being loaded, and the drop zone.

    With the token of a ticket the visitor is a guest: what is dropped counts against it, and no page is opened.
    """
    guest = ticket is not None
    visit = visitor_drops.visit()
    _turn(ctx, visit, guest)
    _ended(ctx, visit)
    if visit.busy:
        _watch(ctx, visit, guest)
    limits = {"limit": i18n.size(drop_folders.MAX_BYTES), "files": f"{drop_folders.MAX_FILES:,}"}
    _drop_zone(
        key="drop_zone",
        data={
            "url": http_upload.prefix(), "header": TOKEN_HEADER, "large": not ctx.runs and not visit.loads,
            "busy": visit.busy,
            "reply": visit.reply, "hint": ctx.say("upload.hint", limits), "lang": ctx.lang,
            "texts": {key: i18n.raw(ctx.lang, f"upload.{key}") for key in _JS_TEXTS},
            "refusals": {key: ctx.say(f"upload.{key}", limits) for key in _REFUSALS},
        },
        on_ask_change=lambda: visit.ask(ctx.store, _said("ask") or {}, ticket),
        on_arrived_change=lambda: _arrived(ctx, visit),
        on_dropped_change=lambda: visit.drop(ctx.store, str(_said("dropped"))),
    )  # fmt: skip


def _said(trigger: str) -> Any:
    """What the drop zone says, read in a way in which Streamlit cannot end the script: a wish would be lost."""
    return st.session_state.to_dict()["drop_zone"][trigger]


@st.fragment(run_every=0.4)
def _watch(ctx: Context, visit: Visit, guest: bool) -> None:
    """How far the loads are; when one has ended, its answer is shown."""
    _turn(ctx, visit, guest)
    for i, load in enumerate(visit.loads):
        _progress(ctx, visit, load, i)


def _turn(ctx: Context, visit: Visit, guest: bool) -> None:
    """Queues what has arrived and takes note of what has ended; the page is drawn again when there was something."""
    came, before = visit.arrived(ctx.store), len(visit.loads)
    brought = visit.finish()
    if guest:
        visit.to_show = None
    if brought and not guest:
        context.choose_run(brought[0])
    if visit.to_show:
        _open(ctx, visit, visit.to_show)
    if came or len(visit.loads) < before:
        st.rerun()


def _open(ctx: Context, visit: Visit, run_id: str) -> None:
    """The answer: the run on the first page, unless the visitor is still sending or waiting for more."""
    run = next((run for run in runs.runs(ctx.store) if run.run_id == run_id), None)
    page = context.page("overview")
    if run is None or page is None:
        visit.to_show = None
        return
    context.judged(replace(ctx, run=run))  # begins while the page is being drawn
    if not visit.busy:
        st.switch_page(page, query_params={"lang": ctx.lang, "run": run_id})


def _progress(ctx: Context, visit: Visit, load: Load, place: int) -> None:
    with st.container(border=True, key=f"load_{place}"):
        if load.waiting:
            share, line = 0.0, ctx.say("upload.waiting")
        else:
            share, line = _far(ctx, load.progress())
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.text(ctx.say("upload.loading", {"name": load.name}))
            st.button(
                ctx.say("upload.stop"), key=f"stop_load_{load.grant.id}", type="tertiary",
                on_click=lambda: visit.stop(load),
            )  # fmt: skip
        st.progress(share)
        st.text(line)


def _far(ctx: Context, said: Progress | None) -> tuple[float, str]:
    """How far a load is, as a share and in words."""
    if said is None:
        return 0.0, ctx.say("upload.starting")
    line = _stage(ctx, said)
    if said.rows:
        line += " · " + ctx.say("upload.rows", {"n": f"{said.rows:,}"})
    if not said.total_bytes:
        return 0.0, line
    values = {"done": i18n.size(said.done_bytes), "total": i18n.size(said.total_bytes)}
    return min(1.0, said.done_bytes / said.total_bytes), line + " · " + ctx.say("upload.of", values)


def _stage(ctx: Context, said: Progress) -> str:
    """What the load is doing, in the visitor's language where there are words for it."""
    stage = "tables" if said.stage == "read" and said.done_bytes == said.total_bytes else said.stage
    key = f"upload.stage_{stage}"
    return ctx.say(key, {"what": said.text}) if i18n.known(key) else said.text or stage


def _ended(ctx: Context, visit: Visit) -> None:
    """Every capture of the last loads: loaded, already there, or refused, why, and what to do about it."""
    if not visit.ended:
        return
    with st.container(border=True, horizontal=True, horizontal_alignment="distribute", key="ended"):
        with st.container(width="stretch", gap="xsmall"):
            for name, outcome in visit.ended:
                show_load_results(ctx, name, outcome)
        st.button(ctx.say("upload.close"), key="close_outcome", type="tertiary", on_click=visit.dismiss)


# How a load ended, one line a capture: loaded, there already, or refused. Then what it is and what to do about it.
_MOST_LINES = 12


def show_load_results(ctx: Context, name: str, outcome: Outcome) -> None:
    """Every line of it, as text."""
    for line in lines(ctx, name, outcome):
        st.text(line)


def lines(ctx: Context, name: str, outcome: Outcome) -> list[str]:
    """The sentences; names in them come from strangers' files and are plain text."""
    name = wording.plain(name)
    told = []
    if outcome.error:
        told.append(ctx.say("upload.failed", {"name": name, "reason": wording.plain(render(outcome.error, ctx.lang))}))
    for run in outcome.runs[:_MOST_LINES]:
        called = wording.plain(str(run.get("label") or name))
        if run.get("run_id") is None:
            told += _refused(ctx, name, run)
        elif run.get("stored") == "exists":
            told.append(ctx.say("upload.exists", {"name": called}))
        else:
            values = {"name": called, "events": f"{run.get('events', 0):,}", "seconds": f"{run.get('seconds', 0):.1f}"}
            told.append(ctx.say("upload.loaded", values))
    if len(outcome.runs) > _MOST_LINES:
        told.append(ctx.say("upload.and_more", {"n": len(outcome.runs) - _MOST_LINES}))
    return told


def _refused(ctx: Context, name: str, run: Mapping[str, Any]) -> list[str]:
    """What the file is in the visitor's language, what to do, and the reader's own words where they say more."""
    error: Mapping[str, Any] = run.get("error") or {}
    kind = str(error.get("kind") or "")
    what = wording.plain(str(error.get("path") or name))
    message = wording.plain(render(run.get("said") or str(error.get("message") or run.get("reason") or ""), ctx.lang))
    if not i18n.known(f"upload.kind_{kind}"):
        return [ctx.say("upload.refused", {"name": name, "reason": message})]
    told = [ctx.say("upload.refused", {"name": what, "reason": ctx.say(f"upload.kind_{kind}")})]
    if i18n.known(f"upload.remedy_{kind}"):
        told.append(ctx.say("upload.remedy", {"remedy": ctx.say(f"upload.remedy_{kind}")}))
    return [*told, ctx.say("upload.detail", {"message": message})]
