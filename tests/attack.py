"""What people of a team may not do, tried against the running server: `python -m tests.attack`.

Each attempt names who tries, what, and the status that refuses it. Each has to be refused, and in the audit.
Sixty and more: over every route, page, websocket, SQL and link; also by pages of other sites and by other names.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from npulens.app.intake import drop_folders, invitations
from npulens.app.team import config, tokens, who
from npulens.app.team.config import Role, Team
from npulens.app.timeline import route
from npulens.app.timeline.answers import ANSWERS
from npulens.ingest.store import book
from tests import team_served
from tests.team_served import PROJECTS, Served, cookies

#: Pages of the dashboard; a page of a project is refused before anything of it is drawn.
PAGES = ("", "Timeline", "Kernels", "Launch", "Copies", "Communication", "Memory", "Compare", "History", "Runs", "Sql",
         "Learn", "Nights", "Team", "Flame", "Parallel", "Efficiency", "Counters", "Requests", "Modules")  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """A request that has to be refused."""

    name: str
    path: str
    status: tuple[int, ...]
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    websocket: bool = False
    body: bytes = b"abc"


def attempts(served: Served, team: Team, jar: Mapping[str, str]) -> Iterator[Attempt]:
    """All of them; ``jar``: the cookies of people who signed in."""
    yield from _nobody(served)
    yield from _links(served, team, jar)
    yield from _bringing(team, jar)
    yield from _agents(served, team, jar)
    yield from _elsewhere(served, jar)
    yield from _closed(jar)


def _nobody(served: Served) -> Iterator[Attempt]:
    for path in ("/", "/Runs", f"/?run={served.red}", "/static/js/x.js", "/media/0123.csv", "/_stcore/host-config",
                 "/_stcore/bidi-components/x", "/perfetto/index.html", "/component/x/y"):  # fmt: skip
        yield Attempt("nobody", path, (401,))
    yield Attempt("nobody", "/api/upload/file", (401,), "PUT")
    yield Attempt("nobody", "/api/upload/done", (401,), "POST")
    yield Attempt("nobody", "/api/upload/capture/x.json", (401,), "PUT")
    yield Attempt("nobody", "/api/mcp", (401,), "POST")
    yield Attempt("nobody", f"/api/timeline/{served.red}/layout", (401,))
    yield Attempt("nobody", "/_stcore/stream", (403,), headers={"Origin": served.url}, websocket=True)
    forged = {"Cookie": "_streamlit_user=eyJlbWFpbCI6Im9sZ2EifQ.aaaa.bbbb", "Origin": served.url}
    yield Attempt("forged cookie", "/", (401,), headers=forged)
    yield Attempt("forged cookie", "/_stcore/stream", (403,), headers=forged, websocket=True)


def _links(served: Served, team: Team, jar: Mapping[str, str]) -> Iterator[Attempt]:
    """Links and tokens of red in the hands of blue, of nobody's project, and with another name on them."""
    red = route.token(served.red, "red")
    for path in ANSWERS:
        filled = path.format(span="1", rank="0", ordinal="0")
        headers = {"Cookie": jar["bella"], route.TOKEN_HEADER: red}
        yield Attempt("bella with red's token", f"/api/timeline/{served.red}/{filled}", (403,), headers=headers)
    export = f"/api/timeline/{served.red}/export?token={red}"
    yield Attempt("stan with a link to save", export, (403,), headers={"Cookie": jar["stan"]})
    window = f"/perfetto/window/{red}/{served.red}/export"
    yield Attempt("bella with a window of Perfetto", window, (403,), headers={"Cookie": jar["bella"]})
    for name, token in (
        ("relabelled", f"blue{red.removeprefix('red')}"), ("without its project", red.partition("~")[2]),
        ("of no project", f"green{red.removeprefix('red')}"), ("cut", red[:-2]), ("empty", ""),
        ("of another run", route.token(served.blue, "red")),
    ):  # fmt: skip
        headers = {"Cookie": jar["rita"], route.TOKEN_HEADER: token}
        yield Attempt(f"rita with a token {name}", f"/api/timeline/{served.red}/layout", (403,), headers=headers)


