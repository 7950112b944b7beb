"""In the head of every page: which project this is, who is here, the way out. And why somebody sees no page."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.team import config, session
from npulens.app.team.who import Denied
from npulens.app.text import i18n


def show(ctx: Context) -> None:
    """The project, where there are several, and the name with the way out; nothing without a team."""
    team = config.current()
    if team.sign_in is None:
        return
    if len(ctx.visitor.projects) > 1:
        key = f"project_switch_{ctx.lang}_{ctx.project}"
        names = list(ctx.visitor.projects)
        st.selectbox(
            ctx.say("team.project"), names, index=names.index(ctx.project), key=key, width=200,
            format_func=lambda name: team.projects[name].title, label_visibility="collapsed",
            on_change=lambda: session.choose(st.session_state[key]),
        )  # fmt: skip
    st.link_button(
        ctx.say("team.sign_out"), f"{team.base}/auth/logout", icon=":material/logout:", type="tertiary",
        help=ctx.visitor.name,
    )  # fmt: skip


def denied(lang: str, why: Denied) -> None:
    """One sentence in the place of the page, and what can be done."""
    team = config.current()
    visitor = session.visitor(team)
    st.title("npulens", anchor=False)
    st.text(i18n.say(lang, f"team.{why.key}", {"name": visitor.name}))
    with st.container(horizontal=True):
        for name in visitor.projects:
            st.button(
                team.projects[name].title, key=f"to_project_{name}", icon=":material/folder:",
                on_click=session.choose, args=(name,),
            )  # fmt: skip
        way, label = ("/sign-in", "team.sign_in") if not visitor.name else ("/auth/logout", "team.sign_out")
        st.link_button(i18n.say(lang, label), f"{team.base}{way}")
