"""Hostile names on their way in and out in a real browser: dropped files, tickets and addresses; reports and tables."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_names import HOST, NAMES, PARTS, shown
from hostile_screen import (  # noqa: F401
    Held,
    browser,
    harmless,
    held,
    opened,
    playwright,
    quoted,
    server,
    watch,
)
from hostile_watch import Watch
from test_browser import CHROMIUM, ROOT, _wait_for

from npulens.app.intake import invitations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]


def test_what_leaves_as_a_file_acts_nowhere(
    watch: Watch, held: Held, browser: playwright.Browser, tmp_path: Path  # noqa: F811
) -> None:
    """The report as a page from a disk and as Markdown, which the strictest reader we have makes a page of; CSV."""
    for form, run in held.runs.items():
        for ending in ("html", "md", "csv"):
            verb = ["export", run, "--to"] if ending == "csv" else ["report", run, "-o"]
            command = [sys.executable, "-m", "npulens.app.cli", *verb, str(tmp_path / f"{form}.{ending}")]
            done = subprocess.run([*command, "--store", str(held.store)], cwd=ROOT, capture_output=True, timeout=300)
            assert done.returncode == 0, done.stderr
        harmless(tmp_path / f"{form}.csv")
        context = browser.new_context(locale="en-US")
        page = context.new_page()
        away = Watch(page, (tmp_path / f"{form}.html").as_uri())
        page.goto(away.url)
        for summary in page.locator("summary").all():
            if summary.is_visible():
                summary.click()
        page.locator("label[for=lang-zh]").click()
        away.take()
        assert away.wrong == []
        context.close()
        assert not re.search(r"(?<!\\)[`$]", _outside_code((tmp_path / f"{form}.md").read_text("utf-8")))


def _outside_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def test_markdown_of_a_report_is_text_for_a_renderer_too(
    held: Held, browser: playwright.Browser, tmp_path_factory: pytest.TempPathFactory  # noqa: F811
) -> None:
    """Streamlit's own renderer knows more than most: directives, icons, emoji, formulas, tables, HTML not."""
    from npulens.app.report.as_markdown import text

    folder = tmp_path_factory.mktemp("rendered")
    lines = [text(shown(name)) for name in NAMES.values()]
    (folder / "page.py").write_text(
        "import streamlit as st\n"
        f"st.markdown({chr(10).join(f'- {line}' + chr(10) for line in lines)!r})\n"
        f"st.markdown({'| a |' + chr(10) + '|---|' + chr(10) + chr(10).join(f'| {line} |' for line in lines)!r})\n",
        "utf-8",
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "page.py", "--server.port", str(port), "--server.address",
               "127.0.0.1", "--server.headless", "true", "--browser.gatherUsageStats", "false"]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url + "/_stcore/health", process, folder / "log")
            context = browser.new_context(locale="en-US")
            away = Watch(context.new_page(), url)
            away.page.goto(url)
            away.page.locator("table").wait_for(timeout=60_000)
            away.settle()
            away.take()
            assert away.wrong == []
            assert away.page.locator("li a, li code, li strong, li em, td a, td code, td strong, td em").count() == 0
            assert len(away.seen) == len(NAMES)
            context.close()
        finally:
            process.terminate()
            process.wait(20)


def test_files_and_tickets_with_hostile_names(watch: Watch, held: Held, tmp_path: Path) -> None:  # noqa: F811
    page = watch.page
    for kind in ("img", "markdown_image", "markdown_link"):
        (tmp_path / PARTS[kind]).mkdir()
        (tmp_path / PARTS[kind] / PARTS["icon"]).write_text('{"no": "capture"}')
    for kind in ("img", "markdown_image"):
        opened(watch, "Runs", held.runs["kineto"], "en")
        page.wait_for_selector("button.files", timeout=60_000)
        page.set_input_files("input.pick-directory", str(tmp_path / PARTS[kind]))
        page.get_by_text("Not loaded").first.wait_for(timeout=120_000)
        watch.take()
        page.get_by_text("Close", exact=True).click()
        watch.settle()
    token, _ = invitations.mint(held.store, 1, 10, 10**7, 1)
    page.goto(f"{watch.url}/?drop={token}&lang=en")
    page.wait_for_selector("button.files", timeout=60_000)
    page.set_input_files("input.pick-directory", str(tmp_path / PARTS["markdown_link"]))
    page.get_by_text("Not loaded").first.wait_for(timeout=120_000)
    watch.take()
    page.goto(f"{watch.url}/?drop={quoted(NAMES['markdown_image'])}&lang=en")
    watch.settle()
    for place in ("Runs", "Kernels"):
        opened(watch, place, quoted(NAMES["img"]), quoted(NAMES["icon"]), f"&rank={quoted(NAMES['markdown_image'])}")
    opened(watch, "Runs", held.runs["kineto"], "en")
    page.locator('input[type="search"], [data-testid="stTextInput"] input').first.fill(NAMES["markdown_image"])
    page.keyboard.press("Enter")
    watch.settle()
    watch.take()
    assert watch.wrong == [] and HOST not in page.title()
