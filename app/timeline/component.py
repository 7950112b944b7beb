"""The canvas as a Streamlit component: joins its scripts, hands it words, a token and the place a link names.

The canvas keeps the window of time to itself while it moves. Once it has rested it says where it is, and that goes into
the link. Only a fragment runs for it, and no data passes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import streamlit as st

from npulens.app.context import Context
from npulens.app.text import i18n
from npulens.app.timeline import perfetto, route
from npulens.app.timeline.words import TEXT

_HERE = Path(__file__).parent / "canvas"
_SCRIPTS = (
    "base", "colour", "view", "rows", "tiles", "marks", "draw", "overlay", "hit", "input", "keys", "panel", "table",
    "bar", "files", "help", "place", "main",
)  # fmt: skip
#: What a link may say about the timeline, beside the run and the language.
PLACE = ("from", "to", "span", "area", "pin", "hide", "order", "fold", "mark", "q", "y", "rank")
_LONGEST = 4000  # characters of one of these
_FACT = "fact_"
#: How high the canvas is where it is one of several; alone it takes the window.
_BESIDE_PX = 480

_canvas = st.components.v2.component(
    "npulens_timeline",
    css=(_HERE / "timeline.css").read_text("utf-8"),
    js="\n".join((_HERE / f"{name}.js").read_text("utf-8") for name in _SCRIPTS),
)


@st.fragment
def show(ctx: Context, run_id: str) -> None:
    """The timeline of a run, at the place the link names."""
    key = f"timeline_{run_id}"
    _draw(ctx, run_id, key, _place(run_id), lambda: _rested(run_id, st.session_state[key]["place"]))


@st.fragment
def beside(ctx: Context, run_id: str) -> None:
    """The timeline of one of several runs on a page, from its beginning; the link keeps no place of it."""
    _draw(ctx, run_id, f"timeline_beside_{run_id}", {}, lambda: None, _BESIDE_PX)


def _draw(
    ctx: Context, run_id: str, key: str, place: Mapping[str, str], rested: Callable[[], None], height: int | None = None
) -> None:  # fmt: skip
    _canvas(
        key=key,
        data={
            "run": run_id, "lang": ctx.lang, "url": f"{route.prefix()}/{run_id}", "header": route.TOKEN_HEADER,
            "token": route.token(run_id), "perfetto": perfetto.address(), "place": place,
            "height": height,
            "texts": {name: i18n.raw(ctx.lang, f"timeline.{name}") for name in TEXT if not name.startswith(_FACT)},
            "facts": {
                name.removeprefix(_FACT): i18n.raw(ctx.lang, f"timeline.{name}")
                for name in TEXT
                if name.startswith(_FACT)
            },
        },
        on_place_change=rested,
        on_renew_change=lambda: None,
    )  # fmt: skip


def _said() -> dict[str, str]:
    """What the link says now."""
    return {name: st.query_params[name][:_LONGEST] for name in PLACE if st.query_params.get(name)}


def _place(run_id: str) -> dict[str, str]:
    """Where to open a run: what the link says, else where this visitor left it.

    The link of another run is none of this one's: its times and spans mean nothing here.
    """
    left: dict[str, dict[str, str]] = st.session_state.setdefault("timeline_places", {})
    before = st.session_state.get("timeline_run")
    st.session_state["timeline_run"] = run_id
    said = _said()
    if before not in (None, run_id) and said == left.get(before):
        _say({})
        said = {}
    if not said and left.get(run_id):
        said = left[run_id]
        _say(said)
    left[run_id] = said
    return said


def _rested(run_id: str, place: Mapping[str, object] | None) -> None:
    """The canvas has come to rest: the link says where."""
    if not place:
        return
    said = {name: str(place[name])[:_LONGEST] for name in PLACE if place.get(name)}
    st.session_state.setdefault("timeline_places", {})[run_id] = said
    _say(said)


def _say(said: Mapping[str, str]) -> None:
    for name in PLACE:
        if name in said:
            st.query_params[name] = said[name]
        elif name in st.query_params:
            del st.query_params[name]
