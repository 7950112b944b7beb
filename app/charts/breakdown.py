"""The exact split as stacked bars: one bar a rank and step, the profiler's own split thin below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from npulens.analysis.split import Row
from npulens.app.charts import style
from npulens.app.charts.parts import PARTS, Part, lengths
from npulens.app.text import i18n

Say = Callable[[str, Mapping[str, object]], str]
_THICK, _THIN, _RANK_GAP = 0.62, 0.2, 0.35
_ROOMY = 12  # up to this many bars, each gets more height


@dataclass(frozen=True)
class Bar:
    """One drawn bar: where it lies, how thick, what it is called and the length of each part."""

    y: float
    width: float
    name: str
    rank: int
    step: int | None
    whole_ns: int
    parts: Mapping[str, int]
    own: bool


def differs(row: Row) -> bool:
    """Whether the profiler's split of this row is there and says something else than ours."""
    return any(theirs is not None and ours != theirs for _, ours, theirs in beside(row))


def beside(row: Row) -> list[tuple[str, int | None, int | None]]:
    """(part, ours, the profiler's) for the parts both splits know."""
    if row.profiler is None:
        return []
    return [
        (part.key, getattr(row, part.field), getattr(row.profiler, part.profiler_field))
        for part in PARTS
        if part.profiler_field
    ]


def bars(rows: Sequence[Row], say: Say, profiler: bool) -> list[Bar]:
    """Rows laid out from the top: ranks set apart, the profiler's bar right below ours."""
    drawn: list[Bar] = []
    y, before = 0.0, None
    for row in rows:
        y += 0.0 if before is None else 1.0 + (_RANK_GAP if row.rank != before else 0.0)
        before, whole = row.rank, row.dur_ns or 0
        drawn.append(Bar(y, _THICK, _where(row.rank, row.step, say), row.rank, row.step, whole, lengths(row), own=True))
        theirs = {key: value for key, _, value in beside(row) if value is not None}
        if profiler and theirs and differs(row):
            below = y + _THICK / 2 + _THIN / 2 + 0.06
            name = say("breakdown.profiler", {})
            drawn.append(Bar(below, _THIN, name, row.rank, row.step, whole, theirs, own=False))
            y = below - 0.2
    return drawn


def _where(rank: int, step: int | None, say: Say) -> str:
    return say("breakdown.rank_all" if step is None else "breakdown.rank_step", {"rank": rank, "step": step})


def figure(rows: Sequence[Row], say: Say, as_share: bool, profiler: bool, ink: str) -> go.Figure:
    """Stacked horizontal bars of ``rows``, in milliseconds or in percent of each row's own length."""
    drawn = bars(rows, say, profiler)
    longest = max((max(bar.whole_ns, sum(bar.parts.values())) for bar in drawn), default=0)
    scale, unit = (1.0, "%") if as_share else _unit(longest)
    picture = go.Figure()
    for part in PARTS:
        held = [bar for bar in drawn if bar.parts.get(part.key)]
        if not held:
            continue
        picture.add_bar(
            orientation="h", x=[_length(bar, part, as_share, scale) for bar in held],
            y=[bar.y for bar in held], width=[bar.width for bar in held],
            name=say(f"breakdown.{part.key}", {}),
            marker={"color": part.colour, "line": {"width": 1, "color": style.paper(ink)}},
            text=[_label(bar, part) if bar.own else "" for bar in held],
            textposition="inside", insidetextanchor="middle", textangle=0,
            insidetextfont={"color": part.text_colour or ink, "size": 12},
            hovertext=[_hover(bar, part, say) for bar in held], hoverinfo="text",
        )  # fmt: skip
    _dress(picture, drawn, say("breakdown.axis_share", {}) if as_share else unit, ink)
    return picture


def _unit(longest: int) -> tuple[float, str]:
    return (1e9, "s") if longest >= 10 * 10**9 else (1e6, "ms") if longest >= 10**6 else (1e3, "µs")


def _length(bar: Bar, part: Part, as_share: bool, scale: float) -> float:
    value = bar.parts[part.key]
    return (100 * value / bar.whole_ns if bar.whole_ns else 0.0) if as_share else value / scale


def _label(bar: Bar, part: Part) -> str:
    return f"{i18n.duration(bar.parts[part.key])} · {i18n.share(bar.parts[part.key], bar.whole_ns)}"


def _hover(bar: Bar, part: Part, say: Say) -> str:
    value = bar.parts[part.key]
    where = _where(bar.rank, bar.step, say)
    title = say(f"breakdown.{part.key}", {}) + ("" if bar.own else " · " + say("breakdown.profiler_says", {}))
    meaning = say(f"breakdown.{part.key}_means" if bar.own else "breakdown.profiler_means", {})
    return (
        f"<b>{style.plain(title)}</b> · {style.plain(where)}<br>{i18n.duration(value)} ({value:,} ns)"
        f" · {i18n.share(value, bar.whole_ns)}<br><br>{style.wrapped(meaning)}"
    )


def _dress(picture: go.Figure, drawn: Sequence[Bar], axis: str, ink: str) -> None:
    bottom = drawn[-1].y if drawn else 0.0
    pixels = 44 if sum(bar.own for bar in drawn) <= _ROOMY else 34
    small = '<span style="font-size:10px">{}</span>'
    names = [style.plain(bar.name) if bar.own else small.format(style.plain(bar.name)) for bar in drawn]
    picture.update_layout(
        barmode="stack", bargap=0, height=int(96 + pixels * (bottom + 1)), margin={"l": 8, "r": 16, "t": 44, "b": 8},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "traceorder": "normal",
                "font": {"color": ink, "size": 13}, "itemclick": False, "itemdoubleclick": False},
        font={"color": ink}, uniformtext={"mode": "hide", "minsize": 11}, hoverlabel={"align": "left"},
        hovermode="closest", dragmode=False, uirevision="breakdown",
    )  # fmt: skip
    shared = {"zeroline": False, "fixedrange": True, "automargin": True}
    picture.update_xaxes(ticksuffix=f" {axis}", rangemode="tozero", showgrid=True, gridcolor=style.GRID,
                         tickfont={"color": ink}, **shared)  # fmt: skip
    picture.update_yaxes(tickmode="array", tickvals=[bar.y for bar in drawn], ticktext=names, showgrid=False,
                         range=[bottom + 0.6, -0.6], tickfont={"size": 13, "color": ink}, **shared)  # fmt: skip
