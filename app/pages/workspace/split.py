"""Where the time goes: one headline, the bars, the profiler's own split beside ours, and all numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from npulens.analysis.split import Row
from npulens.app import context
from npulens.app.charts import breakdown as chart
from npulens.app.charts.parts import PARTS, lengths
from npulens.app.context import Context
from npulens.app.text import i18n

_MOST_BARS = 40
_FEW_BARS = 12  # up to here the profiler's own bars are shown without being asked for
_NUMBERS = (
    ("start", "start_ns"), ("dur", "dur_ns"), ("computing", "computing_ns"),
    ("communication", "communication_not_overlapped_ns"), ("copy", "copy_not_overlapped_ns"),
    ("unknown", "unknown_not_overlapped_ns"), ("idle", "idle_ns"), ("communication_all", "communication_ns"),
    ("overlapped", "overlapped_ns"), ("copy_all", "copy_ns"), ("unknown_all", "unknown_ns"),
    ("residual", "residual_ns"),
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What the visitor wants to see."""

    rows: list[Row]
    as_share: bool
    profiler: bool


def show(ctx: Context) -> None:
    """The panel of the chosen run."""
    st.header(ctx.say("breakdown.title"), anchor="time")
    rows = context.breakdown(ctx)
    drawable = [row for row in rows if row.computing_ns is not None and row.dur_ns]
    if not drawable:
        st.info(ctx.say("breakdown.nothing"), icon=":material/info:")
        return
    _headline(ctx, [row for row in drawable if row.step is None] or drawable)
    choice = _choose(ctx, drawable)
    picture = context.once(chart.figure, choice.rows, ctx.say, choice.as_share, choice.profiler, context.ink())
    st.plotly_chart(picture, key=f"breakdown_{ctx.run.run_id if ctx.run else ''}_{ctx.lang}",
                    config={"displayModeBar": False, "scrollZoom": False}, alt=ctx.say("breakdown.title"))  # fmt: skip
    _unsplit(ctx, rows)
    _untold(ctx, rows)
    _cut_short(ctx)
    _beside(ctx, choice)
    with st.expander(ctx.say("breakdown.numbers")):
        _table(_numbers(ctx, rows))


