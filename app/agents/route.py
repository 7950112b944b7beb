"""The tools at /api/mcp of the dashboard's own server: one address, and the tokens, roles and projects of everything.

Without a team the tokens are those of the store, as for `npulens mcp --http`. Every request stands alone: no session is
kept, so several servers over one store may take turns.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from npulens.app.agents import sdk
from npulens.app.settings.of_checks import in_force
from npulens.app.team import config, who
from npulens.app.team.config import ALONE, Team
from npulens.app.text import i18n, wording
from npulens.ingest.errors import IngestError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from npulens.app.agents.door import Door

#: Statuses of refusals, and what the audit calls them.
_REFUSED = {401: "bad_bearer", 413: "too_large"}


class Tools:
    """An endpoint that takes every method: a GET is no page of the dashboard, it is told what there is."""

    def __init__(self, base: str) -> None:
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        team, request = config.current(), Request(scope)
        if request.method != "POST":
            answer = PlainTextResponse("POST\n", 405, {"Allow": "POST"})
            await answer(scope, receive, send)
            return
        address = team.url or f"{str(request.base_url).rstrip('/')}{self._base}"
        try:
            told = await run_in_threadpool(_told, team, address, scope["path"])
        except IngestError as error:
            lang = i18n.language(None, request.headers.get("accept-language"))
            await PlainTextResponse(wording.error(error, lang) + "\n", 501)(scope, receive, send)
            return
        async with told.router.lifespan_context(told):
            await told(scope, receive, partial(_noted, team, scope, send))


def _told(team: Team, address: str, path: str) -> Starlette:
    """The SDK's part for one request; runs that were opened for earlier ones stay open."""
    settings = in_force(None)
    door = _door(address, "" if team.sign_in is not None else str(team.projects[ALONE].store), repr(settings))
    told: Starlette = sdk.server().over_http(door, address, path, own_guard=False)
    return told


@lru_cache(2)
def _door(address: str, store: str, _settings: str) -> Door:
    """``store`` is that of a server without a team. Other settings, or links that lead elsewhere, make another door."""
    from npulens.app.agents.door import Door  # what it needs is not imported before an agent asks

    settings = in_force(None)
    return Door(Path(store), settings, address, None if store else config.current)


async def _noted(team: Team, scope: Scope, send: Send, message: Message) -> None:
    """What the SDK refuses stands in the audit too."""
    if message["type"] == "http.response.start" and message["status"] in _REFUSED:
        key = _REFUSED[message["status"]]
        await run_in_threadpool(who.note, team, who.of(team, scope), key, "", f"POST {scope['path']}", False)
    await send(message)
