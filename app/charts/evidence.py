"""Where a finding's evidence lies: what the device did, rank by rank, and the moments in which the cause acts."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from npulens.analysis.device.strip import Strip
from npulens.analysis.finding import Evidence
from npulens.app.charts import style
from npulens.app.charts.breakdown import Say
from npulens.app.text import i18n

_LANES = (("computing", style.COMPUTING), ("communication", style.COMMUNICATION), ("copy", style.COPY))
_LANE = 0.3  # of a row that is 1 high; the rest is space between ranks


def figure(strips: Sequence[Strip], evidence: Sequence[Evidence], say: Say, ink: str) -> go.Figure:
    """One row a rank: three lanes of device work behind, the evidence framed across them."""
    picture = go.Figure()
    for lane, (key, colour) in enumerate(_LANES):
        xs, ys = _outline(strips, key, lane)
        if xs:
            picture.add_scatter(x=xs, y=ys, fill="toself", mode="none", fillcolor=colour, opacity=0.55,
                                name=say(f"findings.lane_{key}", {}), hoverinfo="skip")  # fmt: skip
    rows = {strip.rank: place for place, strip in enumerate(strips)}
    held = [moment for moment in evidence if moment.rank in rows and _within(strips[rows[moment.rank]], moment)]
    picture.add_bar(
        orientation="h", base=[moment.ts_ns / 1e6 for moment in held], x=[moment.dur_ns / 1e6 for moment in held],
        y=[rows[moment.rank] for moment in held], width=0.96, name=say("findings.moment", {}),
        marker={"color": "rgba(213,94,0,0.16)", "line": {"color": style.RESIDUAL, "width": 1.5}},
        hovertext=[_hover(moment, say) for moment in held], hoverinfo="text",
    )  # fmt: skip
    _dress(picture, strips, ink)
    return picture


def _within(strip: Strip, moment: Evidence) -> bool:
    return moment.ts_ns < strip.end_ns and moment.ts_ns + moment.dur_ns >= strip.begin_ns


def _outline(strips: Sequence[Strip], key: str, lane: int) -> tuple[list[float | None], list[float | None]]:
    """The shares of one kind of work as closed shapes, one a rank; a gap in the list lifts the pen."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place, strip in enumerate(strips):
        shares: Sequence[float] = getattr(strip, key)
        if not any(shares):
            continue
        foot, width = place - 0.5 + _LANE * (lane + 1) + 0.02 * lane, (strip.end_ns - strip.begin_ns) / len(shares)
        xs.append(strip.begin_ns / 1e6)
        ys.append(foot)
        for slot, share in enumerate(shares):
            left, right = strip.begin_ns + slot * width, strip.begin_ns + (slot + 1) * width
            xs += [left / 1e6, right / 1e6]
            ys += [foot - _LANE * share] * 2
        xs += [strip.end_ns / 1e6, strip.begin_ns / 1e6, None]
        ys += [foot, foot, None]
    return xs, ys


def _hover(moment: Evidence, say: Say) -> str:
    values = {"rank": moment.rank, "start": i18n.exact(moment.ts_ns), "length": i18n.duration(moment.dur_ns)}
    text = style.wrapped(say("findings.evidence_first_bare", values))
    return f"{text}<br>{style.wrapped(moment.note)}" if moment.note else text


def _dress(picture: go.Figure, strips: Sequence[Strip], ink: str) -> None:
    picture.update_layout(
        height=92 + 58 * len(strips), margin={"l": 8, "r": 16, "t": 36, "b": 8}, bargap=0, dragmode=False,
        font={"color": ink}, hoverlabel={"align": "left"}, hovermode="closest",
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "itemclick": False,
                "itemdoubleclick": False, "font": {"color": ink, "size": 12}},
    )  # fmt: skip
    begin = min((strip.begin_ns for strip in strips), default=0)
    end = max((strip.end_ns for strip in strips), default=1)
    shared = {"zeroline": False, "fixedrange": True, "automargin": True, "tickfont": {"color": ink}}
    picture.update_xaxes(ticksuffix=" ms", range=[begin / 1e6, end / 1e6], gridcolor=style.GRID, **shared)
    names = [f"rank {strip.rank}" for strip in strips]
    picture.update_yaxes(tickmode="array", tickvals=list(range(len(strips))), ticktext=names, showgrid=False,
                         range=[len(strips) - 0.4, -0.6], **shared)  # fmt: skip
    for place, strip in enumerate(strips):
        for _, start, _ in strip.steps:
            if start > strip.begin_ns:
                picture.add_shape(type="line", x0=start / 1e6, x1=start / 1e6, y0=place - 0.5, y1=place + 0.5,
                                  line={"color": style.QUIET_TEXT, "dash": "dot", "width": 1})  # fmt: skip
