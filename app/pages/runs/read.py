"""How the marked run was read: what was kept and lost of each rank and table, from which files, in what time."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.app.charts import recorded
from npulens.app.context import Context
from npulens.app.panels import cells
from npulens.app.text import i18n, wording
from npulens.ingest.messages import joined, render
from npulens.ingest.store.account import Account, RankRead, account
from npulens.ingest.store.runs import RunInfo

_MOST_FILES = 200


def show(ctx: Context, run: RunInfo) -> None:
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
