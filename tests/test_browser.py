"""The dashboard in a real browser: a drop travels, loads, is shown in both languages, and hostile names stay text."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import hostile_capture
import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from npulens.app.text import i18n

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = (
    os.environ.get("NPULENS_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, so no browser is driven")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]


class Visit:
    """One page with everything it logged and asked for."""

    def __init__(self, page: playwright.Page, url: str) -> None:
        self.page, self.url = page, url
        page.set_default_timeout(120_000)  # of a click or a wait: beside other tests a page may take that long
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))
        self.sockets: list[str] = []
        self.messages = self.names = 0  # of the server; and those that only name one sent before
        page.on("websocket", self._watch)

    def open(self, query: str = "") -> None:
        self.page.goto(f"{self.url}/{query}")
        self.page.wait_for_selector("button.files", timeout=60_000)

    def shows(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for(timeout=120_000)

    def _watch(self, socket: playwright.WebSocket) -> None:
        opened = time.monotonic()
        self.sockets.append("opened")
        socket.on("framereceived", self._receive)
        socket.on("close", lambda _: self.sockets.append(f"closed after {time.monotonic() - opened:.1f} s"))

    def _receive(self, frame: bytes | str) -> None:
        message = ForwardMsg.FromString(frame) if isinstance(frame, bytes) else ForwardMsg()
        self.messages += 1
        self.names += message.WhichOneof("type") == "ref_hash"

    def tells(self) -> str:
        """The state of the page, for whoever reads of a failure."""
        app = self.page.locator('[data-testid="stApp"]').first
        state = app.evaluate("app => [...app.attributes].map(each => `${each.name}=${each.value}`).join(' ')")
        lines = [self.page.url, state, f"sockets: {self.sockets}", f"errors: {self.errors}", *self.requests[-12:]]
        return "\n".join([*lines, self.page.locator("body").inner_text()[:3000]])

    def outside(self) -> list[str]:
        """Requests that left this origin."""
        return [url for url in self.requests if not url.startswith((self.url, "data:", "blob:"))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`streamlit run app/main.py` over an empty store, on a free port of this machine only."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = tmp_path_factory.mktemp("served")
    log = (place / "log").open("wb")
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        "app/main.py",
        "--server.port",
        str(port),
        "--server.address",
        "127.0.0.1",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "NPULENS_STORE": str(place / "store")}, stdout=log, stderr=log
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url + "/_stcore/health", process, place / "log")
        yield url
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield unguarded(opened)
        opened.close()


def unguarded(browser: playwright.Browser) -> playwright.Browser:
    """Its pages are free of the server's policy, under which a test cannot wait for what a text evaluates to.

    bypass_csp=False brings the policy back.
    """
    browser.new_context = partial(browser.new_context, bypass_csp=True)  # type: ignore[method-assign]
    browser.new_page = partial(browser.new_page, bypass_csp=True)  # type: ignore[method-assign]
    return browser


@pytest.fixture
def visit(server: str, browser: playwright.Browser) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    yield Visit(context.new_page(), server)
    context.close()


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one capture; its file name is as hostile as a file name can be."""
    folder = tmp_path_factory.mktemp("drop") / "job <img src=x onerror=window.pwned=1>"
    folder.mkdir()
    hostile_capture.write(folder / "trace <b>1<b>.json")
    return folder


def test_a_dropped_directory_becomes_a_run_and_hostile_names_stay_text(visit: Visit, capture: Path) -> None:
    page = visit.page
    visit.open("?lang=en")
    visit.shows("This store is empty.")
    page.set_input_files("input.pick-directory", str(capture))
    visit.shows("Loaded job <img src=x onerror=window.pwned=1>")
    visit.shows("1 of 4 ranks")
    page.get_by_role("radio", name="Time").click()
    page.wait_for_selector(".js-plotly-plot .bars path >> visible=true", timeout=60_000)
    assert "run=" in page.url and "panel=time" in page.url

    page.get_by_text("中文").click()
    visit.shows("时间去向")
    assert "lang=zh" in page.url
    page.reload()
    visit.shows("4 卡中的 1 卡")
    page.wait_for_selector(".js-plotly-plot .bars path >> visible=true", timeout=60_000)

    for bar in page.locator(".js-plotly-plot .bars path >> visible=true").all():
        bar.hover(force=True)
    page.wait_for_timeout(500)
    assert page.evaluate("window.pwned") is None
    assert page.locator("img[src='x'], script:text('pwned')").count() == 0
    assert visit.outside() == []
    assert visit.errors == []


