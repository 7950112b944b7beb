"""Bringing captures in and managing runs in a real browser: queues, undo, a colleague's link, hostile words."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import archives_made
import hostile_capture
import pytest
from test_browser import CHROMIUM, DROP, Visit, _wait_for, browser, playwright  # noqa: F401

from npulens import ingest
from npulens.app.intake import invitations
from npulens.ingest.store import notes, runs

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]
MARKUP = hostile_capture.MARKUP
ROW_PX = 35

#: The dashboard's own program, over another page: its settings of Streamlit count here too.
MAIN = (ROOT / "app" / "main.py").read_text("utf-8").replace('"dashboard.py"', '"page.py"')
#: The colleague's page behind ?drop=; elsewhere the page for runs, below the head that the dashboard gives every page.
PAGE = """import streamlit as st
from npulens.app import context
from npulens.app.pages.runs import page as runs
from npulens.app.intake import courier_page as courier, tray

def drawn(ctx):
    if ctx.runs:
        tray.button(ctx)
    tray.show(ctx)
    runs.render(ctx)

token = courier.wanted()
courier.show(token) if token else drawn(context.current())
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs; what is said about one of them is as hostile as can be."""
    where = tmp_path_factory.mktemp("runs") / "store"
    for world, label in ((4, MARKUP), (5, "plain")):
        ingest.load(capture(where.parent / "trace.json", world), where, label=label)
    run_id = runs.resolve(where, notes.line(MARKUP)).run_id
    notes.set_note(where, run_id, MARKUP + "\n" + "=1+1 \u202e" + "y" * 9_000)
    notes.set_tags(where, run_id, ["<b onclick=x>", "**bold** :red[x]", "=2+2"])
    return where


def capture(path: Path, world: int) -> Path:
    hostile_capture.write(path)
    path.write_text(path.read_text("utf-8").replace('"world_size": 4', f'"world_size": {world}'), "utf-8")
    return path


@pytest.fixture(scope="module")
def servers(place: Path) -> Iterator[tuple[str, str]]:
    """Two server processes over the one store."""
    folder = place.parent / "script"
    folder.mkdir()
    (folder / "main.py").write_text(MAIN, "utf-8")
    (folder / "page.py").write_text(PAGE)
    running, urls, log = [], [], place.parent / "log"
    environment = {**os.environ, "NPULENS_STORE": str(place), "PYTHONPATH": str(ROOT)}
    try:
        for _ in range(2):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            command = [sys.executable, "-m", "streamlit", "run", "main.py", "--server.port", str(port)]
            command += ["--server.address", "127.0.0.1", "--server.headless", "true"]
            command += ["--server.fileWatcherType", "none", "--browser.gatherUsageStats", "false"]
            with log.open("ab") as out:
                running.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out))
            urls.append(f"http://127.0.0.1:{port}")
            _wait_for(urls[-1] + "/_stcore/health", running[-1], log)
        yield urls[0], urls[1]
    finally:
        for process in running:
            process.terminate()
            process.wait(20)


@pytest.fixture
def visit(servers: tuple[str, str], browser: playwright.Browser) -> Iterator[Visit]:  # noqa: F811
    context = browser.new_context(viewport={"width": 1440, "height": 1100}, locale="en-US")
    yield Visit(context.new_page(), servers[0])
    context.close()


def mark(visit: Visit, *rows: int) -> None:
    """Ticks rows of the table, counted from 0."""
    visit.page.wait_for_timeout(800)
    box = visit.page.locator('[data-testid="stDataFrame"]').first.bounding_box()
    assert box is not None
    for row in rows:
        visit.page.mouse.click(box["x"] + 18, box["y"] + (row + 1.5) * ROW_PX)
        visit.page.wait_for_timeout(700)


def test_what_is_said_about_runs_stays_text(visit: Visit, place: Path) -> None:
    page = visit.page
    row = [run.label != "plain" for run in runs.runs(place)].index(True)
    for lang in ("en", "zh"):
        visit.open(f"?lang={lang}")
        mark(visit, row)
        page.wait_for_selector("textarea", timeout=30_000)
        assert page.locator("textarea").input_value().startswith(MARKUP)
        assert "\u202e" not in page.locator("textarea").input_value()
        tags = page.locator('[data-testid="stMultiSelect"]')
        for tag in ("<b onclick=x>", "**bold** :red[x]", "=2+2"):
            tags.get_by_text(tag, exact=True).first.wait_for(timeout=30_000)
        assert page.locator('[data-testid="stMain"] strong, [data-testid="stMain"] b').count() == 0
    assert page.evaluate("window.pwned") is None
    assert page.locator("img[src='x']").count() == 0
    assert visit.outside() == [] and visit.errors == []


def test_two_marked_runs_are_compared_and_deleting_is_undone(visit: Visit, place: Path) -> None:
    page = visit.page
    visit.open("?lang=en")
    before = {run.run_id for run in runs.runs(place)}
    mark(visit, 0, 1)
    newer, older = (run.label for run in runs.runs(place)[:2])
    visit.shows(f"{newer} against {older}")
    page.get_by_role("button", name="Delete 2 runs").click()
    page.get_by_role("button", name="Undo").wait_for(timeout=30_000)
    assert runs.runs(place) == []
    visit.shows("This store is empty.")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo").wait_for(state="detached", timeout=120_000)
    visit.shows("2 runs")
    assert {run.run_id for run in runs.runs(place)} == before
    assert visit.errors == []


def test_captures_dropped_one_after_another_queue_up_and_all_load(visit: Visit, place: Path) -> None:
    before = len(runs.runs(place))
    visit.open("?lang=en")
    for world in (11, 12, 13):
        visit.page.evaluate(DROP, capture(place.parent / "drop.json", world).read_text("utf-8"))
    for name in ("dragged.json", "dragged.json (2)", "dragged.json (3)"):
        visit.shows(f"Loaded {name}: 17 events")
    assert len(runs.runs(place)) == before + 3
    assert visit.errors == []


def test_a_colleague_drops_and_sees_nothing_else(visit: Visit, servers: tuple[str, str], place: Path) -> None:
    """The token was made for one server and the page is served by the other."""
    token, given = invitations.mint(place, 1, 10, 10**7, 1)
    visit.url = servers[1]
    visit.open(f"?drop={token}&lang=en")
    visit.shows("One capture can be dropped here")
    assert "plain" not in visit.page.locator('[data-testid="stMain"]').inner_text()
    trace = capture(place.parent / "from a friend.json", 21)
    visit.page.set_input_files("input.pick-files", str(trace))
    visit.shows("Loaded from a friend.json: 17 events")
    assert "from a friend.json" in [run.label for run in runs.runs(place)]
    visit.page.set_input_files("input.pick-files", str(trace))
    visit.shows("This link has brought as many captures as it allows")
    visit.page.reload()
    visit.shows("This link has brought as many captures as it allows")
    assert invitations.left(place, given)[0] == 0 and visit.errors == []


def test_an_upload_by_token_over_http_is_loaded_and_shown_to_whoever_looks(
    visit: Visit, servers: tuple[str, str], place: Path
) -> None:
    visit.open("?lang=en")
    visit.shows("Find runs")
    token, _ = invitations.mint(place, 1, 1, 10**7, 1)
    request = urllib.request.Request(
        f"{servers[1]}/api/upload/capture/by%20curl.json", capture(place.parent / "x.json", 31).read_bytes(),
        {invitations.TOKEN_HEADER: token}, method="PUT",
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=120) as answer:
        said = json.loads(answer.read())
    assert said["status"] == "complete" and said["url"] == f"{servers[1]}/?run={said['run_id']}"
    visit.shows("The store has changed since this was drawn: 1 new")
    visit.page.get_by_text("Show", exact=True).click()
    visit.page.get_by_text("The store has changed").wait_for(state="detached", timeout=120_000)
    assert visit.errors == []


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_an_archive_is_dropped_like_any_capture(ending: str, visit: Visit, place: Path) -> None:
    world = 41 + len(ending)
    trace = capture(place.parent / "trace.json", world).read_bytes()
    packed = place.parent / f"job {world}.{ending}"
    if ending == "zip":
        archives_made.zip_of(packed, [("作业/trace.json", trace)])
    else:
        archives_made.tar_of(packed, [("作业/trace.json", trace)], "w:gz")
    visit.open("?lang=en")
    visit.shows("Find runs")
    visit.page.set_input_files("input.pick-files", str(packed))
    visit.shows(f"Loaded {packed.name}: 17 events")
    [run] = [run for run in runs.runs(place) if run.label == packed.name]
    assert run.world_size == world and not any((place / ".staging").iterdir()) and visit.errors == []


@pytest.mark.parametrize("name", ["poem.json", "bundle.zip"])
def test_a_refused_file_says_what_it_is_and_what_to_do(name: str, visit: Visit, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04" if name.endswith("zip") else b'{"no": "capture"}')
    visit.open("?lang=en")
    visit.page.set_input_files("input.pick-files", str(tmp_path / name))
    visit.shows(f"Not loaded, {name}: " + ("a damaged archive" if name.endswith("zip") else "JSON, but not the trace"))
    visit.shows("What to do: ")
    visit.page.get_by_text("Close", exact=True).click()
    visit.page.get_by_text("What to do: ").wait_for(state="detached", timeout=120_000)
    assert visit.errors == []
