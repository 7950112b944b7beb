"""What people add to a history: notes on a night, and nights that say nothing."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from npulens.app.context import Context
from npulens.app.histories import Judged
from npulens.app.pages.history.series import night
from npulens.app.text import wording
from npulens.ingest.store import history
from npulens.ingest.store.history import Annotation

_NEW = 0


def show(ctx: Context, held: Judged) -> None:
    """The form for notes, then the one for nights."""
    said = {each.id: each for each in history.annotated(ctx.store, held.identity.key)
            if each.metric in (None, held.metric)}  # fmt: skip
    with st.expander(ctx.say("history.notes", {"n": len(said)})):
        _notes(ctx, held, said)
    _nights(ctx, held)


def _notes(ctx: Context, held: Judged, said: Mapping[int, Annotation]) -> None:
    st.caption(ctx.say("history.notes_means"))
    key = f"{held.identity.key}_{held.metric}_{ctx.lang}"
    days = {f"{point.at_ns}": night(point) for point in reversed(held.points)}
    which = st.selectbox(
        ctx.say("history.note_which"), [_NEW, *said], key=f"history_note_{key}_{len(said)}",
        format_func=lambda number: ctx.say("history.note_new") if number == _NEW else wording.plain(said[number].text),
    ) if said else _NEW  # fmt: skip
    chosen = said.get(which)
    with st.form(f"history_note_form_{key}_{which}", clear_on_submit=chosen is None):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            at = str(chosen.at_ns) if chosen and str(chosen.at_ns) in days else next(iter(days))
            day = st.selectbox(ctx.say("history.note_night"), list(days), index=list(days).index(at), width=200,
                               format_func=days.__getitem__, key=f"history_note_day_{key}_{which}")  # fmt: skip
            text = st.text_input(
                ctx.say("history.note_text"), value=chosen.text if chosen else "", max_chars=history.MOST_ANNOTATION,
                key=f"history_note_text_{key}_{which}", help=ctx.say("history.note_help"),
            )  # fmt: skip
        everywhere = st.checkbox(ctx.say("history.note_everywhere"), value=chosen is None or chosen.metric is None,
                                 key=f"history_note_all_{key}_{which}")  # fmt: skip
        if st.form_submit_button(ctx.say("history.note_save"), icon=":material/save:"):
            metric = None if everywhere else held.metric
            history.annotate(ctx.store, held.identity.key, metric, int(day), text, chosen.id if chosen else None)
            st.rerun()


def _nights(ctx: Context, held: Judged) -> None:
    """One night out of the baselines of every metric of the identity, or back."""
    with st.expander(ctx.say("history.take_out")):
        key = f"{held.identity.key}_{held.metric}_{ctx.lang}"
        points = {point.source: point for point in reversed(held.points)}
        with st.container(horizontal=True, vertical_alignment="bottom"):
            source = st.selectbox(
                ctx.say("history.take_night"), list(points), key=f"history_take_{key}", width=260,
                format_func=lambda each: night(points[each]) + ("" if points[each].usable else " ✕"),
            )  # fmt: skip
            usable = points[source].usable
            reason = st.text_input(
                ctx.say("history.take_reason"), value=points[source].reason or "", disabled=not usable,
                max_chars=history.MOST_TEXT, key=f"history_take_why_{key}_{source}",
            )  # fmt: skip
            if st.button(ctx.say("history.take_do" if usable else "history.take_back"), key=f"history_take_do_{key}"):
                history.set_usable(ctx.store, held.identity.key, source, not usable, reason or None)
                st.rerun()
