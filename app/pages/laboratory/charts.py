"""Ratios of rewrites with their intervals, a program by its modules, and the two graphs of one replaced place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from npulens.analysis.look.laboratory import Box, Part, Side, Trial
from npulens.app.charts import style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import dress, short
from npulens.app.text import wording

#: Below this difference two programs are the same (collectors/harness/versus.py).
_MARGIN = 0.01
#: Border and filling of a node by what became of it, on white and on near-black.
_BORDER = {"kept": style.QUIET_TEXT, "gone": style.RESIDUAL, "changed": style.COMMUNICATION, "new": style.COMPUTING}
_FILLING = {
    "light": {"kept": "#f3f5f7", "gone": "#fbe5d8", "changed": "#fdf1d6", "new": "#dcecf7"},
    "dark": {"kept": "#1c222b", "gone": "#4a2a16", "changed": "#45360f", "new": "#0f3550"},
}
_MARK = {"kept": "", "gone": "− ", "changed": "~ ", "new": "+ "}
_ROW_PX, _WIDE, _HIGH = 104, 0.94, 0.7
#: Letters of a line: a box on a telephone is about a hundred pixels wide.
_LETTERS = 14


def ratios(trials: Sequence[Trial], say: Say, ink: str) -> go.Figure:
    """One row a rewrite: its time as a multiple of the original's with its interval, and what was predicted."""
    picture = go.Figure()
    picture.add_vrect(x0=1 / (1 + _MARGIN), x1=1 + _MARGIN, fillcolor=style.FAINT, line_width=0)
    picture.add_vline(x=1, line={"color": style.QUIET_TEXT, "width": 1.5})
    ends: list[float] = []
    for place, trial in enumerate(trials):
        speed, colour = trial["speed"], _colour(trial)
        ends += [speed["low"], speed["high"]]
        picture.add_scatter(
            x=[speed["ratio"]], y=[place], mode="markers+text", marker={"color": colour, "size": 10},
            text=[f"{speed['ratio']:.3f}"], textposition="top center", textfont={"color": ink}, cliponaxis=False,
            error_x={"type": "data", "symmetric": False, "array": [speed["high"] - speed["ratio"]],
                     "arrayminus": [speed["ratio"] - speed["low"]], "color": colour, "thickness": 3, "width": 6},
            hovertemplate=f"{speed['ratio']:.4f} [{speed['low']:.4f}, {speed['high']:.4f}]<extra></extra>",
            name=style.plain(say("laboratory.measured", {})), showlegend=False,
        )  # fmt: skip
    _predictions(picture, trials, ends, say)
    dress(picture, ink, 100 + 46 * len(trials), legend=any(_claimed(each) for each in trials))
    low, high = max(min([*ends, 0.95]), 1e-6), min(max([*ends, 1.05]), 1e6)
    marks = _marks(low, high)
    picture.update_xaxes(type="log", title_text=style.plain(say("laboratory.axis_ratio", {})), tickmode="array",
                         tickvals=list(marks), ticktext=[f"{mark:g} ×" for mark in marks],
                         range=[log10(low) - 0.03, log10(high) + 0.03])  # fmt: skip
    picture.update_yaxes(
        tickmode="array", tickvals=list(range(len(trials))), showgrid=False, range=[len(trials) - 0.5, -0.7],
        ticktext=[short(f"{each['rewrite']}  {say('lab.verdict_' + each['verdict'], {})}", 40) for each in trials],
    )  # fmt: skip
    return picture


