"""The findings in a real browser: they arrive by themselves, fold and unfold, fit a phone, and names stay text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import judged
import pytest
from test_browser import CHROMIUM, Visit, browser, playwright, server, visit  # noqa: F401

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]
MARKUP = '<script>window.pwned=1</script><img src=x onerror="window.pwned=1">'


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host so late that ours find it: 40 us of Python in each step of 100 us, in an operator with a hostile name."""
    return judged.capture(tmp_path_factory.mktemp("late") / "late.json", MARKUP)


def test_findings_come_by_themselves_and_fit(visit: Visit, trace: Path) -> None:  # noqa: F811
    page = visit.page
    visit.open("?lang=en")
    page.set_input_files("input.pick-files", str(trace))
    page.wait_for_selector(".st-key-answer", timeout=60_000)
    assert re.match(r"Biggest saving: |Nothing found ", page.locator(".st-key-answer").inner_text())
    page.get_by_role("radio", name="Checks").click()
    visit.shows(" checks: ")
    closed = page.locator('[data-testid="stExpander"] details:not([open]) > summary')
    for _ in range(60):  # one by one: what opens is drawn anew, and a second click would close it
        if closed.count():
            closed.first.click()
            page.wait_for_timeout(100)
    code = page.locator('[data-testid="stCode"]', has_text="torch.profiler.profile(").first
    code.wait_for(timeout=30_000)
    assert "schedule=torch.profiler.schedule(" in code.inner_text()

    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(500)
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth <= window.innerWidth")
    page.get_by_text("中文").click()
    visit.shows("采集质量")
    visit.shows("项检查")
    assert page.evaluate("window.pwned") is None
    assert page.locator("img[src='x']").count() == 0
    assert visit.outside() == []
    assert visit.errors == []


def test_a_report_opens_without_a_script_or_a_request(
    browser: playwright.Browser, trace: Path, tmp_path: Path  # noqa: F811
) -> None:
    from click.testing import CliRunner

    from npulens.app.cli import main

    config = judged.folder(tmp_path)
    store = str(tmp_path / "store")
    for words in (["load", str(trace), "--label", "late"],
                  ["report", "late", "-o", str(tmp_path / "x.html"), "--config", str(config)]):  # fmt: skip
        done = CliRunner().invoke(main, [*words, "--store", store])
        assert done.exit_code == 0, done.output
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    said: list[str] = []
    page.on("request", lambda request: said.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "x.html").as_uri())
    assert page.get_by_text("Fixing it saves").first.is_visible()
    assert not page.get_by_text("最多可省").first.is_visible()
    page.locator("label[for=lang-zh]").click()
    assert page.get_by_text("最多可省").first.is_visible()
    assert not page.get_by_text("Fixing it saves").first.is_visible()
    assert page.locator("body").bounding_box()["width"] <= 390  # type: ignore[index]
    assert said == [(tmp_path / "x.html").as_uri()], json.dumps(said)
    context.close()
