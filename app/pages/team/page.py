"""Who one is here, tokens of one's own; for owners the people, all tokens and the audit of the project."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from npulens.app.context import Context
from npulens.app.panels import cells
from npulens.app.team import config, keeping, tokens, who
from npulens.app.team.config import Role, Team
from npulens.app.team.who import Act, Denied
from npulens.app.text import i18n
from npulens.ingest.store import book
from npulens.ingest.store.book import Line, Token

TITLE = "team.title"
ICON = ":material/group:"
ORDER = 95
GROUP = "data"

_MADE = "token_made"
_DAYS, _LINES = 90, 500


def render(ctx: Context) -> None:
    """Nothing where nobody signs in: the page is not in the menu then."""
    team = config.current()
    st.header(ctx.say("team.title"), anchor=False)
    if team.sign_in is None:
        st.text(ctx.say("team.alone"))
        return
    project = team.projects[ctx.project]
    st.text(ctx.say("team.you", {
        "name": ctx.visitor.name, "role": _role(ctx, ctx.visitor.roles[ctx.project]), "project": project.title,
    }))  # fmt: skip
    _tokens(ctx, team)
    if ctx.may(Act.MANAGE):
        _room(ctx, project)
        _people(ctx, project)
        _audit(ctx, team)


def _tokens(ctx: Context, team: Team) -> None:
    st.subheader(ctx.say("team.tokens"), anchor=False)
    st.text(ctx.say("team.tokens_what"))
    mine = ctx.visitor.roles[ctx.project]
    with st.form("token_form", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(ctx.say("team.token_title"), key="token_title", max_chars=100, width=260)
        st.selectbox(
            ctx.say("team.token_role"), [role for role in Role if role <= mine], key="token_role", width=160,
            format_func=lambda role: _role(ctx, role),
        )  # fmt: skip
        st.number_input(ctx.say("team.token_days"), 1, tokens.MAX_DAYS, _DAYS, key="token_days", width=130)
        st.form_submit_button(ctx.say("team.token_make"), icon=":material/key:", on_click=_make, args=(ctx,))
    if made := st.session_state.get(_MADE):
        st.text(ctx.say("team.token_once"))
        st.code(made, language=None, wrap_lines=True)
        st.text(ctx.say("team.token_agent"))
        st.code(_agent(team, made), language="json", wrap_lines=True)
    everybody = ctx.may(Act.MANAGE)
    for token in book.tokens(team.home, None if everybody else ctx.visitor.name, ctx.project):
        if token.works:
            _row(ctx, token)


def _agent(team: Team, token: str) -> str:
    """What an agent's client is told to reach the tools of this server."""
    server = {"type": "http", "url": f"{team.url}/api/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    return json.dumps({"mcpServers": {"npulens": server}}, indent=2)


def _row(ctx: Context, token: Token) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key=f"token_{token.id}"):
        st.text(ctx.say("team.token_row", {
            "title": token.title or token.id, "name": token.name, "role": _role(ctx, Role(token.role)),
            "until": _when(token.until), "used": ctx.say("team.never") if token.used is None else _when(token.used),
        }), width="stretch")  # fmt: skip
        st.button(
            ctx.say("team.token_revoke"), key=f"revoke_{token.id}", icon=":material/key_off:",
            on_click=_revoke, args=(ctx, token.id),
        )  # fmt: skip


def _make(ctx: Context) -> None:
    """A token of the visitor, in this project, of no more than their role at this moment."""
    state, team = st.session_state, config.current()
    try:
        visitor = ctx.now(Act.SEE)
    except Denied:
        return
    role = min(Role(state["token_role"]), visitor.roles[ctx.project])
    text, token = tokens.mint(team, visitor.name, ctx.project, role, state["token_title"] or "", state["token_days"])
    who.note(team, visitor, "token", ctx.project, f"{token.id} {role.name.lower()}", True)
    state[_MADE] = text


def _revoke(ctx: Context, ident: str) -> None:
    """One's own token, or as an owner anybody's in this project."""
    team, state = config.current(), st.session_state
    token = book.token(team.home, ident)
    try:
        visitor = ctx.now(Act.SEE)
        if token is None or token.project != ctx.project or token.name != visitor.name:
            visitor = ctx.now(Act.MANAGE)
    except Denied:
        return
    if token is not None and token.project == ctx.project and book.revoke(team.home, ident):
        who.note(team, visitor, "revoke", ctx.project, ident, True)
    state.pop(_MADE, None)


def _room(ctx: Context, project: config.Project) -> None:
    values = {
        "held": i18n.size(keeping.held(project)),
        "quota": i18n.size(project.quota) if project.quota else ctx.say("team.no_bound"),
        "days": project.keep_days or ctx.say("team.no_bound"),
    }  # fmt: skip
    st.subheader(ctx.say("team.room"), anchor=False)
    st.text(ctx.say("team.room_what", values))


def _people(ctx: Context, project: config.Project) -> None:
    st.subheader(ctx.say("team.people"), anchor=False)
    st.text(ctx.say("team.people_what"))
    rows = [(cells.cell(name), _role(ctx, role)) for name, role in project.members.items()]
    heads = {"name": ctx.say("team.col_name"), "role": ctx.say("team.token_role")}
    cells.show(pd.DataFrame(rows, columns=list(heads)), heads, f"team_people_{ctx.lang}", ctx.say("team.people"))


def _audit(ctx: Context, team: Team) -> None:
    st.subheader(ctx.say("team.audit"), anchor=False)
    lines = book.lines(team.home, ctx.project, _LINES)
    names = ("at", "name", "by", "act", "what", "allowed", "address", "request")
    heads = {name: ctx.say(f"team.col_{name}") for name in names}
    frame = pd.DataFrame([_line(ctx, line) for line in lines], columns=list(names))
    cells.show(frame, heads, f"team_audit_{ctx.lang}", ctx.say("team.audit"))


def _line(ctx: Context, line: Line) -> dict[str, str]:
    return {
        "at": _when(line.at), "name": cells.cell(line.name), "by": cells.cell(line.by), "act": cells.cell(line.act),
        "what": cells.cell(line.what), "allowed": ctx.say("team.done" if line.allowed else "team.refused"),
        "address": cells.cell(line.address), "request": cells.cell(line.request),
    }  # fmt: skip


def _role(ctx: Context, role: Role) -> str:
    return ctx.say(f"team.role_{role.name.lower()}")


def _when(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