def _marks(low: float, high: float) -> tuple[float, ...]:
    """Ticks that a ratio is read by."""
    if high < 1.4 * low:
        return (0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3)
    if high < 4 * low:
        return (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 2.5, 3, 3.5)
    return (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def _claimed(trial: Trial) -> bool:
    told = trial.get("predicted") or {}
    return bool(told.get("claimed") and told.get("guess") and told["guess"]["mid"] > 0)


def _predictions(picture: go.Figure, trials: Sequence[Trial], ends: list[float], say: Say) -> None:
    """A hollow mark where theory claimed a gain before it was timed."""
    known = [(place, each["predicted"]["guess"]) for place, each in enumerate(trials) if _claimed(each)]
    if not known:
        return
    ends += [guess["mid"] for _, guess in known]
    lows = [max(guess["low"], guess["mid"] / 20) for _, guess in known]
    picture.add_scatter(
        x=[guess["mid"] for _, guess in known], y=[place + 0.22 for place, _ in known], mode="markers",
        marker={"symbol": "diamond-open", "size": 9, "color": style.COPY, "line": {"width": 2}},
        error_x={"type": "data", "symmetric": False, "color": style.COPY, "thickness": 1, "width": 4,
                 "array": [max(0.0, guess["high"] - guess["mid"]) for _, guess in known],
                 "arrayminus": [max(0.0, guess["mid"] - low) for (_, guess), low in zip(known, lows, strict=True)]},
        name=style.plain(say("laboratory.predicted", {})),
        hovertemplate=[f"{guess['mid']:.4f} [{guess['low']:.4f}, {guess['high']:.4f}]<extra></extra>"
                       for _, guess in known],
    )  # fmt: skip


def _colour(trial: Trial) -> str:
    return {"faster": style.COMPUTING, "slower": style.RESIDUAL, "refused": style.COPY}.get(
        trial["verdict"], style.QUIET_TEXT)  # fmt: skip


def parts(rows: Sequence[Part], say: Say, ink: str) -> go.Figure:
    """The program by modules: what stays, what goes, what is changed, what comes."""
    picture = go.Figure()
    colours = {"kept": style.IDLE, "changed": style.COMMUNICATION, "gone": style.RESIDUAL, "new": style.COMPUTING}
    places = list(range(len(rows)))
    for name, colour in colours.items():
        counts = [getattr(each, name) for each in rows]
        if any(counts):
            picture.add_bar(
                orientation="h", x=counts, y=places, marker={"color": colour, "line": {"width": 0}},
                name=style.plain(_MARK[name] + say(f"laboratory.state_{name}", {})),
                hovertemplate=[f"{short(each.module, 80)}: {count:,}<extra></extra>"
                               for each, count in zip(rows, counts, strict=True)],
            )  # fmt: skip
    dress(picture, ink, 90 + 20 * max(len(rows), 2))
    picture.update_layout(barmode="stack", bargap=0.25)
    picture.update_xaxes(title_text=style.plain(say("laboratory.axis_nodes", {})), rangemode="tozero")
    names = [short(each.module or say("laboratory.whole", {}), 34) for each in rows]
    picture.update_yaxes(tickmode="array", tickvals=places, ticktext=names, showgrid=False,
                         range=[len(rows) - 0.5, -0.5])  # fmt: skip
    return picture


def graph(side: Side, ink: str) -> go.Figure:
    """One neighbourhood: boxes in layers, replaced ones coloured and marked, lines from who gives to who reads."""
    picture = go.Figure()
    at, widest = {box.name: box for box in side.boxes}, 1.5
    for one, other in side.lines:
        aside = _aside(at[one], at[other], side.boxes)
        widest = max(widest, abs(aside or 0.0))
        picture.add_shape(type="path", path=_curve(at[one], at[other], aside), layer="below",
                          line={"color": style.QUIET_TEXT, "width": 1.4})  # fmt: skip
    filling = _FILLING["dark" if ink == style.INK["dark"] else "light"]
    for box in side.boxes:
        kept = box.state == "kept"
        picture.add_shape(
            type="rect", x0=box.column - _WIDE / 2, x1=box.column + _WIDE / 2, y0=box.row - _HIGH / 2,
            y1=box.row + _HIGH / 2, fillcolor=filling[box.state], layer="below",
            line={"color": _BORDER[box.state], "width": 1 if kept else 2.5,
                  "dash": "dash" if box.state == "gone" else "solid"},
        )  # fmt: skip
        picture.add_annotation(x=box.column, y=box.row, text=_label(box.op, box.value, box.state), showarrow=False,
                               font={"color": ink, "size": 11})  # fmt: skip
    picture.add_scatter(
        x=[box.column for box in side.boxes], y=[box.row for box in side.boxes], mode="markers",
        marker={"size": 30, "opacity": 0}, hoverinfo="text", hovertext=[
            "<br>".join(short(text, 90) for text in (box.name, box.op, box.module, box.value) if text)
            for box in side.boxes
        ],
    )  # fmt: skip
    rows = max((box.row for box in side.boxes), default=0.0)
    wide = max([widest, *(abs(box.column) + 0.5 for box in side.boxes)]) + 0.04
    dress(picture, ink, int(_ROW_PX * (rows + 1)) + 12, legend=False)
    hidden: Mapping[str, Any] = {"visible": False, "showgrid": False}
    picture.update_layout(margin={"l": 2, "r": 2, "t": 2, "b": 2})
    picture.update_xaxes(range=[-wide, wide], **hidden)
    picture.update_yaxes(range=[rows + 0.5, -0.5], **hidden)
    return picture


def _aside(first: Box, last: Box, boxes: Sequence[Box]) -> float | None:
    """The column where a line passes boxes that stand between its ends; None where none does."""
    between = [box for box in boxes if first.row < box.row < last.row]
    height = last.row - first.row
    crossed = [
        box for box in between
        if abs(box.column - first.column - (last.column - first.column) * (box.row - first.row) / height) < 0.55
    ]  # fmt: skip
    if not crossed:
        return None
    left, right = min(box.column for box in between) - 0.6, max(box.column for box in between) + 0.6
    middle = (first.column + last.column) / 2
    return left if abs(left - middle) <= abs(right - middle) else right


def _curve(first: Box, last: Box, aside: float | None) -> str:
    x0, y0, x1, y1 = first.column, first.row + _HIGH / 2, last.column, last.row - _HIGH / 2
    middle = (y0 + y1) / 2
    if aside is None:
        return f"M {x0},{y0} C {x0},{middle} {x1},{middle} {x1},{y1}"
    begin, end = y0 + 0.35, y1 - 0.35
    return (f"M {x0},{y0} C {x0},{begin} {aside},{y0} {aside},{begin} L {aside},{end} "
            f"C {aside},{y1} {x1},{end} {x1},{y1}")  # fmt: skip


def _label(op: str, value: str, state: str) -> str:
    """The operator in bold, and below it type and sizes, both in lines that fit into a box."""
    name = "<br>".join(style.plain(line) for line in _lines(_MARK[state] + wording.plain(op), "_"))
    sizes = "<br>".join(style.plain(line) for line in _lines(wording.plain(value).replace(" × ", "×"), " ")[:2])
    return f"<b>{name}</b>" + (f"<br><span style='font-size:9px'>{sizes}</span>" if sizes else "")


def _lines(text: str, between: str) -> list[str]:
    """A text in lines of few letters, broken after ``between`` where it has some."""
    found = [""]
    for word in text.split(between):
        longer = f"{found[-1]}{between}{word}" if found[-1] else word
        if len(longer) <= _LETTERS or not found[-1]:
            found[-1] = longer
        else:
            found[-1] += between if between == "_" else ""
            found.append(word)
    return [line if len(line) <= _LETTERS + 1 else line[:_LETTERS] + "…" for line in found][:3]
