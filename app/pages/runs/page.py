"""Managing runs: bring captures in, find, name, note, tag, compare, delete and have back."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from npulens.app import searching
from npulens.app.context import Context
from npulens.app.intake import invite_panel, visitor_drops
from npulens.app.pages.runs import edit, trash
from npulens.app.panels import cells, pick_rows, run_list, store_empty
from npulens.app.text import i18n, wording
from npulens.ingest.store import notes
from npulens.ingest.store.notes import About
from npulens.ingest.store.runs import RunInfo

TITLE = "runs.title"
ICON = ":material/inventory_2:"
ORDER = 80
GROUP = "data"


def render(ctx: Context) -> None:
    """What was just deleted, the table with what can be done to a run, and what can be had back."""
    st.header(ctx.say("runs.title"), anchor=False)
    trash.undo(ctx)
    if ctx.runs:
        chosen = show_table(ctx)
        edit.show(ctx, chosen)
    else:
        invite_panel.show(ctx)
        if not visitor_drops.visit().busy:
            store_empty.show(ctx, drop=True)
    trash.show(ctx)


# Every run of the store in a table that can be searched. The rows that are marked are the runs to act on.
_ROW_PX, _MOST_ROWS = 35, 12
_NOTHING = About()
_NOTE_CHARS = 160


def show_table(ctx: Context) -> tuple[RunInfo, ...]:
    """The search field and the table; the runs that are marked, newest first."""
    said = notes.about(ctx.store)
    find, invitation = st.columns([4, 1.6], vertical_alignment="bottom")
    with invitation:
        invite_panel.show(ctx)
    query = find.text_input(
        ctx.say("manage.search"), key="run_search", type="search", icon=":material/search:",
        placeholder=ctx.say("manage.search_example"), help=ctx.say("manage.search_help"),
    )  # fmt: skip
    shown = searching.found(
        ctx.runs, said, query or "", lambda run: (run_list.name(ctx, run), run_list.formats(ctx, run))
    )
    _arrivals(ctx)
    st.text(ctx.say("manage.count" if query else "manage.count_all", {"shown": len(shown), "n": len(ctx.runs)}))
    if not shown:
        st.text(ctx.say("manage.none_found"))
        return ()
    rows = _frame(ctx, shown, said)
    rows, columns = pick_rows.in_units(rows, {name: _columns(ctx)[name] for name in rows.columns})
    state = st.dataframe(
        rows, hide_index=True, key=f"manage_{ctx.lang}_{hash(tuple(r.run_id for r in shown))}", column_config=columns,
        alt=ctx.say("manage.table"), on_select="rerun", selection_mode="multi-row", placeholder=cells.ABSENT,
        row_height=_ROW_PX, height=_ROW_PX * (min(len(shown), _MOST_ROWS) + 1) + 3,
    )  # fmt: skip
    marked = state["selection"]["rows"]
    return tuple(shown[row] for row in sorted(marked) if row < len(shown))


@st.fragment(run_every=5)
def _arrivals(ctx: Context) -> None:
    """Says when the store holds other runs than the table shows: a colleague, curl or a watched folder brought one."""
    here = {run.run_id for run in ctx.runs}
    now = {entry.name for entry in ctx.store.iterdir() if not entry.name.startswith(".") and entry.is_dir()}
    if now == here:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(ctx.say("manage.changed", {"new": len(now - here), "gone": len(here - now)}))
        if st.button(ctx.say("manage.refresh"), key="refresh_runs", type="tertiary", icon=":material/refresh:"):
            st.rerun()


def _frame(ctx: Context, runs: tuple[RunInfo, ...], said: Mapping[str, About]) -> pd.DataFrame:
    rows = []
    for run in runs:
        told = said.get(run.run_id, _NOTHING)
        rows.append(
            {
                "label": run_list.name(ctx, run),
                "tags": ", ".join(told.tags),
                "note": wording.plain(told.note[:_NOTE_CHARS]),
                "loaded": run_list.when(run.loaded_at),
                "status": ctx.say(f"runs.{run.status}"),
                "origin": run_list.origin(ctx, run),
                "ranks": len(run.ranks),
                "world": i18n.count(run.world_size),
                "wall": None if run.dur_ns is None else run.dur_ns / 1e6,
                "steps": run.steps,
                "events": run.events,
                "format": run_list.formats(ctx, run),
                "size": run.bytes / 1e6,
                "id": run.run_id,
            }
        )
    frame = cells.safe(pd.DataFrame(rows))
    empty = [name for name in ("tags", "note", "origin") if not frame[name].astype(bool).any()]
    frame["origin"] = frame["origin"].replace("", ctx.say("runs.unknown"))
    return frame.drop(columns=empty)


def _columns(ctx: Context) -> dict[str, ColumnConfig]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    when = st.column_config.DatetimeColumn
    return {
        "label": text(ctx.say("runs.label"), width="medium"),
        "tags": text(ctx.say("manage.tags"), width="small"),
        "note": text(ctx.say("manage.note"), width="medium"),
        "loaded": when(ctx.say("runs.loaded"), format="YYYY-MM-DD HH:mm", timezone="UTC"),
        "status": text(ctx.say("runs.status"), width="small"),
        "origin": text(ctx.say("runs.origin")),
        "ranks": number(ctx.say("manage.ranks"), width="small", format="localized", help=ctx.say("manage.ranks_help")),
        "world": text(ctx.say("manage.world"), width="small", alignment="right", help=ctx.say("manage.world_help")),
        "wall": pick_rows.milli(ctx.say("runs.wall"), ctx.say("manage.wall_help")),
        "steps": number(ctx.say("runs.steps"), width="small", format="localized"),
        "events": number(ctx.say("runs.events"), format="localized"),
        "format": text(ctx.say("runs.format")),
        "size": number(ctx.say("manage.size"), format=f"{cells.FOUR} MB", help=ctx.say("manage.size_help")),
        "id": text(ctx.say("runs.id"), width="small"),
    }
