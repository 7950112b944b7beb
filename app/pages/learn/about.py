"""What this program is, what it does not do, and how far the chosen run can be believed."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import learned
from npulens.app import context, docs_of
from npulens.app.context import Context
from npulens.app.panels import run_list
from npulens.app.text import wording
from npulens.ingest.store import runs


def show(ctx: Context) -> None:
    """About the program, then about the chosen run."""
    with st.container(key="prose", gap="xsmall"):
        st.text(ctx.say("learn.about_what", {"version": docs_of.version()}))
        st.text(ctx.say("learn.about_data"))
        st.text(ctx.say("learn.about_store", {"path": wording.plain(str(ctx.store))}))
        st.text(ctx.say("learn.about_license"))
    st.subheader(ctx.say("learn.not"), anchor=False)
    for name in ("change", "guess", "promise", "npu"):
        st.text("· " + ctx.say(f"learn.not_{name}"))
    if ctx.run is None:
        return
    st.subheader(ctx.say("learn.level"), anchor=False)
    found = context.measured(ctx, learned.level, _files(ctx))
    st.text(wording.plain(run_list.name(ctx, ctx.run)))
    st.text(ctx.say(f"learn.level_{found.level}"))
    if found.device:
        st.text(ctx.say("learn.level_device", {"name": wording.plain(found.device)}))


def _files(ctx: Context) -> tuple[str, ...]:
    """The files that the chosen run was read from, as its manifest names them."""
    pieces = runs.manifest(ctx.store, ctx.run.run_id).get("pieces", []) if ctx.run else []
    return tuple(f"{piece.get('path', '')}/{name}" for piece in pieces for name in piece.get("files", {}))
