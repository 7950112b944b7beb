"""Two splits under each other, and what the change between them is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from npulens.analysis.look.compare import Change, Delta
from npulens.app.charts import roles, style
from npulens.app.charts.parts import PARTS, Part
from npulens.app.text import i18n

_PARTS: Mapping[str, Part] = {part.key: part for part in PARTS}
_ROOM = 0.16  # beside the bars, as a share of their reach: labels stand there


def signed(ns: float) -> str:
    """A change with its sign: +27.6 ms, −0.4 µs."""
    whole = round(ns)
    return f"{'+' if whole > 0 else '−' if whole < 0 else '±'}{i18n.duration(abs(whole))}"


def splits(change: Change, names: tuple[str, str], says: Mapping[str, str], ink: str) -> go.Figure:
    """One stacked bar a side; ``says`` names the parts."""
    scale, unit = _unit(max(change.step.base_ns, change.step.head_ns))
    wholes = (change.step.base_ns, change.step.head_ns)
    picture = go.Figure()
    for delta in change.parts:
        part, lengths = _PARTS[delta.key], (delta.base_ns, delta.head_ns)
        told = [f"{i18n.duration(ns)} · {i18n.share(ns, whole)}" for ns, whole in zip(lengths, wholes, strict=True)]
        picture.add_bar(
            orientation="h", x=[ns / scale for ns in lengths], y=[0, 1], width=0.62, name=says[delta.key],
            marker={"color": part.colour, "line": {"width": 0}}, text=told, textposition="inside", textangle=0,
            insidetextanchor="middle", insidetextfont={"color": part.text_colour or ink, "size": 12},
            hovertext=[_hover(says[delta.key], name, ns, whole)
                       for name, ns, whole in zip(names, lengths, wholes, strict=True)],
            hoverinfo="text",
        )  # fmt: skip
    _dress(picture, [style.plain(_short(name)) for name in names], unit, ink, legend=True)
    picture.update_layout(barmode="stack", uniformtext={"mode": "hide", "minsize": 11})
    picture.update_xaxes(rangemode="tozero")
    return picture


def _hover(part: str, name: str, ns: int, whole: int) -> str:
    return f"<b>{style.plain(part)}</b> · {style.plain(name)}<br>{i18n.exact(ns)} · {i18n.share(ns, whole)}"


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def waterfall(deltas: Sequence[Delta], whole: Delta, says: Mapping[str, str], axis: str, ink: str) -> go.Figure:
    """Each change from where the one above it ended, and below them the change of the whole."""
    reach, at = [0], 0
    for delta in deltas:
        at += delta.change_ns
        reach.append(at)
    scale, unit = _unit(max(abs(ns) for ns in reach))
    rows = [*deltas, whole]
    starts = [*reach[:-1], 0]
    colours = [_colour(row.key, whole.key == "idle") for row in rows]
    picture = go.Figure()
    picture.add_bar(
        orientation="h", base=[start / scale for start in starts], x=[row.change_ns / scale for row in rows],
        y=list(range(len(rows))), width=0.62, showlegend=False,
        marker={"color": colours, "line": {"width": 1, "color": style.QUIET_TEXT}},
        text=[signed(row.change_ns) for row in rows], textposition="outside", cliponaxis=False,
        outsidetextfont={"color": ink, "size": 12},
        hovertext=[f"<b>{style.plain(says[row.key])}</b><br>{i18n.exact(row.base_ns)} → {i18n.exact(row.head_ns)}"
                   f"<br>{'+' if row.change_ns > 0 else ''}{row.change_ns:,} ns" for row in rows],
        hoverinfo="text",
    )  # fmt: skip
    _dress(picture, [style.wrapped(says[row.key], 34) for row in rows], unit, ink, legend=False)
    least, most = min(reach) / scale, max(reach) / scale
    room = max((most - least) * _ROOM, 1e-9)
    left = room if any(row.change_ns < 0 for row in rows) else room / 8
    picture.update_xaxes(range=[least - left, most + room], zeroline=True, zerolinecolor=style.QUIET_TEXT,
                         title={"text": axis, "font": {"size": 12, "color": ink}})  # fmt: skip
    for place, ns in enumerate(reach[1:]):
        picture.add_shape(type="line", x0=ns / scale, x1=ns / scale, y0=place, y1=place + 1,
                          line={"color": style.QUIET_TEXT, "width": 1, "dash": "dot"}, layer="below")  # fmt: skip
    return picture


#: A kind of contribution -> the part of the split it belongs to.
_PART_OF = {"kernel": "computing", "gap": "idle"}


def _colour(key: str, idle: bool) -> str:
    """Of a part, of a contribution (its kind, then #), of the whole step; a cause of idle time has the timeline's."""
    kind, _, cause = key.partition("#")[0].partition(":")
    if cause or (idle and key != "idle"):
        return roles.of_cause(cause or key)
    part = _PART_OF.get(kind, kind)
    return _PARTS[part].colour if part in _PARTS else style.QUIET_TEXT if key == "step" else style.IDLE


def _unit(longest: int) -> tuple[float, str]:
    return (1e9, "s") if longest >= 10 * 10**9 else (1e6, "ms") if longest >= 10**6 else (1e3, "µs")


def _dress(picture: go.Figure, names: Sequence[str], unit: str, ink: str, legend: bool) -> None:
    rows = len(names)
    picture.update_layout(
        height=(112 if legend else 92) + (54 if legend else 34) * rows, bargap=0, dragmode=False, hovermode="closest",
        margin={"l": 8, "r": 16, "t": 44 if legend else 12, "b": 8}, font={"color": ink},
        hoverlabel={"align": "left"},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "traceorder": "normal",
                "font": {"color": ink, "size": 13}, "itemclick": False, "itemdoubleclick": False},
    )  # fmt: skip
    shared = {"fixedrange": True, "automargin": True}
    picture.update_xaxes(ticksuffix=f" {unit}", gridcolor=style.GRID, tickfont={"color": ink}, zeroline=False, **shared)
    picture.update_yaxes(tickmode="array", tickvals=list(range(rows)), ticktext=list(names), showgrid=False,
                         range=[rows - 0.4, -0.6], tickfont={"size": 13, "color": ink}, zeroline=False,
                         **shared)  # fmt: skip
