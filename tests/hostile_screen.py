"""What the browser tests of hostile names share: a store full of them, a server over it, and a page that is watched."""

from __future__ import annotations

import csv
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import hostile_capture
import hostile_poison
import pytest
from hostile_names import NAMES, PARTS
from hostile_watch import Watch
from test_browser import ROOT, _wait_for, browser, playwright  # noqa: F401

from npulens import ingest
from npulens.ingest.store import notes

#: What a spreadsheet runs: a cell that begins so, unless it is a number.
LIVE = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"-?[\d,.]+([eE][+-]?\d+)?( ?%| [a-zµ/]+)?")


@dataclass(frozen=True)
class Held:
    """A store with the hostile job as torch.profiler and as torch_npu would write it."""

    store: Path
    runs: dict[str, str]  # format -> run id
    files: Path


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    place = tmp_path_factory.mktemp("hostile")
    made = {
        "kineto": hostile_capture.write_everywhere(place / PARTS["img"]),
        "ascend": hostile_poison.write(place / PARTS["markdown_image"]),
    }
    runs = {}
    for (name, path), label in zip(made.items(), ("colour", "script"), strict=True):
        report = ingest.load(path, place / "store", label=NAMES[label])
        runs[name] = report.runs[0].run_id
        notes.set_note(place / "store", runs[name], "\n".join(text[:200] for text in NAMES.values()))
        notes.set_tags(place / "store", runs[name], _tags())
    return Held(place / "store", runs, place)


@pytest.fixture(scope="module")
def server(held: Held) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port),
        "--server.address", "127.0.0.1", "--server.headless", "true",
    ]  # fmt: skip
    with (held.files / "log").open("wb") as log:
        environment = {**os.environ, "NPULENS_STORE": str(held.store)}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url + "/_stcore/health", process, held.files / "log")
            yield url
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def watch(server: str, browser: playwright.Browser) -> Iterator[Watch]:  # noqa: F811
    context = browser.new_context(
        viewport={"width": 1440, "height": 2000}, locale="en-US", accept_downloads=True, reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )  # fmt: skip
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(server)  # until its first page a server does not know the others
    page.get_by_text("npulens").first.wait_for(timeout=60_000)
    watched = Watch(page, server)
    yield watched
    context.close()


def opened(watch: Watch, name: str, run: str, lang: str, more: str = "") -> None:
    watch.page.goto(f"{watch.url}/{name}{'&' if '?' in name else '?'}run={run}&lang={lang}{more}")
    watch.settle()
    watch.page.wait_for_timeout(400)


def unfold(watch: Watch) -> None:
    """Opens whatever is folded, what it brings too."""
    folded = watch.page.locator('[data-testid="stExpander"] details:not([open]) > summary')
    for _ in range(60):
        if not folded.count():
            return
        folded.first.click()
        watch.settle()
    raise AssertionError("there is no end to what can be unfolded")


def hover(watch: Watch) -> None:
    """The pointer over every mark of every chart, as near as a raster of the chart comes to that."""
    for chart in watch.page.locator(".js-plotly-plot").all():
        box = chart.bounding_box()
        if box is None:
            continue
        for across in range(1, 16):
            for down in range(1, 9):
                watch.page.mouse.move(box["x"] + box["width"] * across / 16, box["y"] + box["height"] * down / 9)


def choices(watch: Watch) -> None:
    """Every view that a page offers beside the one it opens with, and what every box of choices holds."""
    main = watch.page.get_by_test_id("stMain")
    views = main.locator('[data-testid="stButtonGroup"] button:not([aria-checked="true"])')
    for text in dict.fromkeys(views.all_inner_texts()):
        if text in ("English", "中文") or not text:
            continue
        one = main.locator('[data-testid="stButtonGroup"] button', has_text=text).first
        if one.count():
            one.click()
            watch.settle()
            hover(watch)
    for box in main.locator('[data-testid="stSelectbox"] input').all():
        if box.is_visible() and box.is_enabled():
            box.click()
            watch.page.wait_for_timeout(80)
            watch.page.keyboard.press("Escape")
    watch.take()


def downloads(watch: Watch, place: Path) -> int:
    """The file of every table of a page; how many there were."""
    found = 0
    for table in watch.page.get_by_test_id("stDataFrame").all():
        if not table.is_visible():
            continue
        table.evaluate("one => one.scrollIntoView({block: 'center'})")
        table.hover(force=True)
        own = table.locator("xpath=ancestor::*[@data-testid='stElementContainer'][1]")
        button = own.get_by_role("button", name="Download as CSV")
        with watch.page.expect_download(timeout=60_000) as waiting:
            button.dispatch_event("click")
        waiting.value.save_as(place)
        harmless(place)
        found += 1
    return found


def harmless(path: Path) -> None:
    """No cell of a table that was taken along would run in a spreadsheet."""
    csv.field_size_limit(10**8)
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.reader(file):
            live = [cell for cell in row if LIVE.match(cell) and not NUMBER.fullmatch(cell)]
            assert live == [], path.name


def _tags() -> list[str]:
    """As many as a run may have, of those that a tag may be."""
    return [text for text in NAMES.values() if notes.line(text) == text and len(text) <= notes.MOST_TAG][:20]


def quoted(query: str) -> str:
    """A text as a part of an address; half a surrogate pair cannot be one."""
    return quote(query.encode("utf-8", "replace"), safe="")
