"""A real OpenID provider for tests: glewlwyd of Debian, with people, a client and its own sign-in page.

`python -m tests.provider DIR PORT URL [NAME:PASSWORD...]` runs one until it is ended.
"""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROGRAM = shutil.which("glewlwyd")
SHARE = Path("/usr/share/glewlwyd")
SCHEMA = Path("/usr/share/doc/glewlwyd/database/init.sqlite3.sql.gz")
PASSWORD = "a long password"
CLIENT, SECRET = "npulens", "the secret of the client"


def missing() -> str | None:
    """Why there is no provider on this machine."""
    there = PROGRAM and SCHEMA.is_file() and shutil.which("openssl")
    return None if there else "glewlwyd and openssl are not installed"


class Provider:
    """A running glewlwyd."""

    def __init__(self, place: Path, port: int, url: str, people: Iterable[str], outside: str = "") -> None:
        """``url``: of npulens; ``outside``: what browsers call the provider, where a proxy stands before it."""
        place.mkdir(parents=True, exist_ok=True)
        self.url, self._log = f"http://localhost:{port}", place / "log"
        self.called = outside or self.url
        database = place / "database.sqlite"
        with sqlite3.connect(database) as con:
            con.executescript(gzip.decompress(SCHEMA.read_bytes()).decode())
        pages = place / "pages"  # Debian's lead to other packages, and glewlwyd follows no link out of its folder
        shutil.copytree(SHARE / "webapp", pages, ignore=shutil.ignore_patterns("config.json"))
        shutil.copy(SHARE / "templates" / "config.json", pages)
        (place / "conf").write_text(_conf(self.called, port, database, pages))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([str(PROGRAM), "-c", str(place / "conf")], stdout=log, stderr=log)
        self._session = ""
        self._set_up(_key(place), url, list(people))

    @property
    def metadata(self) -> str:
        """Where it says what it can."""
        return f"{self.called}/api/oidc/.well-known/openid-configuration"

    def end(self) -> None:
        """Stops it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)

    def _set_up(self, key: str, url: str, people: list[str]) -> None:
        self._wait()
        self._ask("POST", "auth/", {"username": "admin", "password": "password"})
        self._ask("PUT", "mod/user/database", {
            "display_name": "Database", "order_rank": 0, "readonly": False, "parameters": {
                "use-glewlwyd-connection": True, "data-format": {
                    "email_verified": {"multiple": False, "read": True, "write": True, "profile-read": True},
                    "groups": {"multiple": True, "read": True, "write": True, "profile-read": True},
                },
            },
        })  # fmt: skip
        self._ask("PUT", "mod/user/database/reset", {})
        self._ask("POST", "mod/plugin/", {
            "module": "oidc", "name": "oidc", "display_name": "OpenID", "parameters": {
                "iss": f"{self.called}/api/oidc", "jwt-type": "rsa", "jwt-key-size": "256", "key": key, "cert": key,
                "access-token-duration": 3600, "refresh-token-duration": 3600, "code-duration": 600,
                "refresh-token-rolling": True, "allow-non-oidc": False, "auth-type-code-enabled": True,
                "auth-type-token-enabled": False, "auth-type-id-token-enabled": True, "auth-type-none-enabled": False,
                "auth-type-password-enabled": False, "auth-type-client-enabled": False,
                "auth-type-device-enabled": False, "auth-type-refresh-enabled": True, "jwks-show": True,
                "subject-type": "public", "pkce-allowed": True, "pkce-method-plain-allowed": False, "pkce-scopes": [],
                "email-claim": "mandatory", "email-claim-scopes": ["openid"], "name-claim": "mandatory",
                "name-claim-scopes": ["openid"], "scope-claim": "no", "scope": [{"name": "openid"}],
                "request-parameter-allow": False, "session-management-allowed": True,
                "session-cookie-name": "OIDC_SESSION", "session-cookie-expiration": 3600,
                "claims": [
                    {"name": "email_verified", "type": "boolean", "boolean-value-true": "1",
                     "boolean-value-false": "0", "mandatory": True, "scope": [], "user-property": "email_verified"},
                ],
            },
        })  # fmt: skip
        self._ask("PUT", "scope/openid", {
            "display_name": "OpenID", "description": "Who somebody is", "password_required": True, "scheme": {},
        })  # fmt: skip
        self._ask("POST", "client/", {
            "client_id": CLIENT, "name": "npulens", "enabled": True, "confidential": True, "password": SECRET,
            "client_secret": SECRET, "redirect_uri": [f"{url}/oauth2callback"], "scope": [],
            "authorization_type": ["code", "refresh_token"], "token_endpoint_auth_method": ["client_secret_basic"],
        })  # fmt: skip
        for name in people:
            user = name.split("@")[0]
            self._ask("POST", "user/", {
                "username": user, "name": user.title(), "email": name, "email_verified": "1", "enabled": True,
                "password": PASSWORD, "scope": ["openid"],
            })  # fmt: skip

    def _wait(self) -> None:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{self.url}/config", timeout=5).close()
                return
            except (OSError, urllib.error.HTTPError):
                assert self._process.poll() is None, self._log.read_text()
                time.sleep(0.1)
        raise AssertionError(self._log.read_text())

    def _ask(self, method: str, path: str, body: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "Cookie": self._session}
        request = urllib.request.Request(f"{self.url}/api/{path}", json.dumps(body).encode(), headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                self._session = self._session or str(answer.headers["Set-Cookie"]).partition(";")[0]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error


def _key(place: Path) -> str:
    made = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, text=True, check=True).stdout
    (place / "key.pem").write_text(made)
    return made


def _conf(url: str, port: int, database: Path, pages: Path) -> str:
    parts = urlsplit(url)
    alone = parts.scheme == "http"  # no proxy before it
    return f"""
port={port}
bind_address="{'127.0.0.1' if alone else '0.0.0.0'}"
external_url="{url}"
login_url="login.html"
api_prefix="api"
static_files_path="{pages}/"
log_mode="console"
log_level="WARNING"
cookie_domain="{parts.hostname}"
cookie_secure={int(not alone)}
session_expiration=3600
session_key="GLEWLWYD2_SESSION_ID"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="/usr/lib/glewlwyd/user"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
hash_algorithm="SHA512"
database = {{ type = "sqlite3" path = "{database}" }};
static_files_mime_types = (
  {{ extension = ".html" mime_type = "text/html" compress = 1 }},
  {{ extension = ".js" mime_type = "application/javascript" compress = 1 }},
  {{ extension = ".css" mime_type = "text/css" compress = 1 }},
  {{ extension = ".json" mime_type = "application/json" compress = 1 }}
)
"""


def main() -> None:
    place, port, url, *people = sys.argv[1:]
    provider = Provider(Path(place), int(port), url, people)
    print(provider.metadata, flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    provider.end()


if __name__ == "__main__":
    main()
