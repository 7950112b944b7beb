"""The timeline's HTTP routes: the canvas asks, the run answers; nothing goes through the page's script.

Routes of `st.App` have no authentication of their own. So a page hands its canvas a token for one run. The canvas sends
it in a header that no other site's page can send. The secret lies in the store: two servers over one store take each
other's tokens. A run never changes, so what was answered once may be kept by the browser.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from streamlit import config

from npulens.app.intake import signed_tokens
from npulens.app.team import config as team_file
from npulens.app.team import who
from npulens.app.team.config import ALONE
from npulens.app.timeline.answers import ANSWERS, Answer
from npulens.app.timeline.asked import answered, refusal
from npulens.app.timeline.request_values import Refused

TOKEN_HEADER = "X-Npulens-View"  # a header of our own: no other site's page can send it
LONGEST_S = 24 * 3600


def prefix() -> str:
    """Where the routes hang: Streamlit does not put st.App's routes under server.baseUrlPath by itself."""
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/api/timeline" if base else "/api/timeline"


def token(run_id: str, project: str = ALONE) -> str:
    """What lets a canvas ask about a run of a project for a day."""
    return who.marked(project, _signer(team_file.current().projects[project].store).dumps(run_id))


def _signer(place: Path) -> URLSafeTimedSerializer:
    try:
        secret = signed_tokens.secret(place)
    except OSError:  # a store that cannot be written has a secret of this process
        secret = _own()
    return URLSafeTimedSerializer(secret, salt="npulens-timeline")


@cache
def _own() -> bytes:
    return secrets.token_bytes(32)


def routes() -> list[Route]:
    """Every question about a run, for `st.App`."""
    return [
        Route(f"{prefix()}/{{run_id}}/{path}", _endpoint(answer), methods=["GET"]) for path, answer in ANSWERS.items()
    ]


def _endpoint(answer: Answer) -> Callable[[Request], Response]:
    """Admits, opens, answers; a plain function, so that it runs on a thread and the page's socket goes on."""

    def endpoint(request: Request) -> Response:
        run_id = request.path_params["run_id"]
        try:
            place = _admit(request, run_id)
        except Refused as refused:
            return refusal(refused)
        return answered(answer, place, run_id, request)

    return endpoint


def _admit(request: Request, run_id: str) -> Path:
    """The store that holds the run: the token is of this run and project, and the project is the visitor's."""
    team = team_file.current()
    visitor, what = who.of(team, request.scope), f"{request.method} {_named(request)}"
    try:
        project, given = who.unmarked(team, _given(request))
        if _signer(project.store).loads(given, max_age=LONGEST_S) != run_id:
            raise who.Denied("bad_token")
        return who.place(team, visitor, _act(request), project.name, what)
    except (BadSignature, who.Denied) as error:
        if not isinstance(error, who.Denied) or error.key == "bad_token":
            who.note(team, visitor, "bad_token", "", what, False)
        raise Refused("bad_token", 403) from error


def _act(request: Request) -> who.Act:
    return who.Act.TAKE if request.url.path.endswith("/export") else who.Act.SEE


def _named(request: Request) -> str:
    """The path as the audit names it; one of Perfetto's windows holds a token."""
    return request.url.path.replace(str(request.path_params.get("token", "\0")), "...")


def _given(request: Request) -> str:
    """The token; a link that saves a file cannot send headers, so that there it may stand in the address."""
    if request.url.path.endswith("/export") and "token" in request.query_params:
        return request.query_params["token"]
    return request.headers.get(TOKEN_HEADER, "")
