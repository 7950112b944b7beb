"""Which operators have the time of a job that no device but the CPU worked for, as bars."""

from __future__ import annotations

from html import escape

import streamlit as st

from npulens.analysis.say import duration
from npulens.analysis.work.host_time import HostTime, Spent
from npulens.app.context import Context
from npulens.app.text.wording import plain, share


def show(ctx: Context, found: HostTime) -> None:
    """The largest with calls and code, then the others together: all of the time of operators."""
    rows = [_row(plain(one.name), _about(ctx, one), one.own_ns, found.own_ns) for one in found.most]
    if found.others:
        rows.append(_row(ctx.say("workspace.own_others", {"n": found.others}), "", found.others_ns, found.own_ns))
    st.text(ctx.say("workspace.own_time_calls" if found.called else "workspace.own_time"))
    st.html(f'<div class="own" role="list">{"".join(rows)}</div>')


def _about(ctx: Context, one: Spent) -> str:
    said = "workspace.own_calls" if one.code is None else "workspace.own_calls_from"
    return ctx.say(said, {"n": one.calls, "code": plain(one.code or "")})


def _row(name: str, about: str, ns: int, whole_ns: int) -> str:
    """Names come from a capture, so all is escaped."""
    return (
        f'<div role="listitem"><b>{escape(name)}</b><small>{escape(about)}</small>'
        f"<span>{escape(f'{share(ns / whole_ns)} · {duration(ns)}')}</span>"
        f'<i style="width: {100 * ns / whole_ns:.2f}%"></i></div>'
    )
