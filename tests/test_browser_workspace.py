"""The workspace in a real browser: its first screen, what is chosen, and where old addresses lead."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from test_browser import CHROMIUM, ROOT, Visit, _wait_for, browser, playwright  # noqa: F401

from npulens import ingest
from npulens.app.text import i18n
from tests.screen import axe
from tests.screen.pages import opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]
SAMPLES = ("late_rank", "torch_npu_text", "torch_npu_db", "kineto", "cpu_train_step")
#: A text of so many words is a sentence; what is shorter is a label or a figure.
SENTENCE, MOST_WORDS, SCREEN = 5, 60, (1280, 800)
#: Texts that can be seen on the first screen, shadow roots of the lists included.
SEEN = """() => {
    const found = [];
    const walk = (root) => {
        for (const node of root.querySelectorAll("*")) {
            if (node.shadowRoot) walk(node.shadowRoot);
            const texts = [...node.childNodes].filter((one) => one.nodeType === 3);
            const own = texts.map((one) => one.textContent).join(" ").trim();
            if (!own || ["STYLE", "SCRIPT"].includes(node.tagName)) continue;
            const box = node.getBoundingClientRect(), style = getComputedStyle(node);
            const seen = box.width && box.height && box.top < innerHeight && box.bottom > 0;
            if (seen && style.visibility !== "hidden") found.push(own);
        }
    };
    walk(document.querySelector("[data-testid=stMain]"));
    return found;
}"""
HOOK = "window.__npulens_timeline"
#: What has the focus, shadow roots included: a row of a list by its key, else its text.
FOCUS = """() => {
    let one = document.activeElement;
    while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
    return one?.dataset?.key ?? one?.innerText ?? "";
}"""
#: Steps of the keyboard from the head to the first problem, from there to a moment, from there to its source.
MOST_TABS = (20, 45, 12)
#: Looked at by axe-core in every run of the tests; python -m tests.screen.axe looks at all.
FEW_LENSES = {"light": ("Workspace", "Counters"), "dark": ("Workspace", "Kernels")}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The samples of which two simulate a job with known faults: name -> run."""
    store = tmp_path_factory.mktemp("workspace") / "store"
    loaded = {name: ingest.load(ROOT / "sample_traces" / name, store, label=name) for name in SAMPLES}
    return store, {name: str(report.runs[0].run_id) for name, report in loaded.items()}


@pytest.fixture(scope="module")
def server(held: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("served") / "log"
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port),
               "--server.address", "127.0.0.1"]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "NPULENS_STORE": str(held[0])}, stdout=out, stderr=out
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url + "/_stcore/health", process, log)
            yield url
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def visit(server: str, browser: playwright.Browser) -> Iterator[Visit]:  # noqa: F811
    context = browser.new_context(
        viewport={"width": SCREEN[0], "height": SCREEN[1]}, locale="en-US", reduced_motion="reduce"
    )
    yield Visit(context.new_page(), server)
    context.close()


def _answered(visit: Visit, address: str) -> None:
    visit.page.goto(f"{visit.url}/{address}")
    visit.page.locator(".st-key-answer").first.wait_for(timeout=120_000)
    visit.page.wait_for_function(
        "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'", timeout=60_000
    )
    visit.page.wait_for_timeout(500)


def _words(text: str) -> int:
    return sum(1 for word in text.split() if re.search(r"\w", word))


def test_the_first_screen_holds_cause_rank_and_saving_in_few_words(
    visit: Visit, held: tuple[Path, dict[str, str]]
) -> None:
    for name, run in held[1].items():
        _answered(visit, f"?run={run}&lang=en")
        seen = visit.page.evaluate(SEEN)
        prose = [text for text in seen if _words(text) >= SENTENCE]
        assert sum(map(_words, prose)) <= MOST_WORDS, (name, prose)
        assert "Can be saved" in seen and "Capture quality" in seen, name
        verdict = next(text for text in seen if text.startswith("Biggest saving: "))
        assert re.search(r" ranks? \d", verdict) and re.search(r"\d %", verdict), verdict
        first = visit.page.locator(".picker .row").first
        assert re.search(r"rank", first.inner_text()) and re.search(r"\d (ms|µs|s)\b", first.inner_text())
        canvas = visit.page.locator("canvas.canvas").bounding_box()
        assert canvas is not None and canvas["y"] + 60 < SCREEN[1] and canvas["width"] > 400, name
    assert visit.errors == [] and visit.outside() == []


