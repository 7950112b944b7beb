"""The runs of the store as a table; picking a row picks the run."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from app import context, i18n
from app.context import Context
from ingest.store import RunInfo

_ROW_PX, _MOST_ROWS = 35, 7


def name(ctx: Context, run: RunInfo) -> str:
    """What a run is called: its label, else the beginning of its id."""
    return run.label or ctx.say("runs.unnamed", {"id": run.run_id[:12]})


def formats(ctx: Context, run: RunInfo) -> str:
    """The formats of a run in words."""
    known = [f"shell.format_{fmt}" for fmt in run.formats]
    return ctx.say("runs.and").join(
        ctx.say(key) if i18n.known(key) else fmt for key, fmt in zip(known, run.formats, strict=True)
    )


def show(ctx: Context) -> None:
    """The table, newest first, the chosen run marked."""
    if ctx.asked_for:
        st.text(ctx.say("runs.unknown_run", {"id": ctx.asked_for}))
    index = next((i for i, run in enumerate(ctx.runs) if run == ctx.run), 0)
    key = f"runs_{ctx.lang}_{hash(tuple(run.run_id for run in ctx.runs))}_{index}"
    st.dataframe(
        _frame(ctx), hide_index=True, key=key, column_config=_columns(ctx), alt=ctx.say("runs.pick"),
        on_select=lambda: _picked(ctx, key, index), selection_mode=("single-row-required", "single-cell"),
        selection_default={"selection": {"rows": [index]}},
        row_height=_ROW_PX, height=_ROW_PX * (min(len(ctx.runs), _MOST_ROWS) + 1) + 3,
    )  # fmt: skip


def _picked(ctx: Context, key: str, before: int) -> None:
    """A click on the mark of a row or on any of its cells picks its run."""
    selection = st.session_state[key]["selection"]
    clicked = [*selection["rows"], *(row for row, _ in selection["cells"])]
    context.choose_run(ctx.runs[next((row for row in clicked if row != before), before)].run_id)


def _frame(ctx: Context) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "label": _cell(name(ctx, run)),
                "status": ctx.say(f"runs.{run.status}"),
                "ranks": _ranks(ctx, run),
                "missing": _missing(ctx, run),
                "wall": None if run.dur_ns is None else run.dur_ns / 1e6,
                "steps": run.steps,
                "events": run.events,
                "format": formats(ctx, run),
                "loaded": when(run.loaded_at),
                "reason": _cell(run.reason or ""),
                "id": run.run_id,
            }
            for run in ctx.runs
        ]
    )


def _columns(ctx: Context) -> dict[str, ColumnConfig]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "label": text(ctx.say("runs.label"), width="medium", pinned=True),
        "status": text(ctx.say("runs.status"), width="small"),
        "ranks": text(ctx.say("runs.ranks")),
        "missing": text(ctx.say("runs.missing")),
        "wall": number(ctx.say("runs.wall"), format="%,.1f ms"),
        "steps": number(ctx.say("runs.steps"), width="small"),
        "events": number(ctx.say("runs.events"), format="localized"),
        "format": text(ctx.say("runs.format")),
        "loaded": st.column_config.DatetimeColumn(ctx.say("runs.loaded"), format="YYYY-MM-DD HH:mm", timezone="UTC"),
        "reason": text(ctx.say("runs.reason"), width="large"),
        "id": text(ctx.say("runs.id"), width="small"),
    }


def _ranks(ctx: Context, run: RunInfo) -> str:
    if run.world_size is None:
        return ctx.say("runs.world_unknown", {"have": len(run.ranks)})
    return ctx.say("runs.of", {"have": len(run.ranks), "world": run.world_size})


def _missing(ctx: Context, run: RunInfo) -> str:
    if run.missing_ranks is None:
        return ctx.say("runs.unknown")
    return i18n.ranges(run.missing_ranks) or ctx.say("runs.none")


def when(text: str) -> datetime | None:
    """The moment a run was loaded."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None


def _cell(text: str) -> str:
    """Text that a spreadsheet will not run as a formula when the table is downloaded."""
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