def _bringing(team: Team, jar: Mapping[str, str]) -> Iterator[Attempt]:
    red, blue = team.projects["red"].store, team.projects["blue"].store
    grant = who.marked("red", drop_folders.grant(red, 1, 3, "boris@x.example")[0])
    for name in ("rita", "bella", "stan", "olga"):
        headers = {"Cookie": jar[name], invitations.TOKEN_HEADER: grant}
        yield Attempt(f"{name} with boris' drop", "/api/upload/file?path=x.json", (403,), "PUT", headers)
        yield Attempt(f"{name} with boris' drop", "/api/upload/done", (403,), "POST", headers)
    ticket = invitations.mint(red, 1, 1, 100, 1)[0]
    for name, text in (
        ("relabelled", f"blue~{ticket}"), ("without its project", ticket), ("of no project", f"green~{ticket}"),
        ("cut", f"red~{ticket[:-2]}"), ("that is a drop", grant),
    ):  # fmt: skip
        headers = {invitations.TOKEN_HEADER: text}
        yield Attempt(f"a ticket {name}", "/api/upload/capture/x.json", (403,), "PUT", headers)
    assert blue.is_dir()
    reader, _ = tokens.mint(team, "olga@x.example", "red", Role.READER, "reads", 1)
    foreign, _ = tokens.mint(team, "bella@x.example", "red", Role.OWNER, "not hers", 1)
    above, _ = tokens.mint(team, "rita@x.example", "red", Role.OWNER, "more than hers", 1)
    ended, known = tokens.mint(team, "olga@x.example", "red", Role.OWNER, "ended", 1)
    over, _ = tokens.mint(team, "olga@x.example", "red", Role.OWNER, "over", 1e-9)
    book.revoke(team.home, known.id)
    for name, text, status in (
        ("of a reader", reader, 403), ("of a project not theirs", foreign, 403), ("above its person", above, 403),
        ("revoked", ended, 401), ("over", over, 401), ("cut", reader[:-1], 401), ("of nothing", "npulens_", 401),
    ):  # fmt: skip
        headers = {"Authorization": f"Bearer {text}"}
        yield Attempt(f"a token {name}", "/api/upload/capture/x.json", (status,), "PUT", headers)


def _agents(served: Served, team: Team, jar: Mapping[str, str]) -> Iterator[Attempt]:
    """Questions of agents. A tool that is refused answers with an error: it counts as 403 here."""
    good, _ = tokens.mint(team, "rita@x.example", "red", Role.READER, "agent", 1)
    foreign, _ = tokens.mint(team, "bella@x.example", "red", Role.READER, "not hers", 1)
    gone, _ = tokens.mint(team, "stan@x.example", "blue", Role.OWNER, "of nobody", 1)
    ended, known = tokens.mint(team, "rita@x.example", "red", Role.READER, "ended", 1)
    over, _ = tokens.mint(team, "rita@x.example", "red", Role.READER, "over", 1e-9)
    book.revoke(team.home, known.id)
    said = {"Accept": "application/json", "Content-Type": "application/json"}

    def asked(name: str, tool: str, status: int, headers: Mapping[str, str], run: str = served.red) -> Attempt:
        given = {} if tool == "runs" else {"run": run, **({"query": "SELECT 1"} if tool == "sql" else {})}
        question = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}
        return Attempt(name, "/api/mcp", (status,), "POST", {**said, **headers}, body=json.dumps(question).encode())

    for tool in ("runs", "check", "next_capture", "sql"):
        yield asked(f"bella's agent with a token of red: {tool}", tool, 403, {"Authorization": f"Bearer {foreign}"})
        yield asked(f"stan's agent: {tool}", tool, 403, {"Authorization": f"Bearer {gone}"}, served.blue)
    for name, text in (("revoked", ended), ("over", over), ("cut", good[:-1]), ("of the timeline", _view(served))):
        yield asked(f"an agent with a token {name}", "runs", 401, {"Authorization": f"Bearer {text}"})
    yield asked("an agent with olga's cookie", "runs", 401, {"Cookie": jar["olga"]})
    yield asked("an agent with a ticket", "runs", 401, {
        invitations.TOKEN_HEADER: f"red~{invitations.mint(team.projects['red'].store, 1, 1, 100, 1)[0]}",
    })  # fmt: skip
    mine = {"Authorization": f"Bearer {good}"}
    for origin in ("https://evil.example", "null"):
        yield asked(f"an agent's token in a page of {origin}", "runs", 403, {**mine, "Origin": origin})
    yield asked("an agent's token by another name", "runs", 421, {**mine, "Host": "evil.example"})
    yield Attempt("an agent that asks too much", "/api/mcp", (413,), "POST", {**said, **mine}, body=b"x" * 1_000_000)


def _view(served: Served) -> str:
    return route.token(served.red, "red")


def _elsewhere(served: Served, jar: Mapping[str, str]) -> Iterator[Attempt]:
    """Other names, other sites' pages, forms, frames and websockets, with an owner's cookies."""
    mine, evil = {"Cookie": jar["olga"]}, {"Origin": "https://evil.example"}
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1", "[::1]", "localhost.evil.example"):
        yield Attempt(f"rebinding to {host}", "/Runs", (421,), headers={**mine, "Host": host})
        both = {**mine, "Host": host, "Origin": f"http://{host}"}
        yield Attempt(f"rebinding to {host}", "/_stcore/stream", (403,), headers=both, websocket=True)
    yield Attempt("a form elsewhere", "/api/upload/done", (403,), "POST", {**mine, **evil})
    yield Attempt("a script elsewhere", "/api/upload/file", (403,), "PUT", {**mine, **evil})
    yield Attempt("an origin of null", "/api/upload/done", (403,), "POST", {**mine, "Origin": "null"})
    yield Attempt("a websocket elsewhere", "/_stcore/stream", (403,), headers={**mine, **evil}, websocket=True)
    yield Attempt("a websocket without an origin", "/_stcore/stream", (403,), headers=mine, websocket=True)
    for target in ("iframe", "object", "embed"):
        framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": target}
        yield Attempt(f"framed in {target}", "/Runs", (403,), headers={**mine, **framed})
    taken = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    yield Attempt("read as a script", f"/api/timeline/{served.red}/layout", (403,), headers={**mine, **taken})


