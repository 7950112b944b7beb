"""Launches in figures: their latency, how many wait on the device over time, and the lead of the host."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, log10

import pandas as pd
import plotly.graph_objects as go

from npulens.analysis.look.launch import Curve
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import cumulative, dress
from npulens.app.charts.over_time import markable
from npulens.app.text import i18n

_BAND = roles.faded("computing", 0.28)
#: Leads are drawn linear up to a microsecond and by their decades beyond.
_LINEAR_NS = 1_000
_TICKS = (0, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 10**10)


def latency(quantiles: pd.DataFrame, ranks: Sequence[int], say: Say, ink: str) -> go.Figure:
    """The share of launches that took at most so long; those that start before their launch have no place here."""
    picture = go.Figure()
    after = quantiles[quantiles["latency_ns"] > 0].rename(columns={"latency_ns": "ns"})
    cumulative(picture, after, ranks, 1e3, say, "launch.ecdf_means", "linear")
    dress(picture, ink, 340, legend=len(ranks) > 1)
    decades = [10**power for power in range(1, 12)]
    picture.update_xaxes(type="log", title_text=style.plain(say("launch.axis_latency", {})), tickmode="array",
                         tickvals=[ns / 1e3 for ns in decades], ticktext=[whole(ns) for ns in decades])  # fmt: skip
    picture.update_yaxes(ticksuffix=" %", range=[0, 101])
    return picture


def queue(curve: Curve, say: Say, ink: str) -> go.Figure:
    """Tasks that wait, over time: the band from the least to the most of each slice, the mean in it."""
    picture = _band(curve, list(curve.slices["least"]), list(curve.slices["most"]), list(curve.slices["middle"]), [
        style.plain(say("launch.queue_point", {
            "at": i18n.exact(int(at)), "least": f"{least:,}", "most": f"{most:,}",
            "mean": "–" if pd.isna(mean) else f"{mean:,.1f}",
        }))
        for at, least, most, mean in curve.slices.itertuples(index=False, name=None)
    ], ("launch.band", "launch.mean"), say, ink)  # fmt: skip
    picture.update_yaxes(rangemode="tozero", title_text=style.plain(say("launch.axis_queue", {})))
    return picture


def lead(curve: Curve, say: Say, ink: str) -> go.Figure:
    """The lead of the host: above zero the device has work waiting, below zero it stood free before the launch."""
    rows = curve.slices
    columns = [[folded(int(ns)) for ns in rows[name]] for name in ("least", "most", "middle")]
    picture = _band(curve, columns[0], columns[1], columns[2], [
        style.plain(say("launch.lead_point", {
            "at": i18n.exact(int(at)), "least": i18n.duration(int(least)), "most": i18n.duration(int(most)),
            "median": i18n.duration(int(middle)),
        }))
        for at, least, most, middle in zip(
            rows["ts_ns"], rows["least"], rows["most"], rows["middle"], strict=True
        )
    ], ("launch.band", "launch.median"), say, ink)  # fmt: skip
    reach = max((abs(int(ns)) for name in ("least", "most") for ns in rows[name]), default=0)
    marks = [mark for mark in _TICKS if mark <= 10 * max(reach, 10**4)]
    shown = sorted({sign * mark for mark in marks for sign in (-1, 1)})
    picture.update_yaxes(tickmode="array", tickvals=[folded(mark) for mark in shown],
                         ticktext=[whole(mark) for mark in shown])  # fmt: skip
    picture.add_hline(y=0, line={"color": style.RESIDUAL, "width": 1.5})
    return picture


def whole(ns: int) -> str:
    """A power of ten as a mark of an axis: 10 µs."""
    value, unit = i18n.duration(ns).split(" ", 1)
    return f"{value.split('.')[0]} {unit}"


def folded(ns: int) -> float:
    """A length on an axis that is logarithmic to both sides of zero."""
    return copysign(log10(1 + abs(ns) / _LINEAR_NS), ns)


def _band(
    curve: Curve, least: Sequence[float], most: Sequence[float], middle: Sequence[float], hover: Sequence[str],
    names: tuple[str, str], say: Say, ink: str,
) -> go.Figure:  # fmt: skip
    """A bar a slice from its least to its most, and the middle as a step in it. Nothing is drawn where no slice is."""
    begins, width = [float(ns) / 1e6 for ns in curve.slices["ts_ns"]], curve.width_ns / 1e6
    thick = [max(abs(high - low), 0.0) for low, high in zip(least, most, strict=True)]
    picture = go.Figure()
    picture.add_bar(
        x=[begin + width / 2 for begin in begins], base=list(least), y=thick, width=width, name=say(names[0], {}),
        marker={"color": _BAND, "line": {"width": 0}}, hoverinfo="skip",
    )  # fmt: skip
    xs: list[float | None] = []
    ys: list[float | None] = []
    told: list[str] = []
    for begin, value, text in zip(begins, middle, hover, strict=True):
        if xs and xs[-1] is not None and begin - xs[-1] > width / 2:
            xs.append(None)
            ys.append(None)
            told.append("")
        xs += [begin, begin + width]
        ys += [value, value]
        told += [text, text]
    picture.add_scatter(x=xs, y=ys, mode="lines", line={"color": style.COMPUTING, "width": 2}, name=say(names[1], {}),
                        hovertext=told, hoverinfo="text", connectgaps=False)  # fmt: skip
    dress(picture, ink, 300)
    picture.update_layout(bargap=0, hovermode="x")
    picture.update_xaxes(ticksuffix=" ms", range=[curve.begin_ns / 1e6, max(curve.end_ns, curve.begin_ns + 1) / 1e6])
    return markable(picture)
