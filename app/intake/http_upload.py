"""Takes captures from a browser or from curl to disk without holding them in memory.

Streamlit's own uploader keeps every file in RAM (600 MB cost 1.95 GB). Routes of `st.App` have no authentication of
their own. So the page first asks its session for a grant (app/intake/drop_folders.py). It sends each file as one PUT
under that token, written once. The closing POST ends it. Who has no session has a ticket (app/intake/invitations.py).
One PUT is one capture; it is loaded as soon as it is here, and the answer says what became of it. Paths keep their
names, because rank directories are told by them. But every component is checked, and nothing outside the grant's own
folder can be named.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from streamlit import config

from npulens.app.intake import drop_folders, invitations, load_queue
from npulens.app.intake.drop_folders import Grant, discard
from npulens.app.intake.invitations import TOKEN_HEADER, Ticket
from npulens.app.intake.signed_tokens import Refused
from npulens.app.team import config as team_file
from npulens.app.team import keeping, who
from npulens.app.team.config import Project
from npulens.app.team.who import Visitor
from npulens.app.text import i18n

SILENT_S = 25  # an answer that takes longer begins with 200 and empty lines: proxies drop silent connections
_CHUNK = 1 << 20
_MAX_NAME, _MAX_PATH, _MAX_DEPTH = 255, 2000, 32

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def prefix() -> str:
    """Where the routes hang: Streamlit does not put st.App's routes under server.baseUrlPath by itself."""
    return f"{base()}/api/upload"