def test_two_clicks_lead_to_a_span_and_a_reload_keeps_it(visit: Visit, held: tuple[Path, dict[str, str]]) -> None:
    page = visit.page
    _answered(visit, f"?run={held[1]['late_rank']}&lang=en")
    second = page.locator('[class*="st-key-problems_"] .row').nth(1)
    key = second.get_attribute("data-key")
    second.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**problem={key}**", timeout=60_000)
    page.locator(f'.picker .row[data-key="{key}"][aria-pressed=true]').wait_for(timeout=60_000)
    page.locator('[class*="st-key-moments_"] .row').first.click()
    page.wait_for_function(f"{HOOK}?.state?.span", timeout=60_000)
    page.wait_for_timeout(1_000)
    span, asked = page.evaluate(f"{HOOK}.state.span"), parse_qs(urlsplit(page.url).query)
    assert asked["span"] == [str(span)] and asked["problem"] == [key]
    page.reload()
    page.locator(f'.picker .row[data-key="{key}"][aria-pressed=true]').wait_for(timeout=120_000)
    page.wait_for_function(f"{HOOK}?.state?.span == '{span}'", timeout=60_000)
    page.get_by_role("radio", name="Ranks").click()
    visit.shows("Ranks and steps")
    assert parse_qs(urlsplit(page.url).query)["problem"] == [key]
    assert visit.errors == []


def _tabs(page: playwright.Page, wanted: str, most: int) -> int:
    """How often Tab is pressed until what has the focus fits the pattern."""
    for pressed in range(1, most + 1):
        page.keyboard.press("Tab")
        if re.search(wanted, str(page.evaluate(FOCUS))):
            return pressed
    raise AssertionError(f"{most} times Tab do not lead to {wanted}: {page.evaluate(FOCUS)}")


def test_keys_alone_lead_from_the_head_to_a_span_and_its_source(
    visit: Visit, held: tuple[Path, dict[str, str]]
) -> None:
    page = visit.page
    _answered(visit, f"?run={held[1]['torch_npu_text']}&lang=en")
    rows = page.locator('[class*="st-key-problems_"] .row')
    rows.first.wait_for(timeout=60_000)
    keys = [str(row.get_attribute("data-key")) for row in rows.all()]
    _tabs(page, f"^{keys[0]}$", MOST_TABS[0])
    for _ in range(keys.index("dataloader")):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator('.picker .row[data-key="dataloader"][aria-pressed=true]').wait_for(timeout=60_000)
    page.wait_for_timeout(1_500)
    _tabs(page, "^0$", MOST_TABS[1])
    page.keyboard.press("Enter")
    page.wait_for_function(f"{HOOK}?.state?.span", timeout=60_000)
    page.get_by_text("Call stack").first.wait_for(timeout=60_000)
    page.wait_for_timeout(1_500)
    _tabs(page, r"\.py\(\d+\)", MOST_TABS[2])
    assert visit.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_moderate_or_worse(
    theme: str, server: str, browser: playwright.Browser, held: tuple[Path, dict[str, str]]  # noqa: F811
) -> None:  # fmt: skip
    script = axe.script()
    if script is None:
        pytest.skip("axe-core is not installed: pip install axe-playwright-python")
    context = browser.new_context(color_scheme=theme, reduced_motion="reduce")
    page = context.new_page()
    for lens in FEW_LENSES[theme]:
        opened(page, server, lens, held[1]["late_rank"])
        found = axe.violations(page, script)
        assert [one for one in found if one.impact in (*axe.SEVERE, axe.LESS)] == [], lens
    page.evaluate("document.body.append(document.createElement('button'))")
    assert "button-name" in {one.rule for one in axe.violations(page, script)}
    context.close()


def test_old_addresses_open_what_they_showed(visit: Visit, held: tuple[Path, dict[str, str]]) -> None:
    run = held[1]["late_rank"]
    for old, text in (("Overview", "Biggest saving: "), ("Findings", "Biggest saving: "), ("ranks", "Ranks and steps"),
                      ("Findings?detector=late_rank", "Limits"), ("kernels", None)):  # fmt: skip
        visit.page.goto(f"{visit.url}/{old}{'&' if '?' in old else '?'}run={run}&lang=en")
        visit.shows(text or i18n.say("en", "kernels.title"))
        asked = parse_qs(urlsplit(visit.page.url).query)
        assert asked["run"] == [run] and asked["lang"] == ["en"], visit.page.url
        assert visit.page.get_by_text("Page not found").count() == 0
