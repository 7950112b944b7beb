"""Kernels in figures: what the busy time is made of, how one group's durations spread, and its pipes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.text import i18n, wording

#: One line a rank: eight hues that stay apart for every kind of colour vision, then the same dashed and dotted.
HUES = style.SERIES
DASHES = ("solid", "dash", "dot", "dashdot")
#: Characters of a name that fit beside a bar.
_NAME = 44
#: More ranks than there are hues are drawn together.
MOST_RANKS = len(HUES)
_BAND = roles.faded("computing", 0.28)
#: Counts up to this have a mark each.
_FEW = 6


def line(place: int) -> dict[str, object]:
    """The line of the n-th rank."""
    return {"color": HUES[place % len(HUES)], "dash": DASHES[place // len(HUES) % len(DASHES)], "width": 2}


def short(name: str, most: int = _NAME) -> str:
    """A name that fits, safe for Plotly: without its end, or its beginning where it is a path (net/a/MatMul-op1)."""
    told = wording.plain(name)
    if len(told) > most:
        is_path = told.count("/") > 1 and " " not in told
        told = "…" + told[len(told) - most + 1 :] if is_path else told[: most - 1] + "…"
    return style.plain(told)


def dress(picture: go.Figure, ink: str, height: int, legend: bool = True) -> go.Figure:
    """What all of these figures share."""
    picture.update_layout(
        height=height, margin={"l": 8, "r": 16, "t": 40 if legend else 12, "b": 8}, font={"color": ink},
        hoverlabel={"align": "left"}, dragmode=False, showlegend=legend,
        legend={"orientation": "h", "traceorder": "normal", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom",
                "font": {"color": ink}},
    )  # fmt: skip
    shared = {"zeroline": False, "fixedrange": True, "automargin": True, "tickfont": {"color": ink}}
    picture.update_xaxes(gridcolor=style.GRID, **shared)
    picture.update_yaxes(gridcolor=style.GRID, **shared)
    return picture


def called(row: pd.Series) -> str:
    """What tells a kind from the others: its type, or its launching operator before a name without its templates."""
    name = str(row["op"] if "op" in row else row["name"])
    if not isinstance(row.get("host_op"), str):
        return name
    bare = name.removeprefix("void ").split("(")[0].split("<")[0]
    return f"{row['host_op']} · {bare.rsplit('::', 1)[-1] or name}"


def shares(groups: pd.DataFrame, say: Say, ink: str) -> go.Figure:
    """The longest groups as bars: their part of the device's busy time, or where that is not known their time."""
    names = [called(row) for _, row in groups.iterrows()]
    known = bool(groups["share"].notna().all())
    values = [100 * value for value in groups["share"]] if known else [ns / 1e6 for ns in groups["busy_ns"]]
    hover = [
        f"{style.wrapped(wording.plain(str(row['op'] if 'op' in row else row['name'])))}<br>"
        f"{style.plain(_what(row, say))}"
        for _, row in groups.iterrows()
    ]
    labels = [i18n.duration(int(ns)) for ns in groups["busy_ns"]]
    picture = go.Figure(go.Bar(
        orientation="h", x=values, y=list(range(len(values))), marker={"color": style.COMPUTING}, text=labels,
        textposition="outside", cliponaxis=False, hovertext=hover, hoverinfo="text",
    ))  # fmt: skip
    dress(picture, ink, 40 + 26 * max(len(values), 1), legend=False)
    most = max(values, default=1.0)
    picture.update_xaxes(ticksuffix=" %" if known else " ms", range=[0, most * 1.16 or 1])
    picture.update_yaxes(tickmode="array", tickvals=list(range(len(names))), ticktext=[short(name) for name in names],
                         range=[len(names) - 0.5, -0.5], showgrid=False)  # fmt: skip
    return picture


def _what(row: pd.Series, say: Say) -> str:
    values = {"busy": i18n.duration(int(row["busy_ns"])), "count": f"{int(row['count']):,}",
              "mean": i18n.duration(int(row["mean_ns"])),
              "share": "–" if pd.isna(row["share"]) else f"{100 * row['share']:.1f} %"}  # fmt: skip
    return say("kernels.bar_means", values)


def histogram(bins: pd.DataFrame, ranks: Sequence[int], logarithmic: bool, say: Say, ink: str) -> go.Figure:
    """How many kernels took how long; ranks stacked."""
    picture = go.Figure()
    scale, unit = _unit(int(bins["to_ns"].max()) if len(bins) else 0)
    together = len(ranks) > MOST_RANKS
    if together:
        bins = bins.groupby(["from_ns", "to_ns"], as_index=False)["count"].sum()
    for place, rank in enumerate(ranks[:1] if together else ranks):
        mine = bins if together else bins[bins["rank"] == rank]
        picture.add_bar(
            x=list((mine["from_ns"] + mine["to_ns"]) / 2 / scale), y=list(mine["count"]),
            width=list((mine["to_ns"] - mine["from_ns"]) / scale), name=f"rank {rank}",
            marker={"color": HUES[place % len(HUES)], "line": {"width": 0}}, hovertext=[
                style.plain(say("kernels.bin_together" if together else "kernels.bin_means", {
                    "rank": rank, "ranks": i18n.count(len(ranks)), "n": f"{count:,}", "from": i18n.duration(begin),
                    "to": i18n.duration(end),
                }))
                for begin, end, count in zip(mine["from_ns"], mine["to_ns"], mine["count"], strict=True)
            ], hoverinfo="text",
        )  # fmt: skip
    dress(picture, ink, 340, legend=1 < len(ranks) <= MOST_RANKS)
    picture.update_layout(barmode="stack", bargap=0)
    picture.update_xaxes(ticksuffix=f" {unit}", type="log" if logarithmic else "linear")
    few = len(bins) and int(bins.groupby(["from_ns"])["count"].sum().max()) <= _FEW
    picture.update_yaxes(title_text=style.plain(say("kernels.axis_count", {})), dtick=1 if few else None)
    return picture


