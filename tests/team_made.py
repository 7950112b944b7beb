"""A team of two projects for tests: its file, cookies as Streamlit signs them, requests to what stands before all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Message
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from npulens.app.team import config, signed_in

URL = "https://npulens.example"
FILE = f"""
url = "{URL}"
home = "home"

[sign_in]
provider = "https://id.example/.well-known/openid-configuration"
client_id = "npulens"
client_secret_file = "secret"

[project.red]
owner = ["olga@x.example"]
bringer = ["boris@x.example", "group:nightly"]
reader = ["rita@x.example"]

[project.blue]
owner = ["bella@x.example"]
quota = "1 MB"
keep_days = 30
"""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def made(place: Path, text: str = FILE) -> Path:
    """The file with its secret."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "secret").write_text("not so secret\n")
    (place / "team.toml").write_text(text)
    return place / "team.toml"


def cookie(team: config.Team, name: str, groups: tuple[str, ...] = (), **changed: object) -> str:
    """The cookie of somebody who came back from the provider."""
    said = {"email": name, "email_verified": True, "groups": list(groups), "origin": URL, "is_logged_in": True}
    signed = create_signed_value(signed_in.secret(team), USER_COOKIE_NAME, json.dumps(said | changed))
    return f"{USER_COOKIE_NAME}={signed.decode()}"


def ask(app: ASGIApp, path: str, method: str = "GET", headers: Mapping[str, str] | None = None,
        kind: str = "http", body: bytes = b"") -> Answer:  # fmt: skip
    """One request, or the opening of a websocket, as a server would hand it over."""
    path, _, query = path.partition("?")
    named = {"host": "npulens.example", **(headers or {})}
    scope = {
        "type": kind, "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(key.lower().encode(), value.encode()) for key, value in named.items()], "scheme": "https",
        "client": ("203.0.113.7", 4711), "server": ("npulens.example", 443), "http_version": "1.1", "subprotocols": [],
        **({"method": method} if kind == "http" else {}),
    }  # fmt: skip
    sent: list[Message] = []
    first = iter([{"type": "http.request", "body": body} if kind == "http" else {"type": "websocket.connect"}])

    async def receive() -> Message:
        return next(first, {"type": "http.disconnect" if kind == "http" else "websocket.disconnect"})

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    if kind == "websocket":
        return Answer(101 if sent[0]["type"] == "websocket.accept" else int(sent[0]["code"]), {}, b"")
    told = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:]))
