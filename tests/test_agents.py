"""What agents are answered: the tools by the official client over stdio and HTTP, within their budget and schema."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import judged
import pytest
import team_made
from click.testing import CliRunner

from npulens import ingest
from npulens.app import schemas
from npulens.app.agents import budget, skill, who
from npulens.app.agents.answers import TOOLS, Answers, Asked
from npulens.app.agents.budget import Piece, fitted
from npulens.app.agents.door import Door
from npulens.app.cli import main
from npulens.app.selection import chosen
from npulens.app.settings.of_checks import in_force
from npulens.app.team import config, tokens
from npulens.ingest.errors import IngestError
from npulens.ingest.store import book

jsonschema = pytest.importorskip("jsonschema")
NAME = "evil\x1b[31m\u202ename <b>&|*_"
AT = "http://127.0.0.1:8501"
PLENTY = Asked(who.HERE, "en", 2_000)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs; the finding of either saves 40 us of its steps of 100 us."""
    directory = tmp_path_factory.mktemp("agents")
    ingest.load(judged.capture(directory / "a.json", NAME), directory / "store", label="night")
    ingest.load(judged.capture(directory / "b.json", "other", steps=5), directory / "store", label="short")
    judged.folder(directory)
    return directory


@pytest.fixture(scope="module")
def answers(place: Path) -> Answers:
    return Answers(place / "store", in_force(place / "npulens.toml"), AT)


def ask(answers: Answers, tool: str, asked: Asked = PLENTY, **given: str) -> dict[str, Any]:
    said = TOOLS[tool](answers, asked, **given)
    jsonschema.validate(said, schemas.schema(f"agents/{tool}"))
    assert budget.tokens(budget.compact(said)) <= asked.budget
    return said


@pytest.mark.parametrize("seed", range(200))
def test_an_answer_fits_its_budget_and_counts_what_is_left_out(seed: int) -> None:
    draw = random.Random(seed)
    pieces = [
        Piece(draw.choice("ab"), "".join(draw.choices('a1 "\\_é中', k=draw.randrange(40))), draw.randrange(4))
        for _ in range(draw.randrange(30))
    ]
    most = draw.randrange(100, 900)
    answer = fitted({"n": 1}, pieces, most)
    assert budget.tokens(budget.compact(answer)) <= most
    for name in ("a", "b"):
        own = [piece for piece in pieces if piece.place == name]
        kept = answer.get(name, [])
        assert len(kept) + answer.get("left_out", {"counts": {}})["counts"].get(name, 0) == len(own)
        ranked = sorted(own, key=lambda piece: -piece.worth)
        assert sorted(kept) == sorted(piece.value for piece in ranked[: len(kept)])
    if "left_out" in answer:
        assert "left_out" not in fitted({"n": 1}, pieces, answer["left_out"]["budget_for_all"])


def test_a_check_has_cause_rank_window_and_ceiling_and_its_link_opens_the_window(answers: Answers) -> None:
    said = ask(answers, "check", run="night")
    (finding,) = said["findings"]
    assert (finding["cause"], finding["ranks"], finding["saving_ns"]) == ("slow_tail", "0", 40_000)
    assert finding["window"]["dur_ns"] == 40_000 and finding["saving_share"] == 0.4
    assert finding["saving_most_ns"] == 40_000
    assert said["step_ns"] == 100_000 and said["outcomes"] == {
        "found": 1, "masked": 0, "clean": 1, "not_measured": 1, "failed": 1,
    }  # fmt: skip
    assert "\x1b" not in json.dumps(said, ensure_ascii=False) and "\u202e" not in json.dumps(said, ensure_ascii=False)
    query = dict(parse_qsl(urlsplit(said["link"]).query))
    told = chosen.read(query)
    begin = finding["window"]["ts_ns"]
    assert (told.problem, told.ranks, told.window) == ("longest", (0,), (begin, begin + 40_000))
    assert query["run"].startswith(said["run"]) and said["link"].startswith(AT)


def test_why_and_evidence_name_the_span_and_every_window(answers: Answers) -> None:
    why = ask(answers, "why", run="night", finding="longest")
    assert why["saving_ns"] == why["saving_most_ns"] == 40_000 and why["advice"].startswith("Make evil")
    assert {"name": "length_ns", "value": 40_000} in why["numbers"]
    found = ask(answers, "evidence", Asked(who.HERE, "en", 10_000), run="night", finding="longest")
    assert found["count"] == len(found["windows"]) == judged.STEPS
    assert all(window["span"]["kind"] == "cpu_op" for window in found["windows"])
    assert [b["ts_ns"] - a["ts_ns"] for a, b in zip(found["windows"], found["windows"][1:], strict=False)] == [
        judged.STEP_NS
    ] * (judged.STEPS - 1)
    few = ask(answers, "evidence", Asked(who.HERE, "en", 500), run="night", finding="longest")
    assert few["left_out"]["counts"]["windows"] == judged.STEPS - len(few["windows"]) and few["windows"]
    assert few["windows"] == found["windows"][: len(few["windows"])]


