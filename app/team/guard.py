"""Before every route, page and websocket: which names are answered, whose pages may ask, who is asking.

Without a team it checks names and origins, and says to browsers what a page may do. With one it also asks who it is,
by the rule of the path (app/team/rules.py). What is refused is written to the audit.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
import secrets
import time
from base64 import b64encode
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import file_util

from npulens.app.intake.invitations import TOKEN_HEADER
from npulens.app.team import config, hosts, metrics, rules, signed_in, who
from npulens.app.team.config import Team
from npulens.app.team.rules import Who
from npulens.app.team.who import ALONE, NOBODY, VISITOR, Visitor
from npulens.app.text import i18n

REQUEST_HEADER = b"x-request-id"


def _policy() -> str:
    """What a page may load: only what this server sends. Streamlit and the canvas make styles and images themselves.

    Streamlit's page has a script within; that one is named by its hash.
    """
    page = Path(file_util.get_static_dir(), "index.html")
    inside = re.findall(rb"<script>(.*?)</script>", page.read_bytes(), re.DOTALL) if page.is_file() else []
    hashes = " ".join(f"'sha256-{b64encode(hashlib.sha256(each).digest()).decode()}'" for each in inside)
    return (
        f"default-src 'self'; script-src 'self' {hashes} blob: 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' blob:; worker-src 'self' blob:; "
        "connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    )


HEADERS = {
    "Content-Security-Policy": _policy(), "X-Frame-Options": "SAMEORIGIN", "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip
BACK = "npulens_back"  # a cookie: where somebody wanted to go before signing in
_SAFE = ("GET", "HEAD", "OPTIONS")
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_POLICY_CLOSE = 1008  # RFC 6455, 7.4.1


@dataclass(frozen=True)
class _No:
    """Why a request is not served: the status, and the sentence of app/text/words/team.py."""

    key: str
    status: int = 403
    visitor: Visitor = NOBODY


_under_way: set[asyncio.Task[Any]] = set()
_ending = Event()


def cut_off() -> None:
    """Ends what is still under way: the server was told to end, and has waited long enough."""
    _ending.set()
    for task in tuple(_under_way):
        task.cancel()


class Guard:
    """Lets through what may pass, and takes note of all of it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        team = config.current()
        request = _request(team, scope)
        answer = _Answer(team, scope, send, request)
        refused = await self._refused(team, scope, request)
        task = asyncio.current_task()
        assert task is not None
        _under_way.add(task)
        with metrics.open_of(scope["type"]):
            try:
                if refused is None:
                    await self.app(scope, receive, answer.send)
                else:
                    await self._say(team, scope, refused, receive, answer.send, request)
            except asyncio.CancelledError:
                if not _ending.is_set():
                    raise
            finally:
                _under_way.discard(task)
                answer.ended(refused.key if refused else "")

    async def _refused(self, team: Team, scope: Scope, request: str) -> _No | None:
        """Why it is not served; else the visitor stands in the scope."""
        headers = Headers(scope=scope)
        path, method = _path(team, scope), scope.get("method", "GET")
        if not _named(team, scope, path):
            return _No("unknown_host", 421)
        if not _own_page(team, scope, headers):
            return _No("foreign_page")
        if team.sign_in is None:
            scope[VISITOR] = ALONE
            return None
        rule = rules.of(path, method) if path is not None else None
        visitor: Visitor | _No = NOBODY
        if rule is None or rule.who is Who.CLOSED:
            return _No("no_such_place", 404)
        if rule.who is Who.WATCH:
            visitor = NOBODY if _watches(team, scope, headers) else _No("not_for_you", 404)
        elif rule.who is Who.TOKEN:
            visitor = await run_in_threadpool(_by_token, team, headers)
        elif rule.who is Who.SIGNED_IN:
            visitor = await run_in_threadpool(_by_cookie, team, headers)
        if isinstance(visitor, _No):
            return visitor
        address = scope["client"][0] if scope.get("client") else ""
        scope[VISITOR] = replace(visitor, request=request, address=address)
        return None

    async def _say(
        self, team: Team, scope: Scope, no: _No, receive: Receive, send: Send, request: str
    ) -> None:  # fmt: skip
        """The refusal: a status and a sentence, the way to sign in for somebody's browser, a closed websocket."""
        headers = Headers(scope=scope)
        if no.key == "sign_in_first" and _navigates(scope, headers):
            await RedirectResponse(f"{team.base}/sign-in?back={quote(_asked(team, scope), safe='')}", 303)(
                scope, receive, send
            )
            return
        metrics.refused(no.key)
        address = scope["client"][0] if scope.get("client") else ""
        by = replace(no.visitor, request=request, address=address)
        what = f"{scope.get('method', 'WEBSOCKET')} {scope['path']}"
        await run_in_threadpool(who.note, team, by, no.key, "", what, False)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_CLOSE, "reason": ""})
            return
        lang = i18n.language(None, headers.get("accept-language"))
        answer: Response = PlainTextResponse(i18n.say(lang, f"team.{no.key}") + "\n", no.status)
        if no.status == 401:
            answer.headers["WWW-Authenticate"] = "Bearer"
        await answer(scope, receive, send)


