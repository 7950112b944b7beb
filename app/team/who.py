"""Who is asking, and what they may see and do. Every page, route, token and tool asks here and nowhere else.

`by_claims` is for people who signed in, `by_token` for a token of one's own, `ALONE` for a server without a team.
`place` hands out the store of a project, for an act, to whoever may do that there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from npulens.app.team import audit, tokens
from npulens.app.team.config import ALONE as NO_TEAM
from npulens.app.team.config import Project, Role, SignIn, Team
from npulens.ingest.store import book
from npulens.ingest.store.book import Line

#: Where the visitor of a request stands in its scope, once it is let through.
VISITOR = "npulens.visitor"
EVERYBODY, _GROUP = "*", "group:"


class Act(Enum):
    """What can be done in a project, and the least role it takes."""

    SEE = ("see", Role.READER)
    ASK = ("ask", Role.READER)
    TAKE = ("take", Role.READER)
    BRING = ("bring", Role.BRINGER)
    SAY = ("say", Role.BRINGER)
    INVITE = ("invite", Role.BRINGER)
    DELETE = ("delete", Role.OWNER)
    RESTORE = ("restore", Role.OWNER)
    MANAGE = ("manage", Role.OWNER)

    @property
    def role(self) -> Role:
        """The least role that may."""
        return self.value[1]

    @property
    def word(self) -> str:
        """What the audit calls it."""
        return self.value[0]


@dataclass(frozen=True)
class Visitor:
    """Somebody, with a role in each project that is theirs."""

    name: str
    roles: Mapping[str, Role]
    by: str = "sign-in"
    request: str = field(default="", compare=False)
    address: str = field(default="", compare=False)

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects that are theirs."""
        return tuple(self.roles)

    def may(self, act: Act, project: str) -> bool:
        """Whether they may do that there."""
        return self.roles.get(project, 0) >= act.role


#: Whoever sits before a server without a team: everything is theirs.
ALONE = Visitor("", {NO_TEAM: Role.OWNER}, "alone")
NOBODY = Visitor("", {}, "nobody")


class Denied(Exception):
    """Somebody may not do that; ``key`` names the sentence in app/text/words/team.py."""

    def __init__(self, key: str, status: int = 403) -> None:
        super().__init__(key)
        self.key, self.status = key, status


def of(team: Team, scope: Mapping[str, Any]) -> Visitor:
    """Who sent a request that was let through."""
    found = scope.get(VISITOR)
    return found if isinstance(found, Visitor) else ALONE if team.sign_in is None else NOBODY


def by_claims(team: Team, claims: Mapping[str, Any]) -> Visitor | None:
    """Who signed in. None where the provider says no name, or has not seen for itself that the mail is theirs."""
    if team.sign_in is None:
        return ALONE
    name = claims.get(team.sign_in.name)
    if not isinstance(name, str) or not name or not name.isprintable():
        return None
    if team.sign_in.name == "email" and claims.get("email_verified") not in (True, "true", "1", 1):
        return None
    if name == EVERYBODY or name.startswith(_GROUP):
        return None
    return Visitor(name, _roles(team, name, _groups(team.sign_in, claims)))


def _groups(sign_in: SignIn, claims: Mapping[str, Any]) -> tuple[str, ...]:
    told = claims.get(sign_in.groups)
    return tuple(str(one) for one in ([told] if isinstance(told, str) else told if isinstance(told, list) else ()))


def by_token(team: Team, text: str) -> Visitor | None:
    """Whose token it is, held to the token's project and role. None where it is none, or does not work any more."""
    token = tokens.known(team, text) if team.sign_in is not None else None
    if token is None:
        return None
    role = _roles(team, token.name, book.groups(team.home, token.name)).get(token.project)
    roles = {} if role is None else {token.project: min(role, Role(token.role))}
    return Visitor(token.name, roles, f"token {token.id}")


def remember(team: Team, visitor: Visitor, claims: Mapping[str, Any]) -> None:
    """Keeps the groups that somebody had when they signed in: their tokens go by these."""
    if team.sign_in is not None:
        book.remember(team.home, visitor.name, _groups(team.sign_in, claims))


def _roles(team: Team, name: str, groups: tuple[str, ...]) -> dict[str, Role]:
    called = {name, EVERYBODY, *(f"{_GROUP}{group}" for group in groups)}
    held = {
        project.name: max((role for who, role in project.members.items() if who in called), default=None)
        for project in team.projects.values()
    }
    return {project: role for project, role in held.items() if role is not None}


def project(team: Team, visitor: Visitor, act: Act, name: str, what: str = "") -> Project:
    """The project, for somebody who may do that there; Denied otherwise, and the audit says so.

    A project that is not theirs is refused like one that there is not.
    """
    found = team.projects.get(name)
    allowed = found is not None and visitor.may(act, name)
    if not allowed or act not in (Act.SEE,):
        note(team, visitor, act.word, name, what, allowed)
    if found is None or not allowed:
        raise Denied("not_your_role" if visitor.may(Act.SEE, name) else "not_your_project")
    return found


def place(team: Team, visitor: Visitor, act: Act, name: str, what: str = "") -> Path:
    """The store of a project, for somebody who may do that there."""
    return project(team, visitor, act, name, what).store


def note(team: Team, visitor: Visitor, act: str, name: str, what: str, allowed: bool) -> None:
    """A line of the audit."""
    line = Line(
        time.time(), visitor.name, visitor.by, act, name, what, allowed, visitor.request, visitor.address
    )  # fmt: skip
    audit.note(team, line)


#: Between a project and the token that its store signed.
_MARK = "~"


def marked(name: str, token: str) -> str:
    """A signed token that says which project's store signed it."""
    return f"{name}{_MARK}{token}" if name else token


def unmarked(team: Team, text: str) -> tuple[Project, str]:
    """The project that a token names, and the token. What it names is believed only when that store has signed it."""
    name, mark, token = text.partition(_MARK)
    name, token = (name, token) if mark else (NO_TEAM, text)
    found = team.projects.get(name)
    if found is None:
        raise Denied("bad_token")
    return found, token