def test_what_is_no_finding_is_answered_with_its_reason(answers: Answers) -> None:
    said = ask(answers, "why", run="night", finding="blind")
    assert said["outcome"] == "not_measured" and said["collect_with"]
    with pytest.raises(IngestError, match="no finding or detector is called 'zork'"):
        ask(answers, "why", run="night", finding="zork")
    with pytest.raises(IngestError, match="no finding or detector"):
        ask(answers, "evidence", run="night", finding="quiet")


def test_the_other_tools_answer_within_their_schema(answers: Answers) -> None:
    assert [run["label"] for run in ask(answers, "runs", words="short")["runs"]] == ["short"]
    rows = ask(answers, "sql", run="night", query="SELECT count(*), max(dur_ns) FROM span WHERE kind = 'cpu_op'")
    assert rows["rows"] == [[judged.STEPS, judged.OPERATOR_NS]] and rows["count"] == 1
    listed = ask(answers, "sql", Asked(who.HERE, "en", 20_000), run="night")["relations"]
    assert {"span", "split"} <= {each["name"] for each in listed}
    assert ask(answers, "compare", base="night", head="night")["delta_ns"] == 0
    chinese = ask(answers, "next_capture", Asked(who.HERE, "zh", 2_000), run="night")
    assert chinese["code"] and any("\u4e00" <= char <= "\u9fff" for char in chinese["answer"])


def test_every_answer_fits_the_least_budget(answers: Answers) -> None:
    least = Asked(who.HERE, "zh", budget.LEAST)
    for tool, given_ in (("runs", {}), ("next_capture", {"run": "night"}), ("sql", {"run": "night"}),
                         ("evidence", {"run": "night", "finding": "longest"})):  # fmt: skip
        ask(answers, tool, least, **given_)


def test_who_may_see_one_run_sees_no_other(place: Path, answers: Answers) -> None:
    (one,) = ask(answers, "runs", words="short")["runs"]
    run_id = next(run.run_id for run in ingest.store.runs.runs(place / "store") if run.run_id.startswith(one["run"]))
    only = Asked(who.Who("ci", (run_id,)), "en", 2_000)
    assert [run["label"] for run in ask(answers, "runs", only)["runs"]] == ["short"]
    assert ask(answers, "check", only, run="short")["findings"]
    for tool, given_ in (("check", {"run": "night"}), ("why", {"run": "night", "finding": "longest"}),
                         ("evidence", {"run": "night", "finding": "longest"}), ("next_capture", {"run": "night"}),
                         ("compare", {"base": "short", "head": "night"}),
                         ("sql", {"run": "night", "query": "SELECT 1"}), ("check", {"run": ""})):  # fmt: skip
        with pytest.raises(IngestError, match="no run is called"):
            ask(answers, tool, only, **given_)


def test_a_token_ends_is_signed_and_is_of_this_store(tmp_path: Path) -> None:
    token = who.mint(tmp_path / "a", who.Who("ci", ("x",)), 1)
    assert who.asking(tmp_path / "a", token) == who.Who("ci", ("x",))
    assert who.asking(tmp_path / "b", token) is None and who.asking(tmp_path / "a", token + "x") is None
    assert who.asking(tmp_path / "a", who.mint(tmp_path / "a", who.Who("ci"), -1)) is None


def test_a_token_of_a_team_opens_the_store_of_its_project(place: Path, tmp_path: Path) -> None:
    team_file = team_made.made(tmp_path)
    team = config.read(team_file)
    ingest.load(judged.capture(tmp_path / "c.json", "red"), team.projects["red"].store, label="of red")
    ingest.load(judged.capture(tmp_path / "d.json", "blue"), team.projects["blue"].store, label="of blue")
    token, made = tokens.mint(team, "rita@x.example", "red", config.Role.READER, "agent", 1)
    door = Door(place / "store", in_force(place / "npulens.toml"), AT, lambda: config.read(team_file))
    assert door.name(token) == "rita@x.example" and door.name("npulens_x") is None
    given_ = {"run": "of red", "query": "SELECT 1"}
    red, rita = door.opened(token, "sql", given_)
    asked = Asked(rita, "en", 2_000)
    assert [run["label"] for run in ask(red, "runs", asked)["runs"]] == ["of red"]
    assert "project=red&run=" in ask(red, "check", asked, run="of red")["link"]
    for other in ("of blue", "night"):
        with pytest.raises(IngestError, match="no run is called"):
            ask(red, "check", asked, run=other)
    (line,) = book.lines(team.home)
    assert (line.name, line.act, line.project, line.allowed) == ("rita@x.example", "ask", "red", True)
    assert line.what == "mcp sql of red SELECT 1"
    team_made.made(tmp_path, team_made.FILE.replace('reader = ["rita@x.example"]', ""))
    with pytest.raises(IngestError, match="it is not yours"):
        door.opened(token, "check", {"run": "of red"})
    assert not book.lines(team.home)[0].allowed
    team_made.made(tmp_path)
    assert door.opened(token, "check", {}) and book.revoke(team.home, made.id)
    assert door.name(token) is None
    with pytest.raises(IngestError, match="the token has ended"):
        door.opened(token, "check", {"run": "of red"})


