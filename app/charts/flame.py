"""Flame graphs, drawn downwards: names below names, as wide as their time; and two of them in one."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from npulens.analysis.selection.flame import Differs, Flame, Frame
from npulens.app.charts import roles, style
from npulens.app.charts.breakdown import Say
from npulens.app.charts.kernels import dress
from npulens.app.text import i18n, wording

#: Levels that are drawn at once; a click goes deeper.
_DEPTH = 12
_NAME = 80


def flame(found: Flame, say: Say, ink: str) -> go.Figure:
    """One flame graph."""
    shades = roles.shades("host")
    depths = _depths([frame.parent for frame in found.frames])
    return _icicle(
        [frame.parent for frame in found.frames], [_name(frame.name, say) for frame in found.frames],
        [frame.total_ns for frame in found.frames], found.total_ns,
        [shades[depth % len(shades)] for depth in depths],
        [_hover(frame, found.total_ns, say) for frame in found.frames], say("flame.all", {}), max(depths, default=0),
        ink,
    )  # fmt: skip


def differing(rows: Sequence[Differs], base_ns: int, head_ns: int, say: Say, ink: str) -> go.Figure:
    """As wide as the longer of both; longer in head is warm, shorter is green, alike is grey."""
    return _icicle(
        [row.parent for row in rows], [_name(row.name, say) for row in rows], _fitting(rows), 0,
        [_shade(row.base_ns, row.head_ns) for row in rows],
        [style.wrapped(say("flame.differs_means", {
            "name": _name(row.name, say), "base": i18n.duration(row.base_ns), "head": i18n.duration(row.head_ns),
            "change": i18n.duration(row.head_ns - row.base_ns),
        })) for row in rows],
        say("flame.differs_all", {"base": i18n.duration(base_ns), "head": i18n.duration(head_ns)}),
        max(_depths([row.parent for row in rows]), default=0), ink,
    )  # fmt: skip


def _icicle(
    parents: Sequence[int], names: Sequence[str], values: Sequence[int], whole: int, colours: Sequence[str],
    hover: Sequence[str], root: str, deep: int, ink: str,
) -> go.Figure:  # fmt: skip
    whole = max(whole, sum(ns for ns, parent in zip(values, parents, strict=True) if parent < 0))
    paper = style.paper(ink)
    picture = go.Figure(go.Icicle(
        ids=["all", *map(str, range(len(names)))], labels=[style.plain(root), *map(style.plain, names)],
        parents=["", *("all" if parent < 0 else str(parent) for parent in parents)], values=[whole, *values],
        branchvalues="total", sort=False, leaf={"opacity": 1}, text=[i18n.duration(ns) for ns in (whole, *values)],
        textinfo="label+text", hovertext=[style.plain(i18n.duration(whole)), *hover], hoverinfo="text",
        marker={"colors": [style.FAINT, *colours], "line": {"width": 1, "color": paper}}, maxdepth=_DEPTH,
        textfont={"color": [ink, *(roles.text_on(one) if one.startswith("#") else ink for one in colours)]},
        tiling={"orientation": "v"}, pathbar={"thickness": 22},
    ))  # fmt: skip
    dress(picture, ink, 90 + 30 * min(_DEPTH, 2 + deep), legend=False)
    picture.update_layout(margin={"t": 30, "l": 4, "r": 4, "b": 4}, uniformtext={"minsize": 10, "mode": "hide"})
    return picture


def _depths(parents: Sequence[int]) -> list[int]:
    """Parents come first."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def _name(name: str, say: Say) -> str:
    """A step has no name of its own here: all of them are one frame."""
    told = wording.plain(name) if name else say("flame.step", {})
    return told if len(told) <= _NAME else told[: _NAME - 1] + "…"


def _hover(frame: Frame, whole: int, say: Say) -> str:
    return style.wrapped(say("flame.frame_means", {
        "name": _name(frame.name, say), "total": i18n.duration(frame.total_ns), "own": i18n.duration(frame.self_ns),
        "share": i18n.share(frame.total_ns, whole), "n": f"{frame.count:,}",
    }))  # fmt: skip


def _fitting(rows: Sequence[Differs]) -> list[int]:
    """The longer of both sides, and never less than what lies below."""
    wide = [max(row.base_ns, row.head_ns) for row in rows]
    below = [0] * len(rows)
    for place in range(len(rows) - 1, -1, -1):
        wide[place] = max(wide[place], below[place])
        if rows[place].parent >= 0:
            below[rows[place].parent] += wide[place]
    return wide


def _shade(base: int, head: int) -> str:
    """How much of the longer side the difference is."""
    change = (head - base) / max(head, base, 1)
    if abs(change) < 0.02:  # hardly differs
        return roles.faded("idle", 0.35)
    return roles.faded("residual" if change > 0 else "host", 0.25 + 0.7 * abs(change))
