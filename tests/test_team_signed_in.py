"""People sign in at a real provider in a real browser, see their project, make a token, and the audit tells."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npulens.ingest.store import book
from tests import team_served
from tests.team_served import ROOT, Served

pytestmark = [
    pytest.mark.torture, pytest.mark.skipif(team_served.missing() is not None, reason=str(team_served.missing())),
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(tmp_path_factory.mktemp("team"))
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
            owner.screenshot(path=tmp_path / "owner.png", full_page=True)

            stranger = served.sign_in(browser, "stan@x.example")
            stranger.get_by_text("no project is yours yet").wait_for(timeout=60_000)
            stranger.screenshot(path=tmp_path / "stranger.png")
        finally:
            browser.close()
    assert token.startswith("npulens_")
    assert curl(served, token) == (403, "not_a_bringer"), "the first role of the form is the reader's"
    lines = book.lines(served.place / "home")
    said = {(line.name, line.act, line.project, line.allowed) for line in lines}
    assert {(f"{name}@x.example", "sign in", "", True) for name in ("rita", "olga", "stan")} <= said
    assert ("rita@x.example", "see", "blue", False) in said and ("olga@x.example", "token", "red", True) in said
    assert ("olga@x.example", "bring", "red", False) in said


def curl(served: Served, token: str) -> tuple[int, str]:
    """A capture sent with a token: the status, and the key of the refusal."""
    done = subprocess.run(
        ["curl", "-s", "-w", "\n%{http_code}", "-T", str(ROOT / "README.md"), "-H", f"Authorization: Bearer {token}",
         f"{served.url}/api/upload/capture/"], capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    body, _, status = done.stdout.rpartition("\n")
    return int(status), str(json.loads(body).get("refused"))
