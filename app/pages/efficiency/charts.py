"""Efficiency in figures: operators below the roofs of their device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10, sqrt

import pandas as pd
import plotly.graph_objects as go

from npulens.analysis.look.efficiency import Part
from npulens.analysis.modules.measure import Module
from npulens.analysis.work.roofs import Roofs
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import dress
from npulens.app.text import i18n, wording

#: What bounds an operator -> colour and mark; no chart relies on colour alone.
MARKS: Mapping[str, tuple[str, str]] = {
    "compute": (style.COMPUTING, "circle"), "memory": (style.COMMUNICATION, "diamond"),
    "launch": (style.COPY, "triangle-up"), "compute_counted": (style.COMPUTING, "circle-dot"),
    "memory_counted": (style.COMMUNICATION, "diamond-dot"), "scalar_counted": (style.RESIDUAL, "cross"),
    "unknown": (style.QUIET_TEXT, "square"),
}  # fmt: skip
#: What a part of the step is drawn in: used, lost in kernels, not known, and the rest as in the other charts.
_USED, _LOST, _UNTOLD = style.FINE, style.RESIDUAL, style.QUIET_TEXT
PARTS: Mapping[str, str] = {
    "at_peak": _USED, "matrix_roof": style.COMPUTING, "matrix_slow": _LOST, "other_roof": style.COMPUTING,
    "other_slow": _LOST, "unfused": _LOST, "above_roof": _UNTOLD, "no_roof": _UNTOLD, "no_work": _UNTOLD,
    "communication": style.COMMUNICATION, "copies": style.COPY, "unknown": style.UNKNOWN, "idle": style.IDLE,
}  # fmt: skip
#: Boxes of modules narrower than this part of the whole are left out: nobody could read them.
_NARROW = 0.001
#: Width of the dot of the operator with most time, and of one with none, in pixels.
_LARGEST, _LEAST = 34, 6
#: Operators that are named in the plot.
_NAMED = 4
_PREFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
#: Room beyond the outermost dot, as a factor.
_ROOM = 2.5


#: Operators that take less of the device's time are not drawn: they only stretch the axes.
_WORTH_A_DOT = 1e-4


def drawable(operators: pd.DataFrame) -> pd.DataFrame:
    """The operators that have a place: they compute something, move something, and take some time."""
    placed = (operators["intensity"] > 0) & (operators["flops_per_s"] > 0)
    return operators[placed & (operators["of_time"] >= _WORTH_A_DOT)]


def roofline(operators: pd.DataFrame, roofs: Roofs | None, say: Say, ink: str) -> go.Figure:
    """Operations per byte against operations per second, both logarithmic; the roofs of the device above them."""
    rows = drawable(operators)
    peaks = _peaks(rows, roofs)
    memory = roofs.memory if roofs is not None else None
    across, up = _ranges(rows, peaks, memory)
    picture = go.Figure()
    _roofs(picture, peaks, memory, across, say, ink)
    most = float(rows["step_ns"].max()) if len(rows) else 1.0
    for bound, (colour, mark) in MARKS.items():
        mine = rows[rows["told"] == bound]
        for over in (False, True):
            _dots(picture, mine[mine["above"].notna() == over], (bound, colour, mark), over, most, say)
    _names(picture, rows.head(_NAMED), ink)
    dress(picture, ink, 480)
    picture.update_layout(hovermode="closest", legend={"itemsizing": "constant"})
    for update, span, unit, title in (
        (picture.update_xaxes, across, "", "efficiency.axis_intensity"),
        (picture.update_yaxes, up, "FLOP/s", "efficiency.axis_rate"),
    ):
        marks = _decades(span)
        update(type="log", range=[log10(end) for end in span], tickmode="array", tickvals=marks,
               ticktext=[_mark(value, unit) for value in marks], title_text=style.plain(say(title, {})))  # fmt: skip
    return picture


def _peaks(rows: pd.DataFrame, roofs: Roofs | None) -> dict[str, float]:
    """The peaks that bind some operator here; where none computes on the matrix units, the one of the other units."""
    if roofs is None:
        return {}
    used = [str(one) for one in rows["precision"].dropna().unique()]
    found = {name: roofs.matrix[name] for name in roofs.matrix if name in used}
    if roofs.vector is not None and rows["precision"].isna().any() and roofs.vector not in found.values():
        found["vector"] = roofs.vector
    return found


def _ranges(
    rows: pd.DataFrame, peaks: Mapping[str, float], memory: float | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """What the axes show: every dot, every peak, and where the roofs meet."""
    ridges = [peak / memory for peak in peaks.values()] if memory else []
    xs = [*rows["intensity"], *ridges] or [1.0]
    ys = [*rows["flops_per_s"], *peaks.values()] or [1e12]
    across = min(xs) / _ROOM, max(xs) * _ROOM * _ROOM
    return across, (min(ys) / _ROOM, max(ys) * _ROOM)


def _roofs(
    picture: go.Figure, peaks: Mapping[str, float], memory: float | None, across: tuple[float, float], say: Say,
    ink: str,
) -> None:  # fmt: skip
    ends = [across[0], across[1]]
    highest = max(peaks.values(), default=None)
    if memory is not None:
        end = highest / memory if highest else across[1]
        name = say("efficiency.roof_memory", {"rate": rate(memory, "B/s")})
        _line(picture, [across[0], end], [across[0] * memory, end * memory], name, "solid", ink)
        middle = sqrt(across[0] * end)
        picture.add_annotation(
            x=log10(middle), y=log10(middle * memory), text=style.plain(name), showarrow=False, xanchor="right",
            yanchor="bottom", font={"color": style.QUIET_TEXT, "size": 12},
        )  # fmt: skip
    for name, peak in peaks.items():
        begin = min(peak / memory, across[1]) if memory else ends[0]
        told = say("efficiency.roof_vector", {}) if name == "vector" else name
        label = f"{told} {rate(peak, 'FLOP/s')}"
        _line(picture, [begin, across[1]], [peak, peak], label, "solid" if peak == highest else "dot", ink)
        picture.add_annotation(
            x=log10(across[1]), y=log10(peak), text=style.plain(label), showarrow=False, xanchor="right",
            yanchor="bottom", font={"color": style.QUIET_TEXT, "size": 12},
        )  # fmt: skip


def _line(picture: go.Figure, xs: Sequence[float], ys: Sequence[float], name: str, dash: str, ink: str) -> None:
    picture.add_scatter(x=list(xs), y=list(ys), mode="lines", line={"color": ink, "width": 1.5, "dash": dash},
                        opacity=0.55, showlegend=False, hoverinfo="skip", name=style.plain(name))  # fmt: skip


def _dots(picture: go.Figure, rows: pd.DataFrame, how: tuple[str, str, str], over: bool, most: float, say: Say) -> None:
    """Operators of one bound; hollow where they are above their roof."""
    if not len(rows):
        return
    bound, colour, mark = how
    name = say("efficiency.dots_above" if over else f"efficiency.dots_{bound}", {})
    picture.add_scatter(
        x=list(rows["intensity"]), y=list(rows["flops_per_s"]), mode="markers", name=style.plain(name),
        marker={
            "color": colour, "symbol": f"{mark}-open" if over else mark, "opacity": 0.78,
            "size": [_LEAST + (_LARGEST - _LEAST) * sqrt(ns / most) for ns in rows["step_ns"]],
            "line": {"width": 2 if over else 1, "color": colour if over else "rgba(255,255,255,0.7)"},
        },
        customdata=[int(place) for place in rows.index], hoverinfo="text",
        hovertext=[_hover(row, say) for _, row in rows.iterrows()],
    )  # fmt: skip


def _hover(row: pd.Series, say: Say) -> str:
    lines = [wording.plain(str(row["operator"]))]
    if isinstance(row["shapes"], str):
        lines.append(wording.plain(row["shapes"])[:160])
    known = "share" if pd.notna(row["share"]) else "above" if pd.notna(row["above"]) else "none"
    share = row["share"] if known == "share" else row["above"]
    lines.append(say("efficiency.hover", {
        "time": i18n.duration(round(row["step_ns"])), "part": percent(row["of_time"]),
        "flops": rate(row["flops_per_s"], "FLOP/s"), "bytes": rate(row["bytes_per_s"], "B/s"),
        "intensity": number(row["intensity"]),
    }))  # fmt: skip
    lines.append(say(f"efficiency.hover_{known}" + ("" if row["complete"] or known != "share" else "_least"), {
        "share": percent(share), "times": "" if known != "above" else f"{share:.2f}",
    }))  # fmt: skip
    if isinstance(row["pipe"], str):
        lines.append(say("efficiency.hover_pipe", {"pipe": row["pipe"], "share": percent(row["pipe_share"])}))
    return "<br>".join(style.wrapped(line) for line in lines)


def _names(picture: go.Figure, rows: pd.DataFrame, ink: str) -> None:
    """The names of the operators with most time, beside their dots; one of those that lie on each other."""
    placed: list[tuple[float, float]] = []
    for _, row in rows.iterrows():
        x, y = log10(row["intensity"]), log10(row["flops_per_s"])
        if all(abs(x - left) > 0.5 or abs(y - low) > 0.35 for left, low in placed):
            placed.append((x, y))
            name = wording.plain(str(row["operator"])).rsplit("::", 1)[-1][:28]
            picture.add_annotation(x=x, y=y, text=style.plain(name), showarrow=False, yshift=-24,
                                   font={"color": ink, "size": 12})  # fmt: skip


def _decades(span: tuple[float, float]) -> list[float]:
    """Powers of ten within, every second or third where there are many."""
    low, high = ceil(log10(span[0])), floor(log10(span[1]))
    return [10.0**power for power in range(low, high + 1, max(1, (high - low) // 6))]


def _mark(value: float, unit: str) -> str:
    """A power of ten as a mark of an axis: 10 TFLOP/s, 0.1."""
    if not unit:
        return f"{value:g}" if value < 1000 else f"{value:,.0f}"
    return rate(value, unit)


def rate(value: float | None, unit: str) -> str:
    """So many a second, in the unit that reads best: 610.5 TFLOP/s."""
    if value is None or pd.isna(value):
        return "–"
    size, prefix = next(((size, prefix) for size, prefix in _PREFIXES if value >= size), (1, ""))
    return f"{value / size:.4g} {prefix}{unit}"


def percent(share: float | None) -> str:
    """0.617 as 61.7 %."""
    return "–" if share is None or pd.isna(share) else f"{100 * share:.1f} %"


def number(value: float) -> str:
    """Three digits, without an exponent: 0.0515, 12.3, 1,584."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def waterfall(parts: Sequence[Part], say: Say, ink: str) -> go.Figure:
    """From the peak down to the whole: each part begins where the one above it ends."""
    picture = go.Figure()
    at, whole = 0, sum(part.ns for part in parts)
    names = [*(part.name for part in parts), "whole"]
    begins = []
    for part in parts:
        begins.append(at)
        at += part.ns
    bars = [*zip(begins, (part.ns for part in parts), (PARTS[part.name] for part in parts), strict=True),
            (0, whole, style.FAINT)]  # fmt: skip
    scale, unit = (1e6, "ms") if whole >= 10**6 else (1e3, "µs")
    picture.add_bar(
        orientation="h", base=[begin / scale for begin, _, _ in bars], x=[ns / scale for _, ns, _ in bars],
        y=list(range(len(bars))), marker={"color": [colour for _, _, colour in bars], "line": {"width": 0}},
        text=[f"{i18n.duration(ns)} · {i18n.share(ns, whole)}" for _, ns, _ in bars], textposition="outside",
        cliponaxis=False, hoverinfo="text", textfont={"color": ink}, hovertext=[
            f"{style.wrapped(say(f'efficiency.part_{name}', {}))}<br>"
            f"{style.wrapped(say(f'efficiency.part_{name}_means', {}))}<br>{ns:,} ns"
            for name, (_, ns, _) in zip(names, bars, strict=True)
        ],
    )  # fmt: skip
    dress(picture, ink, 60 + 27 * len(bars), legend=False)
    picture.update_layout(bargap=0.25)
    picture.update_xaxes(ticksuffix=f" {unit}", range=[0, whole / scale * 1.22 or 1])
    picture.update_yaxes(tickmode="array", tickvals=list(range(len(bars))), showgrid=False,
                         range=[len(bars) - 0.5, -0.5],
                         ticktext=[style.plain(say(f"efficiency.part_{name}", {})) for name in names])  # fmt: skip
    return picture


