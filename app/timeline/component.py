"""The canvas as a Streamlit component: hands it words, a token and the place a link names.

The canvas keeps the window of time to itself while it moves. Once it has rested it says where it is, and that goes into
the link. Only a fragment runs for it, and no data passes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.timeline import perfetto, route, scripts

#: What a link may say about the timeline, beside the run and the language.
PLACE = ("from", "to", "span", "area", "by", "pin", "hide", "order", "fold", "mark", "flow", "q", "y", "rank")
#: Words that a change of page carries along: they alone do not say that a link names a place.
_CARRIED = ("span", "area")
#: Words that belong to one selection: with another they say nothing.
_WHERE = ("from", "to", "span", "area", "y")
_LONGEST = 4000  # characters of one of these
#: How high the canvas is where it is one of several, and the picture of all ranks at most; alone it takes the window.
_BESIDE_PX, _PICTURE_PX = 480, 480  # a picture of as many lanes as there may be, below buttons in two rows

_canvas = st.components.v2.component("npulens_timeline", css=scripts.css(), js=scripts.js())


@dataclass(frozen=True)
class Painted:
    """A window that is framed on the canvas; without a rank on every one. With a change it is painted by that."""

    rank: int | None
    ts_ns: int
    dur_ns: int
    change_ns: int | None = None  # how much longer the second of two runs takes there; less where it is negative


@dataclass(frozen=True)
class _Shape:
    """What a canvas is for."""

    by: str = "ranks"  # how its rows are arranged at first: picture, ranks or lanes
    height: int | None = None
    picture: int | None = None  # how high it may be while it is a picture of all ranks
    pair: Mapping[str, object] | None = None  # its zero, and the name that it shares with the other


@st.fragment
def show(ctx: Context, run_id: str, painted: Sequence[Painted] = ()) -> None:
    """The timeline of a run, at the place the link names."""
    _placed(ctx, run_id, painted, _Shape())


@st.fragment
def strip(ctx: Context, run_id: str, painted: Sequence[Painted] = ()) -> None:
    """The job as a picture, one lane a rank, which opens to the timeline in its place."""
    _placed(ctx, run_id, painted, _Shape(by="picture", picture=_PICTURE_PX))


@st.fragment
def beside(ctx: Context, run_id: str) -> None:
    """The timeline of one of several runs on a page, from its beginning; the link keeps no place of it."""
    _draw(ctx, run_id, f"timeline_beside_{run_id}", {}, lambda: None, (), _Shape(height=_BESIDE_PX))


@st.fragment
def pair(
    ctx: Context, base: str, base_zero_ns: int, head: str, head_zero_ns: int, length_ns: int,
    base_painted: Sequence[Painted] = (), head_painted: Sequence[Painted] = (),
) -> None:  # fmt: skip
    """Two runs one above the other: each shows so long from its own zero at first, and moving one moves the other."""
    name = f"{base}_{head}"
    sides = (("base", base, base_zero_ns, base_painted), ("head", head, head_zero_ns, head_painted))
    for side, run_id, zero, painted in sides:
        shape = _Shape(height=_BESIDE_PX, pair={"zero": zero, "name": name})
        place = {"from": str(zero), "to": str(zero + max(length_ns, 1))}
        _draw(ctx, run_id, f"timeline_pair_{name}_{side}_{zero}", place, lambda: None, painted, shape)


def _placed(ctx: Context, run_id: str, painted: Sequence[Painted], shape: _Shape) -> None:
    key = f"timeline_{shape.by}_{run_id}"
    place = _place(key, shape.by, ctx.selection.window)
    _draw(ctx, run_id, key, place, lambda: _rested(key, st.session_state[key]["place"]), painted, shape)


def _draw(
    ctx: Context, run_id: str, key: str, place: Mapping[str, str], rested: Callable[[], None],
    painted: Sequence[Painted], shape: _Shape,
) -> None:  # fmt: skip
    _canvas(
        key=key,
        data={
            "run": run_id, "lang": ctx.lang, "url": f"{route.prefix()}/{run_id}", "header": route.TOKEN_HEADER,
            "token": route.token(run_id, ctx.project), "perfetto": perfetto.address(), "place": place, "by": shape.by,
            "height": shape.height, "picture": shape.picture, "pair": shape.pair, "ranks": list(ctx.selection.ranks),
            "painted": [
                {"rank": one.rank, "from": one.ts_ns, "to": one.ts_ns + max(one.dur_ns, 1), "change": one.change_ns}
                for one in painted
            ],
            **scripts.words(ctx.lang),
        },
        on_place_change=rested,
        on_renew_change=lambda: None,
    )  # fmt: skip


def _said() -> dict[str, str]:
    """What the link says now."""
    return {name: st.query_params[name][:_LONGEST] for name in PLACE if st.query_params.get(name)}


def _place(slot: str, by: str, window: tuple[int, int] | None) -> dict[str, str]:
    """Where to open a canvas: what the link says, else where this visitor left it; with the window that is selected.

    The link of another run is none of this one's: its times and spans mean nothing here.
    """
    left: dict[str, dict[str, str]] = st.session_state.setdefault("timeline_places", {})
    before = st.session_state.get("timeline_slot")
    st.session_state["timeline_slot"] = slot
    said = _said()
    if said and said == left.get(slot):  # the canvas itself said so
        return said
    if before not in (None, slot) and said == left.get(before):
        said = {}
    if not set(said) - set(_CARRIED):
        kept = left.get(slot)
        same = kept is not None and said.get("span", "") == kept.get("span", "")
        rest = {name: text for name, text in (kept or {}).items() if same or name not in _WHERE}
        said = rest if same else rest | said
        if by == "picture" and not same:  # what was selected elsewhere is no reason to leave the picture
            said.pop("span", None)
    said = _with_area(said, window)
    _say(said)
    left[slot] = said
    return said


def _with_area(said: Mapping[str, str], window: tuple[int, int] | None) -> dict[str, str]:
    """The place with the area of the window that is selected; without an area where none is."""
    area = said.get("area", "")
    rest = {name: text for name, text in said.items() if name != "area"}
    if window is None or "span" in rest:
        return rest
    chosen = f"{window[0]},{window[1]}"
    return {**rest, "area": area if area == chosen or area.startswith(f"{chosen},") else chosen}


def _rested(slot: str, place: Mapping[str, object] | None) -> None:
    """The canvas has come to rest: the link says where, and what is selected on it is selected on every page."""
    if not place:
        return
    said = {name: str(place[name])[:_LONGEST] for name in PLACE if place.get(name)}
    st.session_state.setdefault("timeline_places", {})[slot] = said
    _say(said)
    context.select_from_timeline(context.current(), said)


def _say(said: Mapping[str, str]) -> None:
    for name in PLACE:
        if name in said:
            st.query_params[name] = said[name]
        elif name in st.query_params:
            del st.query_params[name]
