"""The parallel strategy as pictures: the grid of ranks, and where each domain's time goes."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from npulens.analysis.selection.domains import Place, Strategy
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import dress
from npulens.app.text import i18n

#: Ranks that carry their number.
_LABELLED = 256
_SQUARE, _HIGH = 46, 520
#: A grid of one long row goes on in the next.
_FOLDED = 32


def value(place: Place, shown: str) -> float | None:
    """The share of the window that a rank spends so, in percent; None: not recorded."""
    if not place.dur_ns:
        return None
    kind = shown.removeprefix("wait ")
    if kind != shown:
        waiting = [domain.waiting_ns for domain in place.domains if domain.kind == kind]
        told = waiting[0] if waiting else None
    else:
        told = place.bubble_ns if shown == "bubble" else place.computing_ns
    return None if told is None else 100 * told / place.dur_ns


def grid(found: Strategy, shown: str, name: str, say: Say, ink: str) -> go.Figure:
    """Pipeline stages downwards, the other ways across; crossed squares were not captured or do not tell."""
    places = found.places
    values = [value(place, shown) for place in places]
    rows, columns = 1 + max(place.row for place in places), 1 + max(place.column for place in places)
    folded = rows == 1 and columns > _FOLDED
    at_x = [place.column % _FOLDED if folded else place.column for place in places]
    at_y = [place.column // _FOLDED if folded else place.row for place in places]
    rows, columns = 1 + max(at_y), 1 + max(at_x)
    size = max(6, min(_SQUARE, _HIGH // rows, 1100 // columns))
    wide = min(1.0, max(0.3, columns * (size + 8) / 1100))  # a few squares stand side by side, not one at each end
    role = "waiting" if shown.startswith("wait ") else "idle" if shown == "bubble" else shown
    most = max((one for one in values if one is not None), default=0.0) or 1.0
    picture = go.Figure()
    for known in (False, True):
        some = [at for at, one in enumerate(values) if (one is not None) is known]
        if not some:
            continue
        picture.add_scatter(
            x=[at_x[at] for at in some], y=[at_y[at] for at in some],
            mode="markers+text" if len(places) <= _LABELLED else "markers",
            text=[str(places[at].rank) for at in some], customdata=[[at] for at in some],
            textfont={"color": ink, "size": 12}, showlegend=False, hoverinfo="text",
            hovertext=[_told(places[at], values[at], name, say) for at in some],
            marker={
                "symbol": "square" if known else "square-x-open", "size": size,
                "line": {"width": 1, "color": style.QUIET_TEXT},
                **({"color": [values[at] for at in some], "cmin": 0, "cmax": most,
                    "colorscale": [[0, roles.faded(role, 0.08)], [1, roles.faded(role, 0.95)]],
                    "colorbar": {"x": wide + 0.02, "ticksuffix": " %", "thickness": 12, "tickfont": {"color": ink},
                                 "title": {"text": style.plain(name), "font": {"color": ink}}}}
                   if known else {"color": style.FAINT}),
            },
        )  # fmt: skip
    dress(picture, ink, 110 + max(2, rows) * (size + 8), legend=False)
    picture.update_layout(clickmode="event+select")
    across = [kind for kind, *_ in found.sizes if kind in ("dp", "ep", "cp", "tp")]
    picture.update_xaxes(range=[-0.6, columns - 0.4], domain=[0, wide], showgrid=False, showticklabels=False,
                         title_text=" · ".join(kind.upper() for kind in across))  # fmt: skip
    picture.update_yaxes(
        range=[rows - 0.4, -0.6], showgrid=False, tickmode="array", tickvals=list(range(rows)),
        ticktext=["" if folded else _row(found, row, say) for row in range(rows)],
    )  # fmt: skip
    return picture


def _row(found: Strategy, row: int, say: Say) -> str:
    """What a row of the grid is called; ranks without a place have one of their own."""
    if not any(place.at for place in found.places if place.row == row):
        return style.plain(say("parallel.not_placed", {}))
    return f"PP {row}" if any(kind == "pp" for kind, *_ in found.sizes) else ""


def _told(place: Place, share: float | None, name: str, say: Say) -> str:
    at = ", ".join(f"{kind.upper()} {number}" for kind, number in place.at)
    told = say("parallel.not_captured", {}) if not place.captured else f"{name}: {_percent(share)}"
    return style.wrapped(f"rank {place.rank} · {at} · {told}")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1f} %"


def domains(means: Mapping[str, tuple[int, int | None, int | None]], say: Say, ink: str) -> go.Figure:
    """One bar a domain of the mean rank; what runs beside computing is pale."""
    names = sorted(means, key=lambda kind: -means[kind][0])
    picture = go.Figure()
    for part, colour in (
        ("waiting", roles.colour("waiting")), ("moving", roles.colour("transferring")),
        ("hidden", roles.faded("transferring", 0.25)), ("untold", style.HALF),
    ):  # fmt: skip
        held = [(place, _parts(*means[kind]).get(part, 0)) for place, kind in enumerate(names)]
        if not any(ns for _, ns in held):
            continue
        picture.add_bar(
            orientation="h", y=[place for place, ns in held if ns], x=[ns / 1e6 for _, ns in held if ns], width=0.66,
            name=say(f"parallel.part_{part}", {}), marker={"color": colour, "line": {"width": 0}},
            text=[i18n.duration(ns) for _, ns in held if ns], textposition="inside", hoverinfo="text", textangle=0,
            insidetextfont={"color": ink if part in ("hidden", "untold") else roles.text_on(colour)},
            hovertext=[f"{style.plain(say(f'parallel.part_{part}', {}))}<br>{i18n.duration(ns)}"
                       for _, ns in held if ns],
        )  # fmt: skip
    dress(picture, ink, 96 + 34 * max(2, len(names)))
    picture.update_layout(barmode="stack", uniformtext={"mode": "hide", "minsize": 10})
    picture.update_xaxes(ticksuffix=" ms", rangemode="tozero")
    picture.update_yaxes(
        tickmode="array", tickvals=list(range(len(names))), showgrid=False, range=[len(names) - 0.4, -0.6],
        ticktext=[style.plain(kind.upper() or say("parallel.other", {})) for kind in names],
    )  # fmt: skip
    return picture


def _parts(busy: int, exposed: int | None, waiting: int | None) -> dict[str, int]:
    if exposed is None:
        return {"untold": busy}
    if waiting is None:
        return {"hidden": busy - exposed, "untold": exposed}
    return {"hidden": busy - exposed, "waiting": waiting, "moving": max(0, exposed - waiting)}
