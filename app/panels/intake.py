"""Drop a capture, watch it travel and load, see what became of it.

The page asks for a grant, sends every file through app/upload.py, says when it is done; the load then runs in a child
process that this panel asks twice a second. The component only moves files: every decision is made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from app import context, i18n, upload
from app.context import Context
from app.inbox import Load, Outcome, Progress

_HERE = Path(__file__).parent
_JS_TEXTS = ("title", "files", "directory", "cancel", "reading", "sending", "sent", "cancelled", "unreachable")
_REFUSALS = (
    "nothing", "too_many_files", "too_large", "disk_full", "bad_name", "name_taken", "bad_token", "no_length",
    "length_lies", "more_than_granted", "incomplete", "interrupted",
)  # fmt: skip

_drop_zone = st.components.v2.component(
    "npulens_drop_zone",
    css=(_HERE / "drop_zone.css").read_text("utf-8"),
    js=(_HERE / "drop_zone.js").read_text("utf-8"),
)


def show(ctx: Context) -> None:
    """How the last load ended, the capture being loaded, and the drop zone.

    While one loads the zone is hidden but stays: a stray drop must not make the browser leave the page.
    """
    _ended(ctx)
    loading = context.load_under_way() is not None
    if loading:
        _watch(ctx)
    limits = {"limit": i18n.size(upload.MAX_BYTES), "files": f"{upload.MAX_FILES:,}"}
    _drop_zone(
        key="drop_zone",
        data={
            "url": upload.prefix(), "header": upload.TOKEN_HEADER, "large": not ctx.runs, "hidden": loading,
            "reply": context.reply(), "hint": ctx.say("upload.hint", limits), "lang": ctx.lang,
            "texts": {key: i18n.raw(ctx.lang, f"upload.{key}") for key in _JS_TEXTS},
            "refusals": {key: ctx.say(f"upload.{key}", limits) for key in _REFUSALS},
        },
        on_ask_change=lambda: _asked(ctx),
        on_arrived_change=lambda: _arrived(ctx),
        on_dropped_change=lambda: context.drop_grant(),
    )  # fmt: skip


def _asked(ctx: Context) -> None:
    """The page wants to send so many files and bytes."""
    asked: Mapping[str, Any] = st.session_state["drop_zone"]["ask"] or {}
    try:
        token, given = upload.grant(ctx.store, int(asked["files"]), int(asked["bytes"]))
    except upload.Refused as refused:
        context.answer(str(asked.get("id")), None, refused.key)
        return
    context.answer(str(asked["id"]), token, None, given, str(asked["name"])[:200])


def _arrived(ctx: Context) -> None:
    """Every file of the drop is here, if the grant agrees."""
    granted = context.granted()
    if granted and granted[0].closed:
        context.set_load(Load(granted[0], ctx.store, granted[1]))


@st.fragment(run_every=0.5)
def _watch(ctx: Context) -> None:
    """How far the load is; when it has ended, the page is drawn again with the new run chosen."""
    load = context.load_under_way()
    if load is None:
        return
    if not load.start():
        st.text(ctx.say("upload.waiting", {"name": load.name}))
        return
    outcome = load.outcome()
    if outcome is None:
        _progress(ctx, load)
        return
    context.finish_load(ctx, load.name, outcome)
    st.rerun()


def _progress(ctx: Context, load: Load) -> None:
    with st.container(border=True):
        said = load.progress()
        st.text(ctx.say("upload.loading", {"name": load.name}))
        share, line = 0.0, ctx.say("upload.starting")
        if said:
            line = _stage(ctx, said)
        if said and said.total_bytes:
            share = min(1.0, said.done_bytes / said.total_bytes)
            line += " · " + ctx.say(
                "upload.of", {"done": i18n.size(said.done_bytes), "total": i18n.size(said.total_bytes)}
            )
        st.progress(share)
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.text(line)
            if st.button(ctx.say("upload.stop"), key="stop_load", type="tertiary"):
                load.stop()
                context.set_load(None)
                st.rerun()


def _stage(ctx: Context, said: Progress) -> str:
    """What the load is doing, in the visitor's language where there are words for it."""
    stage = "tables" if said.stage == "read" and said.done_bytes == said.total_bytes else said.stage
    key = f"upload.stage_{stage}"
    return ctx.say(key, {"what": said.text}) if i18n.known(key) else said.text or stage


def _ended(ctx: Context) -> None:
    """One line a capture of the last load: loaded, already there, or refused and why."""
    ended = context.last_outcome()
    if ended is None:
        return
    name, outcome = ended
    with st.container(border=True, horizontal=True, horizontal_alignment="distribute"):
        with st.container(width="stretch", gap="xxsmall"):
            for line in _lines(ctx, name, outcome):
                st.text(line)
        st.button(
            ctx.say("upload.close"), key="close_outcome", type="tertiary", on_click=lambda: context.set_outcome(None)
        )


def _lines(ctx: Context, name: str, outcome: Outcome) -> list[str]:
    lines = [ctx.say("upload.failed", {"name": name, "reason": outcome.error})] if outcome.error else []
    for run in outcome.runs:
        called = run.get("label") or name
        if run.get("run_id") is None:
            reason = (run.get("error") or {}).get("message") or run.get("reason") or ""
            lines.append(ctx.say("upload.refused", {"name": called, "reason": reason}))
        elif run.get("stored") == "exists":
            lines.append(ctx.say("upload.exists", {"name": called}))
        else:
            values = {"name": called, "events": f"{run.get('events', 0):,}", "seconds": f"{run.get('seconds', 0):.1f}"}
            lines.append(ctx.say("upload.loaded", values))
    return lines
