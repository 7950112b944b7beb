"""A metric night after night: the nights, the levels between changes, where an ordinary night lies, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import plotly.graph_objects as go

from npulens.analysis.regression.baseline import baseline
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.histories import Judged, amount, percent
from npulens.app.text.i18n import Speaker
from npulens.ingest.messages import render
from npulens.ingest.store.history import Annotation, Point

#: Unit of the history -> how many of it make one of the axis, and what that is called.
_SCALES = {"ns": (1e6, "ms"), "bytes": (1e6, "MB")}
#: Conditions that a hover box has room for.
_MOST_SAID = 8
_FEW = 7  # nights, each written with its date
_BAND = roles.faded("computing", 0.13)


def series(held: Judged, notes: Sequence[Annotation], said: Sequence[str], say: Speaker, ink: str) -> go.Figure:
    """The picture; ``said`` are the conditions that a hover box names."""
    scale, unit = _SCALES.get(held.unit, (1.0, held.unit))
    picture = go.Figure()
    _levels(picture, held, scale, say)
    used = held.used
    picture.add_scatter(
        x=[when(point) for point in used], y=[point.value / scale for point in used], mode="lines+markers",
        name=say("history.trace_usable", {}), hovertext=[_hover(point, said, say.lang) for point in used],
        hoverinfo="text", line={"color": style.COMPUTING, "width": 1}, marker={"color": style.COMPUTING, "size": 7},
    )  # fmt: skip
    lost = [point for point in held.points if not point.usable]
    low, high = _range(held, scale)
    if lost:
        picture.add_scatter(  # far ones at the edge: what says nothing should not squeeze what does
            x=[when(point) for point in lost], mode="markers",
            y=[min(max(point.value / scale, low), high) for point in lost],
            name=say("history.trace_unusable", {}), hovertext=[_hover(point, said, say.lang) for point in lost],
            hoverinfo="text", marker={"color": style.QUIET_TEXT, "size": 9, "symbol": "x-open", "line": {"width": 2}},
        )  # fmt: skip
    _changes(picture, held, ink)
    picture.add_scatter(
        x=[when(note) for note in notes], y=[low] * len(notes), mode="markers", name=say("history.trace_note", {}),
        hovertext=[style.wrapped(note.text) for note in notes], hoverinfo="text", showlegend=bool(notes),
        marker={"color": style.COPY, "size": 12, "symbol": "triangle-up"},
    )  # fmt: skip
    _dress(picture, unit, ink)
    nights = sorted({when(point).date() for point in held.points})
    if len(nights) <= _FEW:  # between few nights Plotly writes the same date again and again
        picture.update_xaxes(tickvals=nights)
    picture.update_yaxes(range=[low - (high - low) * 0.05, high + (high - low) * 0.05])
    return picture


def when(point: Point | Annotation) -> datetime:
    """The moment on the axis, in UTC."""
    return datetime.fromtimestamp(point.at_ns / 1e9, UTC)


def _levels(picture: go.Figure, held: Judged, scale: float, say: Say) -> None:
    """Between two changes, the level as a line and the nights around it as a band."""
    edges = [0, *(change.index for change in held.verdict.changes), len(held.used)]
    for number, (begin, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        nights = held.used[begin:end]
        stands = baseline([point.value for point in nights])
        if stands is None:
            continue
        across = [when(nights[0]), when(nights[-1])]
        first = number == 0
        if stands.low is not None and stands.high is not None:
            picture.add_scatter(
                x=[*across, *across[::-1]],
                y=[each / scale for each in (stands.low, stands.low, stands.high, stands.high)],
                fill="toself", fillcolor=_BAND, line={"width": 0}, mode="lines", hoverinfo="skip", showlegend=first,
                name=say("history.trace_band", {}), legendgroup="band",
            )  # fmt: skip
        picture.add_scatter(
            x=across, y=[stands.level / scale] * 2, mode="lines", hoverinfo="skip", showlegend=first,
            line={"color": style.COMMUNICATION, "width": 2.5}, name=say("history.trace_level", {}),
            legendgroup="level",
        )  # fmt: skip


def _changes(picture: go.Figure, held: Judged, ink: str) -> None:
    """A line where a new level begins, written with how much it is; shaded where the date is not sure."""
    used = held.used
    for number, change in enumerate(held.verdict.changes):
        colour = style.RESIDUAL if held.worse(change) else style.COMPUTING
        if change.last > change.first:
            picture.add_vrect(x0=when(used[change.first]), x1=when(used[change.last]), fillcolor=colour, opacity=0.12,
                              line_width=0)  # fmt: skip
        at = when(used[change.index])
        picture.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref="paper",
                          line={"color": colour, "width": 1.5, "dash": "dash"})  # fmt: skip
        picture.add_annotation(
            x=at, y=1, yref="paper", yanchor="bottom", yshift=14 * (number % 2), showarrow=False,
            text=f"{'▲' if change.ratio > 1 else '▼'} {percent(change.ratio)}", font={"color": ink, "size": 13},
        )  # fmt: skip


def _range(held: Judged, scale: float) -> tuple[float, float]:
    """From the least to the greatest night that counts, with some air; of the others where none does."""
    values = np.array([point.value for point in held.used or held.points]) / scale
    air = 0.12 * float(np.ptp(values)) or 0.02 * abs(float(values[0])) or 1.0
    return float(values.min()) - air, float(values.max()) + air


def _hover(point: Point, said: Sequence[str], lang: str) -> str:
    """Night, value, and the conditions that were not the same every night."""
    lines = [f"<b>{style.plain(point.night or str(when(point).date()))}</b> · {amount(point.value, point.unit)}"]
    if not point.usable:
        lines.append(style.wrapped(render(point.reason, lang) or "–"))
    lines += [style.wrapped(f"{name}: {point.covariates[name]}") for name in said[:_MOST_SAID] if name in
              point.covariates]  # fmt: skip
    return "<br>".join(lines)


def _dress(picture: go.Figure, unit: str, ink: str) -> None:
    picture.update_layout(
        height=420, margin={"l": 8, "r": 8, "t": 52, "b": 8}, plot_bgcolor="rgba(0,0,0,0)",
        paper_bgcolor="rgba(0,0,0,0)", font={"color": ink}, hovermode="closest",
        legend={"orientation": "h", "y": -0.16, "x": 0, "font": {"color": ink}},
        hoverlabel={"align": "left"}, separators=".,",
    )  # fmt: skip
    picture.update_xaxes(showgrid=False, color=ink, tickformat="%m-%d\n%Y", nticks=8, tickangle=0)
    suffix = f" {style.plain(unit)}" if unit not in ("", "count") else ""
    picture.update_yaxes(gridcolor=style.GRID, color=ink, ticksuffix=suffix, tickformat=",~r", nticks=7, zeroline=False)
