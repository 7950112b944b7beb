"""The timeline in a real browser: moving, zooming, selecting, by every key and gesture of its help."""

# ruff: noqa: F811 -- a fixture is asked for by its name
from __future__ import annotations

import io
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from test_browser import CHROMIUM, Visit, browser, playwright  # noqa: F401
from timeline_screen import Screen, awake, late, screen, server, store  # noqa: F401

from npulens.app.charts import roles

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]
ENOUGH = 500  # pixels of a colour that are no accident


def test_the_keys_move_the_window(late: Screen) -> None:
    whole = late.length
    late.point(700, 300)
    late.press("w")
    assert late.length < whole * 0.7
    zoomed = late.view
    late.press("d")
    assert late.view[0] > zoomed[0] and late.length == pytest.approx(zoomed[1] - zoomed[0], abs=2)
    late.press("a")
    assert late.view == pytest.approx(zoomed, abs=2)
    late.press("ArrowRight")
    assert late.view[0] > zoomed[0]
    late.press("ArrowLeft")
    assert late.view == pytest.approx(zoomed, abs=2)
    late.press("s")
    assert late.length > zoomed[1] - zoomed[0]
    for key in ("+", "-", "w", "Home"):
        late.press(key)
    assert late.length >= whole
    late.press("w")
    late.press("0")
    assert late.length >= whole


def test_the_rows_scroll_by_keys_and_wheel(late: Screen) -> None:
    late.point(700, 300)
    late.press("ArrowDown")
    assert late.hook("state.y") == "60"
    late.press("ArrowUp")
    assert late.hook("state.y") == ""
    late.press("PageDown")
    far = int(late.hook("state.y"))
    assert far > 100
    late.press("PageUp")
    late.page.mouse.wheel(0, 120)
    late.page.wait_for_timeout(100)
    late.settle()
    assert late.hook("state.y") == "120"
    before = late.view
    late.page.keyboard.down("Shift")
    late.page.mouse.wheel(0, 100)
    late.page.keyboard.up("Shift")
    late.page.wait_for_timeout(100)
    late.settle()
    assert late.view[0] > before[0]


def test_the_wheel_zooms_at_the_pointer(late: Screen) -> None:
    late.show(50_000_000, 150_000_000)
    late.point(700, 300)
    at = late.view[0] + (700 - 232) / (late.width - 232) * late.length
    late.page.keyboard.down("Control")
    late.page.mouse.wheel(0, -300)
    late.page.keyboard.up("Control")
    late.page.wait_for_timeout(100)
    late.settle()
    assert late.length < 60_000_000
    assert late.view[0] + (700 - 232) / (late.width - 232) * late.length == pytest.approx(at, abs=200_000)


@pytest.mark.parametrize("key", ["Shift", "Control"])
def test_a_drag_with_shift_or_ctrl_moves_the_picture(late: Screen, key: str) -> None:
    late.show(50_000_000, 150_000_000)
    late.drag(800, 300, 600, 200, key)
    shift = 200 / (late.width - 232) * 100_000_000
    assert late.view[0] == pytest.approx(50_000_000 + shift, rel=0.01)
    assert late.hook("state.y") == "100"


def test_a_drag_with_alt_zooms_to_the_box(late: Screen) -> None:
    late.show(0, 100_000_000)
    late.drag(500, 200, 700, 300, "Alt")
    scale = 100_000_000 / (late.width - 232)
    assert late.view[0] == pytest.approx((500 - 232) * scale, rel=0.01)
    assert late.view[1] == pytest.approx((700 - 232) * scale, rel=0.01)


def test_the_strip_at_the_top_moves_the_window(late: Screen) -> None:
    late.show(0, 20_000_000)
    late.drag(300, 10, 900, 10)
    assert late.view[0] > 100_000_000 and late.length == 20_000_000


def test_a_drag_selects_an_area_and_sums_it_up(late: Screen) -> None:
    page = late.page
    late.drag(500, 120, 900, 400)
    area = late.hook("area")
    assert len(area["tracks"]) > 1
    rows = page.locator(".drawerbody tbody tr")
    rows.first.wait_for(timeout=20_000)
    assert rows.count() > 3
    page.get_by_role("button", name="Sort by Count").click()
    counts = late.column(4)
    assert counts == sorted(counts, reverse=True)
    page.get_by_role("button", name="Sort by Count").click()
    counts = late.column(4)
    assert counts == sorted(counts)
    assert late.query()["area"].startswith(f"{area['from']},{area['to']},")
    late.drag(500, 40, 900, 42)  # in the ruler: every row
    assert len(late.hook("area")["tracks"]) >= len(area["tracks"])
    late.press("Escape")
    assert late.hook("area") is None
    assert page.locator(".drawer").is_hidden()


