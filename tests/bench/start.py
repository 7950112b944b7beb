"""From starting the dashboard with the samples to the first answer on the screen.

    python -m tests.bench.start [--times 3]

Twice each time: into an empty store, where `npulens demo` loads the samples first, and again with them there. The
clock stops when the ranked answer of a run can be read in Chromium, which is open already.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.shots import ROOT, _browser
from tests.bench.users import _wait


@contextmanager
def demo(store: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "npulens.app.cli", "demo", "--store", str(store), f"--server.port={port}"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "NPULENS_STORE": str(store)}, start_new_session=True)  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the command and the server it has started
        process.wait(20)


def started(store: Path, browser: Any) -> tuple[float, float]:
    """Seconds to the server's first sign of life, and to the answer."""
    begun = time.perf_counter()
    with demo(store) as url:
        _wait(f"{url}/_stcore/health")
        alive = time.perf_counter() - begun
        page = browser.new_page(viewport={"width": 1440, "height": 900}, locale="en-US")
        page.goto(f"{url}/?lang=en")
        page.locator(".st-key-answer").first.wait_for(timeout=120_000)
        took = time.perf_counter() - begun
        page.close()
    return alive, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    times = parser.parse_args().times
    seen: dict[str, list[tuple[float, float]]] = {"an empty store": [], "the samples in it": []}
    with _browser() as browser:
        for _ in range(times):
            with tempfile.TemporaryDirectory() as place:
                for figures in seen.values():
                    figures.append(started(Path(place) / "store", browser))
    for what, figures in seen.items():
        alive, took = (statistics.median(each) for each in zip(*figures, strict=True))
        print(f"npulens demo with {what}: the server answers after {alive:.1f} s, the first answer is on the screen "
              f"after {took:.1f} s (median of {times})")  # fmt: skip


if __name__ == "__main__":
    main()
