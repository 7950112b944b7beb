"""The editor, its examples, and the one query that is asked. The link keeps the query."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look.asked import EXAMPLES
from npulens.app.context import Context
from npulens.app.pages.sql import ask_process
from npulens.app.pages.sql.ask_process import Answered, Asking, Refused

_STYLE = "<style>.st-key-sql_text textarea { font-family: var(--st-code-font, monospace); font-size: 0.9rem; }</style>"
_LINK_LETTERS = 6_000  # of a query that a link still holds


def show(ctx: Context, run_id: str) -> tuple[str, Answered | Refused] | None:
    """The query that was asked last and how it ended; None before the first."""
    if "sql_text" not in st.session_state:
        st.session_state["sql_text"] = st.query_params.get("sql") or st.session_state.get("sql_kept", "")
    st.html(_STYLE)
    st.text(ctx.say("sql.examples"))
    with st.container(horizontal=True, gap="small"):
        for name, query in EXAMPLES:
            st.button(ctx.say(f"sql.example_{name}"), key=f"sql_example_{name}", on_click=_take, args=(query,))
    with st.form("sql_form", border=False):
        st.text_area(ctx.say("sql.query"), key="sql_text", height=220, help=ctx.say("sql.query_help"),
                     placeholder="SELECT …")  # fmt: skip
        pressed = st.form_submit_button(ctx.say("sql.run"), type="primary", icon=":material/play_arrow:")
    text = str(st.session_state["sql_text"])
    clicked = st.session_state.pop("sql_clicked", False)
    if not text.strip():
        return None
    before = st.session_state.get("sql_asked")
    if not pressed and not clicked and before and before[0] == run_id:
        return str(before[1]), before[2]
    _keep(ctx, text)
    place = st.empty()
    outcome = ask_process.ended(ctx.store, run_id, text, lambda query: _tell(ctx, place, query))
    place.empty()
    st.session_state["sql_asked"] = (run_id, text, outcome)
    return text, outcome


def _take(query: str) -> None:
    """An example is put into the editor and asked."""
    st.session_state["sql_text"] = query
    st.session_state["sql_clicked"] = True


def _keep(ctx: Context, text: str) -> None:
    st.session_state["sql_kept"] = text
    if len(text) <= _LINK_LETTERS:
        st.query_params["sql"] = text
    else:
        st.query_params.pop("sql", None)
        st.text(ctx.say("sql.link_long"))


def _tell(ctx: Context, place: st.delta_generator.DeltaGenerator, query: Asking) -> None:
    """How long it has been; that this draws is also what lets the visitor stop it."""
    key = "sql.working" if query.process else "sql.waiting"
    place.text(ctx.say(key, {"seconds": f"{query.seconds:.0f}"}))
