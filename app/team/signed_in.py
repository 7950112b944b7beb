"""What the provider said of whoever sends a cookie. Streamlit signs the cookie when somebody comes back from it.

The page, every route and every websocket ask here. A cookie is believed for the hours that the team wants, and only on
the server that it was made for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from npulens.app.intake import signed_tokens
from npulens.app.team.config import SignIn, Team


def secret(team: Team) -> str:
    """What cookies are signed with: made once and kept in the team's home, so that a restart signs nobody out."""
    return hashlib.sha256(b"cookie" + signed_tokens.secret(team.home)).hexdigest()


def claims(team: Team, cookies: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What the provider said; None where nobody is signed in."""
    if team.sign_in is None or USER_COOKIE_NAME not in cookies:
        return None
    key, oldest = secret(team), int(team.sign_in.hours * 3600)

    def signed(name: str) -> bytes | None:
        try:
            said = URLSafeTimedSerializer(key, salt=name).loads(cookies.get(name, ""), max_age=oldest)
        except BadSignature:
            return None
        return said.encode() if isinstance(said, str) else None

    whole = get_cookie_with_chunks(signed, USER_COOKIE_NAME)
    try:
        found = json.loads(whole or b"null")
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("is_logged_in") is not True:
        return None
    return found if str(found.get("origin")).lower() == team.origin else None


def secrets(team: Team) -> dict[str, Any] | None:
    """What Streamlit wants to know of the provider."""
    if team.sign_in is None:
        return None
    return {"auth": _auth(team, team.sign_in)}


def _auth(team: Team, sign_in: SignIn) -> dict[str, Any]:
    return {
        "redirect_uri": f"{team.url}/oauth2callback",
        "cookie_secret": secret(team),
        "client_id": sign_in.client_id,
        "client_secret": sign_in.client_secret,
        "server_metadata_url": sign_in.provider,
        "client_kwargs": {"scope": sign_in.scope},
    }