def test_the_skill_names_every_tool_and_the_command_prints_it() -> None:
    done = CliRunner().invoke(main, ["mcp", "--skill"])
    assert done.exit_code == 0 and done.stdout == skill.whole()
    head, text = done.stdout.split("---\n")[1:]
    assert head.startswith("name: npulens\ndescription: ")
    assert all(f"`{tool}`" in text for tool in TOOLS)


def test_a_schema_is_printed_and_one_that_is_not_there_is_one_sentence() -> None:
    done = CliRunner().invoke(main, ["schema", "agents/check"])
    assert json.loads(done.stdout) == schemas.schema("agents/check")
    lost = CliRunner().invoke(main, ["schema", "zork"])
    assert lost.exit_code == 2 and "there is no schema 'zork'" in lost.stderr


def command(place: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "npulens.app.cli", "mcp", "--store", str(place / "store"),
            "--config", str(place / "npulens.toml"), *words]  # fmt: skip


def test_the_official_client_over_stdio(place: Path) -> None:
    pytest.importorskip("mcp")
    import anyio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    program, *words = command(place)
    started = StdioServerParameters(command=program, args=words, env=dict(os.environ))

    async def talk() -> None:
        async with Client(started) as client:
            told = await client.list_tools()
            assert {tool.name: tool.output_schema for tool in told.tools} == {
                name: schemas.schema(f"agents/{name}") for name in TOOLS
            }
            assert all(tool.annotations.read_only_hint for tool in told.tools)
            said = await client.call_tool("check", {"run": "night", "budget": 1_000})
            assert not said.is_error and said.structured_content["findings"][0]["saving_ns"] == 40_000
            assert json.loads(said.content[0].text) == said.structured_content
            for given_, words_ in (({"run": "zork"}, "no run is called"), ({}, "'run' is a required property"),
                                   ({"run": "night", "budget": 1}, "budget: 1 is less than the minimum")):  # fmt: skip
                wrong = await client.call_tool("check", given_)
                assert wrong.is_error and words_ in wrong.content[0].text

    anyio.run(talk)


@pytest.fixture(params=["mcp --http", "serve"])
def served(place: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The tools in a process of their own, and in the dashboard's server."""
    pytest.importorskip("mcp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alone = command(place, "--http", str(port))
    whole = [*command(place)[:3], "serve", "--store", str(place / "store"), f"--server.port={port}"]
    process = subprocess.Popen(whole if request.param == "serve" else alone, cwd=place, stdout=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/{'api/' if request.param == 'serve' else ''}mcp"
    finally:
        process.terminate()
        process.wait(20)


def test_over_http_a_token_is_needed_and_another_site_is_refused(place: Path, served: str) -> None:
    import anyio
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    done = CliRunner().invoke(main, ["mcp", "--token", "ci", "--run", "short", "--store", str(place / "store")])
    token = {"Authorization": f"Bearer {done.stdout.strip()}"}
    question = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    wanted = {"Accept": "application/json, text/event-stream"}
    for headers in ({}, {"Authorization": "Bearer zork"}, {"Authorization": token["Authorization"][:-2]}):
        assert httpx2.post(served, json=question, headers={**wanted, **headers}, timeout=60).status_code == 401
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        refused = httpx2.post(served, json=question, headers={**wanted, **token, **headers}, timeout=60)
        assert refused.status_code in (403, 421)

    async def talk() -> None:
        async with (
            httpx2.AsyncClient(headers=token) as http,
            Client(streamable_http_client(served, http_client=http)) as client,
        ):
            said = await client.call_tool("runs", {})
            assert [run["label"] for run in said.structured_content["runs"]] == ["short"]
            assert (await client.call_tool("check", {"run": "night"})).is_error

    anyio.run(talk)
