"""Tokens of one's own: for curl, scripts and agents, each of one project and one role, each ended by itself.

Only a hash of a token is kept. It may do what its role may, and never more than its person may at the moment.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time

from npulens.app.team.config import Role, Team
from npulens.ingest.store import book
from npulens.ingest.store.book import Token

MAX_DAYS = 366
#: Uses of a token closer together than this are one.
_NOTED_S = 60
_FORM = re.compile(r"npulens_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


def mint(team: Team, name: str, project: str, role: Role, title: str, days: float) -> tuple[str, Token]:
    """A new token and what is known of it. Its text is said once and kept nowhere."""
    ident, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), time.time()
    until = now + min(days, MAX_DAYS) * 86_400
    made = Token(ident, name, project, int(role), " ".join(title.split())[:100], _hash(secret), now, until)
    book.add_token(team.home, made)
    return f"npulens_{ident}_{secret}", made


def known(team: Team, text: str) -> Token | None:
    """The token of a text, where it works; it is noted that it was used."""
    form = _FORM.fullmatch(text)
    found = book.token(team.home, form[1]) if form else None
    if form is None or found is None or not hmac.compare_digest(found.hash, _hash(form[2])) or not found.works:
        return None
    if found.used is None or time.time() - found.used > _NOTED_S:
        book.used(team.home, found.id)
    return found


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
