"""What this visitor brings in: the grant being filled, the loads that follow, how they ended.

Lives in the visitor's session; the grant lies in the store and the loads in app/inbox.py, so a page that is left, or
another server that took the files, loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from app import grants, inbox, tickets
from app.grants import Grant
from app.inbox import Load, Outcome
from app.tally import Refused
from app.tickets import Ticket

_MOST_ENDED = 20
_OPEN, _REPLY, _LOADS, _ENDED = "delivery_open", "delivery_reply", "delivery_loads", "delivery_ended"


@dataclass(frozen=True)
class Open:
    """A drop that is travelling, and the wish of the drop zone that began it."""

    ask: str
    grant: Grant
    name: str
    ticket: Ticket | None


def ask(store: Path, asked: Mapping[str, Any], token: str | None = None) -> None:
    """Answers the drop zone's wish to send: a token for it, or the key of the refusal."""
    drop(store)
    ident, name = str(asked.get("id")), str(asked.get("name"))[:200]
    try:
        files, size = int(asked["files"]), int(asked["bytes"])
        ticket = tickets.ticket(store, token) if token is not None else None
        if ticket is not None:
            tickets.spend(store, ticket, files, size)
        try:
            granted, given = grants.grant(store, files, size)
        except Refused:
            if ticket is not None:
                tickets.give_back(store, ticket, files, size)
            raise
    except (Refused, KeyError, ValueError, TypeError) as error:
        key = error.key if isinstance(error, Refused) else "nothing"
        st.session_state[_REPLY] = {"id": ident, "token": None, "refused": key}
        return
    st.session_state[_OPEN] = Open(ident, given, name, ticket)
    st.session_state[_REPLY] = {"id": ident, "token": granted, "refused": None}


def reply() -> dict[str, str | None] | None:
    """The answer the drop zone is waiting for."""
    found = st.session_state.get(_REPLY)
    return found if isinstance(found, dict) else None


def travelling() -> Open | None:
    """The drop being sent."""
    found = st.session_state.get(_OPEN)
    return found if isinstance(found, Open) else None


def drop(store: Path, ask_id: str | None = None) -> None:
    """Gives up the drop being sent: what came of it is removed, and it does not count against its ticket.

    ``ask_id`` names the drop that is meant: the page may have begun the next one before this is heard.
    """
    held = travelling()
    if arrived(store) or (held is not None and ask_id not in (None, held.ask)):
        return
    if held is not None:
        grants.discard(held.grant)
        if held.ticket is not None:
            tickets.give_back(store, held.ticket, held.grant.files, held.grant.bytes)
    st.session_state[_OPEN] = st.session_state[_REPLY] = None


def arrived(store: Path) -> bool:
    """Queues the drop for loading if all of it is here, whichever server took it."""
    held = travelling()
    if held is None or not (held.grant.whole and held.grant.closed):
        return False
    load = inbox.submit(Load(held.grant, store, held.name, held.ticket))
    st.session_state[_LOADS] = [*loads(), load]
    st.session_state[_OPEN] = st.session_state[_REPLY] = None
    return True


def loads() -> list[Load]:
    """What this visitor has waiting or loading, first come first."""
    found = st.session_state.get(_LOADS)
    return found if isinstance(found, list) else []


def finish() -> list[tuple[str, Outcome]]:
    """Takes the loads that have ended off the list; their names and ends."""
    done = [(load.name, outcome) for load in loads() if (outcome := load.outcome()) is not None]
    if done:
        st.session_state[_LOADS] = [load for load in loads() if load.outcome() is None]
        st.session_state[_ENDED] = [*ended(), *done][-_MOST_ENDED:]
    return done


def stop(load: Load) -> None:
    """Ends a load, or takes it out of the queue."""
    load.stop()
    st.session_state[_LOADS] = [other for other in loads() if other is not load]


def ended() -> list[tuple[str, Outcome]]:
    """How this visitor's loads ended, until that is dismissed."""
    found = st.session_state.get(_ENDED)
    return found if isinstance(found, list) else []


def dismiss() -> None:
    """Forgets how they ended."""
    st.session_state[_ENDED] = []


def busy() -> bool:
    """Whether anything of this visitor is travelling, waiting or loading."""
    return travelling() is not None or bool(loads())
