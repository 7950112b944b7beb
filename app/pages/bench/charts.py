"""A benchmark in figures: latencies, ratios with their intervals, the batch curve, what several at once cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from npulens.analysis.look.bench import Figure
from npulens.app.charts import style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import dress, line, short
from npulens.app.text import i18n

#: The margin within which two variants are the same (collectors/harness/versus.py).
_MARGIN = 0.01
_DECADES = [10**power for power in range(12)]


def _time_axis(picture: go.Figure, title: str, values: Sequence[float]) -> None:
    """Logarithmic, in units that people read; ticks at 1, 2 and 5 where the range is short."""
    low, high = min(values, default=1.0), max(values, default=10.0)
    marks = _DECADES if high > 30 * low else [digit * decade for decade in _DECADES for digit in (1, 2, 5)]
    picture.update_xaxes(type="log", tickmode="array", tickvals=marks, ticktext=[i18n.duration(mark) for mark in marks],
                         title_text=style.plain(title))  # fmt: skip


def latency(rows: pd.DataFrame, figures: Sequence[Figure], say: Say, ink: str) -> go.Figure:
    """The share of calls that took at most so long, and the intervals of the percentiles across it."""
    picture = go.Figure()
    for place, figure in enumerate(figures):
        mine = rows[rows["series"] == figure["series"]]
        name = short(figure["series"])
        picture.add_scatter(
            x=list(mine["ns"]), y=[100 * share for share in mine["share"]], mode="lines", name=name,
            line={**line(place), "shape": "hv"}, legendgroup=name,
            hovertemplate=[f"{100 * share:.4g} % ≤ {i18n.duration(int(ns))}<extra>{name}</extra>"
                           for share, ns in zip(mine["share"], mine["ns"], strict=True)],
        )  # fmt: skip
        known = [each for each in figure["quantiles"] if each["high"] is not None]
        picture.add_scatter(
            x=[each["value"] for each in known], y=[100 * each["level"] for each in known], mode="markers",
            marker={"color": line(place)["color"], "size": 7}, showlegend=False, legendgroup=name, hoverinfo="skip",
            error_x={"type": "data", "symmetric": False, "color": line(place)["color"], "thickness": 2, "width": 5,
                     "array": [each["high"] - each["value"] for each in known],
                     "arrayminus": [each["value"] - each["low"] for each in known]},
        )  # fmt: skip
    dress(picture, ink, 380)
    _time_axis(picture, say("bench.axis_time", {}), [float(ns) for ns in rows["ns"] if ns > 0])
    picture.update_yaxes(ticksuffix=" %", range=[0, 102])
    return picture


def course(rows: pd.DataFrame, figure: Figure, say: Say, ink: str) -> go.Figure:
    """The calls of one series in their order."""
    picture = go.Figure(go.Scattergl(
        x=list(rows["place"]), y=list(rows["ns"]), mode="markers",
        marker={"color": style.COMPUTING, "size": 4}, hovertext=[i18n.duration(int(ns)) for ns in rows["ns"]],
        hoverinfo="x+text",
    ))  # fmt: skip
    dress(picture, ink, 280, legend=False)
    if kept := figure["steadiness"]["kept_from"]:
        told = {"text": style.plain(say("bench.counted", {})), "font": {"color": ink}}
        picture.add_vline(x=kept, line={"color": style.RESIDUAL, "dash": "dash"}, annotation=told)
    picture.update_xaxes(title_text=style.plain(say("bench.axis_call", {})))
    marks = [digit * decade for decade in _DECADES for digit in (1, 2, 5)]
    picture.update_yaxes(type="log", tickmode="array", tickvals=marks, ticktext=[i18n.duration(mark) for mark in marks])
    return picture


def versus(figures: Sequence[Figure], say: Say, ink: str) -> go.Figure:
    """One row a comparison: the ratio of time and its interval; the control in grey."""
    names = [_called(figure, say, len({each["dtype"] for each in figures}) > 1) for figure in figures]
    picture = go.Figure()
    picture.add_vrect(x0=1 / (1 + _MARGIN), x1=1 + _MARGIN, fillcolor=style.FAINT, line_width=0)
    picture.add_vline(x=1, line={"color": style.QUIET_TEXT, "width": 1.5})
    for place, figure in enumerate(figures):
        colour = _colour(figure)
        picture.add_scatter(
            x=[figure["ratio"]], y=[place], mode="markers+text", marker={"color": colour, "size": 10},
            text=[f"{figure['ratio']:.3f}"], textposition="top center", textfont={"color": ink}, cliponaxis=False,
            error_x={"type": "data", "symmetric": False, "array": [figure["high"] - figure["ratio"]],
                     "arrayminus": [figure["ratio"] - figure["low"]], "color": colour, "thickness": 3, "width": 6},
            hovertemplate=f"{figure['ratio']:.4f} [{figure['low']:.4f}, {figure['high']:.4f}]<extra></extra>",
        )  # fmt: skip
    dress(picture, ink, 90 + 48 * len(names), legend=False)
    ends = [float(figure[end]) for figure in figures for end in ("low", "high")]
    picture.update_xaxes(type="log", title_text=style.plain(say("bench.axis_ratio", {})), **_ratios(ends))
    picture.update_yaxes(tickmode="array", tickvals=list(range(len(names))), ticktext=names, showgrid=False,
                         range=[len(names) - 0.5, -0.7])  # fmt: skip
    return picture


def _ratios(ends: Sequence[float]) -> Mapping[str, Any]:
    """Ticks that a ratio is read by."""
    low, high = min([*ends, 0.95]), max([*ends, 1.05])
    near = (0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3)
    wide = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 10)
    marks = near if high < 1.4 * low else wide if high < 30 * low else [mark / 1e6 for mark in _DECADES]
    return {"tickmode": "array", "tickvals": list(marks), "ticktext": [f"{mark:g} ×" for mark in marks],
            "range": [log10(low) - 0.03, log10(high) + 0.03]}  # fmt: skip


def _colour(figure: Figure) -> str:
    if figure["control"] or figure.get("withheld") or figure["said"] != "different":
        return style.QUIET_TEXT
    return style.COMPUTING if figure["ratio"] < 1 else style.RESIDUAL


def _called(figure: Figure, say: Say, typed: bool) -> str:
    beside = figure.get("beside")
    again = say("bench.again_beside" if beside else "bench.again", {"base": figure["base"], "variant": beside})
    name = again if figure["control"] else figure["variant"]
    return short(f"{name} {figure['dtype']}" if typed else name, 28)


def batch(figure: Figure, say: Say, ink: str) -> go.Figure:
    """Items per second and the latency of a step, over the batch."""
    points = figure["points"]
    batches = [point["batch"] for point in points]
    picture = go.Figure()
    picture.add_scatter(x=batches, y=[point["per_second"] for point in points], mode="lines+markers", line=line(0),
                        name=style.plain(say("bench.axis_items", {})))  # fmt: skip
    for place, key in ((1, "p50_ns"), (5, "p99_ns")):
        picture.add_scatter(
            x=batches, y=[max(point[key], 1) for point in points], mode="lines+markers", yaxis="y2",
            line={**line(place), "dash": "dot"}, name=key[:3].upper(),
            hovertext=[i18n.duration(point[key]) for point in points], hoverinfo="x+text",
        )  # fmt: skip
    dress(picture, ink, 360)
    marks = [digit * decade for decade in _DECADES for digit in (1, 3)]
    picture.update_layout(yaxis2={
        "overlaying": "y", "side": "right", "type": "log", "tickmode": "array", "tickvals": marks, "showgrid": False,
        "ticktext": [i18n.duration(mark) for mark in marks], "tickfont": {"color": ink}, "fixedrange": True,
    })  # fmt: skip
    _recommended(picture, figure, say, ink)
    if figure.get("slo_ns"):
        picture.add_hline(y=figure["slo_ns"], yref="y2", line={"color": style.RESIDUAL, "dash": "dash"})
        _label(picture, say("bench.objective", {}), ink, log10(batches[0]), log10(figure["slo_ns"]), "y2")
    picture.update_xaxes(type="log", tickmode="array", tickvals=batches, ticktext=[f"{each:,}" for each in batches],
                         title_text=style.plain(say("bench.axis_batch", {})))  # fmt: skip
    picture.update_yaxes(rangemode="tozero", selector={"anchor": "x"})
    return picture


def _recommended(picture: go.Figure, figure: Figure, say: Say, ink: str) -> None:
    """The batches that the curve recommends; the names of one batch stand together."""
    named: dict[int, list[str]] = {}
    for name in ("sweet_spot", "knee", "within"):
        if figure.get(name) is not None:
            named.setdefault(figure[name], []).append(say(f"bench.{name}", {}))
    for batch_size, names in named.items():
        picture.add_vline(x=batch_size, line={"color": style.QUIET_TEXT, "dash": "dot"})
        _label(picture, say("shell.comma", {}).join(names), ink, log10(batch_size), 1.0, "paper")


def _label(picture: go.Figure, text: str, ink: str, x: float, y: float, of: str) -> None:
    """A word beside a line; on logarithmic axes annotations stand at powers, lines at values."""
    flat = of == "y2"
    picture.add_annotation(
        x=x, y=y, yref=of, text=style.plain(text), showarrow=False, xanchor="left", font={"color": ink},
        yanchor="bottom" if flat else "top", textangle=0 if flat else -90,
    )  # fmt: skip


def together(figures: Sequence[Figure], say: Say, ink: str) -> go.Figure:
    """The efficiency of each kind; 1 is no interference."""
    names = [f"{figure['workers']} {say('bench.' + figure['kind'], {})}" for figure in figures]
    picture = go.Figure(go.Bar(
        x=[figure["efficiency"] for figure in figures], y=names, orientation="h", marker={"color": style.COMPUTING},
        text=[f"{figure['efficiency']:.2f}" for figure in figures], textposition="outside", cliponaxis=False,
        hoverinfo="skip",
    ))  # fmt: skip
    dress(picture, ink, 90 + 40 * len(names), legend=False)
    picture.add_vline(x=1, line={"color": style.QUIET_TEXT, "dash": "dash"})
    most = max([1.0, *(float(figure["efficiency"]) for figure in figures)])
    picture.update_xaxes(range=[0, 1.15 * most], title_text=style.plain(say("bench.col_efficiency", {})))
    picture.update_yaxes(showgrid=False, autorange="reversed")
    return picture