def _headline(ctx: Context, rows: Sequence[Row]) -> None:
    """The one thing to take away, as a mean over ranks: the largest part, and how much communication is hidden."""
    count = len(rows)
    parts = [lengths(row) for row in rows]
    means = {part.key: sum(held.get(part.key, 0) for held in parts) // count for part in PARTS}
    unsplit, whole = means.pop("unsplit"), sum(row.dur_ns or 0 for row in rows) // count
    largest = "computing" if unsplit else max(means, key=lambda key: means[key])
    lacking = [part for part in ("communication", "copy") if any(getattr(row, f"{part}_ns") is None for row in rows)]
    text = ctx.say("breakdown.mean", {"n": len({row.rank for row in rows})})
    headline = "headline_unsplit" if unsplit else "headline_idle" if largest == "idle" else "headline"
    text += ctx.say(f"breakdown.{headline}", {
        "part": ctx.say(f"breakdown.{largest}"), "length": i18n.duration(means[largest]), "whole": i18n.duration(whole),
        "share": i18n.share(means[largest], whole),
        "parts": ctx.say("shell.comma").join(ctx.say(f"breakdown.lack_{part}") for part in lacking),
    })  # fmt: skip
    total, hidden = (
        sum(getattr(row, field) or 0 for row in rows) // count for field in ("communication_ns", "overlapped_ns")
    )
    if total and not unsplit:
        values = {"total": i18n.duration(total), "hidden": i18n.duration(hidden), "share": i18n.share(hidden, total)}
        text = i18n.joined(ctx.lang, (text, ctx.say("breakdown.hidden", values)))
    st.text(text)


def _choose(ctx: Context, rows: Sequence[Row]) -> Choice:
    """The controls; each appears only where it changes something."""
    steps = [row for row in rows if row.step is not None]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        share = _switch(ctx, "as", ["time", "share"], "time")
        few = len(steps) <= _FEW_BARS
        over = _switch(ctx, "over", ["steps", "all"], "steps" if few else "all") if steps else "all"
        shown = _narrow(ctx, steps) if over == "steps" else [row for row in rows if row.step is None]
        few = len(shown) <= _FEW_BARS
        profiler = any(chart.differs(row) for row in shown) and st.toggle(
            ctx.say("breakdown.beside"), value=few, key=f"breakdown_profiler_{few}"
        )
    if len(shown) > _MOST_BARS:
        st.caption(ctx.say("breakdown.cut", {"shown": _MOST_BARS, "n": len(shown)}))
    return Choice(shown[:_MOST_BARS], share == "share", profiler)


def _switch(ctx: Context, name: str, options: Sequence[str], default: str) -> str:
    picked = st.segmented_control(
        ctx.say(f"breakdown.{name}"), options, default=default, required=True, key=f"breakdown_{name}_{default}",
        format_func=lambda option: ctx.say(f"breakdown.{name}_{option}"),
    )  # fmt: skip
    return picked or default


def _narrow(ctx: Context, rows: list[Row]) -> list[Row]:
    """Where there are more steps than one looks at: choose ranks, then a range of steps."""
    run = ctx.run.run_id if ctx.run else ""
    ranks = sorted({row.rank for row in rows})
    if len(rows) > _MOST_BARS and len(ranks) > 1:
        ranks = st.multiselect(ctx.say("breakdown.ranks"), ranks, key=f"breakdown_ranks_{run}", width=320) or ranks
        rows = [row for row in rows if row.rank in ranks]
    steps = sorted({row.step for row in rows if row.step is not None})
    if len(rows) > _MOST_BARS and len(steps) > 1:
        fitting = max(2, _MOST_BARS // len(ranks))
        span = (steps[0], steps[min(len(steps), fitting) - 1])
        first, last = st.select_slider(
            ctx.say("breakdown.steps_from"), steps, span, key=f"breakdown_steps_{run}", width=320
        )
        rows = [row for row in rows if row.step is not None and first <= row.step <= last]
    return rows


def _unsplit(ctx: Context, rows: Sequence[Row]) -> None:
    """Ranks that are not in the chart say why."""
    dark = {row.rank for row in rows if row.step is None and row.computing_ns is None}
    if dark:
        st.text(ctx.say("breakdown.not_split", {"ranks": i18n.ranges(dark)}))


def _untold(ctx: Context, rows: Sequence[Row]) -> None:
    """Ranks whose communication is somewhere in what is drawn, and what nobody knows."""
    hidden = {row.rank for row in rows if row.communication_ns is None and row.idle_ns is not None}
    if hidden:
        st.text(ctx.say("breakdown.untold", {"ranks": i18n.ranges(hidden)}))
    if any(row.unknown_ns for row in rows):
        st.text(ctx.say("breakdown.unknown_note"))


def _cut_short(ctx: Context) -> None:
    """Where events are missing, a gap is not proof of idleness."""
    for row in context.coverage(ctx):
        if row.table == "span" and row.status == "partial":
            st.text("◐ " + ctx.say("breakdown.cut_short", {"ranks": row.rank, "reason": row.reason}))


def _beside(ctx: Context, choice: Choice) -> None:
    """Both splits where they differ, and why they do."""
    compared = [row for row in choice.rows if row.profiler is not None]
    differing = [row for row in compared if chart.differs(row)]
    if compared and not differing:
        st.caption(ctx.say("breakdown.same"))
    if not differing or not choice.profiler:
        return
    st.caption(ctx.say("breakdown.differ_note", {"n": len(differing)}))
    with st.expander(ctx.say("breakdown.differ")):
        st.text(ctx.say("breakdown.differ_why"))
        for definition in sorted({row.profiler.free_definition or "" for row in differing if row.profiler}):
            key = f"breakdown.free_{definition.replace(' ', '_')}"
            if i18n.known(key):
                st.text(ctx.say("breakdown.free_is", {"definition": ctx.say(key)}))
        _table(_differences(ctx, differing))


def _table(frame: pd.DataFrame) -> None:
    """Numbers are text here, so that no digit is lost; they are set flush right like numbers."""
    right = {name: st.column_config.TextColumn(alignment="right") for name in frame.columns}
    st.dataframe(frame, hide_index=True, column_config=right)


def _ms(value: int | None) -> str | None:
    return None if value is None else i18n.exact(value).removesuffix(" ms")


def _differences(ctx: Context, rows: Sequence[Row]) -> pd.DataFrame:
    head = [ctx.say(f"breakdown.col_{name}") for name in ("rank", "step", "part", "ours", "theirs", "delta")]
    lines = [
        (row.rank, _step(ctx, row), ctx.say(f"breakdown.{part}"), _ms(ours), _ms(theirs),
         None if ours is None or theirs is None else _ms(ours - theirs))
        for row in rows for part, ours, theirs in chart.beside(row)
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=head)


def _numbers(ctx: Context, rows: Sequence[Row]) -> pd.DataFrame:
    head = [ctx.say("breakdown.col_rank"), ctx.say("breakdown.col_step")]
    head += [ctx.say(f"breakdown.col_{name}") for name, _ in _NUMBERS]
    return pd.DataFrame(
        [(row.rank, _step(ctx, row), *(_ms(getattr(row, field)) for _, field in _NUMBERS)) for row in rows],
        columns=head,
    )


def _step(ctx: Context, row: Row) -> str:
    return ctx.say("breakdown.whole") if row.step is None else str(row.step)
