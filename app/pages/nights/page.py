"""Every night of a configuration on a calendar, and one of them in detail."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.nightly import journal, kept, place
from npulens.app.nightly.events import events
from npulens.app.nightly.night import Night
from npulens.app.nightly.written import night_text
from npulens.app.pages.nights import charts, detail

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
    st.header(ctx.say("nights.question"), anchor=False)
    name = _configuration(ctx, names)
    nights = kept.nights(ctx.store, name)
    label = show_calendar(ctx, nights)
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
        st.header(ctx.say("nights.empty_title"), anchor=False)
        st.text(ctx.say("nights.empty_what"))
        st.text(ctx.say("nights.empty_how"))
        st.code("npulens nightly nightly.toml", language="bash")


# The calendar: one square a night, and which night is read.
_NAMED = 3  # events that a square names


def show_calendar(ctx: Context, nights: Mapping[str, Night | None]) -> str:
    """Draws it; the night that is chosen, the newest if none is."""
    labels = list(nights)
    wanted = st.query_params.get("night", "")
    chosen = wanted if wanted in nights else labels[-1]
    says = {outcome: ctx.say(f"nightly.outcome_{outcome}") for outcome in charts.MARKS}
    days = [(label, outcome(night), _hover(ctx, label, night)) for label, night in nights.items()]
    rows = [ctx.say(f"nights.{name}") for name in ("mon", "thu", "sun")]
    event = st.plotly_chart(
        context.once(charts.calendar, days, says, rows, chosen, context.ink()), key=f"calendar_{ctx.lang}_{chosen}",
        on_select="rerun", selection_mode="points", config={"displayModeBar": False},
    )  # fmt: skip
    st.caption(ctx.say("nights.calendar_note"))
    points = event["selection"]["points"]
    if points and (picked := str(points[0].get("customdata", ""))) in nights and picked != chosen:
        st.query_params["night"] = picked
        st.rerun()
    newest = labels[::-1]
    key = f"night_{ctx.lang}_{chosen}"
    st.selectbox(
        ctx.say("nights.night"), newest, index=newest.index(chosen), key=key, width=420,
        format_func=lambda label: ctx.say("nights.option", {"label": label, "word": says[outcome(nights[label])]}),
        on_change=lambda: st.query_params.update(night=st.session_state[key]),
    )  # fmt: skip
    return chosen


def outcome(night: Night | None) -> str:
    """The word of a night; one without a report is missing."""
    return night.outcome if night is not None else "missing"


def _hover(ctx: Context, label: str, night: Night | None) -> str:
    word = ctx.say(f"nightly.outcome_{outcome(night)}")
    found = events(night)[:_NAMED] if night is not None else ()
    what = "; ".join(night_text.event_named(event, ctx.lang) for event in found)
    return ctx.say("nights.hover_moved" if what else "nights.hover", {"label": label, "word": word, "what": what})
