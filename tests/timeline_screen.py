"""What the browser tests of the timeline share: a store, a server over it, and the page with its canvas."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any

import hostile_capture
import pytest
from test_browser import CHROMIUM, ROOT, Visit, _wait_for, browser, playwright  # noqa: F401

HOOK = "window.__npulens_timeline"
#: Words of a link that are not the canvas's: the page, and what is selected on every page.
OTHERS = ("run", "lang", "rank", "ranks", "steps", "window", "problem")
PIXELS = """() => {
    const host = [...document.querySelectorAll('*')].find((one) => one.shadowRoot?.querySelector('.timeline'));
    return host.shadowRoot.querySelector('canvas').toDataURL();
}"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A store with a sample, a long simulated capture and the hostile one: label -> run id, and where it lies."""
    place = tmp_path_factory.mktemp("timeline")
    hostile = place / "hostile"
    hostile.mkdir()
    hostile_capture.write(hostile / "trace.json")
    found = {"": str(place / "store")}
    tool = [sys.executable, "-m", "npulens.app.cli"]
    job = ["clean", "--ranks", "1", "--steps", "60", "--format", "kineto", "-o", str(place / "long")]
    subprocess.run([*tool, "simulate", *job], cwd=ROOT, check=True, capture_output=True, timeout=120)
    paths = {"late": ROOT / "sample_traces" / "late_rank", "hostile": hostile, "long": place / "long" / "capture"}
    for label, path in paths.items():
        command = [*tool, "load", str(path), "--store", found[""], "--label", label, "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        found[label] = json.loads(done.stdout)["runs"][0]["run_id"]
    return found


@pytest.fixture(scope="module")
def server(store: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`streamlit run app/main.py` over that store, on a free port of this machine only."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = tmp_path_factory.mktemp("served")
    command = [
        sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port),
        "--server.address", "127.0.0.1",
    ]  # fmt: skip
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "NPULENS_STORE": store[""]}, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url + "/_stcore/health", process, place / "log")
            yield url
        finally:
            process.terminate()
            process.wait(20)


class Screen(Visit):
    """The Timeline page and its canvas."""

    def go(self, run: str, query: str = "", lang: str = "en") -> None:
        self.page.goto(f"{self.url}/Timeline?run={run}&lang={lang}{query}")
        self.settle()
        box = self.page.locator("canvas.canvas").bounding_box()
        assert box is not None
        self.x, self.y, self.width, self.height = box["x"], box["y"], box["width"], box["height"]

    def settle(self) -> None:
        self.page.wait_for_function(f"{HOOK}?.settled", timeout=60_000)

    def hook(self, what: str) -> Any:
        return self.page.evaluate(f"{HOOK}.{what}")

    @property
    def view(self) -> tuple[int, int]:
        first, last = self.hook("view")
        return first, last

    @property
    def length(self) -> int:
        return self.view[1] - self.view[0]

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.settle()

    def show(self, first: float, last: float) -> None:
        self.page.evaluate(f"([a, b]) => {HOOK}.show(a, b)", [first, last])
        self.settle()

    def point(self, x: float, y: float) -> None:
        self.page.mouse.move(self.x + x, self.y + y)

    def click(self, x: float, y: float) -> None:
        self.page.mouse.click(self.x + x, self.y + y)
        self.settle()

    def drag(self, x0: float, y0: float, x1: float, y1: float, key: str = "") -> None:
        if key:
            self.page.keyboard.down(key)
        self.point(x0, y0)
        self.page.mouse.down()
        self.point((x0 + x1) / 2, (y0 + y1) / 2)
        self.point(x1, y1)
        self.page.mouse.up()
        if key:
            self.page.keyboard.up(key)
        self.settle()

    def spans(self) -> list[dict[str, Any]]:
        """Spans that can be clicked: on the canvas and some pixels wide."""
        found: list[dict[str, Any]] = self.hook("visible(4000)")
        return [
            one
            for one in found
            if not one.get("cell") and not one["gap"] and one["x1"] - one["x"] > 6
            and one["x"] > 240 and one["x1"] < self.width - 20 and 60 < one["y"] < self.height - 20
        ]  # fmt: skip

    def kernel(self) -> dict[str, Any]:
        """A kernel of the sample, with the window brought close to it."""
        self.press("Home")
        kernels = sorted(
            (one for one in self.hook("visible(9000)") if one.get("kind") == "kernel" and one["dur"] > 0),
            key=lambda one: one["ts"],
        )
        wanted = kernels[len(kernels) // 2]
        self.show(wanted["ts"] - 300_000, wanted["ts"] + 700_000)
        return next(one for one in self.spans() if one["id"] == wanted["id"])

    def pick(self, span: dict[str, Any]) -> None:
        self.click((span["x"] + span["x1"]) / 2, span["y"])

    def column(self, at: int) -> list[int]:
        """The whole numbers of a column of the drawer's table."""
        cells = self.page.locator(f".drawerbody tbody td:nth-child({at})").all_inner_texts()
        return [int(text.replace(",", "")) for text in cells]

    def row(self, kind: str, at: int = 0) -> dict[str, Any]:
        return [row for row in self.hook("rows") if row["type"] == kind and not row["pinned"]][at]

    def query(self) -> dict[str, str]:
        """What the link says, once it says where the canvas is: some while after that has come to rest."""
        said: dict[str, str] = {}
        for _ in range(100):
            self.page.wait_for_timeout(200)
            said = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.page.url).query))
            wanted = {name: text for name, text in self.hook("state").items() if text}
            if wanted == {name: text for name, text in said.items() if name not in OTHERS}:
                return said
        raise AssertionError(f"the link says {said}")

    def pixels(self) -> str:
        self.page.mouse.move(5, 5)
        self.page.wait_for_timeout(200)
        self.settle()
        return hashlib.sha256(self.page.evaluate(PIXELS).encode()).hexdigest()

    def mistakes(self) -> list[str]:
        """Errors in the console but for the two addresses that Streamlit itself asks for below a page's name."""
        return [error for error in self.errors if "404" not in error and "does not seem to exist" not in error]


@pytest.fixture(scope="module")
def awake(server: str, browser: playwright.Browser) -> str:  # noqa: F811
    """The server after its first page of all: until then it does not know the others."""
    page = browser.new_page()
    page.goto(server)
    page.get_by_text("npulens").first.wait_for(timeout=60_000)
    page.close()
    return server


@pytest.fixture
def screen(awake: str, browser: playwright.Browser) -> Iterator[Screen]:  # noqa: F811
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, locale="en-US", accept_downloads=True,
        permissions=["clipboard-read", "clipboard-write"], reduced_motion="reduce",
    )  # fmt: skip
    yield Screen(context.new_page(), awake)
    context.close()


@pytest.fixture
def late(screen: Screen, store: dict[str, str]) -> Screen:
    """The sample with every row unfolded."""
    screen.go(store["late"], "&fold=-")
    return screen
