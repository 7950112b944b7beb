"""What this visitor brings in: the grant being filled, the loads that follow, how they ended.

Lives in the visitor's session; the grant lies in the store and the loads in app/intake/load_queue.py. So a page that is
left, or another server that took the files, loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import streamlit as st

from npulens.app.intake import drop_folders, invitations, load_queue
from npulens.app.intake.drop_folders import Grant
from npulens.app.intake.invitations import Ticket
from npulens.app.intake.load_queue import Load, Outcome
from npulens.app.intake.signed_tokens import Refused

_MOST_ENDED = 40
#: Seconds for which the row of a capture that is in the store stays whatever comes after it: it has to be read.
_FRESH_S = 60.0
_KEY = "visit"


@dataclass(frozen=True)
class Open:
    """A drop that is travelling, and the wish of the drop zone that began it."""

    ask: str
    grant: Grant
    name: str
    ticket: Ticket | None


@dataclass(frozen=True)
class Ended:
    """What became of one file or capture: a row of the tray until that is dismissed."""

    ident: str
    name: str
    state: str  # loaded, exists, refused, failed or stopped
    run: Mapping[str, Any] = field(default_factory=dict)  # what the load said of it
    error: str | None = None
    at: float = 0.0  # on the clock of time.monotonic

    @property
    def fine(self) -> bool:
        """Whether it is in the store now."""
        return self.state in ("loaded", "exists")


def ended(load: Load, outcome: Outcome) -> list[Ended]:
    """The rows of a load that has ended: one a capture, one a file beside it. One more if the load failed."""
    said = {str((run.get("error") or {}).get("path")) for run in outcome.runs}
    beside = [
        {"run_id": None, "reason": file["reason"], "error": {"path": file["path"]}}
        for file in outcome.files
        if not file["run_id"] and "/" not in file["path"] and file["path"] not in said
    ]
    rows = [
        Ended(f"{load.grant.id}-{place}", load.name, _state(run), run, at=time.monotonic())
        for place, run in enumerate([*outcome.runs, *beside])
    ]
    if outcome.error:
        rows.insert(0, Ended(load.grant.id, load.name, "failed", error=outcome.error))
    return rows


def _state(run: Mapping[str, Any]) -> str:
    if run.get("run_id") is None:
        return "refused"
    return "exists" if run.get("stored") == "exists" else "loaded"


@dataclass
class Visit:
    """One visitor's deliveries.

    One plain object. Streamlit may end a script at any access to its session state, also in the middle of a callback.
    So what has to happen together may not be spread over several of them. Two scripts of one visitor can also overlap:
    the old one goes on until its next output. So a drop is handed on under a lock, or it would be loaded twice.
    """

    travelling: Open | None = None
    #: The answer the drop zone is waiting for, and the last wish that was answered.
    reply: dict[str, str | None] | None = None
    answered: str | None = None
    #: What is waiting or loading, first come first.
    loads: list[Load] = field(default_factory=list)
    #: How loads ended, the last first.
    ended: list[Ended] = field(default_factory=list)
    #: The run that came in and has not been on the screen yet.
    to_show: str | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def busy(self) -> bool:
        """Whether anything is travelling, waiting or loading."""
        return self.travelling is not None or bool(self.loads)

    def ask(self, store: Path, asked: Mapping[str, Any], token: str | None = None, by: str = "") -> None:
        """Answers the drop zone's wish to send: a token for it, or the key of the refusal.

        The zone repeats a wish until it sees the answer.
        """
        ident, name = str(asked.get("id")), str(asked.get("name"))[:200]
        if "id" not in asked or ident == self.answered:
            return
        self.drop(store)
        self.answered = ident
        try:
            self._grant(store, ident, name, (int(asked["files"]), int(asked["bytes"])), token, by)
        except (Refused, KeyError, ValueError, TypeError) as error:
            key = error.key if isinstance(error, Refused) else "nothing"
            self.reply = {"id": ident, "token": None, "refused": key}

    def refuse(self, ident: str, key: str) -> None:
        """Answers a wish to send with the key of a refusal."""
        self.answered = ident
        self.reply = {"id": ident, "token": None, "refused": key}

    def _grant(
        self, store: Path, ident: str, name: str, much: tuple[int, int], token: str | None, by: str
    ) -> None:  # fmt: skip
        files, size = much
        ticket = invitations.ticket(store, token) if token is not None else None
        if ticket is not None:
            invitations.spend(store, ticket, files, size)
        try:
            granted, given = drop_folders.grant(store, files, size, by)
        except Refused:
            if ticket is not None:
                invitations.give_back(store, ticket, files, size)
            raise
        self.travelling = Open(ident, given, name, ticket)
        self.reply = {"id": ident, "token": granted, "refused": None}

    def drop(self, store: Path, ask_id: str | None = None) -> None:
        """Gives up the drop being sent: what came of it is removed, and it does not count against its ticket.

        ``ask_id`` names the drop that is meant: the page may have begun the next one before this is heard.
        """
        held = self.travelling
        if self.arrived(store) or (held is not None and ask_id not in (None, held.ask)):
            return
        if held is not None:
            drop_folders.discard(held.grant)
            if held.ticket is not None:
                invitations.give_back(store, held.ticket, held.grant.files, held.grant.bytes)
        self.travelling = self.reply = None

    def arrived(self, store: Path) -> bool:
        """Queues the drop for loading if all of it is here, whichever server took it."""
        with self._lock:
            held = self.travelling
            if held is None or not (held.grant.whole and held.grant.closed):
                return False
            self.loads = [*self.loads, load_queue.submit(Load(held.grant, store, held.name, held.ticket))]
            self.travelling = self.reply = None
            return True

    def finish(self) -> list[str]:
        """Takes the loads that have ended off the list; the runs they brought.

        What has been in the store for a while needs no row any more.
        """
        with self._lock:
            done = [(load, outcome) for load in self.loads if (outcome := load.outcome()) is not None]
            self.loads = [load for load in self.loads if all(load is not gone for gone, _ in done)]
            if done:
                since = time.monotonic() - _FRESH_S
                before = [row for row in self.ended if not row.fine or row.at > since]
                now = [row for load, outcome in done for row in ended(load, outcome)]
                self.ended = [*now, *before][:_MOST_ENDED]
            brought = [run_id for _, outcome in done for run_id in outcome.run_ids]
            self.to_show = brought[0] if brought else self.to_show
        return brought

    def stop(self, load: Load) -> None:
        """Ends a load, or takes it out of the queue; a row says so."""
        load.stop()
        with self._lock:
            self.loads = [other for other in self.loads if other is not load]
            self.ended = [Ended(load.grant.id, load.name, "stopped"), *self.ended][:_MOST_ENDED]

    def dismiss(self, ident: str | None = None) -> None:
        """Forgets how one ended, or all."""
        self.ended = [row for row in self.ended if ident is not None and row.ident != ident]

    def shown(self, run_id: str) -> None:
        """Notes that a run is on the screen."""
        if run_id == self.to_show:
            self.to_show = None


def visit() -> Visit:
    """This visitor's."""
    found = st.session_state.get(_KEY)
    if not isinstance(found, Visit):
        found = st.session_state[_KEY] = Visit()
    return found
