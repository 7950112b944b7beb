"""The critical path as stacked bars: one bar a rank that it runs through, its pieces by kind."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from npulens.analysis.look.path import KINDS, Part, Path
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.text import i18n

#: Ranks that are drawn, those with most of the path.
MOST = 16


def figure(found: Path, say: Say, ink: str) -> go.Figure:
    """Ranks down, the largest part first; the length of a piece is its share of the whole path in ms."""
    ranks = list(found.by_rank())[:MOST]
    names = [rank_name(rank, say) for rank in ranks]
    held = {(part.kind, part.rank): part for part in found.parts}
    picture = go.Figure()
    for kind in KINDS:
        parts = [held.get((kind, rank)) for rank in ranks]
        if any(parts):
            picture.add_bar(
                orientation="h", y=names, x=[(part.ns if part else 0) / 1e6 for part in parts], width=0.62,
                name=say(f"path.kind_{kind}", {}), marker={"color": roles.of_cause(kind), "line": {"width": 0}},
                text=_labels(parts, found.wall_ns), textposition="inside", insidetextanchor="middle", textangle=0,
                insidetextfont={"color": roles.text_on(roles.of_cause(kind)), "size": 12},
                hovertext=[_hover(part, found.wall_ns, say) for part in parts], hoverinfo="text",
            )  # fmt: skip
    picture.update_layout(
        barmode="stack", bargap=0, height=84 + 38 * len(ranks), margin={"l": 8, "r": 16, "t": 44, "b": 8},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "traceorder": "normal",
                "font": {"color": ink, "size": 13}, "itemclick": False, "itemdoubleclick": False},
        font={"color": ink}, uniformtext={"mode": "hide", "minsize": 11}, hoverlabel={"align": "left"},
        dragmode=False, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", showlegend=True,
    )  # fmt: skip
    shared = {"zeroline": False, "fixedrange": True, "automargin": True, "tickfont": {"color": ink}}
    picture.update_xaxes(ticksuffix=" ms", gridcolor=style.GRID, rangemode="tozero", **shared)
    picture.update_yaxes(type="category", autorange="reversed", **shared)
    return picture


def rank_name(rank: int | None, say: Say) -> str:
    """What a bar is called."""
    return say("path.not_captured", {}) if rank is None else f"rank {rank}"


def _labels(parts: Sequence[Part | None], whole: int) -> list[str]:
    return [f"{i18n.duration(part.ns)} · {i18n.share(part.ns, whole)}" if part else "" for part in parts]


def _hover(part: Part | None, whole: int, say: Say) -> str:
    if part is None:
        return ""
    title = f"{say(f'path.kind_{part.kind}', {})} · {rank_name(part.rank, say)}"
    return (
        f"<b>{style.plain(title)}</b><br>{i18n.exact(part.ns)} ({part.ns:,} ns) · {i18n.share(part.ns, whole)}"
        f"<br><br>{style.wrapped(say(f'path.means_{part.kind}', {}))}"
    )
