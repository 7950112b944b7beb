"""What the server is made of: its routes beside the page, what stands before them, how it begins and how it ends."""

from __future__ import annotations

import asyncio
import html
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import Any

import streamlit as st
from anyio import to_thread
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from streamlit.auth_util import encode_provider_token

from npulens.app.agents import route as agents
from npulens.app.intake import http_upload, load_queue
from npulens.app.team import config, guard, keeping, metrics, settling, signed_in
from npulens.app.text import i18n
from npulens.app.timeline import ahead, perfetto, route

_LOOK = "body{font:16px system-ui,sans-serif;max-width:32rem;margin:18vh auto;padding:0 1rem;line-height:1.5}"
_LOOK += "a{display:inline-block;padding:.5rem 1rem;border:1px solid #0067a8;border-radius:6px;color:#0067a8}"


def routes() -> list[BaseRoute]:
    """Every route of ours; each has a rule in app/team/rules.py."""
    base = config.current().base
    own = [
        Route(f"{base}/sign-in", _sign_in, methods=["GET"]),
        Route(f"{base}/metrics", _metrics, methods=["GET"]),
        Route(f"{http_upload.base()}/api/mcp", agents.Tools(http_upload.base())),
    ]
    return [*http_upload.routes(), *route.routes(), *perfetto.routes(), *own]


def middleware() -> list[Middleware]:
    """What stands before them."""
    return [Middleware(guard.Guard)]


def secrets() -> dict[str, Any] | None:
    """What Streamlit has to know to sign people in; None where nobody has to."""
    return signed_in.secrets(config.current())


async def _sign_in(request: Request) -> Response:
    """One sentence and a link to the provider. Whoever signs out comes back here and is not signed in again at once."""
    team = config.current()
    if team.sign_in is None:
        return RedirectResponse(f"{team.base}/", 303)
    if "go" in request.query_params:
        return RedirectResponse(f"{team.base}/auth/login?provider={encode_provider_token('default')}", 303)
    lang = i18n.language(request.query_params.get("lang"), request.headers.get("accept-language"))
    answer = HTMLResponse(page(lang, "team.sign_in_what", f"{team.base}/sign-in?go=1", "team.sign_in"))
    back = request.query_params.get("back", "")
    if guard.is_way_back(back):
        answer.set_cookie(guard.BACK, back, max_age=600, httponly=True, samesite="lax", path=team.base or "/")
    return answer


def page(lang: str, sentence: str, link: str, label: str) -> str:
    """A page without a script: a sentence and a link."""
    said, name = html.escape(i18n.say(lang, sentence)), html.escape(i18n.say(lang, label))
    return (
        f'<!doctype html><html lang="{lang}"><head><meta charset="utf-8"><title>npulens</title>'
        f"<style>{_LOOK}</style></head><body><h1>npulens</h1><p>{said}</p>"
        f'<p><a href="{html.escape(link)}">{name}</a></p></body></html>'
    )


async def _metrics(_: Request) -> Response:
    gauges = await run_in_threadpool(keeping.gauges, config.current())
    gauges["loads_waiting"] = ("Loads that wait for their turn.", {"": float(load_queue.waiting())})
    gauges["sessions"] = ("Visitors whose page is open.", {"": float(_sessions())})
    return PlainTextResponse(metrics.text(gauges), media_type="text/plain; version=0.0.4")


def _sessions() -> int:
    return len(st.runtime.get_instance()._session_mgr.list_active_sessions()) if st.runtime.exists() else 0


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """While the server runs: large runs are arranged, what is kept too long goes, and an end comes within its time."""
    settling.share_memory()
    team = config.current()
    beside = [asyncio.create_task(_arrange())]
    if team.sign_in is not None:
        beside.append(asyncio.create_task(_tidy()))
    _end_in_time(asyncio.get_running_loop(), team.graceful_s)
    yield
    for task in beside:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _arrange() -> None:
    while True:
        stores = [project.store for project in config.current().projects.values()]
        await to_thread.run_sync(ahead.arrange, stores, abandon_on_cancel=True)  # an end does not wait for it
        await asyncio.sleep(ahead.EVERY_S)


async def _tidy() -> None:
    while True:
        await run_in_threadpool(keeping.tidy, config.current())
        await asyncio.sleep(keeping.EVERY_S)


def _end_in_time(loop: asyncio.AbstractEventLoop, seconds: int) -> None:
    """The server waits for what is under way when it is told to end; after a while no more."""
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        return  # somebody else's server, a test: it ends by itself

    def told(number: int, frame: FrameType | None) -> None:
        before(number, frame)
        loop.call_soon_threadsafe(loop.call_later, seconds, guard.cut_off)

    signal.signal(signal.SIGTERM, told)
