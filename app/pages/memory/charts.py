"""Device memory as pictures: the curve of a pool, what holds its peak, and its level step by step."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.over_time import markable
from npulens.app.text import i18n, wording

_LINES = (
    ("reserved_bytes", style.QUIET_TEXT, "dash"), ("allocated_bytes", style.COMPUTING, "solid"),
    ("active_bytes", style.COMMUNICATION, "dot"),
)  # fmt: skip
_MOST_MARKS = 60
#: Figures where the pointer rests, to four digits.
_FOUR = ",.4~r"
_NAME = 48


def curve(rows: pd.DataFrame, peak_ns: int | None, marks: Sequence[tuple[int, int]], say: Say, ink: str) -> go.Figure:
    """A pool over time; steps as dotted lines, the peak marked."""
    picture = go.Figure()
    shown = [line for line in _LINES if rows[line[0]].notna().any()]
    if rows["active_bytes"].fillna(-1).equals(rows["allocated_bytes"].fillna(-1)):
        shown = [line for line in shown if line[0] != "active_bytes"]
    top = rows[["allocated_bytes", "reserved_bytes"]].astype(float).max().max()
    scale, unit = _unit(top)
    for name, colour, dash in shown:
        held = rows[rows[name].notna()]
        picture.add_scatter(
            x=held["ts_ns"] / 1e6, y=held[name].astype(float) / scale, mode="lines",
            name=say(f"memory.line_{name}", {}),
            line={"color": colour, "dash": dash, "width": 1.6, "shape": "hv"},
            fill="tozeroy" if name == "allocated_bytes" else None, fillcolor=roles.faded("computing", 0.14),
            hovertemplate=f"%{{x:{_FOUR}}} ms<br>%{{y:{_FOUR}}} {unit}<extra>%{{fullData.name}}</extra>",
        )  # fmt: skip
    for step, at in marks if len(marks) <= _MOST_MARKS else ():
        picture.add_vline(x=at / 1e6, line={"color": style.QUIET_TEXT, "dash": "dot", "width": 1})
        picture.add_annotation(x=at / 1e6, y=1, yref="paper", yanchor="bottom", xanchor="left", text=str(step),
                               showarrow=False, font={"size": 11, "color": style.QUIET_TEXT})  # fmt: skip
    if peak_ns is not None:
        picture.add_vline(x=peak_ns / 1e6, line={"color": style.RESIDUAL, "width": 1.5})
    _dress(picture, 360, ink, f" {unit}")
    picture.update_xaxes(ticksuffix=" ms")
    picture.update_yaxes(range=[0, top / scale * 1.06] if top > 0 else None)
    return markable(picture)


def holders(rows: pd.DataFrame, rest: int | None, say: Say, ink: str, most: int) -> go.Figure:
    """What is alive at the peak, by operator, the largest on top; below, what nobody in the capture allocated."""
    names = [_name(row.name, say) for row in rows.head(most).itertuples()]
    sizes = [int(row.bytes) for row in rows.head(most).itertuples()]
    others = int(rows["bytes"].iloc[most:].sum())
    colours = [style.COMPUTING] * len(names)
    for text, size, colour in (("others", others, style.COMPUTING), ("before", rest or 0, style.IDLE)):
        if size > 0:
            names.append(say(f"memory.{text}", {}))
            sizes.append(size)
            colours.append(colour)
    scale, unit = _unit(max(sizes, default=0))
    picture = go.Figure(go.Bar(
        orientation="h", x=[size / scale for size in sizes], y=list(range(len(names))), width=0.66,
        marker={"color": colours}, text=[i18n.size(size) for size in sizes], textposition="auto", textangle=0,
        hovertext=[f"{name}<br>{size:,} B" for name, size in zip(names, sizes, strict=True)], hoverinfo="text",
    ))  # fmt: skip
    _dress(picture, 70 + 28 * max(2, len(names)), ink, "")
    picture.update_xaxes(ticksuffix=f" {unit}", rangemode="tozero", showgrid=True, gridcolor=style.GRID)
    picture.update_yaxes(tickmode="array", tickvals=list(range(len(names))), ticktext=names, showgrid=False,
                         range=[len(names) - 0.4, -0.6])  # fmt: skip
    return picture


def _unit(most: float) -> tuple[float, str]:
    """What an axis up to so many bytes is shown in."""
    return (1e9, "GB") if most >= 1e9 else (1e6, "MB")


def _name(name: object, say: Say) -> str:
    if not isinstance(name, str):
        return say("memory.unnamed", {})
    text = wording.plain(name)
    return style.plain(text if len(text) <= _NAME else text[: _NAME - 1] + "…")


def growth(rows: pd.DataFrame, say: Say, ink: str) -> go.Figure:
    """Per step: the pool's highest and lowest level, and the level at its end."""
    picture = go.Figure()
    lines = (("peak_bytes", style.RESIDUAL, "dash"), ("end_bytes", style.COMPUTING, "solid"),
             ("low_bytes", style.QUIET_TEXT, "dot"))  # fmt: skip
    scale, unit = _unit(rows["peak_bytes"].astype(float).max())
    for name, colour, dash in lines:
        picture.add_scatter(
            x=rows["step"].astype(str), y=rows[name].astype(float) / scale, mode="lines+markers",
            name=say(f"memory.line_{name}", {}), line={"color": colour, "dash": dash, "width": 1.6},
            hovertemplate=f"step %{{x}}<br>%{{y:{_FOUR}}} {unit}<extra>%{{fullData.name}}</extra>",
        )  # fmt: skip
    _dress(picture, 280, ink, f" {unit}")
    picture.update_xaxes(type="category", nticks=24, title=say("ranks.axis_step", {}))
    picture.update_yaxes(rangemode="tozero")
    return picture


def _dress(picture: go.Figure, height: int, ink: str, unit: str) -> None:
    picture.update_layout(
        height=height, margin={"l": 8, "r": 16, "t": 44, "b": 8}, font={"color": ink}, dragmode=False,
        hovermode="closest", hoverlabel={"align": "left"},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.06, "yanchor": "bottom", "itemclick": False,
                "itemdoubleclick": False, "font": {"color": ink, "size": 13}},
    )  # fmt: skip
    shared = {"zeroline": False, "fixedrange": True, "automargin": True, "tickfont": {"color": ink}}
    picture.update_xaxes(showgrid=False, **shared)
    picture.update_yaxes(ticksuffix=unit, gridcolor=style.GRID, **shared)
