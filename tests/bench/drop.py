"""From dropping a directory on the page to its findings on the screen; and what an upload costs everybody else.

    python -m tests.bench.drop [--mb 100] [--times 5] [--upload-gb 1]

The directory is a simulated job of 8 ranks with two planted faults, dropped in Chromium by the button that picks a
directory; the clock stops when the first finding of this run can be read. For the second figure one person uploads a
large file while another opens pages: the reruns of that one with and without the upload, and the server's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from npulens.app.intake.invitations import TOKEN_HEADER
from npulens.ingest.store import runs
from tests.bench.captures import CACHE, ROOT, size
from tests.bench.measure import proportional_bytes
from tests.bench.users import Seen, loaded, servers, together

#: What one repetition of the simulated job's five steps takes on disk, over its 8 ranks.
MB_PER_REPEAT = 25.3
PROBLEM = '[class*="st-key-problems_"] .row'  # a row of the ranked list of the run on the screen


def job(mb: float) -> Path:
    """The directory to drop, made once."""
    home = CACHE / f"drop_{mb:g}"
    if not home.exists():
        repeat = str(max(1, round(mb / MB_PER_REPEAT)))
        subprocess.run(
            [sys.executable, "-m", "npulens.app.cli", "simulate", "aicpu,late_rank", "--ranks", "8", "--steps", "5",
             "--replicate", repeat, "-o", str(home)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return home / "capture"


def dropped(url: str, capture: Path) -> float:
    """Seconds from the drop to a finding, on a page opened for it."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900}, locale="en-US", bypass_csp=True)
        page.goto(f"{url}/?lang=en")
        page.wait_for_selector("button.files", timeout=60_000)
        page.wait_for_timeout(1500)
        begun = time.perf_counter()
        page.set_input_files("input.pick-directory", str(capture))
        page.locator(PROBLEM).first.wait_for(timeout=120_000)
        took = time.perf_counter() - begun
        browser.close()
    return took


def drops(capture: Path, times: int) -> None:
    """Each into an empty store of its own, the server warm: a page was opened before."""
    took = []
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        for number in range(times):
            place = Path(scratch) / str(number)
            with servers(place, 1) as started:
                took.append(dropped(f"http://127.0.0.1:{started[0][1]}", capture))
                assert len(runs.runs(place)) == 1
    every = ", ".join(f"{each:.1f}" for each in took)
    print(f"{size(capture) / 1e6:.0f} MB dropped as a directory: findings after {statistics.median(took):.1f} s "
          f"(median of {times}: {every})")  # fmt: skip


def upload(port: int, place: Path, gb: float, done: threading.Event) -> None:
    """One file of zeros by the route that `curl -T` takes: what the loader says of it does not matter here."""
    said = subprocess.run([sys.executable, "-m", "npulens.app.cli", "token", "--store", str(place), "--json"], cwd=ROOT,
                          check=True, capture_output=True, text=True)  # fmt: skip
    token = json.loads(said.stdout)["token"]
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    piece, count = bytes(1 << 20), round(gb * 1e9) >> 20
    link.putrequest("PUT", "/api/upload/big/big.json")
    link.putheader("Content-Length", str(count << 20))
    link.putheader(TOKEN_HEADER, token)
    link.endheaders()
    for _ in range(count):
        link.send(piece)
    done.set()
    link.getresponse().read()
    link.close()


def beside(gb: float, seconds: float = 40.0) -> None:
    """Reruns of one user alone, and while somebody uploads."""
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        place = Path(scratch) / "store"
        run = loaded(place, None)
        with servers(place, 1) as started:
            process, port = started[0]
            asyncio.run(together([port], run, 1, 0.2, 20))
            alone = asyncio.run(together([port], run, 1, 0.2, seconds))
            before, arrived = proportional_bytes(process.pid), threading.Event()
            sender = threading.Thread(target=upload, args=(port, place, gb, arrived))
            sender.start()
            seen, most = Seen(), before
            while not arrived.is_set():
                part = asyncio.run(together([port], run, 1, 0.2, 3))
                seen.reruns += part.reruns
                seen.errors += part.errors
                most = max(most, proportional_bytes(process.pid))
            sender.join()
    told = [statistics.median(each.reruns) for each in (alone, seen)]
    print(f"{gb:g} GB uploaded: the server grew by {(most - before) / 1e6:.1f} MB; another user's reruns took "
          f"{told[1]:.2f} s instead of {told[0]:.2f} s ({told[1] / told[0]:.2f} times; {len(seen.reruns)} and "
          f"{len(alone.reruns)} reruns, {len(alone.errors) + len(seen.errors)} errors)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=100)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--upload-gb", type=float, default=1)
    options = parser.parse_args()
    os.makedirs(CACHE, exist_ok=True)
    drops(job(options.mb), options.times)
    beside(options.upload_gb)


if __name__ == "__main__":
    main()
