"""What can be done to the marked runs: open, compare, delete; and of one of them: its name, tags and note."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.app import context
from npulens.app.charts import recorded
from npulens.app.context import Context
from npulens.app.pages.runs import trash
from npulens.app.panels import cells, run_list
from npulens.app.team.who import Act
from npulens.app.text import i18n, wording
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import joined, render
from npulens.ingest.store import notes
from npulens.ingest.store.account import Account, RankRead, account
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
            _link(ctx, "workspace", "manage.open", ":material/insights:", {"run": chosen[0].run_id, "lang": ctx.lang})
        _compare(ctx, chosen)
        if ctx.may(Act.DELETE):
            st.button(
                ctx.say("manage.delete", {"n": len(chosen)}), key="delete_runs", icon=":material/delete:",
                help=ctx.say("manage.delete_help"), on_click=lambda: trash.delete(ctx, chosen),
            )  # fmt: skip
    if len(chosen) == 1:
        if ctx.may(Act.SAY):
            _form(ctx, chosen[0])
        show_read(ctx, chosen[0])


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
        place = ctx.to(Act.SAY, run.run_id)
        notes.set_tags(place, run.run_id, state[f"tags_{key}"])
        notes.set_note(place, run.run_id, state[f"note_{key}"] or "")
        notes.rename(place, run.run_id, state[f"label_{key}"] or "")
    except IngestError as error:
        state[_PROBLEM] = error.kind


# How the marked run was read: what was kept and lost of each rank and table, from which files, in what time.
_MOST_FILES = 200


def show_read(ctx: Context, run: RunInfo) -> None:
    """Whether it is whole, then ranks, tables and files."""
    held = account(ctx.store, run.run_id)
    with st.expander(ctx.say("read.title"), expanded=run.status == "partial"):
        if run.status == "partial":
            st.text("◐ " + ctx.say("read.partial", {"reason": render(run.reason, ctx.lang)}))
        st.text(ctx.say("read.baseline" if run.baseline else "read.no_baseline"))
        if run.redacted:
            st.text(ctx.say("read.redacted"))
        _ranks(ctx, run, held)
        _tables(ctx, run, held)
        _files(ctx, held)


def _ranks(ctx: Context, run: RunInfo, held: Account) -> None:
    names = ("rank", "state", "formats", "files", "size", "seconds", "kept", "dropped", "versions", "reason")
    frame = pd.DataFrame([_row(ctx, each) for each in held.ranks], columns=list(names))
    heads = {name: ctx.say(f"read.col_{name}") for name in names}
    st.subheader(ctx.say("read.ranks"), anchor=False)
    cells.show(frame, heads, f"read_ranks_{run.run_id}_{ctx.lang}", ctx.say("read.ranks"),
               right=("size", "seconds", "kept", "dropped"))  # fmt: skip


def _row(ctx: Context, each: RankRead) -> dict[str, object]:
    known = [(fmt, f"shell.format_{fmt}") for fmt in each.formats]
    return {
        "rank": each.rank, "state": ctx.say("runs.partial" if each.reasons else "runs.complete"),
        "formats": ctx.say("runs.and").join(ctx.say(key) if i18n.known(key) else fmt for fmt, key in known),
        "files": len(each.files), "size": i18n.size(each.bytes), "seconds": f"{each.seconds:.1f} s",
        "kept": f"{each.kept:,}", "dropped": f"{each.dropped:,}",
        "versions": ", ".join(f"{name} {value}" for name, value in each.versions.items()),
        "reason": render(joined(each.reasons), ctx.lang),
    }  # fmt: skip


def _tables(ctx: Context, run: RunInfo, held: Account) -> None:
    """Every rank and table; those that lost something first."""
    order = {"partial": 0, "absent": 1, "recorded": 2}
    rows = sorted(held.tables, key=lambda row: (order.get(row.status, 3), row.rank))
    names = ("rank", "table", "state", "kept", "dropped", "expected", "reason", "remedy")
    frame = pd.DataFrame([{
        "rank": row.rank, "table": recorded.title(row.table, ctx.say), "kept": f"{row.rows:,}",
        "state": f"{recorded.GLYPH.get(row.status, '')} {ctx.say(f'recorded.state_{row.status}')}",
        "dropped": f"{row.dropped:,}", "expected": "" if row.expected is None else f"{row.expected:,}",
        "reason": render(row.reason, ctx.lang), "remedy": render(row.collect_with, ctx.lang),
    } for row in rows], columns=list(names))  # fmt: skip
    heads = {name: ctx.say(f"read.col_{name}") for name in names}
    st.subheader(ctx.say("read.tables"), anchor=False)
    cells.show(frame, heads, f"read_tables_{run.run_id}_{ctx.lang}", ctx.say("read.tables"),
               right=("kept", "dropped", "expected"))  # fmt: skip


def _files(ctx: Context, held: Account) -> None:
    """The files by rank; names of strangers, so plain text."""
    st.subheader(ctx.say("read.files"), anchor=False)
    lines = [
        f"rank {each.rank}  " + wording.plain("/".join(filter(None, (each.path, name))))
        for each in held.ranks for name in each.files
    ]  # fmt: skip
    more = len(lines) - _MOST_FILES
    st.code("\n".join(lines[:_MOST_FILES]), language=None)
    if more > 0:
        st.text(ctx.say("read.more_files", {"n": more}))
