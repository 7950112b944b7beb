"""Memory copies in figures: where their time goes by direction and size, and how fast they are for their size."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from npulens.analysis.look.copies import Cloud, Way
from npulens.app.charts import style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import dress
from npulens.app.text import i18n

#: direction -> colour and mark; no chart says it by colour alone.
LOOKS = {
    "h2d": (style.SERIES[0], "circle"), "d2h": (style.SERIES[1], "square"), "d2d": (style.SERIES[2], "diamond"),
    "p2p": (style.SERIES[3], "cross"), "h2h": (style.SERIES[4], "star"), "": (style.QUIET_TEXT, "x"),
}  # fmt: skip
_UNKNOWN = (style.QUIET_TEXT, "x")
_LEAST_MARK, _MOST_MARK = 7.0, 26.0


def way(direction: object, say: Say) -> str:
    """A direction in words."""
    known = isinstance(direction, str) and direction in LOOKS and direction
    return say(f"copies.way_{direction}" if known else "copies.way_unknown", {})


def size_class(from_bytes: object, say: Say) -> str:
    """A class of sizes in words: 1 KiB to 2 KiB is what the view counts by."""
    if from_bytes is None or pd.isna(from_bytes):
        return say("copies.size_unknown", {})
    least = int(float(str(from_bytes)))
    return say("copies.size_empty", {}) if least == 0 else say("copies.size_from", {
        "from": binary(least), "to": binary(2 * least)
    })  # fmt: skip


def binary(count: int) -> str:
    """A power of two as people say it: 64 KiB."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count // scale} {unit}"
    return f"{count} B"


def groups(rows: pd.DataFrame, say: Say, ink: str) -> go.Figure:
    """One bar a direction and size class: what of its time is hidden and what is exposed."""
    names = [f"{way(row['direction'], say)} · {size_class(row['from_bytes'], say)}" for _, row in rows.iterrows()]
    places = list(range(len(names)))
    known = bool(rows["exposed_ns"].notna().all())
    parts = (("overlapped_ns", "hidden", style.IDLE), ("exposed_ns", "exposed", style.COPY)) if known else (
        ("busy_ns", "busy", style.COPY),
    )  # fmt: skip
    picture = go.Figure()
    scale, unit = (1e6, "ms") if len(rows) and rows["busy_ns"].max() >= 10**6 else (1e3, "µs")
    for column, key, colour in parts:
        picture.add_bar(
            orientation="h", x=[float(ns) / scale for ns in rows[column]], y=places, name=say(f"copies.{key}", {}),
            marker={"color": colour}, hoverinfo="text", hovertext=[
                f"{style.plain(name)}<br>{style.plain(say(f'copies.{key}', {}))}: {i18n.duration(int(ns))}"
                for name, ns in zip(names, rows[column], strict=True)
            ],
        )  # fmt: skip
    dress(picture, ink, 60 + 26 * max(len(names), 1))
    picture.update_layout(barmode="stack")
    picture.update_xaxes(ticksuffix=f" {unit}")
    picture.update_yaxes(tickmode="array", tickvals=places, ticktext=[style.plain(name) for name in names],
                         range=[len(names) - 0.5, -0.5], showgrid=False)  # fmt: skip
    return picture


def scatter(cloud: Cloud, ways: Sequence[Way], say: Say, ink: str) -> go.Figure:
    """Speed by size, both logarithmic; a cell of many copies is a larger mark. Lines are what the links carry."""
    picture = go.Figure()
    most = float(cloud.points["count"].max()) if len(cloud.points) else 1.0
    for direction in sorted(set(cloud.points["direction"])):
        mine = cloud.points[cloud.points["direction"] == direction]
        colour, mark = LOOKS.get(direction, _UNKNOWN)
        grown = [_LEAST_MARK + (_MOST_MARK - _LEAST_MARK) * (n / most) ** 0.5 for n in mine["count"]]
        picture.add_scatter(
            x=list(mine["bytes"]), y=list(mine["bytes_per_s"]), mode="markers", name=way(direction, say),
            marker={"color": colour, "symbol": mark, "size": grown if cloud.cells else 8, "opacity": 0.75},
            hoverinfo="text", hovertext=[_hover(row, cloud.cells, say) for _, row in mine.iterrows()],
        )  # fmt: skip
    carried = {one.link: one.link_bytes_per_s for one in ways if one.link and one.link_bytes_per_s}
    reach = [float(cloud.points["bytes"].min()), float(cloud.points["bytes"].max())] if len(cloud.points) else []
    for name, speed in carried.items():
        told = style.plain(say("copies.line", {"link": say(f"copies.link_{name}", {}), "speed": rate(speed)}))
        picture.add_scatter(
            x=[reach[0] / 2, reach[1] * 2], y=[speed, speed], mode="lines+text", text=[told, ""],
            textfont={"color": ink}, textposition="top right", showlegend=False, hoverinfo="skip",
            line={"color": style.QUIET_TEXT, "dash": "dash", "width": 1.5},
        )  # fmt: skip
    dress(picture, ink, 380)
    tens = [10.0**power for power in range(16)]
    picture.update_xaxes(type="log", title_text=style.plain(say("copies.axis_size", {})), tickvals=tens,
                         ticktext=[i18n.size(round(one)) for one in tens])  # fmt: skip
    picture.update_yaxes(type="log", title_text=style.plain(say("copies.axis_speed", {})), tickvals=tens,
                         ticktext=[rate(one) for one in tens])  # fmt: skip
    return picture


def rate(bytes_per_s: float | None) -> str:
    """A speed to three digits: 23.3 GB/s."""
    return "–" if bytes_per_s is None or pd.isna(bytes_per_s) else f"{i18n.size(round(bytes_per_s))}/s"


def _hover(row: pd.Series, cells: bool, say: Say) -> str:
    values = {"way": way(row["direction"], say), "size": i18n.size(int(row["bytes"])), "n": int(row["count"]),
              "speed": rate(float(row["bytes_per_s"])), "time": i18n.duration(int(row["dur_ns"]))}  # fmt: skip
    return style.plain(say("copies.cell_means" if cells else "copies.point_means", values))
