"""Ranks as pictures: the grid of ranks and steps, the clocks with their uncertainty, one step rank by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from npulens.analysis.look.ranks import Clocked, Grid, Lane
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.text import i18n

#: What a cell shows -> whose colour it has; the time of a step is no kind of time.
ROLE = {"computing": "computing", "exposed": "transferring", "waiting": "waiting", "idle": "idle"}
#: Up to so many steps and ranks a grid is bars: a map of two cells shows nothing.
_BAR_STEPS, _BAR_RANKS = 3, 64
#: Less than the median, the median, more: apart for every kind of colour vision, the middle near both backgrounds.
APART = ((0.0, style.COMPUTING), (0.5, "#b9bfc7"), (1.0, style.RESIDUAL))
STATES = (
    ("computing", style.COMPUTING), ("moving", style.COMMUNICATION), ("waiting", style.WAITING), ("idle", style.IDLE),
)  # fmt: skip
_FEW = 64
_TALLEST = 720


def grid(held: Grid, rows: Sequence[int], apart: bool, say: Say, ink: str, metric: str = "dur") -> go.Figure:
    """Ranks down in the order of `rows`, steps across; one image however many there are."""
    places = {rank: place for place, rank in enumerate(held.ranks)}
    values = held.deviation() if apart else held.ns
    shown = values[[places[rank] for rank in rows]] / 1e6
    steps = [step or say("ranks.whole", {}) for step in held.steps]
    colour = roles.colour(ROLE[metric]) if metric in ROLE else roles.MARK
    if shown.shape[1] <= _BAR_STEPS and len(rows) <= _BAR_RANKS:
        return _bars(shown, rows, steps, say("ranks.hover_apart" if apart else "ranks.hover", {}), colour, ink)
    few = shown.size <= 320
    far = float(np.nanmax(np.abs(shown))) if shown.size and not np.isnan(shown).all() else 1.0
    picture = go.Figure(go.Heatmap(
        z=shown.astype(np.float32), x=steps, y=[f"rank {rank}" for rank in rows], hoverongaps=False,
        colorscale=[list(stop) for stop in APART] if apart else [[0, style.FAINT], [1, colour]],
        zmin=-far if apart else 0, zmax=far, xgap=1 if few else 0, ygap=1 if few else 0,
        texttemplate=("%{z:+,.3~r}" if apart else "%{z:,.4~r}") if few and shown.shape[1] <= 24 else None,
        hovertemplate=say("ranks.hover_apart" if apart else "ranks.hover", {}),
        colorbar={"title": {"text": "ms"}, "tickfont": {"color": ink}, "thickness": 14, "nticks": 6},
        showscale=not few or len(rows) > 4,
    ))  # fmt: skip
    height = 96 + int(min(_TALLEST, max(26 * len(rows), 78)))
    _dress(picture, height, say("ranks.axis_step", {}), ink)
    every = max(1, len(rows) // 32)
    picture.update_xaxes(type="category", nticks=24)
    picture.update_yaxes(
        type="category", autorange="reversed", tickmode="array",
        tickvals=[f"rank {rank}" for rank in rows[::every]],
    )  # fmt: skip
    return picture


def _bars(
    shown: NDArray[np.float64], rows: Sequence[int], steps: Sequence[str], hover: str, colour: str, ink: str
) -> go.Figure:  # fmt: skip
    """One bar a rank and step."""
    picture = go.Figure()
    for at, step in enumerate(steps):
        picture.add_bar(
            orientation="h", y=[f"rank {rank}" for rank in rows], x=shown[:, at], name=step,
            marker={"color": colour, "opacity": 1 - 0.22 * at}, customdata=[step] * len(rows),
            hovertemplate=hover.replace("%{x}", "%{customdata}").replace("%{z", "%{x"),
        )  # fmt: skip
    _dress(picture, 84 + 22 * len(rows) * len(steps), "", ink)
    picture.update_layout(barmode="group", bargap=0.25, showlegend=len(steps) > 1, legend={"title": None})
    picture.update_xaxes(ticksuffix=" ms", gridcolor=style.GRID, showgrid=True)
    picture.update_yaxes(type="category", autorange="reversed")
    return picture


def clocks(rows: Sequence[Clocked], say: Say, ink: str, accent: str) -> go.Figure:
    """Above, each rank's clock against the reference's; below, how far off that may be, on a scale of its own."""
    held = [row for row in rows if row.offset_ns is not None]
    ranks = [row.rank for row in held]
    unsure = [(row.uncertainty_ns or 0) / 1e3 for row in held]
    hover = [
        style.wrapped(say("ranks.clock_hover", {
            "rank": row.rank, "offset": i18n.duration(row.offset_ns), "unsure": i18n.duration(row.uncertainty_ns),
        }))
        for row in held
    ]  # fmt: skip
    picture = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.16, subplot_titles=[
        say("ranks.clock_above", {}), say("ranks.clock_below", {}),
    ])  # fmt: skip
    picture.add_scatter(
        row=1, col=1, x=ranks, y=[(row.offset_ns or 0) / 1e3 for row in held], mode="markers", hovertext=hover,
        marker={"color": accent, "size": 8 if len(held) <= _FEW else 4}, hoverinfo="text",
        error_y={"type": "data", "array": unsure, "color": ink, "thickness": 1},
    )  # fmt: skip
    picture.add_bar(row=2, col=1, x=ranks, y=unsure, marker={"color": style.IDLE}, hovertext=hover, hoverinfo="text")
    _dress(picture, 360, "", ink)
    picture.update_annotations(font={"size": 13, "color": ink})
    every = max(1, len(ranks) // 32)
    picture.update_xaxes(tickmode="array", tickvals=ranks[::every], showticklabels=True)
    picture.update_xaxes(title=say("ranks.axis_rank", {}), row=2, col=1)
    picture.update_yaxes(ticksuffix=" µs", tickformat=",~r", gridcolor=style.GRID, showgrid=True, nticks=5)
    return picture


def lanes(rows: Sequence[Lane], say: Say, ink: str) -> go.Figure:
    """One row a rank; each slice has the colour of what the rank did for most of it."""
    shares = [_shares(row) for row in rows]
    states = np.stack([np.argmax(share, axis=0) for share in shares]) if rows else np.zeros((0, 0))
    count = len(STATES)
    scale = [[edge, colour] for place, (_, colour) in enumerate(STATES)
             for edge in (place / count, (place + 1) / count)]  # fmt: skip
    width = rows[0].slice_ns / 1e6
    names = [f"rank {row.rank}" for row in rows]
    few = len(rows) <= _FEW
    picture = go.Figure(go.Heatmap(
        z=states.astype(np.int8), x0=width / 2, dx=width, y=names, zmin=-0.5, zmax=count - 0.5, colorscale=scale,
        showscale=False, ygap=2 if len(rows) <= 32 else 0,
        hovertext=[_hovers(row, share, say) for row, share in zip(rows, shares, strict=True)] if few else None,
        hoverinfo="text" if few else "y",
    ))  # fmt: skip
    for key, colour in STATES:
        picture.add_scatter(x=[None], y=[names[0]], mode="markers", name=say(f"ranks.state_{key}", {}),
                            marker={"color": colour, "size": 11, "symbol": "square"})  # fmt: skip
    _dress(picture, 110 + int(min(_TALLEST, max(26 * len(rows), 52))), "", ink)
    picture.update_layout(showlegend=True, legend={
        "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "itemclick": False,
        "itemdoubleclick": False, "font": {"color": ink, "size": 13},
    })  # fmt: skip
    every = max(1, len(rows) // 32)
    picture.update_xaxes(ticksuffix=" ms", range=[0, width * len(rows[0].computing)])
    picture.update_yaxes(type="category", autorange="reversed", tickmode="array", tickvals=names[::every])
    return picture


def _shares(row: Lane) -> NDArray[np.float64]:
    """One row a state, in the order of STATES; what is none of the others is idle."""
    known = np.array([row.computing, row.moving, row.waiting])
    return np.vstack([known, np.maximum(0, 1 - known.sum(axis=0))])


def _hovers(row: Lane, shares: NDArray[np.float64], say: Say) -> list[str]:
    names = [say(f"ranks.state_{key}", {}) for key, _ in STATES]
    texts = []
    for place, column in enumerate(shares.T):
        held = " · ".join(f"{name} {100 * share:.0f} %" for name, share in zip(names, column, strict=True) if share)
        texts.append(f"<b>rank {row.rank}</b> · {place * row.slice_ns / 1e6:.4g} ms<br>{style.plain(held)}")
    return texts


def _dress(picture: go.Figure, height: int, title: str, ink: str) -> None:
    picture.update_layout(
        height=height, margin={"l": 8, "r": 8, "t": 32, "b": 8}, font={"color": ink}, dragmode=False, showlegend=False,
        hoverlabel={"align": "left"}, hovermode="closest",
    )  # fmt: skip
    shared: Mapping[str, object] = {
        "showgrid": False, "zeroline": False, "fixedrange": True, "automargin": True, "tickfont": {"color": ink},
    }  # fmt: skip
    picture.update_xaxes(title=title, **shared)
    picture.update_yaxes(**shared)
