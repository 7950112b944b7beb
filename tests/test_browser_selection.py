"""One selection on every page of measurements: in the address, after a reload, in another browser, on the timeline."""

from __future__ import annotations

from test_browser import browser, playwright, pytestmark  # noqa: F401
from timeline_screen import Screen, awake, late, screen, server, store  # noqa: F401

from tests.screen.selection import LENSES, OTHERS, carried, entered, selected, through_the_menu


def test_a_selection_of_any_lens_is_that_of_the_others(
    late: Screen, server: str, store: dict[str, str], browser: playwright.Browser  # noqa: F811
) -> None:  # fmt: skip
    """From each lens to the next and one of those that select nothing; python -m tests.screen.selection: to all."""
    page, run = late.page, store["late"]
    names, told = list(LENSES), dict[str, str]()
    for at, lens in enumerate(names):
        told, wrong = carried(page, server, run, lens, [names[(at + 1) % len(names)], OTHERS[at % len(OTHERS)]])
        assert wrong == []
    words = "&".join(f"{word}={text}" for word, text in told.items())
    elsewhere = browser.new_context()
    try:
        other = elsewhere.new_page()
        entered(other, f"{server}/Communication?run={run}&lang=en&{words}")
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
