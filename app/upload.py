"""Takes captures from the browser to disk without holding them in memory.

Streamlit's own uploader keeps every file in RAM (600 MB cost 1.95 GB), and routes of `st.App` have no
authentication of their own. So the page first asks its session for a grant; the session checks the size against the
limit and the free disk and hands out a signed token for exactly that many files and bytes. Each file is one PUT
under that token, written once; the closing POST ends the token. Paths keep their names, because rank directories
are told by them, but every component is checked and nothing outside the grant's own folder can be named.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from streamlit import config

MAX_BYTES = int(os.environ.get("NPULENS_MAX_UPLOAD_BYTES", 20 * 10**9))
MAX_FILES = 20_000
IDLE_S = 600  # a grant without traffic for this long is over
LONGEST_S = 24 * 3600  # and so is any grant older than this
FOLDER = ".incoming"  # below the store: the same disk, so its free space is the one that counts
TOKEN_HEADER = "X-Npulens-Upload"  # a header of our own: no other site's page can send it
_CHUNK = 1 << 20
_MAX_NAME, _MAX_PATH, _MAX_DEPTH = 255, 2000, 32


class Refused(Exception):
    """A request that is not served; ``key`` names the sentence in app/words/upload.py."""

    def __init__(self, key: str, status: int = 400) -> None:
        super().__init__(key)
        self.key, self.status = key, status


@dataclass
class Grant:
    """One drop: what it may send and what has arrived."""

    id: str
    folder: Path
    files: int
    bytes: int
    arrived_files: int = 0
    arrived_bytes: int = 0
    closed: bool = False
    touched: float = field(default_factory=time.monotonic)

    @property
    def capture(self) -> Path:
        """What to load: the one thing that was dropped, or the folder holding several."""
        dropped = list(self.folder.iterdir())
        return dropped[0] if len(dropped) == 1 else self.folder


_signer = URLSafeTimedSerializer(secrets.token_bytes(32), salt="npulens-upload")
_grants: dict[str, Grant] = {}
_lock = Lock()


def prefix() -> str:
    """Where the routes hang: Streamlit does not put st.App's routes under server.baseUrlPath by itself."""
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/api/upload" if base else "/api/upload"


def grant(store: Path, files: int, size: int) -> tuple[str, Grant]:
    """A token for one drop of ``files`` files and ``size`` bytes, or Refused saying why not."""
    _sweep(store)
    if not 0 < files <= MAX_FILES:
        raise Refused("too_many_files" if files else "nothing")
    if not 0 <= size <= MAX_BYTES:
        raise Refused("too_large", 413)
    ident = secrets.token_urlsafe(12)
    folder = store / FOLDER / ident
    folder.mkdir(mode=0o700, parents=True)
    if shutil.disk_usage(folder).free < 2 * size:
        shutil.rmtree(folder, ignore_errors=True)
        raise Refused("disk_full", 507)
    given = Grant(ident, folder, files, size)
    with _lock:
        _grants[ident] = given
    return _signer.dumps(ident), given


def discard(given: Grant) -> None:
    """Ends a grant and removes what it brought."""
    with _lock:
        given.closed = True
        _grants.pop(given.id, None)
    shutil.rmtree(given.folder, ignore_errors=True)


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


def routes() -> list[Route]:
    """The two routes for `st.App`: a file of a drop, and the end of the drop."""
    return [
        Route(f"{prefix()}/file", _answer(_receive), methods=["PUT"]),
        Route(f"{prefix()}/done", _answer(_finish), methods=["POST"]),
    ]


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def _answer(handler: Handler) -> Handler:
    """Turns a refusal into its status and key; the page has the sentence in both languages."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            return JSONResponse({"refused": refused.key}, refused.status)

    return endpoint


async def _receive(request: Request) -> Response:
    given = _admit(request)
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        raise Refused("no_length", 411)
    target = given.folder / safe_path(request.query_params.get("path", ""))
    _reserve(given, int(length))
    try:
        await run_in_threadpool(target.parent.mkdir, parents=True, exist_ok=True)
        file = await run_in_threadpool(open, target, "xb")
    except OSError as error:  # the name is taken, or a file stands where a directory should be
        _release(given, int(length))
        raise Refused("name_taken", 409) from error
    whole = False
    try:
        with file:
            await _copy(request, file.write, int(length), given)
        whole = True
    except (OSError, ClientDisconnect) as error:
        raise Refused("interrupted") from error
    finally:
        if not whole:
            target.unlink(missing_ok=True)
            _release(given, int(length))
    return JSONResponse({"arrived": given.arrived_bytes})


async def _copy(request: Request, write: Callable[[bytes], int], length: int, given: Grant) -> None:
    """Writes the body in chunks of a megabyte, off the event loop; the body must be as long as announced."""
    buffer, left = bytearray(), length
    async for piece in request.stream():
        left -= len(piece)
        if left < 0 or given.closed:
            raise Refused("length_lies")
        buffer += piece
        if len(buffer) >= _CHUNK:
            given.touched = time.monotonic()
            await run_in_threadpool(write, bytes(buffer))
            buffer.clear()
    if left:
        raise Refused("length_lies")
    await run_in_threadpool(write, bytes(buffer))


async def _finish(request: Request) -> Response:
    given = _admit(request)
    if (given.arrived_files, given.arrived_bytes) != (given.files, given.bytes):
        raise Refused("incomplete", 409)
    given.closed = True
    return JSONResponse({"closed": given.id})


def _admit(request: Request) -> Grant:
    """The open grant a request's token stands for."""
    try:
        ident = _signer.loads(request.headers.get(TOKEN_HEADER, ""), max_age=LONGEST_S)
    except BadSignature as error:
        raise Refused("bad_token", 403) from error
    given = _grants.get(ident)
    if given is None or given.closed or time.monotonic() - given.touched > IDLE_S:
        raise Refused("bad_token", 403)
    given.touched = time.monotonic()
    return given


def _reserve(given: Grant, length: int) -> None:
    """Counts a file in before its first byte is written, so that parallel files cannot pass the grant."""
    with _lock:
        if given.arrived_files + 1 > given.files or given.arrived_bytes + length > given.bytes:
            raise Refused("more_than_granted", 413)
        given.arrived_files += 1
        given.arrived_bytes += length


def _release(given: Grant, length: int) -> None:
    """Counts a file out that did not arrive; it may be sent again."""
    with _lock:
        given.arrived_files -= 1
        given.arrived_bytes -= length


def _sweep(store: Path) -> None:
    """Removes what abandoned uploads left: grants gone idle, and folders of an earlier process."""
    now = time.monotonic()
    for given in list(_grants.values()):
        if now - given.touched > (LONGEST_S if given.closed else IDLE_S):
            discard(given)
    root = store / FOLDER
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.name not in _grants and time.time() - folder.stat().st_mtime > LONGEST_S:
            shutil.rmtree(folder, ignore_errors=True)
