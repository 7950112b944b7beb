"""What can be done to the marked runs: open, compare, delete; and of one of them: its name, tags and note."""

from __future__ import annotations

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.runs import read, trash
from npulens.app.panels import run_list
from npulens.app.text import wording
from npulens.ingest.errors import IngestError
from npulens.ingest.store import notes
from npulens.ingest.store.notes import About
from npulens.ingest.store.runs import RunInfo

_PROBLEM = "edit_problem"


def show(ctx: Context, chosen: tuple[RunInfo, ...]) -> None:
    """The actions, then the form where one run is marked."""
    if not chosen:
        st.text(ctx.say("manage.mark"))
        return
    with st.container(horizontal=True, vertical_alignment="center", key="run_actions"):
        if len(chosen) == 1:
            _link(ctx, "overview", "manage.open", ":material/insights:", {"run": chosen[0].run_id, "lang": ctx.lang})
        _compare(ctx, chosen)
        st.button(
            ctx.say("manage.delete", {"n": len(chosen)}), key="delete_runs", icon=":material/delete:",
            help=ctx.say("manage.delete_help"), on_click=lambda: trash.delete(ctx, chosen),
        )  # fmt: skip
    if len(chosen) == 1:
        _form(ctx, chosen[0])
        read.show(ctx, chosen[0])


def _link(ctx: Context, name: str, label: str, icon: str, query: dict[str, str]) -> None:
    """A link to another page; nothing where only this page is drawn."""
    page = context.page(name)
    if page is not None:
        st.page_link(page, label=ctx.say(label), icon=icon, query_params=query)


def _compare(ctx: Context, chosen: tuple[RunInfo, ...]) -> None:
    """Two marked runs are compared, the later with the earlier."""
    if len(chosen) != 2:
        st.button(
            ctx.say("manage.compare"), key="compare_none", icon=":material/compare_arrows:", disabled=True,
            help=ctx.say("manage.compare_help"),
        )  # fmt: skip
        return
    base, head = sorted(chosen, key=lambda run: (run.loaded_at, run.run_id))
    query = {"base": base.run_id, "head": head.run_id, "lang": ctx.lang}
    _link(ctx, "compare", "manage.compare", ":material/compare_arrows:", query)
    st.text(ctx.say("manage.compare_which", {
        "base": wording.plain(run_list.name(ctx, base)), "head": wording.plain(run_list.name(ctx, head)),
    }))  # fmt: skip


def _form(ctx: Context, run: RunInfo) -> None:
    said = notes.about(ctx.store)
    about = said.get(run.run_id, About())
    known = sorted({tag for each in said.values() for tag in each.tags})
    key = f"{run.run_id}_{ctx.lang}"
    with st.form(f"edit_{key}"):
        first, second = st.columns(2)
        first.text_input(
            ctx.say("manage.label"), value=run.label or "", max_chars=notes.MOST_LABEL, key=f"label_{key}",
            placeholder=run_list.name(ctx, run), help=ctx.say("manage.label_help"),
        )  # fmt: skip
        second.multiselect(
            ctx.say("manage.tags"), known, default=list(about.tags), key=f"tags_{key}", accept_new_options=True,
            max_selections=notes.MOST_TAGS, placeholder=ctx.say("manage.tags_placeholder"),
            help=ctx.say("manage.tags_help"),
        )  # fmt: skip
        st.text_area(
            ctx.say("manage.note"), value=about.note, max_chars=notes.MOST_NOTE, key=f"note_{key}", height=110,
            placeholder=ctx.say("manage.note_placeholder"),
        )  # fmt: skip
        st.form_submit_button(
            ctx.say("manage.save"), icon=":material/save:", key=f"save_{key}", on_click=lambda: _save(ctx, run, key)
        )
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        st.error(ctx.say(f"manage.problem_{problem}"), icon=":material/error:")


def _save(ctx: Context, run: RunInfo, key: str) -> None:
    """Keeps what the form says; a name that is taken keeps the rest."""
    state = st.session_state
    try:
        notes.set_tags(ctx.store, run.run_id, state[f"tags_{key}"])
        notes.set_note(ctx.store, run.run_id, state[f"note_{key}"] or "")
        notes.rename(ctx.store, run.run_id, state[f"label_{key}"] or "")
    except IngestError as error:
        state[_PROBLEM] = error.kind
