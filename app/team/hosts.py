"""Under which names the dashboard answers. A page of another site must not read it by a name that it made its own.

A browser takes a page for one of the site whose name it asked. A hostile site can let its own name lead to this machine
(DNS rebinding) and would then read everything here. So a request is answered only if it asks for an address in digits,
or for this machine's own name. A name that whoever runs the server listed will do too: --server.allowedHosts NAME.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

REFUSED = (
    "npulens does not answer under this name. Whoever runs it can allow the name: "
    "npulens serve --server.allowedHosts NAME"
)
#: Closes a websocket that asks for what it may not have (RFC 6455, 7.4.1).
_POLICY = 1008


class OwnHosts:
    """Lets through what asks for a name of ours: pages, routes and websockets alike."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or asked(scope, ours()):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(REFUSED, 421)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": _POLICY, "reason": ""})


def ours() -> frozenset[str]:
    """Names of this machine and those that were allowed; "*" allows every name."""
    allowed = config.get_option("server.allowedHosts")
    given = (config.get_option("server.address"), config.get_option("browser.serverAddress"))
    machine = socket.gethostname()
    names = ["localhost", machine, f"{machine}.local", *allowed, *(name for name in given if name)]
    return frozenset(str(name).lower().rstrip(".") for name in names)


def asked(scope: Scope, names: Iterable[str]) -> bool:
    """Whether every Host that a request names is one of these, or an address in digits."""
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return bool(hosts) and all(_known(host, frozenset(names)) for host in hosts)


def _known(host: str, names: frozenset[str]) -> bool:
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if "*" in names or name in names or name.endswith(".localhost"):
        return True
    if any(one.startswith("*.") and name.endswith(one[1:]) for one in names):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