def _request(team: Team, scope: MutableMapping[str, Any]) -> str:
    """The id of a request, from the proxy before us or a new one. A websocket's page finds it among its headers."""
    said = dict(scope["headers"]).get(REQUEST_HEADER, b"").decode("latin-1")
    found = said if team.sign_in is not None and _ID.fullmatch(said) else secrets.token_hex(8)
    rest = [(name, value) for name, value in scope["headers"] if name != REQUEST_HEADER]
    scope["headers"] = [*rest, (REQUEST_HEADER, found.encode())]
    return found


def _path(team: Team, scope: Scope) -> str | None:
    """The path below the server's own; None for what lies outside of it."""
    path: str = scope["path"]
    if not team.base:
        return path
    if path == team.base:
        return "/"
    return path.removeprefix(team.base) if path.startswith(f"{team.base}/") else None


def _asked(team: Team, scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def _named(team: Team, scope: Scope, path: str | None) -> bool:
    """Whether it asks for a name of ours. Health and metrics are also asked for by the machine's own addresses."""
    if team.sign_in is None:
        return hosts.asked(scope, hosts.ours())
    return hosts.called(scope, team.names) or (
        path in ("/_stcore/health", "/metrics") and hosts.asked(scope, ("localhost",))
    )


def _own_page(team: Team, scope: Scope, headers: Headers) -> bool:
    """Whether no page of another site is behind it: such a page may lead here, and nothing else."""
    origin = headers.get("origin")
    if scope["type"] == "websocket":
        return _own(team, origin, headers) if origin is not None else team.sign_in is None
    if scope["method"] not in _SAFE and origin is not None and not _own(team, origin, headers):
        return False
    foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return not foreign or (_navigates(scope, headers) and headers.get("sec-fetch-dest", "document") == "document")


def _own(team: Team, origin: str, headers: Headers) -> bool:
    if team.sign_in is not None:
        return origin.lower() == team.origin
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _navigates(scope: Scope, headers: Headers) -> bool:
    """Whether a browser goes there, so that a person reads the answer."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    mode = headers.get("sec-fetch-mode")
    return mode == "navigate" if mode else "text/html" in headers.get("accept", "")


def _by_cookie(team: Team, headers: Headers) -> Visitor | _No:
    claims = signed_in.claims(team, cookie_parser(headers.get("cookie", "")))
    if claims is None:
        return _No("sign_in_first", 401)
    return who.by_claims(team, claims) or _No("nobody_said", 403)


def _by_token(team: Team, headers: Headers) -> Visitor | _No:
    """Whose token it is. A ticket has nobody; the route that takes it checks it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return who.by_token(team, token.strip()) or _No("bad_bearer", 401)
    return NOBODY if headers.get(TOKEN_HEADER) else _No("token_first", 401)


def _watches(team: Team, scope: Scope, headers: Headers) -> bool:
    """Whether it comes from where metrics may be read, or with the token for that."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if team.metrics_token is not None:
        return scheme.lower() == "bearer" and secrets.compare_digest(token.encode(), team.metrics_token.encode())
    if not scope.get("client") or any(name in headers for name in ("x-forwarded-for", "forwarded")):
        return False
    try:
        address = ipaddress.ip_address(scope["client"][0])
    except ValueError:
        return False
    return any(address in ipaddress.ip_network(one) for one in team.metrics_from)


class _Answer:
    """What is sent back, with the headers that protect it, its place in the log and in the metrics."""

    def __init__(self, team: Team, scope: Scope, send: Send, request: str) -> None:
        self.team, self.scope, self._send, self.request = team, scope, send, request
        self.began, self.status = time.monotonic(), 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-Id"] = self.request
            if self.team.sign_in is not None:
                _protect(self.team, message)
                if _path(self.team, self.scope) == "/oauth2callback":
                    await run_in_threadpool(_came_back, self.team, self.scope, message, self.request)
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)

    def ended(self, refused: str) -> None:
        took = time.monotonic() - self.began
        metrics.answered(self.scope["type"], self.status, took)
        if self.team.sign_in is not None:
            metrics.log(self.scope, self.status, took, self.request, self.scope.get(VISITOR, NOBODY), refused)


def is_way_back(path: str) -> bool:
    """Whether it is a place of this server, and nothing that leads elsewhere."""
    return bool(re.fullmatch(r"/(?![/\\])[^\\\s]{0,2000}", path)) and path.isprintable()


def _protect(team: Team, message: Message) -> None:
    """Cookies of a server that is reached by TLS go by TLS alone."""
    if team.url.startswith("https:"):
        message["headers"] = [
            (name, value + b"; Secure" if name.lower() == b"set-cookie" and b"secure" not in value.lower() else value)
            for name, value in message["headers"]
        ]


def _came_back(team: Team, scope: Scope, message: Message, request: str) -> None:
    """Notes who signed in; or that somebody came back from the provider without."""
    cookies: dict[str, str] = {}
    for name, value in message["headers"]:
        if name.lower() == b"set-cookie":
            try:
                cookies.update({key: one.value for key, one in SimpleCookie(value.decode("latin-1")).items()})
            except CookieError:
                continue
    claims: Mapping[str, Any] = signed_in.claims(team, cookies) or {}
    visitor = who.by_claims(team, claims)
    address = scope["client"][0] if scope.get("client") else ""
    if visitor is not None:
        who.remember(team, visitor, claims)
        back = cookie_parser(Headers(scope=scope).get("cookie", "")).get(BACK, "")
        if is_way_back(back):
            MutableHeaders(scope=message)["location"] = back
    who.note(team, replace(visitor or NOBODY, request=request, address=address), "sign in", "", "", visitor is not None)
