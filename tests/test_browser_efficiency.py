"""The page of efficiency in a real browser: charts are drawn, a row leads to the timeline, nothing is cut."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_browser import CHROMIUM, Visit, _wait_for, browser, playwright  # noqa: F401

from npulens import ingest
from npulens.app.text import i18n

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]
ROW_PX = 35


@pytest.fixture(scope="module")
def run_id(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    place = tmp_path_factory.mktemp("efficiency") / "store"
    return str(ingest.load(ROOT / "sample_traces" / "kineto", place).runs[0].run_id), place


@pytest.fixture(scope="module")
def url(run_id: tuple[str, Path]) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)]
    log = run_id[1].parent / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--server.address", "127.0.0.1"], cwd=ROOT, stdout=out, stderr=out,
            env={**os.environ, "NPULENS_STORE": str(run_id[1])},
        )  # fmt: skip
    try:
        found = f"http://127.0.0.1:{port}"
        _wait_for(found + "/_stcore/health", process, log)
        yield found
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(params=[1440, 390])
def visit(url: str, browser: playwright.Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:  # noqa: F811
    context = browser.new_context(viewport={"width": request.param, "height": 3200}, locale="en-US")
    yield Visit(context.new_page(), url)
    context.close()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_charts_are_drawn_and_a_row_leads_to_the_timeline(visit: Visit, run_id: tuple[str, Path], lang: str) -> None:
    page = visit.page
    page.goto(f"{visit.url}/Efficiency?lang={lang}&run={run_id[0]}")
    for drawn in (".icicle .surface", ".waterfalllayer, .barlayer", ".scatterlayer"):  # charts come in any order
        page.wait_for_selector(drawn, state="attached", timeout=120_000)
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length === 3", timeout=120_000)
    assert page.locator(".js-plotly-plot .scatterlayer .point, .js-plotly-plot .points path").count() > 3
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.wait_for_timeout(1_500)  # what is below the heading moves until fonts are there
    # Between the run and the language the key names the selection by a number.
    box = page.locator(f"[class*='st-key-efficiency_{run_id[0]}_'][class*='_{lang}']").bounding_box()
    assert box is not None
    before = page.locator(".st-key-prose").first.inner_text()
    page.mouse.click(box["x"] + 18, box["y"] + 2.5 * ROW_PX)
    page.wait_for_function(
        "before => document.querySelector('.st-key-prose').innerText !== before", arg=before, timeout=60_000
    )
    page.get_by_text(i18n.say(lang, "efficiency.on_timeline")).click()
    page.wait_for_url("**/Timeline**span=**", timeout=60_000)
    assert [error for error in visit.errors if "404" not in error] == []
    assert visit.outside() == []
