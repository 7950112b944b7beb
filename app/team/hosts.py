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

from starlette.types import Scope
from streamlit import config


def ours() -> frozenset[str]:
    """Names of this machine and those that were allowed; "*" allows every name."""
    allowed = config.get_option("server.allowedHosts")
    given = (config.get_option("server.address"), config.get_option("browser.serverAddress"))
    machine = socket.gethostname()
    names = ["localhost", machine, f"{machine}.local", *allowed, *(name for name in given if name)]
    return frozenset(str(name).lower().rstrip(".") for name in names)


def called(scope: Scope, names: Iterable[str]) -> bool:
    """Whether every Host that a request names is one of these; an address in digits is not, where it is not listed."""
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return bool(hosts) and all(_listed(_name(host), frozenset(names)) for host in hosts)


def asked(scope: Scope, names: Iterable[str]) -> bool:
    """Whether every Host that a request names is one of these, or an address in digits."""
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return bool(hosts) and all(_known(host, frozenset(names)) for host in hosts)


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _listed(name: str, names: frozenset[str]) -> bool:
    return name in names or any(one.startswith("*.") and name.endswith(one[1:]) for one in names)


def _known(host: str, names: frozenset[str]) -> bool:
    name = _name(host)
    if "*" in names or name.endswith(".localhost") or _listed(name, names):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
