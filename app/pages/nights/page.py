"""Every night of a configuration on a calendar, and one of them in detail."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.nightly import journal, kept, place
from npulens.app.pages.nights import calendar, detail

TITLE = "nights.title"
ICON = ":material/nights_stay:"
ORDER = 64
GROUP = "data"


def render(ctx: Context) -> None:
    """Choose a night on the calendar, read it below."""
    names = kept.names(ctx.store)
    if not names:
        _empty(ctx)
        return
    st.subheader(ctx.say("nights.question"), anchor=False)
    name = _configuration(ctx, names)
    nights = kept.nights(ctx.store, name)
    label = calendar.show(ctx, nights)
    night = nights[label]
    if night is not None:
        detail.show(ctx, night)
        return
    facts = journal.read(place.home(ctx.store, name) / label)
    planned = sum(int(fact.get("steps", 0)) for fact in facts.of("night"))
    st.text(ctx.say("nights.unfinished", {"done": len(facts.done()), "planned": planned}))


def _configuration(ctx: Context, names: list[str]) -> str:
    wanted = st.query_params.get("name", "")
    chosen = wanted if wanted in names else names[0]
    if len(names) > 1:
        key = f"nights_name_{chosen}"
        st.selectbox(ctx.say("nights.configuration"), names, index=names.index(chosen), key=key, width=420,
                     on_change=lambda: st.query_params.update(name=st.session_state[key]))  # fmt: skip
    return chosen


def _empty(ctx: Context) -> None:
    with st.container(key="prose"):
        st.subheader(ctx.say("nights.empty_title"), anchor=False)
        st.text(ctx.say("nights.empty_what"))
        st.text(ctx.say("nights.empty_how"))
        st.code("npulens nightly nightly.toml", language="bash")
