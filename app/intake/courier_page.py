"""The page behind a link handed to a colleague: a capture can be dropped here, and nothing else is to be seen."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.intake import invitations, tray, visitor_drops
from npulens.app.intake.signed_tokens import Refused
from npulens.app.team import config, session, who
from npulens.app.text import i18n


def wanted() -> str | None:
    """The token of the link, where the address has one."""
    return st.query_params.get("drop")


def show(token: str) -> None:
    """What may come, until when, and the drop zone; or why not."""
    team = config.current()
    try:
        project, token = who.unmarked(team, token)
    except who.Denied as denied:
        st.text(i18n.say(context.language(), f"team.{denied.key}"))
        return
    ctx = Context(
        context.language(), project.store, (), None, None, visitor=session.visitor(team), project=project.name
    )  # fmt: skip
    st.header(ctx.say("manage.courier_title"), anchor=False)
    try:
        given = invitations.ticket(ctx.store, token)
    except Refused as refused:
        st.text(ctx.say(f"upload.{refused.key}"))
        return
    captures, _, size = invitations.left(ctx.store, given)
    until = datetime.fromtimestamp(given.until, UTC)
    visit = visitor_drops.visit()
    if captures <= 0 and not visit.busy and not visit.ended:
        st.text(ctx.say("upload.ticket_used"))
        return
    if captures > 0:
        st.text(ctx.say("manage.courier_what", {
            "n": captures, "size": i18n.size(max(size, 0)), "when": f"{until:%Y-%m-%d %H:%M} UTC",
        }))  # fmt: skip
    tray.show(ctx, token)
