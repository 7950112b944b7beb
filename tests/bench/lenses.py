"""From a click on a lens to what it shows, lens after lens of one large run, in a real browser.

    python -m tests.bench.lenses [--lens NAME...] [--cold] [--replicate 160 | --store DIR --run RUN]

One visitor opens the workspace of a run that was looked at before. Once its problems stand and what is computed behind
them is there, every lens is clicked twice: the first time the server measures, the second time it has measured.
`--cold`: each lens is the first page that a server shows after its start. The clock stops when the script of the page
has ended, nothing on it is of the lens before, and that has held for a moment, which is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from npulens.app import run_open
from tests.bench import large
from tests.bench.shots import _browser, _served

#: Lenses that measure a run; the others look at many runs, or at none.
OF_A_RUN = ("Kernels", "Launch", "Copies", "Communication", "Memory", "Counters", "Efficiency", "Parallel", "Flame",
            "Timeline", "Requests", "Bench", "Laboratory", "Compatibility")  # fmt: skip
#: Told of the page itself: whether it rests, for how long it has to, and milliseconds since the click.
CLICK = """async ([lens, rest, patience]) => {
    const app = () => document.querySelector('[data-testid=stApp]');
    const rests = () => location.pathname.includes(lens) && app()?.dataset.testScriptState === 'notRunning'
        && !document.querySelector('[data-testid=stMain] [data-stale=true]')
        && document.querySelector('[data-testid=stMain] [data-testid=stElementContainer]');
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const began = performance.now();
    document.querySelector(`a[href*="/${lens}"]`).click();
    let since = null, now = began;
    while (now - began < patience) {
        await frame();
        now = performance.now();
        since = rests() ? since ?? now : null;
        if (since !== null && now - since >= rest) return since - began;
    }
    return null;
}"""
REST_MS, PATIENCE_MS = 400, 300_000
#: After the problems stand, what pages ask next is computed behind the page.
BEHIND_MS = 15_000
WANTED_S, COLD_S = 1.0, 2.0


def clicked(page: Any, lens: str) -> float:
    """Seconds from the click on a lens, in the open menu, until it rests."""
    page.get_by_text("Look closer").first.click()
    page.locator(f'a[href*="/{lens}"]').first.wait_for()
    took = page.evaluate(CLICK, [lens, REST_MS, PATIENCE_MS])
    if took is None:
        raise SystemExit(f"{lens} did not come to rest within {PATIENCE_MS / 1e3:.0f} s")
    return float(took) / 1e3


def opened(browser: Any, url: str, run: str, lens: str = "") -> tuple[Any, float]:
    """A page of a visitor, and the seconds until it rests."""
    page = browser.new_page(
        viewport={"width": 1440, "height": 1000}, locale="en-US", reduced_motion="reduce", bypass_csp=True
    )
    began = time.perf_counter()
    page.goto(f"{url}/{lens}?lang=en&run={run}")
    page.locator(".st-key-brand").wait_for(timeout=PATIENCE_MS)
    page.wait_for_function(
        "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'", timeout=PATIENCE_MS
    )
    return page, time.perf_counter() - began


def warm(store: Path, run: str, lenses: list[str]) -> list[tuple[str, float, float]]:
    """Each lens clicked twice, by one visitor."""
    with _served(store) as url, _browser() as browser:
        page, _ = opened(browser, url, run)
        page.locator(".st-key-answer").first.wait_for(timeout=PATIENCE_MS)
        page.wait_for_timeout(BEHIND_MS)
        first = [clicked(page, lens) for lens in lenses]
        again = [clicked(page, lens) for lens in lenses]
    return list(zip(lenses, first, again, strict=True))


def cold(store: Path, run: str, lenses: list[str]) -> list[tuple[str, float]]:
    """Each lens as the first page of a server; the workspace too."""
    found = []
    for lens in ["", *lenses]:
        with _served(store) as url, _browser() as browser:
            found.append((lens or "Workspace", opened(browser, url, run, lens)[1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lens", nargs="+", choices=OF_A_RUN, default=list(OF_A_RUN))
    parser.add_argument("--cold", action="store_true", help="each as the first page of a server")
    large.options(parser)
    options = parser.parse_args()
    if len(options.lens) < 2:
        parser.error("a click leads from one lens to another: name at least two")
    store, run, spans = large.chosen(options)
    run_open.keep(store, run)
    if options.cold:
        print(f"# The first page of a server, a run of {spans:,} spans\n\n| page | s |\n|---|--:|")
        seen = cold(store, run, options.lens)
        for lens, took in seen:
            print(f"| {lens} | {took:.2f} |")
        slow = [lens for lens, took in seen if took > COLD_S]
        print(f"\nmedian {statistics.median(took for _, took in seen):.2f} s; above {COLD_S:g} s: "
              f"{', '.join(slow) or 'none'}")  # fmt: skip
        return
    print(f"# From a click on a lens to its page, a run of {spans:,} spans\n")
    print("| lens | first s | again s |\n|---|--:|--:|")
    pairs = warm(store, run, options.lens)
    for lens, first, again in pairs:
        print(f"| {lens} | {first:.2f} | {again:.2f} |")
    slow = [lens for lens, first, _ in pairs if first > WANTED_S]
    print(f"\nabove {WANTED_S:g} s the first time: {', '.join(slow) or 'none'}")


if __name__ == "__main__":
    main()