def _closed(jar: Mapping[str, str]) -> Iterator[Attempt]:
    mine = {"Cookie": jar["olga"]}
    for path, method in (
        ("/_stcore/metrics", "GET"), ("/_stcore/upload_file/a/b", "PUT"), ("/_stcore/agent/mcp", "POST"),
        ("/_stcore/agent/interact", "POST"), ("/api/anything", "GET"), ("/Runs", "DELETE"), ("/metrics", "GET"),
    ):  # fmt: skip
        forwarded = {**mine, "X-Forwarded-For": "203.0.113.9"} if path == "/metrics" else mine
        yield Attempt("olga where nobody goes", path, (404,), method, forwarded)


def ask(served: Served, attempt: Attempt) -> int:
    """The status of the answer."""
    parts = urlsplit(served.url)
    headers = {"Host": parts.netloc, **attempt.headers}
    if attempt.method in ("PUT", "POST"):
        headers["Content-Length"] = str(len(attempt.body))
    if attempt.websocket:
        headers |= {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), "Sec-WebSocket-Protocol": "streamlit",
        }  # fmt: skip
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    try:
        connection.putrequest(attempt.method, attempt.path, skip_host=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(attempt.body if "Content-Length" in headers else None)
        answer = connection.getresponse()
        if attempt.path == "/api/mcp" and answer.status == 200:
            return 403 if json.loads(answer.read())["result"].get("isError") else 200
        return answer.status
    finally:
        connection.close()


def pages(served: Served, bella: Any, team: Team) -> Iterator[tuple[str, bool]]:
    """Every page of a project that is not hers, over the page's websocket: refused, and nothing of it is drawn."""
    for name in PAGES:
        before = len(book.lines(team.home, "red", 10_000))
        bella.goto(f"{served.url}/{name}?project=red&run={served.red}")
        bella.get_by_text("There is no such project, or it is not yours").wait_for(timeout=60_000)
        drawn = "red run" in bella.inner_text("body")
        yield f"bella opens {name or 'the workspace'} of red", not drawn and _more(team, before, "red")


def roles_end(served: Served, olga: Any, team: Team) -> Iterator[tuple[str, bool]]:
    """What a page offers is asked again when it is done: olga is an owner no more while her page is open."""
    olga.goto(f"{served.url}/Team?project=red")
    olga.get_by_text("Make a token").wait_for(timeout=60_000)
    before = len(book.lines(team.home, "red", 10_000))
    served.file.write_text(served.head + PROJECTS.replace("olga@", "other@"))
    olga.get_by_role("button", name="Make a token").click()
    olga.get_by_text("no project is yours yet").or_(olga.get_by_text("There is no such project")).first.wait_for(
        timeout=60_000
    )
    made = [token for token in book.tokens(team.home, "olga@x.example", "red") if token.title == ""]
    yield "olga makes a token after she was taken out", not made and _more(team, before, "red")
    served.file.write_text(served.head + PROJECTS)


def _more(team: Team, before: int, project: str | None) -> bool:
    lines = book.lines(team.home, project, 10_000)
    return len(lines) > before and any(not line.allowed for line in lines[: len(lines) - before])


def main() -> int:
    if (lacking := team_served.missing()) is not None:
        print(lacking)
        return 2
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        served = Served(Path(place))
        os.environ[config.VARIABLE] = str(served.file)
        team = config.current()
        browser = playwright.chromium.launch(executable_path=team_served.CHROMIUM, args=["--no-sandbox"])
        try:
            people = {name: served.sign_in(browser, f"{name}@x.example") for name in ("olga", "rita", "bella", "stan")}
            jar = {name: cookies(page) for name, page in people.items()}
            done = [_tried(served, team, attempt) for attempt in attempts(served, team, jar)]
            done += pages(served, people["bella"], team)
            done += roles_end(served, people["olga"], team)
        finally:
            browser.close()
            served.end()
    failed = [name for name, refused in done if not refused]
    print(f"{len(done)} attempts, {len(done) - len(failed)} refused and in the audit")
    print("\n".join(f"NOT refused: {name}" for name in failed))
    return 1 if failed else 0


def _tried(served: Served, team: Team, attempt: Attempt) -> tuple[str, bool]:
    before = len(book.lines(team.home, None, 10_000))
    status = ask(served, attempt)
    name = f"{attempt.name}: {attempt.method} {attempt.path[:60]} is {status}"
    return name, status in attempt.status and _more(team, before, None)


if __name__ == "__main__":
    sys.exit(main())
