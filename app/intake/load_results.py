"""How a load ended, one line a capture: loaded, there already, or refused - then what it is and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from npulens.app.context import Context
from npulens.app.intake.load_queue import Outcome
from npulens.app.text import i18n, wording
from npulens.ingest.messages import render

_MOST_LINES = 12


def show(ctx: Context, name: str, outcome: Outcome) -> None:
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
