"""What each rank recorded: a matrix of tables and ranks, neighbours that recorded the same drawn as one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import plotly.graph_objects as go

from npulens.app.charts import style
from npulens.app.charts.breakdown import Say
from npulens.app.text import i18n
from npulens.ingest.store.runs import CoverageRow

STATES = ("recorded", "partial", "absent", "missing")
GLYPH = {"recorded": "●", "partial": "◐", "absent": "–", "missing": ""}
_COLOURS = (style.GOOD, style.HALF, style.FAINT, "rgba(0,0,0,0)")
_MERGE_FROM = 9  # up to this many ranks every rank has its own column
_COUNTS_TO = 5  # with more columns there is no room for row counts
ORDER = (
    "step", "span", "track", "kernel", "host_op", "link", "comm", "comm_link", "parallel_group", "transfer", "pmu",
    "l2_cache", "sample", "memory_sample", "memory_event", "stack", "profiler_step", "summary", "clock", "arg",
    "request", "request_event", "iteration", "member", "serving_sample", "stage", "clock_join",
)  # fmt: skip
#: What only a serving engine or a job with rollouts writes.
_SERVING = ORDER[-7:]


@dataclass(frozen=True)
class Column:
    """Neighbouring ranks with the same coverage; ``cells`` is None where they were not captured."""

    ranks: tuple[int, ...]
    cells: Mapping[str, CoverageRow] | None


def tables(rows: Sequence[CoverageRow]) -> list[str]:
    """The tables that coverage speaks of, the ones people ask for first on top; serving's only where it has any."""
    served = any(row.table in _SERVING and row.status != "absent" for row in rows)
    present = {row.table for row in rows if served or row.table not in _SERVING}
    return [name for name in ORDER if name in present] + sorted(present - set(ORDER))


def columns(rows: Sequence[CoverageRow], missing: Sequence[int]) -> list[Column]:
    """One column a rank; with many ranks, equal neighbours share one. Ranks not captured are always shared."""
    cells: dict[int, dict[str, CoverageRow]] = {}
    for row in rows:
        cells.setdefault(row.rank, {})[row.table] = row
    apart = len(cells) <= _MERGE_FROM

    def alike(rank: int) -> object:
        held = cells.get(rank)
        return None if held is None else rank if apart else tuple(sorted((t, r.status) for t, r in held.items()))

    everyone = sorted({*cells, *missing})
    return [
        Column(tuple(group), cells.get(group[0]))
        for group in (list(found) for _, found in groupby(everyone, key=alike))
    ]


def figure(rows: Sequence[CoverageRow], missing: Sequence[int], say: Say, ink: str) -> go.Figure:
    """The matrix: a glyph and a row count a cell, the reason and the remedy on hover."""
    names, shown = tables(rows), columns(rows, missing)
    few = len(shown) <= _COUNTS_TO
    picture = go.Figure(
        go.Heatmap(
            z=[[STATES.index(_state(column, table)) for column in shown] for table in names],
            x=list(range(len(shown))), y=list(range(len(names))), zmin=-0.5, zmax=3.5, showscale=False, xgap=3, ygap=3,
            colorscale=[stop for i, colour in enumerate(_COLOURS) for stop in ((i / 4, colour), ((i + 1) / 4, colour))],
            text=[[_text(column, table, few) for column in shown] for table in names], texttemplate="%{text}",
            textfont={"size": 12, "color": ink},
            hovertext=[[_hover(column, table, say) for column in shown] for table in names], hoverinfo="text",
        )
    )  # fmt: skip
    picture.update_layout(height=64 + 27 * len(names), margin={"l": 8, "r": 8, "t": 36, "b": 8}, dragmode=False,
                          hoverlabel={"align": "left"})  # fmt: skip
    shared = {"tickmode": "array", "showgrid": False, "zeroline": False, "fixedrange": True,
              "tickfont": {"size": 13, "color": ink}}  # fmt: skip
    heads = [_head(column, say) if few else i18n.ranges(column.ranks) for column in shown]
    picture.update_xaxes(
        side="top",
        tickvals=list(range(len(shown))),
        ticktext=heads,
        title=None if few else say("recorded.col_ranks", {}),
        **shared,
    )
    titles = [style.plain(title(table, say)) for table in names]
    picture.update_yaxes(
        autorange="reversed", tickvals=list(range(len(names))), ticktext=titles, automargin=True, **shared
    )
    _mark_missing(picture, shown, len(names), say("recorded.not_captured", {}))
    return picture


def title(table: str, say: Say) -> str:
    """What people call a table."""
    key = f"recorded.table_{table}"
    return say(key, {}) if i18n.known(key) else table


def _state(column: Column, table: str) -> str:
    if column.cells is None:
        return "missing"
    held = column.cells.get(table)
    return held.status if held and held.status in STATES else "absent"


def _text(column: Column, table: str, counts: bool) -> str:
    held = column.cells.get(table) if column.cells else None
    if held is None or held.status == "absent" or len(column.ranks) > 1 or not counts:
        return GLYPH[_state(column, table)]
    return f"{GLYPH[held.status]} {held.rows:,}"


def _head(column: Column, say: Say) -> str:
    return say("recorded.rank", {"n": len(column.ranks), "ranks": i18n.ranges(column.ranks)})


def _hover(column: Column, table: str, say: Say) -> str:
    heading = f"<b>{style.plain(title(table, say))}</b> · {_head(column, say)}"
    if column.cells is None:
        return f"{heading}<br>{style.wrapped(say('recorded.rank_missing', {}))}"
    held = column.cells.get(table)
    if held is None:
        return heading
    rows = say("recorded.rows", {"n": held.rows, "rows": f"{held.rows:,}"})
    lines = [heading, f"{say(f'recorded.state_{_state(column, table)}', {})} · {rows}"]
    if held.reason:
        lines.append(style.wrapped(held.reason))
    if held.collect_with:
        lines.append(style.wrapped(say("recorded.record_with", {"setting": held.collect_with})))
    return "<br>".join(lines)


def _mark_missing(picture: go.Figure, shown: Sequence[Column], height: int, text: str) -> None:
    """Ranks that were not captured: an empty column that says so."""
    for x, column in enumerate(shown):
        if column.cells is None:
            picture.add_shape(type="rect", x0=x - 0.47, x1=x + 0.47, y0=-0.45, y1=height - 0.55,
                              line={"color": style.QUIET_TEXT, "dash": "dot", "width": 1})  # fmt: skip
            picture.add_annotation(x=x, y=(height - 1) / 2, text=style.plain(text), showarrow=False, textangle=-90,
                                   font={"color": style.QUIET_TEXT, "size": 13})  # fmt: skip
