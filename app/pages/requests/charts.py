"""Requests in figures: percentiles taken apart, and one request with the engine on one axis."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from npulens.analysis.serving.look import Around
from npulens.analysis.serving.parts import KINDS, Taken
from npulens.analysis.serving.role_times import Job
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import dress
from npulens.app.text import i18n

#: Kind of part -> whose time it is, and which shade of that role it has.
_OF_KIND = {
    "send": ("copying", 0), "front_end_in": ("host", 0), "front_end_out": ("host", 1), "queue": ("waiting", 0),
    "queue_slots": ("waiting", 1), "queue_kv": ("waiting", 2), "queue_budget": ("waiting", 3),
    "between_chunks": ("waiting", 4), "own_prefill": ("computing", 0), "decode": ("computing", 3),
    "longer_batch": ("computing", 2), "recompute": ("computing", 4), "others_prefill": ("transferring", 0),
    "gap": ("idle", 0), "preempted": ("transferring", 2), "stall": ("residual", 0), "export": ("unknown", 0),
    "unexplained": ("residual", 2),
}  # fmt: skip
_OF_CLASS = {
    "prefill": ("computing", 0),
    "decode": ("computing", 3),
    "mixed": ("transferring", 0),
    "dummy": ("idle", 0),
}
#: What a role of a job does.
_OF_ROLE = {
    "rollout": ("computing", 0), "log_prob": ("computing", 3), "reward": ("computing", 4), "update": ("host", 0),
    "weights": ("transferring", 0), "other": ("unknown", 0),
}  # fmt: skip
_STAGES_PX, _NAME = 120, 36
#: Room on both sides of a moment, in its lengths.
_ROOM = 6
_BAR_PX, _LANES_PX, _KERNELS_PX = 22, 330, 40


def colour(kind: str) -> str:
    """The colour of a kind of part."""
    role, shade = _OF_KIND[kind]
    return roles.shades(role)[shade]


def percentiles(found: Sequence[Taken], say: Say, ink: str) -> go.Figure:
    """A bar for each percentile, TTFT and TPOT beside each other: they differ by orders."""
    picture = make_subplots(cols=2, rows=1, horizontal_spacing=0.09)
    shown: set[str] = set()
    for column, measure in enumerate(("ttft", "tpot"), 1):
        mine = [one for one in found if one.measure == measure]
        names = [f"P{one.percent}" for one in mine]
        for kind in KINDS:
            lengths = [one.parts.get(kind, 0.0) / 1e6 for one in mine]
            if not any(lengths):
                continue
            name = say(f"requests.kind_{kind}", {})
            picture.add_bar(
                orientation="h", x=lengths, y=names, name=name, legendgroup=kind, showlegend=kind not in shown,
                marker={"color": colour(kind), "line": {"width": 1, "color": style.paper(ink)}}, hoverinfo="text",
                hovertext=[f"{at}<br>{style.plain(name)}: {i18n.duration(round(ms * 1e6))}"
                           for at, ms in zip(names, lengths, strict=True)], row=1, col=column,
            )  # fmt: skip
            shown.add(kind)
    dress(picture, ink, 250)
    picture.update_layout(barmode="stack")
    picture.update_xaxes(ticksuffix=" ms")
    for column, name in enumerate(("TTFT", "TPOT"), 1):
        picture.update_xaxes(title={"text": name, "font": {"color": ink}}, row=1, col=column)
    picture.update_yaxes(autorange="reversed", showgrid=False)
    return picture


def axis(found: Around, say: Say, ink: str, moment: tuple[int, int] | None = None) -> go.Figure:
    """Queue, KV cache, iterations by class and requests by their parts over one axis, in ms of the chosen request.

    A moment is marked, and the axis shows it with what lies around it.
    """
    order = list(dict.fromkeys(found.pieces["id"]))
    bars = _BAR_PX * len(order)
    kv = bool(found.queue["kv_used"].notna().any())
    traced = bool(len(found.kernels))
    heights = [90.0, 60.0 if kv else 1.0, 120.0, float(bars), *([_KERNELS_PX] if traced else ())]
    picture = make_subplots(rows=len(heights), cols=1, shared_xaxes=True, vertical_spacing=0.03,
                            row_heights=[height / sum(heights) for height in heights])  # fmt: skip
    at = (found.queue["ts_ns"] - found.begin_ns) / 1e6
    for place, (column, name) in enumerate((("waiting", "waiting"), ("running", "running"))):
        picture.add_scatter(
            x=at, y=found.queue[column], name=say(f"requests.{name}", {}), mode="lines", row=1, col=1,
            line={"shape": "hv", "color": roles.colour("waiting" if place == 0 else "computing"), "width": 1.5},
        )  # fmt: skip
    if kv:
        picture.add_scatter(
            x=at, y=found.queue["kv_used"].astype(float), name=say("requests.kv_used", {}), mode="lines", row=2, col=1,
            line={"shape": "hv", "color": roles.colour("unknown"), "width": 1.5},
        )  # fmt: skip
        picture.update_yaxes(range=[0, 1.05], tickformat=".0%", row=2, col=1)
    _iterations(picture, found, say)
    _requests(picture, found, order, say, ink)
    if traced:
        _kernels(picture, found, say)
    dress(picture, ink, _LANES_PX + bars + (_KERNELS_PX if traced else 0))
    picture.update_layout(barmode="stack", hovermode="closest")
    for row, name in enumerate(("lane_queue", "lane_kv", "lane_iterations"), 1):
        if row != 2 or kv:
            picture.update_yaxes(title={"text": say(f"requests.{name}", {}), "font": {"size": 11}}, row=row, col=1)
    picture.update_yaxes(tickmode="array", tickvals=list(range(len(order))), showgrid=False, row=4, col=1,
                         ticktext=[style.plain(f"{one}") for one in order], range=[len(order) - 0.5, -0.5])  # fmt: skip
    if traced:
        picture.update_yaxes(tickmode="array", tickvals=[0], ticktext=[say("requests.lane_kernels", {})],
                             showgrid=False, row=5, col=1)  # fmt: skip
    picture.update_xaxes(ticksuffix=" ms", row=len(heights), col=1)
    picture.update_xaxes(range=_shown(found, moment))
    if moment is not None:
        since, until = ((ns - found.begin_ns) / 1e6 for ns in moment)
        picture.add_vrect(x0=since, x1=until, fillcolor=ink, opacity=0.12, line={"color": ink, "width": 1})
    return picture


def _shown(found: Around, moment: tuple[int, int] | None) -> list[float]:
    """The chosen request with a little around it, in ms of it. Around a moment a few of its lengths are shown."""
    whole = (found.end_ns - found.begin_ns) / 1e6
    if moment is None:
        return [-0.03 * whole, 1.03 * whole]
    since, until = ((ns - found.begin_ns) / 1e6 for ns in moment)
    room = _ROOM * (until - since)
    return [max(-0.03 * whole, since - room), min(1.03 * whole, until + room)]


def _kernels(picture: go.Figure, found: Around, say: Say) -> None:
    """The kernels of the rank; what computes and what moves in two colours."""
    for kind, role in (("kernel", "computing"), ("other", "copying")):
        mine = found.kernels[(found.kernels["kind"] == "kernel") == (kind == "kernel")]
        if len(mine):
            picture.add_bar(
                orientation="h", base=(mine["ts_ns"] - found.begin_ns) / 1e6, x=mine["dur_ns"] / 1e6, y=[0] * len(mine),
                width=0.72, name=say(f"requests.lane_{kind}", {}), row=5, col=1, hoverinfo="text",
                marker={"color": roles.colour(role), "line": {"width": 0}},
                hovertext=[f"{style.plain(name)}: {i18n.duration(int(ns))}"
                           for name, ns in zip(mine["name"], mine["dur_ns"], strict=True)],
            )  # fmt: skip


def _iterations(picture: go.Figure, found: Around, say: Say) -> None:
    for kind, mine in found.iterations.groupby("kind"):
        role, shade = _OF_CLASS.get(str(kind), ("unknown", 0))
        name = say(f"requests.class_{kind}", {}) if kind in _OF_CLASS else str(kind)
        picture.add_bar(
            x=(mine["ts_ns"] + mine["dur_ns"] / 2 - found.begin_ns) / 1e6, width=mine["dur_ns"] / 1e6,
            y=mine["dur_ns"] / 1e6, name=name, marker={"color": roles.shades(role)[shade], "line": {"width": 0}},
            hoverinfo="text", row=3, col=1, hovertext=[
                style.plain(say("requests.hover_iteration", {
                    "kind": name, "dur": i18n.duration(int(row.dur_ns)), "ctx": int(row.ctx_tokens),
                    "gen": int(row.gen_requests),
                })) for row in mine.itertuples()
            ],
        )  # fmt: skip


def _requests(picture: go.Figure, found: Around, order: list[str], say: Say, ink: str) -> None:
    lane = {one: place for place, one in enumerate(order)}
    for kind in [one for one in KINDS if (found.pieces["kind"] == one).any()]:
        mine = found.pieces[found.pieces["kind"] == kind]
        name = say(f"requests.kind_{kind}", {})
        picture.add_bar(
            orientation="h", base=(mine["ts_ns"] - found.begin_ns) / 1e6, x=mine["dur_ns"] / 1e6,
            y=[lane[one] for one in mine["id"]], width=0.72, name=name, row=4, col=1, hoverinfo="text",
            marker={"color": colour(kind), "line": {"width": 0}},
            hovertext=[f"{style.plain(str(row.id))}<br>{style.plain(name)}: {i18n.duration(int(row.dur_ns))}"
                       for row in mine.itertuples()],
        )  # fmt: skip


def stages(found: Job, say: Say, ink: str, moment: tuple[int, int] | None) -> go.Figure:
    """A lane for each stage of a job over its steps, in seconds; a moment is marked with what lies around it."""
    rows = found.rows
    lanes = list(dict.fromkeys(rows["name"]))
    lane = {name: place for place, name in enumerate(lanes)}
    names = [style.plain(name[:_NAME]) or say("requests.uncounted", {}) for name in lanes]
    picture = go.Figure()
    for role, mine in rows.groupby("role", sort=False):
        kind, shade = _OF_ROLE.get(str(role), ("unknown", 0))
        name = say(f"requests.role_{role}", {}) if role in _OF_ROLE else str(role)
        picture.add_bar(
            orientation="h", base=mine["ts_ns"] / 1e9, x=mine["dur_ns"] / 1e9, y=[lane[one] for one in mine["name"]],
            width=0.72, name=style.plain(name), marker={"color": roles.shades(kind)[shade], "line": {"width": 0}},
            hoverinfo="text", hovertext=[f"{style.plain(str(row.name))}: {i18n.duration(int(row.dur_ns))}"
                                         for row in mine.itertuples(index=False)],
        )  # fmt: skip
    dress(picture, ink, _STAGES_PX + _BAR_PX * len(lanes))
    picture.update_layout(barmode="overlay", hovermode="closest")
    picture.update_yaxes(tickmode="array", tickvals=list(range(len(lanes))), ticktext=names, showgrid=False,
                         range=[len(lanes) - 0.5, -0.5])  # fmt: skip
    picture.update_xaxes(ticksuffix=" s")
    if moment is not None:
        since, until = (ns / 1e9 for ns in moment)
        room = _ROOM * (until - since)
        last = float((rows["ts_ns"] + rows["dur_ns"]).max()) / 1e9
        picture.update_xaxes(range=[max(0.0, since - room), min(last, until + room)])
        picture.add_vrect(x0=since, x1=until, fillcolor=ink, opacity=0.12, line={"color": ink, "width": 1})
    return picture


def told(rows: pd.DataFrame, say: Say) -> list[str]:
    """Kinds of parts in words."""
    return [say(f"requests.kind_{kind}", {}) for kind in rows]
