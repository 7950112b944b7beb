"""Who is let in over HTTP, and to which store.

Without a team there is one store, and a token that it signed (app/agents/who.py) opens it or some runs of it. With a
team a token of one's own opens the store of its project. Every question is asked of app/team anew: meanwhile a token
may have ended, or a role. It writes the audit too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from npulens.analysis.settings import Settings
from npulens.app.agents import who
from npulens.app.agents.answers import Answers
from npulens.app.agents.who import Who
from npulens.app.team import who as visitors
from npulens.app.team.config import Team
from npulens.app.team.who import Act, Denied
from npulens.app.text.i18n import say
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, verbatim

#: What a question does, for the audit and the role it takes; the others only see.
_ACTS = {"sql": Act.ASK}
_SHOWN = ("run", "finding", "base", "head", "query")
_LONGEST = 500  # characters of a question in the audit


class Door:
    """The stores that tokens open."""

    def __init__(self, store: Path, settings: Settings, dashboard: str, team: Callable[[], Team] | None) -> None:
        self._store, self._settings, self._dashboard, self._team = store, settings, dashboard, team
        self._answers: dict[tuple[Path, str], Answers] = {}
        self._lock = Lock()

    def name(self, token: str) -> str | None:
        """Whose token it is; None where it is none, or has ended."""
        if self._team is None:
            known = who.asking(self._store, token)
            return None if known is None else known.name
        visitor = visitors.by_token(self._team(), token)
        return None if visitor is None else visitor.name

    def opened(self, token: str, tool: str, given: Mapping[str, Any]) -> tuple[Answers, Who]:
        """What the token opens, for one question."""
        if self._team is None:
            known = who.asking(self._store, token)
            if known is None:
                raise IngestError("bad_token", Message("the_token_has_ended"))
            return self._of(self._store, ""), known
        team = self._team()
        visitor = visitors.by_token(team, token)
        if visitor is None:
            raise IngestError("bad_token", Message("the_token_has_ended"))
        project = next(iter(visitor.projects), "")
        what = " ".join([f"mcp {tool}", *(str(given[key]) for key in _SHOWN if key in given)])[:_LONGEST]
        try:
            place = visitors.place(team, visitor, _ACTS.get(tool, Act.SEE), project, what)
        except Denied as denied:
            lang = "zh" if given.get("lang") == "zh" else "en"
            raise IngestError("denied", verbatim(say(lang, f"team.{denied.key}"))) from denied
        return self._of(place, project), Who(visitor.name)

    def _of(self, store: Path, project: str) -> Answers:
        with self._lock:
            if (store, project) not in self._answers:
                self._answers[store, project] = Answers(store, self._settings, self._dashboard, project)
            return self._answers[store, project]
