"""A selection made in any lens is that of all others: in the address, on the bar, loaded again, in another browser.

    python -m tests.screen.selection [CAPTURE] [--lens NAME ...]

In each lens that selects a moment, that is done by its button. Every other lens is then opened from the menu, as a
visitor goes there, and must have the same words in the address and the same window on the bar. The page is loaded
again, and its address opened in a second browser. What differs is printed. Ends with 1 where anything did.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.bench.shots import _browser, _load, _served
from tests.screen.pages import ROOT

#: Lenses in which a moment is selected, and the button that does it.
LENSES = {
    "Kernels": "select_sequence", "Launch": "select_launch_short", "Copies": "select_copy",
    "Communication": "select_longest", "Memory": "select_memory_peak", "Counters": "select_counter",
    "Efficiency": "select_efficiency",
}  # fmt: skip
OTHERS = ("Flame", "Parallel")
WORDS = ("ranks", "steps", "window", "problem", "span")
_PATIENCE_MS = 60_000


def selected(page: Any) -> dict[str, str]:
    """What the address says is selected."""
    query = parse_qs(urlsplit(page.url).query)
    return {word: query[word][0] for word in WORDS if word in query}


def bar(page: Any) -> str:
    """What the bar says of the window."""
    said = page.locator(".st-key-selection [data-testid='stPopover'] button").filter(has_text=" from ").first
    said.wait_for(timeout=_PATIENCE_MS)
    return str(said.inner_text())


def entered(page: Any, address: str) -> None:
    """A lens by its address."""
    page.goto(address)
    page.locator(".st-key-selection").wait_for(timeout=_PATIENCE_MS)
    page.wait_for_function("!document.querySelector('[data-testid=stStatusWidget]')", timeout=_PATIENCE_MS)


def through_the_menu(page: Any, name: str) -> None:
    """Another lens as a visitor gets there: by a link within the page, so the session goes on."""
    page.get_by_text("Look closer").first.click()
    page.locator(f"a[href*='/{name}']").first.click()
    page.wait_for_url(re.compile(f"/{name}"))
    page.locator(".st-key-selection").wait_for(timeout=_PATIENCE_MS)


def carried(page: Any, url: str, run: str, lens: str, others: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Selects in a lens and goes to others: what was selected, and where something else was there."""
    wrong = []
    entered(page, f"{url}/{lens}?run={run}&lang=en")
    if before := selected(page):
        wrong.append(f"{lens} begins with {before}")
    page.locator(f".st-key-{LENSES[lens]} button").first.click(timeout=_PATIENCE_MS)
    page.wait_for_function("location.search.includes('window=')")
    told, shown = selected(page), bar(page)
    if not {"ranks", "window"} <= told.keys():
        wrong.append(f"{lens} selects {told}")
    for other in others:
        through_the_menu(page, other)
        page.wait_for_function("word => location.search.includes(word)", arg=f"window={told['window']}")
        if (selected(page), bar(page)) != (told, shown):
            wrong.append(f"{lens} -> {other}: {selected(page)}, {bar(page)}, not {told}, {shown}")
    page.reload()
    page.locator(".st-key-selection").wait_for(timeout=_PATIENCE_MS)
    if selected(page) != told:
        wrong.append(f"{lens}, loaded again: {selected(page)}, not {told}")
    return told, wrong


def main() -> None:
    asked = _asked()
    bad = pairs = 0
    with tempfile.TemporaryDirectory() as made:
        store = Path(made) / "store"
        run = _load(asked.capture, store)
        with _served(store) as url, _browser() as browser:
            for lens in asked.lens:
                context, second = (browser.new_context(reduced_motion="reduce") for _ in range(2))
                page, elsewhere = context.new_page(), second.new_page()
                page.goto(url)  # until the first page of all, a server does not know the others
                page.get_by_text("npulens").first.wait_for(timeout=_PATIENCE_MS)
                others = [name for name in (*LENSES, *OTHERS) if name != lens]
                told, wrong = carried(page, url, run, lens, others)
                entered(elsewhere, page.url)
                if selected(elsewhere) != told:
                    wrong.append(f"{lens}, in another browser: {selected(elsewhere)}, not {told}")
                pairs, bad = pairs + len(others), bad + len(wrong)
                print(f"{lens}: {told}, to {len(others)} lenses; {len(wrong)} wrong", flush=True)
                print("".join(f"  {each}\n" for each in wrong), end="", flush=True)
                context.close()
                second.close()
    print(f"{pairs} ways from a lens to another, {bad} wrong")
    sys.exit(1 if bad else 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.screen.selection", description="One selection everywhere.")
    parser.add_argument("capture", nargs="?", type=Path, default=ROOT / "sample_traces" / "late_rank")
    parser.add_argument("--lens", nargs="+", default=tuple(LENSES), choices=tuple(LENSES))
    return parser.parse_args()


if __name__ == "__main__":
    main()