def test_a_click_tells_everything_of_a_span_and_arrows_lead_on(late: Screen) -> None:
    page = late.page
    span = late.kernel()
    late.pick(span)
    drawer = page.locator(".drawer").inner_text()
    assert span["name"] in drawer
    assert f"{span['ts']:,} ns" in drawer and f"{span['dur']:,} ns" in drawer
    picked = late.hook("picked")
    assert picked["id"] == span["id"] and picked["links"]
    late.press("f")
    assert late.view[0] < span["ts"] and late.view[1] > span["ts"] + span["dur"] and late.length < 3 * span["dur"] + 20
    ends = late.hook("ends")
    assert ends, "the host is far away: its arrow ends in a marker"
    late.click(ends[0]["x"], ends[0]["y"])
    assert late.hook("picked")["id"] == ends[0]["id"]
    late.press("f")
    late.press("f")
    assert late.length > 100_000_000  # the second time: everything


def test_the_area_of_a_span_and_its_neighbours(late: Screen) -> None:
    span = late.kernel()
    late.pick(span)
    late.press(".")
    after = late.hook("picked")
    assert after["ts"] >= span["ts"] + span["dur"] and after["track"] == span["track"]
    late.press(",")
    assert late.hook("picked")["id"] == span["id"]
    late.press("r")
    area = late.hook("area")
    assert (area["from"], area["to"]) == (span["ts"], span["ts"] + span["dur"])
    late.press("q")
    assert late.page.locator(".drawer").is_hidden()
    late.press("q")
    assert late.page.locator(".drawer").is_visible()


def test_a_cell_never_poses_as_a_span(screen: Screen, store: dict[str, str]) -> None:
    late = screen
    late.go(store["long"], "&fold=-")
    cell = next(
        one for one in late.hook("visible(20000)")
        if one.get("cell") and one["n"] > 1 and not one["gap"] and one["x"] > 240 and 60 < one["y"] < late.height - 30
    )  # fmt: skip
    late.point(cell["x"] + 0.5, cell["y"])
    tip = late.page.locator(".tip").inner_text()
    assert f"{cell['n']:,} spans" in tip and "% busy, longest" in tip
    before = late.length
    late.click(cell["x"] + 0.5, cell["y"])
    assert late.hook("picked") is None
    assert late.length < before / 20
    assert late.view[0] <= cell["ts"] and late.view[1] >= cell["ts"] + cell["dur"]
    assert late.page.locator(".tip").is_hidden()


def test_the_critical_path_is_one_lane_whose_bars_lead_to_their_spans(late: Screen) -> None:
    """Four waits for the rank that nobody captured make most of it; a click says so and leads to the collective."""
    (row,) = [one for one in late.hook("rows") if one["label"] == "Critical path"]
    pieces = [one for one in late.hook("visible(9000)") if one["track"] == int(row["key"]) and not one.get("cell")]
    longest = max(pieces, key=lambda one: one["dur"])
    assert longest["name"] == "peer" and longest["dur"] == 153_187_403
    late.click((longest["x"] + longest["x1"]) / 2, row["y"] + row["h"] / 2)
    assert late.hook("picked")["path"] and late.hook("state.span") == f"path.{longest['id']}"
    drawer = late.page.locator(".drawer")
    assert "Critical path: Uncaptured rank" in drawer.inner_text() and "36 %" in drawer.inner_text()
    drawer.get_by_text("hcom_allReduce__848_2_1").click()
    late.settle()
    assert late.hook("picked")["name"] == "hcom_allReduce__848_2_1" and not late.hook("picked").get("path")
    late.page.locator("button.tracks").click()
    late.page.locator(".menu .line label", has_text="Critical path").locator("input").uncheck()
    late.settle()
    assert "Critical path" not in [one["label"] for one in late.hook("rows")]


def test_under_the_servers_own_policy_the_canvas_draws_and_answers(
    server: str, store: dict[str, str], browser: playwright.Browser
) -> None:
    """Everywhere else the policy is off, because a test could not wait for what a text evaluates to."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US", bypass_csp=False)
    visit = Visit(context.new_page(), server)
    answer = visit.page.goto(f"{server}/Timeline?run={store['late']}&lang=en&by=ranks")
    assert answer is not None and "script-src 'self' 'sha256-" in answer.headers["content-security-policy"]
    visit.page.locator("canvas.canvas").last.wait_for(timeout=60_000)
    waits = tuple(bytes.fromhex(roles.colour("waiting").removeprefix("#")))
    for _ in range(120):
        pixels = np.asarray(Image.open(io.BytesIO(visit.page.screenshot())).convert("RGB"))
        found = (pixels == waits).all(axis=2)
        if found.sum() > ENOUGH:
            break
        visit.page.wait_for_timeout(500)
    assert found.sum() > ENOUGH, "nothing that waits was drawn"
    widest = int(found.sum(axis=1).argmax())
    along = np.flatnonzero(found[widest])
    visit.page.mouse.click(int(along[len(along) // 2]), widest)
    visit.page.locator(".drawer .words").wait_for(timeout=60_000)
    visit.page.wait_for_url("**span=**", timeout=60_000)
    assert parse_qs(urlsplit(visit.page.url).query)["run"] == [store["late"]]
    assert [error for error in visit.errors if "404" not in error] == []  # Streamlit looks for its health below a page
    with pytest.raises(playwright.Error, match="Content Security Policy"):
        visit.page.add_script_tag(content="window.pwned = 1")
    context.close()
