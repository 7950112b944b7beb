"""The calendar of nights, and one metric night by night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import plotly.graph_objects as go

from npulens.app.charts import style
from npulens.app.nightly.night import Row
from npulens.app.nightly.written import figures

#: Outcome -> colour and sign; the sign says it without the colour.
MARKS: Mapping[str, tuple[str, str, str]] = {
    "regressed": (style.RESIDUAL, "▲", style.DARK_TEXT),
    "open": (style.RESIDUAL, "△", style.DARK_TEXT),
    "broken": (style.COMMUNICATION, "!", style.DARK_TEXT),
    "machine": ("#9c6ade", "◆", style.DARK_TEXT),
    "likely": (style.COMMUNICATION, "~", style.DARK_TEXT),
    "fixed": ("#009e73", "✓", style.DARK_TEXT),
    "improved": ("#009e73", "▼", style.DARK_TEXT),
    "learning": ("rgba(128,138,150,0.28)", "…", ""),
    "quiet": ("rgba(128,138,150,0.28)", "", ""),
    "missing": (style.FAINT, "?", ""),
}


#: Of the square of a night, in weeks and days.
_SIDE = 0.84


def calendar(
    days: Sequence[tuple[str, str, str]], says: Mapping[str, str], rows: Sequence[str], chosen: str, ink: str
) -> go.Figure:
    """Weeks from left to right; ``days`` are (label, outcome, hover text), ``rows`` Monday, Thursday and Sunday."""
    placed = [(label, outcome, hover, date.fromisoformat(label[:10])) for label, outcome, hover in days]
    first = min(day for *_, day in placed).toordinal()
    monday = first - date.fromordinal(first).weekday()
    picture = go.Figure()
    for outcome, (colour, sign, text) in MARKS.items():
        mine = [(label, hover, day) for label, kind, hover, day in placed if kind == outcome]
        if not mine:
            continue
        # Bars, and not markers: their size is in weeks and days, so they never lie over each other.
        picture.add_bar(
            x=[(day.toordinal() - monday) // 7 for *_, day in mine], y=[_SIDE] * len(mine), width=_SIDE,
            base=[day.weekday() - _SIDE / 2 for *_, day in mine],
            name=f"{sign} {says[outcome]}".strip(), customdata=[label for label, *_ in mine],
            text=[f"{day.day}{sign}" if sign else str(day.day) for *_, day in mine],
            textposition="inside", insidetextanchor="middle", textangle=0,
            textfont={"color": text or ink, "size": 10}, hovertext=[style.plain(hover) for _, hover, _ in mine],
            hoverinfo="text", selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
            marker={"color": colour,
                    "line": {"width": [2.5 if label == chosen else 0 for label, *_ in mine], "color": ink}},
        )  # fmt: skip
    weeks = max((day.toordinal() - monday) // 7 for *_, day in placed) + 1
    begins: dict[str, int] = {}
    for *_, day in sorted(placed, key=lambda each: each[3]):
        begins.setdefault(f"{day:%Y-%m}", (day.toordinal() - monday) // 7)
    months = {week: month for month, week in begins.items()}
    picture.update_layout(
        height=300, margin={"l": 46, "r": 8, "t": 30, "b": 40}, plot_bgcolor="rgba(0,0,0,0)", clickmode="event+select",
        paper_bgcolor="rgba(0,0,0,0)", font={"color": ink}, legend={"orientation": "h", "y": -0.06, "x": 0},
        dragmode=False, hoverlabel={"align": "left"}, barmode="overlay",
    )  # fmt: skip
    picture.update_xaxes(
        range=[-0.7, max(weeks - 0.3, 18)], tickvals=sorted(months), ticktext=[months[week] for week in sorted(months)],
        tickangle=0, side="top", showgrid=False, zeroline=False, fixedrange=True,
    )  # fmt: skip
    picture.update_yaxes(range=[6.6, -0.6], tickvals=[0, 3, 6], ticktext=list(rows), showgrid=False, zeroline=False,
                         fixedrange=True)  # fmt: skip
    return picture


def series(row: Row, ink: str, accent: str) -> go.Figure:
    """One dot a night; a dashed line where the level changed, the last dot is the night that is read."""
    nights, values = [spot.night for spot in row.series], [spot.value for spot in row.series]
    scale = 1e6 if row.unit == "ns" else 1.0
    picture = go.Figure()
    picture.add_scatter(
        x=list(range(len(nights))), y=[value / scale for value in values], mode="lines+markers",
        line={"color": style.GRID, "width": 1},
        marker={"color": [accent if i == len(nights) - 1 else style.QUIET_TEXT for i in range(len(nights))],
                "size": [11 if i == len(nights) - 1 else 7 for i in range(len(nights))],
                "opacity": [1.0 if spot.usable else 0.35 for spot in row.series]},
        hovertext=[f"{style.plain(night)}<br>{style.plain(figures.number(value, row.unit))}"
                   for night, value in zip(nights, values, strict=True)],
        hoverinfo="text", showlegend=False,
    )  # fmt: skip
    for night in row.changes:
        if night in nights and (place := nights.index(night)):
            picture.add_vline(x=place - 0.5, line={"color": style.COMMUNICATION, "dash": "dash", "width": 1.5},
                              annotation={"text": style.plain(night), "font": {"color": ink, "size": 11}})  # fmt: skip
    ticks = sorted({0, len(nights) // 2, len(nights) - 1})
    picture.update_layout(height=230, margin={"l": 60, "r": 16, "t": 22, "b": 26}, plot_bgcolor="rgba(0,0,0,0)",
                          paper_bgcolor="rgba(0,0,0,0)", font={"color": ink})  # fmt: skip
    picture.update_xaxes(tickvals=ticks, ticktext=[nights[i] for i in ticks], showgrid=False, zeroline=False)
    unit = "ms" if row.unit == "ns" else style.plain(row.unit)
    picture.update_yaxes(title=unit, gridcolor=style.GRID, zeroline=False)
    return picture