def cumulative(
    picture: go.Figure, quantiles: pd.DataFrame, ranks: Sequence[int], scale: float, say: Say, means: str, shape: str
) -> None:  # fmt: skip
    """One line a rank of ``ns`` by ``share``. Of more ranks than hues: the middle one, in a band from least to most."""
    if len(ranks) > MOST_RANKS:
        every = quantiles.groupby("share")["ns"].agg(["min", "median", "max"]).reset_index()
        share = list(100 * every["share"])
        picture.add_scatter(
            x=[*(every["min"] / scale), *(every["max"] / scale)[::-1]], y=[*share, *share[::-1]], mode="lines",
            fill="toself", fillcolor=_BAND, line={"width": 0}, hoverinfo="skip", name=say("kernels.ranks_band", {}),
        )  # fmt: skip
        picture.add_scatter(x=list(every["median"] / scale), y=share, mode="lines", line={**line(0), "shape": shape},
                            name=say("kernels.ranks_middle", {}), hoverinfo="text", hovertext=[
            style.plain(say("kernels.ecdf_together", {
                "share": f"{100 * part:.0f}", "least": i18n.duration(int(least)), "most": i18n.duration(int(most)),
                "middle": i18n.duration(int(middle)),
            })) for part, least, middle, most in every.itertuples(index=False, name=None)
        ])  # fmt: skip
        return
    for place, rank in enumerate(ranks):
        mine = quantiles[quantiles["rank"] == rank]
        picture.add_scatter(
            x=list(mine["ns"] / scale), y=list(100 * mine["share"]), mode="lines",
            line={**line(place), "shape": shape}, name=f"rank {rank}", hovertext=[
                style.plain(say(means, {"rank": rank, "share": f"{100 * share:.0f}", "length": i18n.duration(int(ns))}))
                for share, ns in zip(mine["share"], mine["ns"], strict=True)
            ], hoverinfo="text",
        )  # fmt: skip


def ecdf(quantiles: pd.DataFrame, ranks: Sequence[int], logarithmic: bool, say: Say, ink: str) -> go.Figure:
    """The share of kernels that took at most so long, one line a rank."""
    picture = go.Figure()
    scale, unit = _unit(int(quantiles["dur_ns"].max()) if len(quantiles) else 0)
    cumulative(picture, quantiles.rename(columns={"dur_ns": "ns"}), ranks, scale, say, "kernels.ecdf_means", "hv")
    dress(picture, ink, 340, legend=len(ranks) > 1)
    picture.update_xaxes(ticksuffix=f" {unit}", type="log" if logarithmic else "linear")
    picture.update_yaxes(ticksuffix=" %", range=[0, 101])
    return picture


def pipes(names: Sequence[str], rows: pd.DataFrame, means: Sequence[str], ink: str) -> go.Figure:
    """Ratios of the pipes as bars: the mean by time, and a mark from the least to the most of single kernels."""
    places = list(range(len(rows)))
    hues = [style.COMPUTING if str(metric).startswith("aic") else style.COMMUNICATION for metric in rows["metric"]]
    picture = go.Figure(go.Bar(
        orientation="h", x=[100 * value for value in rows["mean"]], y=places, marker={"color": hues},
        hovertext=[f"{short(name, 80)}<br>{style.wrapped(mean)}" for name, mean in zip(names, means, strict=True)],
        hoverinfo="text",
        error_x={"type": "data", "symmetric": False, "color": style.QUIET_TEXT, "thickness": 1,
                 "array": [100 * max(0.0, most - mean) for most, mean in zip(rows["most"], rows["mean"], strict=True)],
                 "arrayminus": [
                     100 * max(0.0, mean - least) for least, mean in zip(rows["least"], rows["mean"], strict=True)
                 ]},
    ))  # fmt: skip
    dress(picture, ink, 50 + 30 * max(len(places), 1), legend=False)
    picture.update_xaxes(ticksuffix=" %", range=[0, 108])
    picture.update_yaxes(tickmode="array", tickvals=places, showgrid=False, range=[len(places) - 0.5, -0.5], ticktext=[
        f"{short(name)} · {100 * value:.1f} %" for name, value in zip(names, rows["mean"], strict=True)
    ])  # fmt: skip
    return picture


def _unit(most_ns: int) -> tuple[float, str]:
    return (1e9, "s") if most_ns >= 2 * 10**9 else (1e6, "ms") if most_ns >= 2 * 10**6 else (1e3, "µs")
