"""A question about a run, answered in this process: by the routes of a server, or by the kernel of a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from re import Pattern

import duckdb
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import compile_path

from npulens.app.timeline.answers import ANSWERS, ASK_AGAIN, Answer, as_json
from npulens.app.timeline.opened import opened
from npulens.app.timeline.request_values import Refused


def answered(answer: Answer, store: Path, run_id: str, request: Request) -> Response:
    """What the run says; a refusal is an answer too."""
    try:
        return answer(opened(store, run_id), request)
    except Refused as refused:
        return refusal(refused)
    except duckdb.OutOfMemoryException:
        return as_json({"refused": "too_many"}, ASK_AGAIN, 413)


def refusal(refused: Refused) -> Response:
    """Why a request is not served, in words that a program reads."""
    return as_json({"refused": refused.key}, ASK_AGAIN, refused.status)


def asked(store: Path, run_id: str, target: str) -> tuple[int, bytes]:
    """Status and body of the answer to a path below the run, as a canvas writes it."""
    path, _, query = target.partition("?")
    for pattern, answer in _patterns():
        if found := pattern.match(f"/{path}"):
            scope = {"type": "http", "method": "GET", "path": f"/{path}", "query_string": query.encode(), "headers": [],
                     "path_params": {**found.groupdict(), "run_id": run_id}}  # fmt: skip
            said = answered(answer, store, run_id, Request(scope))
            if isinstance(said, StreamingResponse):
                return said.status_code, _whole(said.body_iterator)
            return said.status_code, bytes(said.body)
    return 404, b""


@cache
def _patterns() -> tuple[tuple[Pattern[str], Answer], ...]:
    return tuple((compile_path(f"/{path}")[0], answer) for path, answer in ANSWERS.items())


def _whole(pieces: AsyncIterable[str | bytes | memoryview]) -> bytes:
    """A file that comes in pieces; a kernel's own loop is running, so they are gathered on another thread."""

    async def gathered() -> bytes:
        return b"".join([piece.encode() if isinstance(piece, str) else bytes(piece) async for piece in pieces])

    with ThreadPoolExecutor(1) as bench:
        return bench.submit(asyncio.run, gathered()).result()
