"""One selection on every page of measurements: in the address, after a reload, in another browser, on the timeline."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from test_browser import browser, playwright, pytestmark  # noqa: F401
from timeline_screen import Screen, awake, late, screen, server, store  # noqa: F401

#: Lenses in which a moment is selected, and the button that does it.
LENSES = {
    "Kernels": "select_sequence", "Launch": "select_launch_short", "Copies": "select_copy",
    "Communication": "select_longest", "Memory": "select_memory_peak", "Counters": "select_counter",
    "Efficiency": "select_efficiency",
}  # fmt: skip
OTHERS = ("Flame", "Parallel")
WORDS = ("ranks", "steps", "window", "problem", "span")


def selected(page: playwright.Page) -> dict[str, str]:
    query = parse_qs(urlsplit(page.url).query)
    return {word: query[word][0] for word in WORDS if word in query}


def bar(page: playwright.Page) -> str:
    """What the bar says of the window."""
    said = page.locator(".st-key-selection [data-testid='stPopover'] button").filter(has_text=" from ").first
    said.wait_for(timeout=60_000)
    return str(said.inner_text())


def opened(page: playwright.Page, url: str) -> None:
    page.goto(url)
    page.locator(".st-key-selection").wait_for(timeout=60_000)
    page.wait_for_function("!document.querySelector('[data-testid=stStatusWidget]')", timeout=60_000)


def through_the_menu(page: playwright.Page, name: str) -> None:
    """Another lens as a visitor gets there: by a link within the page, so the session goes on."""
    page.get_by_text("Look closer").first.click()
    page.locator(f"a[href*='/{name}']").first.click()
    page.wait_for_url(re.compile(f"/{name}"))
    page.locator(".st-key-selection").wait_for(timeout=60_000)


def test_a_selection_of_any_lens_is_that_of_the_others(
    late: Screen, server: str, store: dict[str, str], browser: playwright.Browser  # noqa: F811
) -> None:  # fmt: skip
    """From each lens to the next and one of those that select nothing; from the last one to all of them."""
    page, run = late.page, store["late"]
    names, told = list(LENSES), dict[str, str]()
    for at, (lens, button) in enumerate(LENSES.items()):
        opened(page, f"{server}/{lens}?run={run}&lang=en")
        assert selected(page) == {}, lens
        page.locator(f".st-key-{button} button").first.click(timeout=60_000)
        page.wait_for_function("location.search.includes('window=')")
        told = selected(page)
        assert {"ranks", "window"} <= told.keys(), lens
        shown = bar(page)
        near = [names[(at + 1) % len(names)], OTHERS[at % len(OTHERS)]]
        for other in near if at < len(names) - 1 else [*names[:-1], *OTHERS]:
            through_the_menu(page, other)
            page.wait_for_function("word => location.search.includes(word)", arg=f"window={told['window']}")
            assert selected(page) == told, f"{lens} -> {other}"
            assert bar(page) == shown, f"{lens} -> {other}"
        page.reload()
        page.locator(".st-key-selection").wait_for(timeout=60_000)
        assert selected(page) == told, lens
    words = "&".join(f"{word}={text}" for word, text in told.items())
    elsewhere = browser.new_context()
    try:
        other = elsewhere.new_page()
        opened(other, f"{server}/Communication?run={run}&lang=en&{words}")
        assert selected(other) == told
    finally:
        elsewhere.close()
    page.locator(".st-key-selection_clear button").click()
    page.wait_for_function("!location.search.includes('window=')")
    assert selected(page) == {}
    assert [error for error in late.errors if "404" not in error] == []  # Streamlit asks for files below a page's path


def test_an_area_of_the_timeline_narrows_a_lens_and_back(late: Screen, store: dict[str, str]) -> None:  # noqa: F811
    """What is dragged on the canvas is what the lens measures; what the lens selects is the canvas's area."""
    page = late.page
    late.drag(500, 300, 800, 420)
    area = late.hook("area")
    page.wait_for_function("location.search.includes('window=')")
    window = f"{area['from']}-{area['to']}"
    assert selected(page)["window"] == window
    through_the_menu(page, "Kernels")
    assert selected(page)["window"] == window
    page.locator(".st-key-selection [data-testid='stPageLink'] a").click()
    late.settle()
    assert (late.hook("area")["from"], late.hook("area")["to"]) == (area["from"], area["to"])
