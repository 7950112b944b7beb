"""Deleting runs, taking that back right there, and the runs that can still be had back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import run_list
from npulens.app.team.who import Act
from npulens.app.text import wording
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs as store
from npulens.ingest.store.runs import RunInfo

_JUST = "just_deleted"
_MOST_NAMED = 3


def delete(ctx: Context, runs: Sequence[RunInfo]) -> None:
    """Moves runs to where they can be had back from; the page offers that at once."""
    gone = []
    for run in runs:
        with suppress(IngestError):  # somebody else deleted it: what was wanted is so
            store.remove(ctx.to(Act.DELETE, run.run_id), run.run_id)
            gone.append((run.run_id, run_list.name(ctx, run)))
    st.session_state[_JUST] = gone
    kept = [run for run in ctx.runs if run not in runs]
    if ctx.run in runs and kept:
        context.choose_run(kept[0].run_id)


def undo(ctx: Context) -> None:
    """What was just deleted, and the way back."""
    gone: list[tuple[str, str]] = st.session_state.get(_JUST) or []
    if not gone or not ctx.may(Act.RESTORE):
        return
    names = ", ".join(wording.plain(name) for _, name in gone[:_MOST_NAMED])
    values = {"n": len(gone), "names": names, "more": len(gone) - _MOST_NAMED}
    key = "manage.deleted_more" if len(gone) > _MOST_NAMED else "manage.deleted"
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="just_deleted"):
        st.text(ctx.say(key, values), width="stretch")
        st.button(
            ctx.say("manage.undo"), key="undo_delete", icon=":material/undo:", type="primary",
            on_click=lambda: _back(ctx, [run_id for run_id, _ in gone]),
        )  # fmt: skip
        st.button(ctx.say("upload.close"), key="close_undo", type="tertiary", on_click=_forget)


def show(ctx: Context) -> None:
    """Every run that can still be had back, with the time that is left."""
    gone = store.deleted(ctx.store) if ctx.may(Act.RESTORE) else []
    if not gone:
        return
    with st.expander(ctx.say("manage.trash", {"n": len(gone)}), icon=":material/delete_history:"):
        st.text(ctx.say("manage.trash_how"))
        for each in gone:
            with st.container(horizontal=True, vertical_alignment="center", key=f"gone_{each.run.run_id}"):
                st.text(wording.plain(run_list.name(ctx, each.run)), width="stretch")
                until = datetime.fromtimestamp(each.until, UTC)
                st.text(ctx.say("manage.until", {"when": f"{until:%Y-%m-%d %H:%M} UTC"}))
                st.button(
                    ctx.say("manage.restore"), key=f"restore_{each.run.run_id}", icon=":material/undo:",
                    on_click=_back, args=(ctx, [each.run.run_id]),
                )  # fmt: skip


def _back(ctx: Context, run_ids: Sequence[str]) -> None:
    for run_id in run_ids:
        with suppress(IngestError):  # restored or collected meanwhile: the table shows which
            context.choose_run(store.restore(ctx.to(Act.RESTORE, run_id), run_id))
    just: list[tuple[str, str]] = st.session_state.get(_JUST) or []
    st.session_state[_JUST] = [each for each in just if each[0] not in run_ids]


def _forget() -> None:
    st.session_state[_JUST] = []
