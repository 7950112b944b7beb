"""Who looks at this page, in which project: asked anew whenever something is to be done."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from npulens.app.team import signed_in, who
from npulens.app.team.config import ALONE, Project, Team
from npulens.app.team.who import NOBODY, Act, Visitor


def visitor(team: Team) -> Visitor:
    """Whoever the cookie of this page's websocket says; NOBODY when that is over."""
    if team.sign_in is None:
        return who.ALONE
    claims = signed_in.claims(team, st.context.cookies.to_dict())
    found = who.by_claims(team, claims) if claims is not None else None
    request = st.context.headers.get("X-Request-Id") or ""
    return replace(found or NOBODY, request=request, address=st.context.ip_address or "")


def project(team: Team, visitor: Visitor) -> Project:
    """The project of the address or of this visit, else the visitor's first; Denied where none is theirs.

    One that is not theirs is refused, and the audit says so.
    """
    if team.sign_in is None:
        return team.projects[ALONE]
    name = st.query_params.get("project") or st.session_state.get("query_project") or next(iter(visitor.projects), "")
    if not name:
        raise who.Denied("no_project" if visitor.name else "over")
    found = who.project(team, visitor, Act.SEE, str(name), "page")
    st.query_params["project"] = st.session_state["query_project"] = found.name
    return found


def choose(name: str) -> None:
    """Another project, here and in the link; what was selected was of the one before."""
    st.query_params.from_dict({"project": name})
    st.session_state["query_project"] = name
    st.session_state.pop("query_run", None)