def base() -> str:
    """The path below which everything lies."""
    said = str(config.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{said}" if said else ""


def routes() -> list[Route]:
    """The routes for `st.App`: a file of a drop, the end of the drop, and a whole capture under a ticket."""
    return [
        Route(f"{prefix()}/file", _answer(_receive), methods=["PUT"]),
        Route(f"{prefix()}/done", _answer(_finish), methods=["POST"]),
        Route(f"{prefix()}/capture/{{name:path}}", _answer(_capture), methods=["PUT"]),
    ]


def safe_path(text: str) -> PurePosixPath:
    """The relative path of an uploaded file, every component a plain name."""
    parts = [part for part in text.replace("\\", "/").split("/") if part]
    plain = all(
        part not in (".", "..") and part.isprintable() and len(part.encode(errors="replace")) <= _MAX_NAME
        for part in parts
    )
    if not parts or not plain or len(parts) > _MAX_DEPTH or len(text) > _MAX_PATH:
        raise Refused("bad_name")
    return PurePosixPath(*parts)


def _answer(handler: Handler) -> Handler:
    """Turns a refusal into its status, its key for the page, and its sentence for whoever reads curl's output."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            if refused.status in (401, 403):
                team = team_file.current()
                what = f"{request.method} {request.url.path}"
                await run_in_threadpool(who.note, team, who.of(team, request.scope), refused.key, "", what, False)
            limits = {"limit": i18n.size(drop_folders.MAX_BYTES), "files": f"{drop_folders.MAX_FILES:,}"}
            said = {"refused": refused.key, "message": i18n.say("en", f"upload.{refused.key}", limits)}
            return JSONResponse(said, refused.status)

    return endpoint


async def _receive(request: Request) -> Response:
    given = _admitted(request)
    await _store(request, given, safe_path(request.query_params.get("path", "")), _length(request))
    return JSONResponse({"arrived": given.arrived[1]})


async def _finish(request: Request) -> Response:
    given = _admitted(request)
    given.close()
    return JSONResponse({"closed": given.id})


def _admitted(request: Request) -> Grant:
    """The drop that the token is of: only who began it sends it."""
    visitor = who.of(team_file.current(), request.scope)
    project, token = _unmarked(request)
    given = drop_folders.admit(project.store, token)
    if given.by != visitor.name:
        raise Refused("bad_token", 403)
    return given


def _unmarked(request: Request) -> tuple[Project, str]:
    try:
        return who.unmarked(team_file.current(), request.headers.get(TOKEN_HEADER, ""))
    except who.Denied as denied:
        raise Refused("bad_token", 403) from denied


def _length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        raise Refused("no_length", 411)
    return int(length)


async def _store(request: Request, given: Grant, path: PurePosixPath, length: int) -> None:
    """Writes one file of a grant; one that does not arrive whole leaves nothing."""
    target = given.folder / path
    given.reserve(length)
    try:
        await run_in_threadpool(target.parent.mkdir, parents=True, exist_ok=True)
        file = await run_in_threadpool(open, target, "xb")
    except OSError as error:  # the name is taken, or a file stands where a directory should be
        given.release(length)
        raise Refused("name_taken", 409) from error
    whole = False
    try:
        with file:
            await _copy(request, file.write, length, given)
        whole = True
    except (OSError, ClientDisconnect) as error:
        raise Refused("interrupted") from error
    finally:
        if not whole:
            target.unlink(missing_ok=True)
            given.release(length)


async def _copy(request: Request, write: Callable[[bytes], int], length: int, given: Grant) -> None:
    """Writes the body in chunks of a megabyte, off the event loop; the body must be as long as announced."""
    buffer, left = bytearray(), length
    stream, idle_s = request.stream(), team_file.current().idle_s
    while True:
        try:
            piece = await asyncio.wait_for(anext(stream), idle_s)
        except StopAsyncIteration:
            break
        except TimeoutError as error:  # whoever sends nothing for that long holds no place here
            raise Refused("interrupted", 408) from error
        left -= len(piece)
        if left < 0:
            raise Refused("length_lies")
        buffer += piece
        if len(buffer) >= _CHUNK:
            if not given.touch():
                raise Refused("bad_token", 403)
            await run_in_threadpool(write, bytes(buffer))
            buffer.clear()
    if left:
        raise Refused("length_lies")
    await run_in_threadpool(write, bytes(buffer))


async def _capture(request: Request) -> Response:
    """One file that is a capture: stored, loaded, answered."""
    name, length = safe_path(request.path_params["name"]), _length(request)
    project, ticket = await run_in_threadpool(_bringer, request, str(name))
    store = project.store
    if not await run_in_threadpool(keeping.room, project, length):
        raise Refused("project_full", 507)
    if ticket is not None:
        invitations.spend(store, ticket, 1, length)
    arrived, given = False, None
    try:
        _, given = drop_folders.grant(store, 1, length)
        await _store(request, given, name, length)
        given.close()
        arrived = True
    finally:
        if not arrived:
            if ticket is not None:
                invitations.give_back(store, ticket, 1, length)
            if given is not None:
                discard(given)
    load = load_queue.submit(load_queue.Load(given, store, str(name), ticket))
    address = team_file.current().url or f"{str(request.base_url).rstrip('/')}{base()}"
    for _ in range(SILENT_S * 10):
        if (outcome := load.outcome()) is not None:
            return Response(_told(outcome, address), _status(outcome), media_type="application/json")
        await asyncio.sleep(0.1)
    return StreamingResponse(_patiently(load, address), media_type="application/json")


def _bringer(request: Request, name: str) -> tuple[Project, Ticket | None]:
    """The project that a capture is brought to: that of a ticket, or that of a token of one's own."""
    team = team_file.current()
    visitor = who.of(team, request.scope)
    if team.sign_in is None or not visitor.name:
        project, token = _unmarked(request)
        ticket = invitations.ticket(project.store, token)
        by = Visitor("", {}, f"ticket {ticket.id}", visitor.request, visitor.address)
        who.note(team, by, who.Act.BRING.word, project.name, name, True)
        return project, ticket
    try:
        own = next(iter(visitor.projects), "")
        return who.project(team, visitor, who.Act.BRING, own, name), None
    except who.Denied as denied:
        raise Refused("not_a_bringer", 403) from denied


async def _patiently(load: load_queue.Load, address: str) -> AsyncIterator[str]:
    """Empty lines while a long load goes on, then its answer: JSON may begin with white space."""
    while True:
        for _ in range(50):
            if (outcome := load.outcome()) is not None:
                yield _told(outcome, address)
                return
            await asyncio.sleep(0.2)
        yield "\n"


def _status(outcome: load_queue.Outcome) -> int:
    """200 when anything was loaded, 422 when everything was refused, 500 when the load itself failed."""
    if outcome.run_ids:
        return 200
    return 422 if outcome.runs else 500


def _told(outcome: load_queue.Outcome, address: str) -> str:
    """What curl prints: the first run, where to look at it, and every entry of the load."""
    runs = [
        {key: run.get(key) for key in ("run_id", "stored", "label", "status", "reason", "events", "seconds", "error")}
        for run in outcome.runs
    ]
    first = outcome.run_ids[0] if outcome.run_ids else None
    shown = next((run for run in runs if run["run_id"] == first), {})
    answer = {
        "run_id": first,
        "status": shown.get("status") or "refused",
        "url": f"{address}/?run={quote(first)}" if first else None,
        "error": outcome.error or (None if first else shown.get("reason")),
        "runs": runs,
    }
    return json.dumps(answer, ensure_ascii=False) + "\n"
