"""The tools in a team's own server, by the official client: its tokens, roles, projects, refusals and audit."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import judged
import pytest

from npulens import ingest
from npulens.app.agents.answers import TOOLS
from npulens.app.intake import invitations
from npulens.app.team import config, tokens
from npulens.app.team.config import Role
from npulens.ingest.store import book
from tests.team_made import FILE, URL, made
from tests.team_served import free_port

pytest.importorskip("mcp")
import anyio  # noqa: E402
import httpx2  # noqa: E402
from mcp.client.client import Client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402


@dataclass(frozen=True)
class Served:
    url: str
    file: Path

    @property
    def team(self) -> config.Team:
        return config.read(self.file)

    @property
    def tools(self) -> str:
        return f"{self.url}/api/mcp"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Red and blue hold a run each; there is no provider, for tokens need none."""
    place, port = tmp_path_factory.mktemp("served"), free_port()
    there = Served(f"http://localhost:{port}", made(place, f"{FILE.replace(URL, f'http://localhost:{port}')}\n"
                                                           f"[server]\nport = {port}\n"))  # fmt: skip
    for name, project in there.team.projects.items():
        ingest.load(judged.capture(place / f"{name}.json", name), project.store, label=f"of {name}")
    judged.folder(place)
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "npulens.app.cli", "serve", "--config", str(there.file)],
            cwd=place, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        for _ in range(600):
            assert process.poll() is None, (place / "log").read_text()
            try:
                urllib.request.urlopen(f"{there.url}/_stcore/health", timeout=5).close()
                break
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        yield there
    finally:
        process.terminate()
        process.wait(40)


def bearer(served: Served, name: str = "rita", project: str = "red", days: float = 1.0) -> tuple[dict[str, str], str]:
    """The header of a new token, and the token's id."""
    text, known = tokens.mint(served.team, f"{name}@x.example", project, Role.READER, "agent", days)
    return {"Authorization": f"Bearer {text}"}, known.id


def question(tool: str, **given: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}


def post(served: Served, headers: dict[str, str], asked: object) -> httpx2.Response:
    return httpx2.post(served.tools, json=asked, headers={"Accept": "application/json", **headers}, timeout=60)


def test_the_official_client_is_answered_by_the_dashboards_own_server(served: Served) -> None:
    token, ident = bearer(served)

    async def talk() -> None:
        async with (
            httpx2.AsyncClient(headers=token, timeout=60) as http,
            Client(streamable_http_client(served.tools, http_client=http)) as client,
        ):
            assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
            runs = await client.call_tool("runs", {})
            assert [run["label"] for run in runs.structured_content["runs"]] == ["of red"]
            said = (await client.call_tool("check", {"run": "of red"})).structured_content
            assert said["findings"][0]["saving_ns"] == 40_000
            assert said["link"].startswith(f"{served.url}/?project=red&run=")
            assert (await client.call_tool("check", {"run": "of blue"})).is_error
            rows = await client.call_tool("sql", {"run": "of red", "query": "SELECT 1 + 1 AS two"})
            assert rows.structured_content["rows"] == [[2]]
            wrong = await client.call_tool("sql", {"run": "of red", "query": "COPY span TO '/tmp/x'"})
            assert wrong.is_error and "SELECT" in wrong.content[0].text

    anyio.run(talk)
    asked = [line for line in book.lines(served.team.home) if line.by == f"token {ident}" and line.act == "ask"]
    assert [line.what for line in asked] == [
        "mcp sql of red COPY span TO '/tmp/x'", "mcp sql of red SELECT 1 + 1 AS two",
    ]  # fmt: skip
    assert all(line.allowed and line.project == "red" for line in asked)


def test_a_token_that_is_revoked_ends_at_once(served: Served) -> None:
    token, ident = bearer(served)
    assert post(served, token, question("runs")).json()["result"]["structuredContent"]["count"] == 1
    assert book.revoke(served.team.home, ident)
    assert post(served, token, question("runs")).status_code == 401
    assert not book.lines(served.team.home, most=1)[0].allowed


def test_what_is_no_token_opens_nothing(served: Served) -> None:
    red = served.team.projects["red"].store
    ticket = invitations.mint(red, 1, 1, 100, 1)[0]
    good = bearer(served)[0]["Authorization"]
    for headers in (
        {}, {"Authorization": "Bearer npulens_x"}, {"Authorization": good[:-1]}, bearer(served, days=1e-9)[0],
        {"Authorization": f"Bearer red~{ticket}"}, {invitations.TOKEN_HEADER: f"red~{ticket}"},
    ):  # fmt: skip
        before = len(book.lines(served.team.home, most=10_000))
        assert post(served, headers, question("runs")).status_code == 401, headers
        lines = book.lines(served.team.home, most=10_000)
        assert [line.allowed for line in lines[: len(lines) - before]] == [False], headers


def test_a_token_of_a_project_that_is_not_theirs_sees_nothing(served: Served) -> None:
    token, ident = bearer(served, "bella", "red")
    for tool, given in (("runs", {}), ("check", {"run": "of red"}), ("sql", {"run": "of red", "query": "SELECT 1"})):
        said = post(served, token, question(tool, **given)).json()["result"]
        assert said["isError"] and "of red" not in str(said) and "structuredContent" not in said
        line = book.lines(served.team.home, most=1)[0]
        assert (line.by, line.allowed, line.what.split()[:2]) == (f"token {ident}", False, ["mcp", tool])


def test_other_names_other_sites_and_large_questions(served: Served) -> None:
    token, _ = bearer(served)
    for headers, status in (
        ({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
    ):  # fmt: skip
        assert post(served, {**token, **headers}, question("runs")).status_code == status
    assert post(served, token, question("runs", words="x" * 300_000)).status_code == 413
    assert book.lines(served.team.home, most=1)[0].act == "too_large"
    pieces = (b"x" * 65_536 for _ in range(8))  # no length is said
    headers = {**token, "Accept": "application/json", "Content-Type": "application/json"}
    assert httpx2.post(served.tools, content=pieces, headers=headers, timeout=60).status_code == 413
    told = httpx2.get(served.tools, headers=token, timeout=60)
    assert (told.status_code, told.headers["Allow"]) == (405, "POST")


def test_two_projects_at_once_are_each_their_own(served: Served) -> None:
    """Questions of two tokens between each other: each answer is of the token's own project."""
    mine = {"red": bearer(served)[0], "blue": bearer(served, "bella", "blue")[0]}

    async def ask(client: httpx2.AsyncClient, project: str) -> None:
        headers = {**mine[project], "Accept": "application/json"}
        answer = await client.post(served.tools, json=question("runs"), headers=headers)
        said = answer.json()["result"]["structuredContent"]
        assert [run["label"] for run in said["runs"]] == [f"of {project}"]

    async def all_of_them() -> None:
        async with httpx2.AsyncClient(timeout=60) as client, anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(ask, client, ("red", "blue")[number % 2])

    anyio.run(all_of_them)
