"""The timeline in a real browser: how long after a gesture the picture moves, and how long until it is exact.

    python -m tests.bench.canvas [--events N | --store DIR --run RUN] [--gestures N]

Zooms from the whole run down to microseconds and back, with pans between, at random places. "First redraw" is the
time from the gesture to the first picture that shows it, from the data at hand; "refined" the time to the picture
drawn from the data of the new window, the pause before it is asked for included.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from npulens.ingest.store import runs
from tests.bench.captures import CACHE, ROOT
from tests.bench.tiles import made

CHROMIUM = os.environ.get("NPULENS_CHROMIUM", "/usr/bin/chromium")
HOOK = "window.__npulens_timeline"
#: One gesture, timed by the page itself.
GESTURE = """async ([x, y, delta, ctrl]) => {
    const hook = window.__npulens_timeline;
    const host = [...document.querySelectorAll('*')].find((one) => one.shadowRoot?.querySelector('.timeline'));
    const canvas = host.shadowRoot.querySelector('canvas'), box = canvas.getBoundingClientRect();
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const began = performance.now(), asked = hook.times.asked;
    canvas.dispatchEvent(new WheelEvent('wheel', {
        clientX: box.x + x, clientY: box.y + y, deltaY: ctrl ? delta : 0, deltaX: ctrl ? 0 : delta, ctrlKey: ctrl,
        bubbles: true, cancelable: true,
    }));
    while (hook.times.drawn < began) await frame();
    const first = hook.times.drawn - began, drawing = hook.lastDrawMs;
    while (!hook.settled && performance.now() - began < 20000) await frame();
    const fetched = hook.times.asked > asked;
    return [first, fetched ? hook.times.drawn - began : null, drawing, hook.marksDrawn(), hook.view[1] - hook.view[0]];
}"""


@contextmanager
def served(place: Path) -> Iterator[str]:
    """The dashboard over a store, on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)]
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "canvas.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--server.address", "127.0.0.1"], cwd=ROOT, env={**os.environ, "NPULENS_STORE": str(place)},
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"{url}/_stcore/health", timeout=2).close()
                    break
                except (urllib.error.URLError, OSError):
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def gestures(count: int, pick: random.Random) -> Iterator[tuple[float, float, float, bool]]:
    """Place, turn of the wheel and whether it zooms: in for a third, then pans and zooms about, then out."""
    for at in range(count):
        part = at / count
        if at % 4 == 3:
            yield 800, 300, pick.choice((-400, 400)), False
        else:
            turn = -200 if part < 0.4 else 200 if part > 0.7 else pick.choice((-200, 200))
            yield pick.uniform(300, 1350), 300, turn, True


def told(name: str, values: Sequence[float]) -> None:
    ordered = sorted(values)
    p90, p95 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.90, 0.95))
    print(f"| {name} | {len(ordered)} | {statistics.median(ordered):.0f} | {p90:.0f} | {p95:.0f} | {ordered[-1]:.0f} |")


def measured(page: Page, count: int, seed: int) -> list[Any]:
    return [page.evaluate(GESTURE, list(one)) for one in gestures(count, random.Random(seed))]


def report(url: str, run_id: str, count: int) -> None:
    """Opens the run and prints one table."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1600, "height": 1000}, bypass_csp=True)
        begun = time.perf_counter()
        page.goto(f"{url}/Timeline?run={run_id}&lang=en&fold=-")
        page.wait_for_function(f"{HOOK}?.times.refined", timeout=300_000)
        opening = time.perf_counter() - begun
        page.wait_for_function(f"{HOOK}.settled", timeout=600_000)
        page.goto(f"{url}/Timeline?run={run_id}&lang=en&fold=-")
        begun = time.perf_counter()
        page.wait_for_function(f"{HOOK}?.times.refined", timeout=300_000)
        again = time.perf_counter() - begun
        page.wait_for_function(f"{HOOK}.settled", timeout=600_000)
        rows = measured(page, count, 7)
        browser.close()
    marks, sizes = [row[3] for row in rows], [row[4] for row in rows]
    print(f"\nfirst picture {opening:.1f} s after opening the page, {again:.1f} s the second time; marks on "
          f"the canvas: median {statistics.median(marks):,.0f}, most {max(marks):,}; windows from "
          f"{max(sizes) / 1e9:.1f} s to {min(sizes):,} ns\n")  # fmt: skip
    print("| ms | gestures | median | p90 | p95 | most |\n|---|--:|--:|--:|--:|--:|")
    told("first redraw", [row[0] for row in rows])
    told("refined", [row[1] for row in rows if row[1] is not None])
    told("drawing alone", [row[2] for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="spans of the run that is made")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--run", default="", help="id or label")
    parser.add_argument("--gestures", type=int, default=80)
    options = parser.parse_args()
    place, name = (options.store, options.run) if options.store else made(options.events)
    run = next(run for run in runs.runs(place) if name in (run.run_id, run.label))
    print(f"## The timeline in the browser: {run.label}")
    with served(place) as url:
        report(url, run.run_id, options.gestures)


if __name__ == "__main__":
    main()
