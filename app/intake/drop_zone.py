"""Where a capture is dropped: two buttons, and the whole page as a target.

The page asks for a grant, sends every file through app/intake/http_upload.py, and says when it is done. The component
only moves files: every decision is made here. What becomes of them is shown by tray.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from npulens.app.context import Context
from npulens.app.intake import drop_folders, http_upload, visitor_drops
from npulens.app.intake.invitations import TOKEN_HEADER
from npulens.app.team import config, keeping, who
from npulens.app.team.who import Act, Denied
from npulens.app.text import i18n

_HERE = Path(__file__).parent
_JS_TEXTS = (
    "title", "files", "directory", "cancel", "reading", "sending", "sent", "cancelled", "unreachable", "queued", "drop",
)  # fmt: skip
_REFUSALS = (
    "nothing", "too_many_files", "too_large", "disk_full", "bad_name", "name_taken", "bad_token", "no_length",
    "length_lies", "more_than_granted", "incomplete", "interrupted", "ticket_over", "ticket_used", "project_full",
)  # fmt: skip

_drop_zone = st.components.v2.component(
    "npulens_drop_zone",
    css=(_HERE / "drop_zone.css").read_text("utf-8"),
    js=(_HERE / "drop_zone.js").read_text("utf-8"),
)


def show(ctx: Context, large: bool = False, ticket: str | None = None) -> None:
    """The zone: large where there is nothing else to see, else two buttons in a row.

    With the token of a ticket the visitor is a guest: what is dropped counts against it.
    """
    visit = visitor_drops.visit()
    if ticket is None and not ctx.may(Act.BRING):
        return
    limits = {"limit": i18n.size(drop_folders.MAX_BYTES), "files": f"{drop_folders.MAX_FILES:,}"}
    _drop_zone(
        key="drop_zone", width="stretch" if large else "content",
        data={
            "url": http_upload.prefix(), "header": TOKEN_HEADER, "large": large, "loading": bool(visit.loads),
            "busy": visit.busy, "reply": _marked(ctx, visit.reply),
            "hint": ctx.say("upload.hint", limits), "lang": ctx.lang,
            "texts": {key: i18n.raw(ctx.lang, f"upload.{key}") for key in _JS_TEXTS},
            "refusals": {key: ctx.say(f"upload.{key}", limits) for key in _REFUSALS},
        },
        on_ask_change=lambda: _ask(ctx, visit, _said("ask") or {}, ticket),
        on_arrived_change=lambda: _arrived(ctx, visit),
        on_dropped_change=lambda: visit.drop(ctx.store, str(_said("dropped"))),
    )  # fmt: skip


def _ask(ctx: Context, visit: visitor_drops.Visit, asked: Mapping[str, Any], ticket: str | None) -> None:
    """A drop begins, where the visitor may bring something, and the project has room for it."""
    name = str(asked.get("name"))[:200]
    try:
        place = ctx.store if ticket is not None else ctx.to(Act.BRING, name)
        full = not keeping.room(config.current().projects[ctx.project], int(asked.get("bytes") or 0))
    except (Denied, ValueError, TypeError):
        visit.refuse(str(asked.get("id")), "bad_token")
        return
    if full:
        visit.refuse(str(asked.get("id")), "project_full")
    else:
        visit.ask(place, asked, ticket, ctx.visitor.name)


def _marked(ctx: Context, reply: Mapping[str, str | None] | None) -> Mapping[str, str | None] | None:
    """An answer whose token says which project it is of."""
    token = (reply or {}).get("token")
    return {**(reply or {}), "token": who.marked(ctx.project, token)} if token else reply


def _arrived(ctx: Context, visit: visitor_drops.Visit) -> None:
    visit.arrived(ctx.store)


def _said(trigger: str) -> Any:
    """What the drop zone says, read in a way in which Streamlit cannot end the script: a wish would be lost."""
    return st.session_state.to_dict()["drop_zone"][trigger]
