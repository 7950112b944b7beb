"""Communication as pictures: where the time of operators goes, what goes over each link, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.text import i18n, wording

#: The parts of an operator's time, in the order in which they are stacked.
PARTS = (
    ("moving", style.COMMUNICATION, style.DARK_TEXT), ("waiting", style.WAITING, style.DARK_TEXT),
    ("neither", style.IDLE, style.DARK_TEXT), ("untold", style.HALF, ""),
)  # fmt: skip
_NAME = 46
#: Cells that carry their number: so many in all, and so many side by side.
_NUMBERED, _SIDE_BY_SIDE = 256, 24


@dataclass(frozen=True)
class Bar:
    """One stacked bar: what it is called and its length cut into parts."""

    name: str
    whole_ns: int
    moving_ns: int | None
    waiting_ns: int | None

    def parts(self) -> Mapping[str, int]:
        """Lengths by part; all of it is untold where no tasks were recorded."""
        if self.moving_ns is None or self.waiting_ns is None:
            return {"untold": self.whole_ns}
        rest = max(0, self.whole_ns - self.moving_ns - self.waiting_ns)
        return {"moving": self.moving_ns, "waiting": self.waiting_ns, "neither": rest}


def bars(rows: Sequence[Bar], say: Say, ink: str) -> go.Figure:
    """Horizontal bars in milliseconds, the first on top."""
    picture = go.Figure()
    for key, colour, text_colour in PARTS:
        held = [(place, bar, bar.parts()[key]) for place, bar in enumerate(rows) if bar.parts().get(key)]
        if not held:
            continue
        title, meaning = say(f"communication.part_{key}", {}), say(f"communication.part_{key}_means", {})
        picture.add_bar(
            orientation="h", x=[length / 1e6 for _, _, length in held], y=[place for place, _, _ in held],
            name=title, marker={"color": colour, "line": {"width": 0}}, width=0.66,
            text=[i18n.duration(length) for _, _, length in held], textposition="inside", textangle=0,
            insidetextanchor="middle", insidetextfont={"color": text_colour or ink, "size": 12},
            hovertext=[_hover(bar, title, length, meaning) for _, bar, length in held], hoverinfo="text",
        )  # fmt: skip
    picture.update_layout(
        barmode="stack", showlegend=True, height=96 + 30 * max(2, len(rows)), margin={"l": 8, "r": 16, "t": 40, "b": 8},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "traceorder": "normal",
                "font": {"color": ink, "size": 13}, "itemclick": False, "itemdoubleclick": False},
        font={"color": ink}, uniformtext={"mode": "hide", "minsize": 10}, hoverlabel={"align": "left"}, dragmode=False,
    )  # fmt: skip
    shared = {"zeroline": False, "fixedrange": True, "automargin": True, "tickfont": {"color": ink}}
    picture.update_xaxes(ticksuffix=" ms", rangemode="tozero", gridcolor=style.GRID, **shared)
    picture.update_yaxes(
        tickmode="array", tickvals=list(range(len(rows))), ticktext=[_short(bar.name) for bar in rows], showgrid=False,
        range=[len(rows) - 0.4, -0.6], **shared,
    )  # fmt: skip
    return picture


def _short(name: str) -> str:
    text = wording.plain(name)
    return style.plain(text if len(text) <= _NAME else text[: _NAME - 12] + "…" + text[-11:])


def _hover(bar: Bar, title: str, length: int, meaning: str) -> str:
    return (
        f"<b>{style.plain(title)}</b> · {style.wrapped(wording.plain(bar.name))}<br>{i18n.exact(length)} · "
        f"{i18n.share(length, bar.whole_ns)}<br><br>{style.wrapped(meaning)}"
    )


def links(rows: pd.DataFrame, each: int, value: str, say: Say, ink: str) -> go.Figure:
    """Sender down, receiver across: bytes or bandwidth of every link, as one image."""
    scale, unit = (1e6, "MB") if value == "bytes" else (1e9, "GB/s")
    apart = rows[rows["src"] != rows["dst"]]
    held = apart.pivot(index="src", columns="dst", values=value).sort_index().sort_index(axis=1) / scale
    hover = say("communication.link_hover", {"unit": unit})
    titles = (say("communication.link_dst", {}), say("communication.link_src", {}))
    return _matrix(held, unit, hover, titles, each, "transferring", ink)


def waits(rows: pd.DataFrame, say: Say, ink: str) -> go.Figure:
    """Who waits down, for whom across."""
    held = rows.pivot(index="rank", columns="peer", values="wait_ns").sort_index().sort_index(axis=1) / 1e6
    titles = (say("communication.wait_peer", {}), say("communication.wait_rank", {}))
    return _matrix(held, "ms", say("communication.wait_hover", {}), titles, 1, "waiting", ink)


def _matrix(
    held: pd.DataFrame, unit: str, hover: str, titles: tuple[str, str], each: int, role: str, ink: str
) -> go.Figure:
    """The stronger the role's colour, the more."""
    across, down = [_block(int(rank), each) for rank in held.columns], [_block(int(rank), each) for rank in held.index]
    few = held.size <= _NUMBERED
    numbered = few and len(across) <= _SIDE_BY_SIDE
    picture = go.Figure(go.Heatmap(
        z=held.to_numpy(dtype=float, na_value=float("nan")), x=across, y=down,
        colorscale=[[0, roles.faded(role, 0.06)], [1, roles.faded(role, 0.75)]], zmin=0,
        zmax=held.max().max() or 1, hoverongaps=False, xgap=int(few), ygap=int(few),
        hovertemplate=hover, texttemplate="%{z:,.3~r}" if numbered else None, textfont={"color": ink},
        colorbar={"title": {"text": unit}, "tickfont": {"color": ink}, "thickness": 14, "nticks": 6},
        showscale=not numbered or len(down) > 4,
    ))  # fmt: skip
    height = 130 + min(560, max(26 * len(down), 60))
    picture.update_layout(height=height, margin={"l": 8, "r": 8, "t": 16, "b": 8}, font={"color": ink}, dragmode=False)
    for axis, names, title in ((picture.update_xaxes, across, titles[0]), (picture.update_yaxes, down, titles[1])):
        keep = range(0, len(names), max(1, len(names) // 24))
        axis(title=title, type="category", tickmode="array", tickvals=[names[i] for i in keep], showgrid=False,
             zeroline=False, fixedrange=True, automargin=True, tickfont={"color": ink})  # fmt: skip
    picture.update_yaxes(autorange="reversed")
    return picture


def _block(rank: int, each: int) -> str:
    return str(rank) if each == 1 else f"{rank}–{rank + each - 1}"
