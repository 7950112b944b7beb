"""What was recorded: the matrix, and below it what is missing with the setting that records it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import streamlit as st

from npulens.app import context
from npulens.app.charts import recorded as chart
from npulens.app.context import Context
from npulens.app.text import i18n, recording
from npulens.ingest.store import runs
from npulens.ingest.store.runs import CoverageRow, RunInfo


def show(ctx: Context, run: RunInfo) -> None:
    """The panel of the chosen run."""
    st.header(ctx.say("recorded.title"), anchor="recorded")
    every = context.coverage(ctx)
    shown = set(chart.tables(every))
    rows = [row for row in every if row.table in shown]
    missing = run.missing_ranks or ()
    names = chart.tables(rows)
    states = {name: {row.status for row in rows if row.table == name} for name in names}
    st.text(ctx.say("recorded.summary", {
        "n": len(names), "recorded": sum(found == {"recorded"} for found in states.values()),
        "absent": sum(found == {"absent"} for found in states.values()),
    }))  # fmt: skip
    matrix, gaps = st.columns([2, 3], gap="medium")
    with matrix:
        picture = context.once(chart.figure, rows, missing, ctx.say, context.ink())
        st.plotly_chart(picture, key=f"recorded_{run.run_id}_{ctx.lang}",
                        config={"displayModeBar": False}, alt=ctx.say("recorded.title"))  # fmt: skip
    with gaps:
        if missing:
            values = {"n": len(missing), "ranks": i18n.ranges(missing)}
            st.text(ctx.say("recorded.ranks_missing", values))
        _notices(ctx, run)
        _gaps(ctx, rows, names)


def _notices(ctx: Context, run: RunInfo) -> None:
    """What was noticed while it was recorded: a profiler of the job's own, unlike steps, a limit."""
    found = list(recording.noticed(runs.manifest(ctx.store, run.run_id), ctx.lang))
    if not found:
        return
    with st.container(key="notices", gap=None):
        st.text(ctx.say("recorded.notices"))
        for text in found:
            st.text(f"• {text}")


def _gaps(ctx: Context, rows: Sequence[CoverageRow], names: Sequence[str]) -> None:
    """Everything not fully recorded, then what else the readers had to say of what they did record."""
    short = [row for row in rows if row.status != "recorded"]
    st.text(ctx.say("recorded.gaps" if short else "recorded.no_gaps"))
    _list(ctx, short, names, "gap")
    noted = [row for row in rows if row.status == "recorded" and row.reason]
    if noted:
        st.text(ctx.say("recorded.notes"))
        _list(ctx, noted, names, "note")


def _list(ctx: Context, rows: Sequence[CoverageRow], names: Sequence[str], kind: str) -> None:
    """Reasons with their remedies: what a setting would record first, equal reasons on one line."""
    found: dict[tuple[bool, str, str, str], list[CoverageRow]] = {}
    for row in rows:
        pattern = re.sub(r"\d+", "#", row.reason or "")  # reasons that differ in numbers only share a line
        found.setdefault((not row.collect_with, pattern, row.collect_with or "", row.status), []).append(row)
    for i, ((_, _, setting, status), alike) in enumerate(sorted(found.items(), key=lambda item: _first(item, names))):
        what = ctx.say("shell.comma").join(dict.fromkeys(chart.title(row.table, ctx.say) for row in alike))
        ranks = sorted({row.rank for row in alike})
        where = ctx.say("recorded.rank", {"n": len(ranks), "ranks": i18n.ranges(ranks)})
        with st.container(key=f"gap_{kind}_{i}", gap=None):
            st.text(f"{chart.GLYPH.get(status, '')} {what} · {where}")
            st.text(_reason(ctx, alike))
            if setting:
                st.text(ctx.say("recorded.record_with", {"setting": setting}))


def _first(item: tuple[tuple[bool, str, str, str], list[CoverageRow]], names: Sequence[str]) -> tuple[bool, int]:
    """What a setting would record comes first, then in the order of the matrix."""
    (without, *_), alike = item
    return without, names.index(alike[0].table)


def _reason(ctx: Context, alike: Sequence[CoverageRow]) -> str:
    """The reason the ranks share; where its numbers differ, that of the first rank as the example."""
    reasons = {row.reason or ctx.say("recorded.reason_unsaid") for row in alike}
    if len(reasons) == 1:
        return reasons.pop()
    return ctx.say("recorded.for_example", {"rank": alike[0].rank, "reason": alike[0].reason})