def modules(rows: Sequence[Module], parts: int, say: Say, ink: str) -> go.Figure:
    """The tree of modules downwards, as wide as their device time; the colour is their share of the roof."""
    dark = ink == style.INK["dark"]
    edge, root = ("#12161c", "#2a323c") if dark else ("#ffffff", "#e3e7eb")
    whole = sum(row.total.device_ns for row in rows if row.parent < 0) or 1
    drawn = [row for row in rows if row.total.device_ns >= _NARROW * whole]
    times = [whole, *(row.total.device_ns for row in drawn)]
    names = [style.plain(say("efficiency.modules_all", {})), *(_module(row, say) for row in drawn)]
    shades = [shade(row.total.share) for row in drawn]
    hover = [style.plain(i18n.duration(whole // parts)), *(_module_hover(row, parts, whole, say) for row in drawn)]
    picture = go.Figure(go.Icicle(
        ids=["all", *(str(row.id) for row in drawn)], labels=names, values=times, branchvalues="total", sort=False,
        parents=["", *("all" if row.parent < 0 else str(row.parent) for row in drawn)], leaf={"opacity": 1},
        marker={"colors": [root, *shades], "line": {"width": 1, "color": edge}},
        textfont={"color": [ink, *(roles.text_on(one) for one in shades)]},
        text=[i18n.duration(ns // parts) for ns in times], textinfo="label+text", hovertext=hover, hoverinfo="text",
        maxdepth=_DEPTH, tiling={"orientation": "v"}, pathbar={"thickness": 22},
    ))  # fmt: skip
    deep = min(_DEPTH, 2 + max((row.depth for row in drawn), default=0))
    dress(picture, ink, 90 + 42 * deep, legend=False)
    picture.update_layout(margin={"t": 30, "l": 4, "r": 4, "b": 4}, uniformtext={"minsize": 10, "mode": "hide"})
    return picture


#: Levels of modules that are drawn at once; a click goes deeper.
_DEPTH = 7
#: From far below the roof over half of it to the roof itself.
_SHADES = ((213, 94, 0), (240, 217, 168), (0, 114, 178))


def shade(share: float | None) -> str:
    """The colour of a share of the roof; grey where it is not known."""
    if share is None:
        return style.IDLE
    at = min(max(share, 0.0), 1.0) * (len(_SHADES) - 1)
    low = min(int(at), len(_SHADES) - 2)
    mixed = (round(a + (at - low) * (b - a)) for a, b in zip(_SHADES[low], _SHADES[low + 1], strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _module(row: Module, say: Say) -> str:
    if row.place != "module":
        return style.plain(say(f"efficiency.place_{row.place}", {}))
    name = wording.plain(row.name)
    return style.plain(name if not row.type or row.type in name else f"{name} {wording.plain(row.type)}"[:60])


def _module_hover(row: Module, parts: int, whole: int, say: Say) -> str:
    own = row.total
    lines = [wording.plain(row.path)[:200], say("efficiency.module_hover", {
        "time": i18n.duration(own.device_ns // parts), "part": i18n.share(own.device_ns, whole),
        "forward": i18n.duration(own.forward_ns // parts), "backward": i18n.duration(own.backward_ns // parts),
        "again": i18n.duration(own.recompute_ns // parts), "share": percent(own.share),
    })] if row.place == "module" else [_module(row, say), say(f"efficiency.place_{row.place}_means", {})]  # fmt: skip
    return "<br>".join(style.wrapped(line) for line in lines)
