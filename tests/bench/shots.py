"""Photographs of every page, to look at: `make shots` writes them below .bench/shots (SHOTS_ARGS=--help).

Each page x light and dark x English and Chinese x sizes x some runs, as long as the page; and each page of an empty
store. A run is whatever `npulens load` takes; without any, the bundled samples. With --store, the runs that lie in a
store already. Nothing is judged here: a person looks. A line a picture says how long its page took to rest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.screen.pages import LENSES, ROOT

PAGES = LENSES
QUERY = "SELECT name, count(*) AS n, sum(dur_ns) AS total_ns FROM span GROUP BY name ORDER BY total_ns DESC LIMIT 20"


def main() -> None:
    """Photographs what the arguments name."""
    asked = _arguments()
    if asked.first_screen:
        _first_screen()
        return
    out = asked.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        store = asked.store or Path(place) / "store"
        runs = _stored(asked.store) if asked.store else {}
        runs |= {path.name: _load(path, store) for path in asked.captures or (() if runs else sorted(_samples()))}
        runs = {name: run for name, run in runs.items() if name in (asked.run or runs)}
        with _served(store) as url, _browser() as browser:
            for lang, theme, size in itertools.product(asked.lang, asked.theme, asked.size):
                for name, run in runs.items():
                    _visit(browser, url, out, asked.page, (name, run, lang, theme), size)
        with _served(Path(place) / "nothing") as url, _browser() as browser:
            for lang, theme, size in itertools.product(asked.lang, asked.theme, asked.size):
                _visit(browser, url, out, asked.page, ("empty", "", lang, theme), size)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.shots", description="Photograph every page.")
    parser.add_argument("captures", nargs="*", type=Path, help="what to load; the bundled samples if none")
    parser.add_argument("--out", type=Path, default=ROOT / ".bench" / "shots")
    parser.add_argument("--page", nargs="+", choices=PAGES, default=PAGES)
    parser.add_argument("--lang", nargs="+", choices=("en", "zh"), default=("en", "zh"))
    parser.add_argument("--theme", nargs="+", choices=("light", "dark"), default=("light", "dark"))
    parser.add_argument("--size", nargs="+", type=_size, default=[(1440, 900)], help="e.g. 1280x800 3840x2160")
    parser.add_argument("--store", type=Path, help="its runs, and captures are loaded into it")
    parser.add_argument("--run", nargs="+", metavar="NAME", help="only these of them")
    parser.add_argument("--first-screen", action="store_true", help="only docs/first_screen.png, the README's picture")
    return parser.parse_args()


def _size(text: str) -> tuple[int, int]:
    wide, _, high = text.partition("x")
    return int(wide), int(high)


def _stored(store: Path) -> dict[str, str]:
    """The runs of a store, by their names."""
    command = [sys.executable, "-m", "npulens.app.cli", "runs", "--store", str(store), "--json"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {run["label"] or run["run_id"]: run["run_id"] for run in json.loads(listed.stdout)["runs"]}


def _first_screen() -> None:
    """What `make run` opens with, and a sample whose answer lies in a rank that nobody captured."""
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "store"
        runs = {path.name: _load(path, store) for path in sorted(_samples())}
        with _served(store) as url, _browser() as browser:
            page = browser.new_page(viewport={"width": 1440, "height": 1180}, locale="en-US", reduced_motion="reduce")
            page.goto(f"{url}/?lang=en&run={runs['late_rank']}")
            _wait(page, judged=True)
            page.screenshot(path=ROOT / "docs" / "first_screen.png")


def _samples() -> Iterator[Path]:
    return (path for path in (ROOT / "sample_traces").iterdir() if (path / "manifest.json").is_file())


def _load(path: Path, store: Path) -> str:
    command = [sys.executable, "-m", "npulens.app.cli", "load", str(path), "--label", path.name, "--store", str(store)]
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    return str(json.loads(done.stdout)["runs"][0]["run_id"])


@contextmanager
def _served(store: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port),
               "--server.address", "127.0.0.1", "--server.headless", "true"]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "NPULENS_STORE": str(store)},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(url + "/_stcore/health", timeout=2).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("NPULENS_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        # Under the server's policy nothing could wait for what a text evaluates to.
        opened.new_context = partial(opened.new_context, bypass_csp=True)  # type: ignore[method-assign]
        opened.new_page = partial(opened.new_page, bypass_csp=True)  # type: ignore[method-assign]
        yield opened
        opened.close()


def _visit(
    browser: Any, url: str, out: Path, pages: tuple[str, ...], what: tuple[str, str, str, str], size: tuple[int, int]
) -> None:
    name, run, lang, theme = what
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme,
                                  locale="en-US", reduced_motion="reduce")  # fmt: skip
    page = context.new_page()
    page.goto(f"{url}/?lang={lang}&run={run}")
    for title in pages:
        where = "" if title == "Workspace" else title
        begun = time.monotonic()
        page.goto(f"{url}/{where}?lang={lang}&run={run}" + (f"&sql={QUERY}" if title == "Sql" else ""))
        rests = _rests(page, bool(run) and title == "Workspace")
        took = f"{time.monotonic() - begun:.1f} s{'' if rests else ', still at work'}"
        print(f"{name} {title} {lang} {theme} {size[0]}: {took}", flush=True)
        if title != "Timeline":
            tall = page.evaluate("document.querySelector('[data-testid=stMain]')?.scrollHeight ?? 900")
            page.set_viewport_size({"width": size[0], "height": max(size[1], min(int(tall), 6000))})
            page.wait_for_timeout(500)
        page.screenshot(path=out / f"{name}-{title}-{lang}-{theme}-{size[0]}.png")
        page.set_viewport_size({"width": size[0], "height": size[1]})
    context.close()


def _rests(page: Any, judged: bool) -> bool:
    """Whether the page has said what it has to say; a picture is taken of one that has not, too."""
    from playwright.sync_api import TimeoutError as TooLong

    try:
        _wait(page, judged)
    except TooLong:
        return False
    return True


def _wait(page: Any, judged: bool) -> None:
    """Until the page has said what it has to say, and its pictures stand."""
    page.wait_for_timeout(300)
    page.wait_for_function(
        "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'", timeout=120_000
    )
    if judged:
        page.locator(".st-key-answer").first.wait_for(timeout=180_000)
        page.locator("[data-testid=stSpinner]").last.wait_for(state="hidden", timeout=180_000)
    if page.locator("canvas.canvas").count():
        page.wait_for_function("window.__npulens_timeline?.settled", timeout=60_000)
    page.wait_for_timeout(900)


if __name__ == "__main__":
    main()
