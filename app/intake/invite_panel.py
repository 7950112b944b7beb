"""A way in for somebody else: a link to a page that only takes captures, and the same for curl."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.intake import drop_folders, invitations
from npulens.app.intake.signed_tokens import Refused
from npulens.app.team import who
from npulens.app.team.who import Act, Denied
from npulens.app.text import i18n

_MADE = "invitation"
_GB = 10**9


def show(ctx: Context) -> None:
    """The button, its form, and the link once it is made."""
    if not ctx.may(Act.INVITE):
        return
    with st.popover(ctx.say("manage.invite"), icon=":material/forward_to_inbox:", key="invite", width="stretch"):
        st.text(ctx.say("manage.invite_what"))
        with st.container(horizontal=True):
            hours = st.number_input(ctx.say("manage.invite_hours"), 1, invitations.MAX_HOURS, 24, key="invite_hours")
            captures = st.number_input(ctx.say("manage.invite_captures"), 1, 1000, 1, key="invite_captures")
            most = max(1, drop_folders.MAX_BYTES // _GB)
            size = st.number_input(ctx.say("manage.invite_size"), 1, most, min(5, most), key="invite_size")
        st.button(
            ctx.say("manage.invite_make"), key="invite_make", type="primary",
            on_click=lambda: _make(ctx, int(captures), int(size), int(hours)),
        )  # fmt: skip
        _made(ctx)


def _make(ctx: Context, captures: int, size: int, hours: int) -> None:
    try:
        bound = min(size * _GB, drop_folders.MAX_BYTES)
        place = ctx.to(Act.INVITE, f"{captures} captures, {size} GB, {hours} hours")
        token, given = invitations.mint(place, captures, drop_folders.MAX_FILES, bound, hours)
    except (Refused, Denied):
        return
    st.session_state[_MADE] = (who.marked(ctx.project, token), given)


def _made(ctx: Context) -> None:
    made = st.session_state.get(_MADE)
    if not made:
        return
    token, given = made
    address = _address()
    left, _, _ = invitations.left(ctx.store, given)
    st.text(ctx.say("manage.invite_link"))
    st.code(invitations.link(address, token), language=None, wrap_lines=True)
    st.text(ctx.say("manage.invite_curl"))
    st.code(invitations.curl(address, token), language="bash", wrap_lines=True)
    values = {"n": given.captures, "left": left, "size": i18n.size(given.bytes)}
    st.text(ctx.say("manage.invite_allows", values))
    st.text(ctx.say("manage.invite_honest"))


def _address() -> str:
    """Where this dashboard is reached by this visitor, the page's own path taken off."""
    url = str(st.context.url or "http://127.0.0.1:8501")
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.split('/')[0]}" + (f"/{base}" if base else "")