def test_another_page_keeps_the_language_of_the_navigation(visit: Visit) -> None:
    visit.open("?lang=zh")
    visit.page.get_by_role("link", name=i18n.say("zh", "timeline.title")).first.click()
    visit.page.wait_for_url("**/Timeline**")
    visit.page.wait_for_timeout(1_500)
    assert visit.page.get_by_role("link", name=i18n.say("zh", "timeline.title")).count() > 0
    assert visit.page.get_by_role("link", name="Timeline").count() == 0


def test_a_file_nobody_knows_is_refused_in_a_sentence(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "poem.json").write_text('{"no": "capture"}')
    visit.open("?lang=en")
    visit.page.set_input_files("input.pick-files", str(tmp_path / "poem.json"))
    visit.shows("Not loaded")
    visit.page.get_by_text("Close", exact=True).click()
    visit.page.get_by_text("Not loaded", exact=True).wait_for(state="detached", timeout=120_000)
    assert visit.errors == []


DROP = """text => {
    const data = new DataTransfer();
    data.items.add(new File([text], "dragged.json"));
    for (const kind of ["dragover", "drop"]) {
        const event = new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true});
        document.body.dispatchEvent(event);
    }
}"""


def _asks(url: str) -> dict[str, list[str]]:
    """What an address asks for; the order in which it asks means nothing."""
    return parse_qs(urlsplit(url).query)


def test_files_can_be_dragged_onto_the_page_and_the_switch_goes_back(visit: Visit, capture: Path) -> None:
    page = visit.page
    visit.open("?lang=en")
    page.set_input_files("input.pick-directory", str(capture))
    page.wait_for_url("**run=*", timeout=60_000)
    visit.shows("1 of 4 ranks")
    page.wait_for_selector("button.files", timeout=60_000)
    first = page.url
    text = next(capture.iterdir()).read_text("utf-8").replace('"world_size": 4', '"world_size": 3')
    page.evaluate(DROP, text)
    visit.shows("Loaded dragged.json")
    visit.shows("1 of 3 ranks")
    assert page.url != first
    page.locator('[data-testid="stSelectbox"]').first.click()
    page.get_by_role("option").filter(has_text="job <img").click()  # the run loaded before
    page.wait_for_url(lambda url: _asks(url) == _asks(first), timeout=60_000)
    visit.shows("1 of 4 ranks")
    assert visit.errors == []


def test_every_message_is_sent_whole(visit: Visit) -> None:
    """One that only names an older message kills the page if the browser has forgotten that."""
    visit.open("?lang=en&panel=time")
    visit.page.wait_for_selector(".js-plotly-plot .bars path >> visible=true", timeout=60_000)
    before = visit.messages
    for language in ("中文", "English"):
        visit.page.get_by_text(language, exact=True).click()
        visit.shows("时间去向" if language == "中文" else "Where the time goes")
    assert visit.messages > before > 0 and visit.names == 0 and visit.errors == []


def test_the_upload_route_answers_strangers_with_a_refusal(server: str) -> None:
    """The answer must be ours: an address that is no route would give the page itself, with status 200."""
    for method, path in (("PUT", "file?path=a"), ("POST", "done")):
        request = urllib.request.Request(f"{server}/api/upload/{path}", data=b"x", method=method)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        refused.value.close()
        assert refused.value.code == 403
        assert refused.value.headers["content-type"] == "application/json"
