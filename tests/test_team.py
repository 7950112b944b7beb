"""A server for a team: its file, who may do what, tokens, what is refused before any route is reached."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from npulens.app.cli import main
from npulens.app.team import config, guard, keeping, rules, tokens, who
from npulens.app.team.config import Role, Team
from npulens.app.team.who import Act
from npulens.ingest.errors import IngestError
from npulens.ingest.store import book, notes, runs
from tests.team_made import FILE, URL, ask, cookie, made

BROWSER = {"accept": "text/html", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setenv(config.VARIABLE, str(made(tmp_path)))
    return config.current()


@pytest.fixture
def reached() -> list[str]:
    """What got through the guard."""
    return []


@pytest.fixture
def served(team: Team, reached: list[str]) -> guard.Guard:
    def page(request: Request) -> PlainTextResponse:
        reached.append(who.of(team, request.scope).name)
        return PlainTextResponse("page")

    async def stream(socket: WebSocket) -> None:
        reached.append(who.of(team, socket.scope).name)
        await socket.accept()
        await socket.close()

    methods = ["GET", "POST", "PUT"]
    return guard.Guard(Starlette(routes=[
        WebSocketRoute("/_stcore/stream", stream), Route("/{path:path}", page, methods=methods),
    ]))  # fmt: skip


def test_a_project_is_a_store_of_its_own(team: Team) -> None:
    assert {project.store for project in team.projects.values()} == {
        team.home / "projects" / "red", team.home / "projects" / "blue",
    }  # fmt: skip
    assert team.projects["red"].members == {
        "olga@x.example": Role.OWNER, "boris@x.example": Role.BRINGER, "group:nightly": Role.BRINGER,
        "rita@x.example": Role.READER,
    }  # fmt: skip
    assert (team.projects["blue"].quota, team.projects["blue"].keep_days) == (10**6, 30)


def test_without_a_file_one_person_may_do_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(config.VARIABLE, raising=False)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    alone = config.current()
    assert alone.sign_in is None
    assert all(who.place(alone, who.ALONE, act, config.ALONE) == tmp_path / "store" for act in Act)
    assert not (tmp_path / "store").exists(), "nobody writes an audit of oneself"


@pytest.mark.parametrize(
    "old, new, said",
    [
        ('home = "home"', 'hmoe = "home"', "hmoe is not known"), (f'url = "{URL}"', 'url = "npulens"', "url in"),
        (f'url = "{URL}"', "", "lacks url"), ('client_id = "npulens"', "", "lacks sign_in.client_id"),
        ('client_secret_file = "secret"', 'client_secret_file = "gone"', "cannot be read"),
        ('quota = "1 MB"', 'quota = "1 mb"', "project.blue.quota"), ("keep_days = 30", "keep_days = -1", "keep_days"),
        ('owner = ["olga@x.example"]', 'owner = "olga@x.example"', "project.red.owner"), ("[project.red]", "[", "TOML"),
        ("[project.red]", '[project."../red"]', "project"), ('quota = "1 MB"', 'store = "home/projects/red"', "store"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_sentence(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert FILE.count(old) == 1
    with pytest.raises(IngestError) as raised:
        config.read(made(tmp_path, FILE.replace(old, new)))
    assert said in str(raised.value)


def test_a_file_that_is_being_written_ends_nobodys_work(team: Team, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text("[project.")
    os.utime(file, ns=(1, 1))
    assert config.current() == team
    file.write_text(FILE.replace("rita@", "ruth@"))
    os.utime(file, ns=(2, 2))
    assert "ruth@x.example" in config.current().projects["red"].members


#: Who may do what in the project red; in blue none of them may do anything.
MAY = {
    "olga@x.example": set(Act),
    "boris@x.example": {Act.SEE, Act.ASK, Act.TAKE, Act.BRING, Act.SAY, Act.INVITE},
    "rita@x.example": {Act.SEE, Act.ASK, Act.TAKE},
    "bella@x.example": set(),
    "stranger@x.example": set(),
}


@pytest.mark.parametrize("name", MAY)
def test_roles(team: Team, name: str) -> None:
    visitor = who.by_claims(team, {"email": name, "email_verified": True})
    assert visitor is not None
    for act in Act:
        if act in MAY[name]:
            assert who.place(team, visitor, act, "red") == team.home / "projects" / "red"
        else:
            with pytest.raises(who.Denied):
                who.place(team, visitor, act, "red", "this")
            last = book.lines(team.home, most=1)[0]
            assert (last.name, last.act, last.project, last.what, last.allowed) == (
                name,
                act.word,
                "red",
                "this",
                False,
            )


@pytest.mark.parametrize(
    "claims",
    [
        {}, {"email": "olga@x.example"}, {"email": "olga@x.example", "email_verified": False},
        {"email": "", "email_verified": True}, {"email": ["olga@x.example"], "email_verified": True},
        {"email": "group:nightly", "email_verified": True}, {"email": "*", "email_verified": True},
        {"email": "olga@x.example\n", "email_verified": True},
    ],
)  # fmt: skip
def test_claims_that_name_nobody(team: Team, claims: dict[str, object]) -> None:
    assert who.by_claims(team, claims) is None


def test_a_group_has_its_role_and_its_tokens_go_by_it(team: Team) -> None:
    claims = {"email": "nils@x.example", "email_verified": True, "groups": ["nightly", "cooks"]}
    visitor = who.by_claims(team, claims)
    assert visitor is not None and visitor.roles == {"red": Role.BRINGER}
    text, _ = tokens.mint(team, "nils@x.example", "red", Role.OWNER, "night", 1)
    assert (found := who.by_token(team, text)) is not None and found.roles == {}
    who.remember(team, visitor, claims)
    assert (found := who.by_token(team, text)) is not None and found.roles == {"red": Role.BRINGER}


def test_a_token_does_no_more_than_it_says_and_ends_alone(team: Team) -> None:
    first, known = tokens.mint(team, "olga@x.example", "red", Role.READER, "curl", 1)
    second, _ = tokens.mint(team, "olga@x.example", "red", Role.OWNER, "agent", 1)
    visitor = who.by_token(team, first)
    assert visitor is not None and visitor.roles == {"red": Role.READER}
    assert first.split("_")[2] not in (team.home / "team.sqlite").read_bytes().decode("latin-1")
    assert book.revoke(team.home, known.id) and not book.revoke(team.home, known.id)
    assert who.by_token(team, first) is None
    assert (kept := who.by_token(team, second)) is not None and kept.roles == {"red": Role.OWNER}
    assert [who.by_token(team, text) for text in ("", second[:-1], f"{second[:-1]}!", second.upper())] == [None] * 4
    over, _ = tokens.mint(team, "olga@x.example", "red", Role.OWNER, "", 1e-9)
    time.sleep(0.01)
    assert who.by_token(team, over) is None


def test_tokens_on_the_command_line(team: Team, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        done = CliRunner().invoke(main, ["token", "--team", str(tmp_path / "team.toml"), *words])
        return done.output.strip()

    text = said("--project", "red", "--for", "boris@x.example", "--role", "bringer")
    assert (found := who.by_token(team, text)) is not None and found.roles == {"red": Role.BRINGER}
    ident = text.split("_")[1]
    assert ident in said("--list") and text not in said("--list", "--json")
    assert said("--end", ident) == f"{ident} has ended" and who.by_token(team, text) is None
    assert "no token" in said("--end", ident) and "it has red, blue" in said("--project", "green")
    link = said("--project", "red", "--json")
    assert json.loads(link)["token"].startswith("red~") and URL in link


def test_whoever_is_taken_out_of_a_project_has_no_token_in_it(team: Team, tmp_path: Path) -> None:
    text, _ = tokens.mint(team, "rita@x.example", "red", Role.READER, "", 1)
    (tmp_path / "team.toml").write_text(FILE.replace("rita@", "ruth@"))
    os.utime(tmp_path / "team.toml", ns=(3, 3))
    found = who.by_token(config.current(), text)
    assert found is not None and found.roles == {}


def test_nobody_gets_past_the_guard_without_a_sign_in(served: guard.Guard, reached: list[str]) -> None:
    for path in ("/", "/Runs", "/static/x.js", "/media/x", "/_stcore/host-config", "/perfetto/index.html"):
        assert ask(served, path).status == 401
        away = ask(served, f"{path}?run=1", headers=BROWSER)
        assert (away.status, away.headers["location"][:14]) == (303, "/sign-in?back=")
    for path, method in (("/api/upload/file", "PUT"), ("/api/upload/done", "POST"), ("/api/timeline/1/tile", "GET")):
        assert ask(served, path, method).status == 401
    assert ask(served, "/_stcore/stream", kind="websocket", headers={"origin": URL}).status == 1008
    assert reached == []


def test_who_signed_in_gets_past_it_under_its_own_name(team: Team, served: guard.Guard, reached: list[str]) -> None:
    mine = {"cookie": cookie(team, "rita@x.example")}
    answer = ask(served, "/", headers=mine)
    assert (answer.status, reached) == (200, ["rita@x.example"])
    assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "SAMEORIGIN" and answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin" and answer.headers["x-request-id"]
    assert ask(served, "/_stcore/stream", kind="websocket", headers={**mine, "origin": URL}).status == 101


def test_a_cookie_of_another_server_of_long_ago_or_of_nobody_is_none(
    team: Team, served: guard.Guard, reached: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = cookie(team, "rita@x.example")
    for bad in (
        cookie(team, "rita@x.example", origin="https://other.example"), cookie(team, "rita@x.example", is_logged_in=0),
        f"{good[:-3]}abc", good.replace("_streamlit_user=", "_streamlit_user_tokens="), "_streamlit_user=", "",
    ):  # fmt: skip
        assert ask(served, "/", headers={"cookie": bad}).status == 401, bad
    assert ask(served, "/", headers={"cookie": cookie(team, "rita@x.example", email_verified=False)}).status == 403
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 12 * 3600 + 5)
    assert ask(served, "/", headers={"cookie": good}).status == 401
    assert reached == []


FOREIGN = (
    {"host": "evil.example"}, {"host": "127.0.0.1"}, {"host": "npulens.example.evil.example"}, {"host": ""},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
)  # fmt: skip


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_rebinding_framing_and_foreign_pages(
    team: Team, served: guard.Guard, reached: list[str], headers: dict[str, str]
) -> None:
    mine = {"cookie": cookie(team, "olga@x.example")}
    assert ask(served, "/", headers={**mine, **headers}).status in (403, 421)
    assert reached == []
    assert book.lines(team.home, most=1)[0].act in ("unknown_host", "foreign_page")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://npulens.example", f"{URL}:444"])
def test_forms_and_websockets_of_another_site(team: Team, served: guard.Guard, reached: list[str], origin: str) -> None:
    mine = {"cookie": cookie(team, "olga@x.example"), "origin": origin}
    assert ask(served, "/api/upload/done", "POST", headers=mine).status == 403
    assert ask(served, "/_stcore/stream", kind="websocket", headers=mine).status == 1008
    assert reached == []


def test_a_websocket_without_an_origin_is_no_browsers(team: Team, served: guard.Guard) -> None:
    mine = {"cookie": cookie(team, "olga@x.example")}
    assert ask(served, "/_stcore/stream", kind="websocket", headers=mine).status == 1008


def test_metrics_are_for_whoever_collects_them(team: Team, served: guard.Guard, reached: list[str]) -> None:
    assert ask(served, "/metrics").status == 404
    assert ask(served, "/metrics", headers={"cookie": cookie(team, "olga@x.example")}).status == 404
    assert reached == []


def test_what_streamlit_opens_and_nobody_needs_is_closed(team: Team, served: guard.Guard, reached: list[str]) -> None:
    mine = {"cookie": cookie(team, "olga@x.example")}
    for path, method in (("/_stcore/metrics", "GET"), ("/_stcore/upload_file/a/b", "PUT"), ("/api/new", "GET"),
                         ("/_stcore/agent/mcp", "POST"), ("/anything", "POST")):  # fmt: skip
        assert ask(served, path, method, headers=mine).status == 404, path
    assert reached == []


#: Prints the path of every route that the server answers: ours and Streamlit's.
ROUTES = """
import sys
from streamlit import config
config._main_script_path = sys.argv[1]
from streamlit.web.server.starlette.starlette_app import create_streamlit_routes
from npulens.app.main import app
for route in [*app._user_routes, *create_streamlit_routes(app._create_runtime())]:
    print(route.path or "/{path:path}")
