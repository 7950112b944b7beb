"""From a click on Efficiency to what the page shows of a run with ten million spans.

    python -m tests.bench.roofs [--times 3] [--replicate 160 | --store DIR --run RUN]

Twice each time, with a server that has just been started. First from a page that measures nothing of it, so that all
of it is computed after the click; then from Overview, a while after its findings. The clock stops when the roofs, the
table of operators, the waterfall and the whole page stand in Chromium.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from tests.bench import large
from tests.bench.shots import _browser, _served, _wait

#: What is waited for, in this order.
PARTS = {
    "roofs": ".scatterlayer .points path", "table": "[data-testid=stDataFrame] canvas",
    "waterfall": ".barlayer .point",
}  # fmt: skip
#: After the findings stand, this is computed behind the page. How long that takes is not what is asked here.
BEHIND_MS = 15_000


def clicked(browser: Any, store: Path, run: str, start: str) -> list[float]:
    """Seconds from the click to each of PARTS and to the end."""
    with _served(store) as url:
        page = browser.new_page(viewport={"width": 1440, "height": 1000}, locale="en-US", reduced_motion="reduce")
        page.goto(f"{url}/{start}?lang=en&run={run}")
        _wait(page, judged=False)
        if not start:
            page.locator(".st-key-answer").first.wait_for(timeout=900_000)
            page.wait_for_timeout(BEHIND_MS)
        page.get_by_text("Look closer").first.click()
        link = page.locator('a[href*="Efficiency"]').first
        link.wait_for()
        began, found = time.perf_counter(), []
        link.click()
        for selector in PARTS.values():
            page.wait_for_selector(selector, state="attached", timeout=300_000)
            found.append(time.perf_counter() - began)
        page.wait_for_function(
            "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'", timeout=300_000
        )
        found.append(time.perf_counter() - began)
        page.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    large.options(parser)
    options = parser.parse_args()
    store, run, spans = large.chosen(options)
    for start, means in (("Counters", "nothing of it computed before"), ("", "a while after the findings of Overview")):
        with _browser() as browser:
            seen = [clicked(browser, store, run, start) for _ in range(options.times)]
        middle = [statistics.median(each) for each in zip(*seen, strict=True)]
        told = ", ".join(f"{name} {s:.1f} s" for name, s in zip([*PARTS, "all"], middle, strict=True))
        print(f"Efficiency of {spans:,} spans, {means}: {told} after the click (median of {options.times})", flush=True)


if __name__ == "__main__":
    main()
