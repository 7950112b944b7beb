"""People sign in at a real provider in a real browser, see their project, make a token, and the audit tells."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from npulens.ingest.store import book
from tests import team_served
from tests.team_served import ROOT, Served

pytestmark = [
    pytest.mark.torture, pytest.mark.skipif(team_served.missing() is not None, reason=str(team_served.missing())),
]  # fmt: skip


SETTLED = "[data-testid='stApp'][data-test-script-state='notRunning']"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Behind Caddy, where it is installed."""
    found = Served(tmp_path_factory.mktemp("team"), proxy=shutil.which("caddy") is not None)
    yield found
    assert found.end() in (0, -15), found.log.read_text()[-3000:]


def test_a_reader_an_owner_and_a_stranger(served: Served, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=team_served.CHROMIUM, args=["--no-sandbox"])
        try:
            reader = served.sign_in(browser, "rita@x.example", f"/Runs?run={served.red}")
            reader.get_by_text("Mark a run in the table").wait_for(timeout=60_000)
            assert f"run={served.red}" in reader.url, "where somebody wanted to go is not forgotten"
            assert reader.get_by_text("Let somebody else bring").count() == 0
            reader.screenshot(path=tmp_path / "reader.png")
            reader.goto(f"{served.url}/Runs?project=blue")
            reader.get_by_text("There is no such project, or it is not yours").wait_for(timeout=60_000)
            assert "blue run" not in reader.inner_text("body")
            reader.screenshot(path=tmp_path / "refused.png")

            owner = served.sign_in(browser, "olga@x.example", "/Team")
            owner.get_by_text("You are olga@x.example, owner of Red.").wait_for(timeout=60_000)
            owner.get_by_label("What it is for").fill("curl")
            owner.get_by_role("button", name="Make a token").click()
            owner.get_by_text("Copy it now").wait_for(timeout=60_000)
            token = owner.locator("[data-testid='stCode']").first.inner_text().strip()
            agent = json.loads(owner.locator("[data-testid='stCode']").nth(1).inner_text())["mcpServers"]["npulens"]
            owner.screenshot(path=tmp_path / "owner.png", full_page=True)

            stranger = served.sign_in(browser, "stan@x.example")
            stranger.get_by_text("no project is yours yet").wait_for(timeout=60_000)
            stranger.screenshot(path=tmp_path / "stranger.png")
        finally:
            browser.close()
    assert token.startswith("npulens_")
    assert curl(served, token) == (403, "not_a_bringer"), "the first role of the form is the reader's"
    assert tools(agent) >= {"runs", "check", "why"}
    lines = book.lines(served.place / "home")
    said = {(line.name, line.act, line.project, line.allowed) for line in lines}
    assert {(f"{name}@x.example", "sign in", "", True) for name in ("rita", "olga", "stan")} <= said
    assert ("rita@x.example", "see", "blue", False) in said and ("olga@x.example", "token", "red", True) in said
    assert ("olga@x.example", "bring", "red", False) in said


def test_whoever_has_two_projects_sees_the_chosen_one_alone(served: Served, tmp_path: Path) -> None:
    from playwright.sync_api import Page, expect, sync_playwright

    def alone(page: Page, mine: str, other: str) -> None:
        """What is drawn, and where its links lead, is of one project, once the script has come to its end."""
        page.get_by_text(f"{mine} run").first.wait_for(timeout=60_000)
        page.locator(SETTLED).wait_for(timeout=60_000)
        ids = {"red": served.red, "blue": served.blue}
        whole = page.content()
        assert f"{other} run" not in whole and ids[other] not in whole and f"project={other}" not in whole
        assert f"project={mine}" in page.url and ids[other] not in page.url

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=team_served.CHROMIUM, args=["--no-sandbox"])
        try:
            nina = served.sign_in(browser, "nina@x.example", f"/?run={served.red}")
            nina.set_default_timeout(60_000)
            alone(nina, "red", "blue")
            switch = nina.locator(".st-key-brand [data-testid='stSelectbox']").first
            switch.click()
            nina.get_by_role("option", name="Blue").click()
            nina.wait_for_url("**project=blue**", timeout=60_000)
            alone(nina, "blue", "red")
            nina.screenshot(path=tmp_path / "blue.png")
            for page in ("Timeline", "Runs", f"?run={served.red}", f"Sql?run={served.red}"):
                nina.goto(f"{served.url}/{page}{'&' if '?' in page else '?'}project=blue")
                expect(nina.locator(".st-key-brand input").first).to_have_value("Blue", timeout=60_000)
                nina.locator(SETTLED).wait_for(timeout=60_000)
                assert "red run" not in nina.content()
            nina.locator(".st-key-sql_text textarea, textarea").first.fill("SELECT count(*) AS n FROM rank")
            nina.get_by_role("button", name="Run", exact=True).click()
            nina.get_by_text("1 row in").wait_for(timeout=120_000)
        finally:
            browser.close()
    asked = next(line for line in book.lines(served.place / "home") if line.act == "ask")
    assert (asked.name, asked.project, asked.allowed) == ("nina@x.example", "blue", True)
    assert asked.what.startswith(served.blue) and served.red not in asked.what


def tools(agent: dict[str, Any]) -> set[str]:
    """The tools that an agent finds with what the page Team gave it."""
    question = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {**agent["headers"], "content-type": "application/json", "accept": "application/json, text/event-stream"}
    with urlopen(Request(agent["url"], json.dumps(question).encode(), headers), timeout=60) as answer:
        return {tool["name"] for tool in json.load(answer)["result"]["tools"]}


def curl(served: Served, token: str) -> tuple[int, str]:
    """A capture sent with a token: the status, and the key of the refusal."""
    done = subprocess.run(
        ["curl", "-s", "-w", "\n%{http_code}", "-T", str(ROOT / "README.md"), "-H", f"Authorization: Bearer {token}",
         f"{served.url}/api/upload/capture/"], capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    body, _, status = done.stdout.rpartition("\n")
    return int(status), str(json.loads(body).get("refused"))