"""


def routes() -> list[str]:
    main = Path(config.__file__).parents[1] / "main.py"
    done = subprocess.run(
        [sys.executable, "-c", ROUTES, str(main)], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.split()


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    """A new route without a rule fails here, and is refused where a team is served."""
    known = {rule.path for rule in rules.RULES} | {rules.PAGE.path}
    named: set[str] = set()
    found = routes()
    assert len(found) > 20
    for path in found:
        example = path.replace("{run_id}", "1").replace("{token}", "t")
        rule = rules.of(example.replace("{", "").replace("}", "").replace(":path", ""), "GET")
        assert rule is not None
        named.add(rule.path)
        if rule in (rules.PAGE, rules.Rule("/api/{path:path}", rules.Who.CLOSED)):
            assert path == "/{path:path}", f"{path}: no rule names it"
    assert named - known == set()
    assert known - named <= {"/api/{path:path}", "/perfetto/{path:path}"}, "rules that nothing needs"


#: What changes a store, by the name of the function; a page gives it what `ctx.to` handed out.
CHANGES = {
    "remove", "restore", "rename", "set_tags", "set_note", "set_label", "set_remark", "annotate", "set_usable", "mint",
}  # fmt: skip


def test_pages_change_a_store_only_by_way_of_the_act() -> None:
    app = Path(config.__file__).parents[1]
    files = [path for room in ("pages", "panels", "intake") for path in (app / room).rglob("*.py")]
    calls = [
        (f"{path.relative_to(app)}:{node.lineno}", ast.unparse(node.args[0]))
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and node.args and getattr(node.func, "attr", "") in CHANGES
    ]  # fmt: skip
    assert len(calls) >= 8
    assert [where for where, given in calls if given in ("ctx.store", "_ctx.store")] == []


def test_a_way_back_leads_nowhere_else() -> None:
    assert all(guard.is_way_back(path) for path in ("/", "/Runs?run=1&lang=zh"))
    elsewhere = ("", "Runs", "//evil.example", "/\\evil.example", "https://x", "/a b", "/\r\nX: y")
    assert not any(guard.is_way_back(path) for path in elsewhere)


def test_a_full_project_takes_no_more(team: Team) -> None:
    assert keeping.room(team.projects["blue"], 10**6) and not keeping.room(team.projects["blue"], 10**6 + 1)
    assert keeping.room(team.projects["red"], 10**15)
    (team.projects["blue"].store / "run").mkdir(parents=True)
    (team.projects["blue"].store / "run" / "span.parquet").write_bytes(bytes(10))
    assert keeping.held(team.projects["blue"]) == 10 and not keeping.room(team.projects["blue"], 10**6 - 9)


def test_runs_that_a_project_no_longer_keeps_are_deleted_but_for_those_that_it_wants(team: Team) -> None:
    blue = team.projects["blue"]
    for name in ("folded", "unfused"):
        subprocess.run(
            [sys.executable, "-m", "npulens.app.cli", "load", f"sample_traces/cpu_conv_{name}", "--label", name,
             "--store", str(blue.store)], cwd=Path(__file__).parents[1], check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    held = {run.label: run.run_id for run in runs.runs(blue.store)}
    notes.set_tags(blue.store, held["unfused"], ["keep"])
    assert keeping.tidy(team, time.time() + 29 * 86_400) == 0
    assert keeping.tidy(team, time.time() + 31 * 86_400) == 1
    assert [run.label for run in runs.runs(blue.store)] == ["unfused"]
    assert [each.run.run_id for each in runs.deleted(blue.store)] == [held["folded"]]
    last = book.lines(team.home, "blue", 1)[0]
    assert (last.name, last.act, last.what) == ("npulens", "delete", f"{held['folded']}: 30 days")
