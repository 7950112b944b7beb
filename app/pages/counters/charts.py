"""Counters over time as small multiples: one panel a family of counters, all on one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from npulens.analysis.device.strip import Strip
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.over_time import markable
from npulens.app.text import wording

#: Hues that stay apart for every kind of colour vision, with a dash each, so that no line speaks by colour alone.
HUES = style.SERIES[:7]
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
MOST_LINES = len(HUES)
_PANEL = 168


@dataclass(frozen=True)
class Panel:
    """One family: its title and the series to draw in it."""

    title: str
    lines: tuple[tuple[str, str], ...]  # (counter, series)


def figure(
    panels: Sequence[Panel], rows: pd.DataFrame, busy: Strip | None, span: tuple[int, int], say: Say, ink: str
) -> go.Figure:
    """The panels below each other; with `busy`, the computing share of the device behind each."""
    picture = make_subplots(
        len(panels), 1, shared_xaxes=True, vertical_spacing=min(0.5 / max(len(panels), 1), 44 / (_PANEL * len(panels))),
        subplot_titles=[style.plain(wording.plain(panel.title)) for panel in panels],
        specs=[[{"secondary_y": True}] for _ in panels],
    )  # fmt: skip
    for place, panel in enumerate(panels, start=1):
        if busy is not None:
            _behind(picture, place, busy, say)
        picture.update_layout({_legend(place): {
            "orientation": "h", "x": 1, "xanchor": "right", "yanchor": "bottom",
            "y": picture.layout["yaxis" if place == 1 else f"yaxis{2 * place - 1}"].domain[1],
            "font": {"color": ink}, "itemclick": False, "itemdoubleclick": False, "traceorder": "normal",
        }})  # fmt: skip
        for line, (counter, series) in enumerate(panel.lines):
            held = rows[(rows["counter"] == counter) & (rows["series"] == series)]
            name = style.plain(wording.plain(counter if len(panel.lines) > 1 else series))
            picture.add_scatter(
                row=place, col=1, x=held["ts_ns"] / 1e6, y=held["value"], name=name,
                mode="lines" if len(held) > 1 else "markers",  # of one sample there is no line to be seen
                line={"color": HUES[line], "dash": DASHES[line], "width": 1.6, "shape": "hv"},
                showlegend=len(panel.lines) > 1, legend=_legend(place),
                hovertemplate="%{x:,.4~r} ms<br>%{y:,.4~r}<extra>" + name + "</extra>",
            )  # fmt: skip
    _dress(picture, len(panels), span, ink)
    return markable(picture)


def _legend(place: int) -> str:
    """Each panel has its own, at the right above it."""
    return "legend" if place == 1 else f"legend{place}"


def _behind(picture: go.Figure, place: int, busy: Strip, say: Say) -> None:
    """What the device did, from 0 to 100 % of the panel's height."""
    slices = max(len(busy.computing), 1)
    width = (busy.end_ns - busy.begin_ns) / slices / 1e6
    at = [busy.begin_ns / 1e6 + index * width for index in range(slices)]
    parts = ((busy.computing, roles.faded("computing", 0.2), "computing"),
             (busy.communication, roles.faded("transferring", 0.2), "communication"))  # fmt: skip
    for shares, colour, key in parts:
        if shares:
            picture.add_scatter(
                row=place, col=1, secondary_y=True, x=at, y=list(shares), mode="lines", fill="tozeroy",
                fillcolor=colour, line={"width": 0, "shape": "hv"}, name=say(f"counters.behind_{key}", {}),
                hoverinfo="skip", showlegend=place == 1, legend=_legend(place),
            )  # fmt: skip


def _dress(picture: go.Figure, count: int, span: tuple[int, int], ink: str) -> None:
    picture.update_layout(
        height=70 + _PANEL * count, margin={"l": 8, "r": 16, "t": 40, "b": 8}, font={"color": ink}, dragmode=False,
        hovermode="closest", hoverlabel={"align": "left"},
    )  # fmt: skip
    picture.update_annotations(font={"size": 13, "color": ink}, x=0, xanchor="left")
    shared = {"zeroline": False, "fixedrange": True, "automargin": True, "tickfont": {"color": ink}}
    picture.update_xaxes(showgrid=False, domain=[0, 1], range=[span[0] / 1e6, span[1] / 1e6], **shared)
    picture.update_xaxes(ticksuffix=" ms", row=count, col=1)
    picture.update_yaxes(gridcolor=style.GRID, nticks=4, rangemode="tozero", secondary_y=False, **shared)
    picture.update_yaxes(visible=False, range=[0, 1.0], fixedrange=True, secondary_y=True)
