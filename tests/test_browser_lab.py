"""The page Laboratory in a real browser: graphs are drawn inside their boxes, a choice is kept, nothing is cut."""

from __future__ import annotations

from pathlib import Path

import lab_result
import pytest
from test_browser import CHROMIUM, Visit, browser  # noqa: F401
from test_browser_efficiency import url, visit  # noqa: F401  # a server on the store of run_id, at two widths

from npulens import ingest
from npulens.analysis.look.laboratory import recorded_as
from npulens.app.text import i18n

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="module")
def run_id(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    place = tmp_path_factory.mktemp("laboratory")
    for side, name in (("original", "kineto"), ("sdpa", "late_rank")):
        ingest.load(ROOT / "sample_traces" / name, place / "store", label=recorded_as(lab_result.SUBJECT, side))
    (run,) = ingest.load(lab_result.write(place / "made", blocks=40), place / "store").runs
    return str(run.run_id), place / "store"


def test_graphs_are_drawn_and_both_timelines_stand_under_each_other(
    visit: Visit, run_id: tuple[str, Path]  # noqa: F811
) -> None:
    page, lang = visit.page, "zh" if (visit.page.viewport_size or {}).get("width") == 390 else "en"
    page.goto(f"{visit.url}/Laboratory?lang={lang}&run={run_id[0]}&rewrite=fold")
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length >= 3", timeout=120_000)
    page.get_by_text(i18n.say(lang, "laboratory.place_of", {"n": 40, "modules": ""}).strip(" ：:")).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.goto(f"{visit.url}/Laboratory?lang={lang}&run={run_id[0]}&rewrite=sdpa")
    page.locator(".annotation-text", has_text="+ scaled_dot_").first.wait_for(timeout=120_000)
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length >= 3", timeout=120_000)
    outside = page.evaluate(
        """() => [...document.querySelectorAll('.js-plotly-plot')].slice(1).map((plot) => {
          const boxes = [...plot.querySelectorAll('.shapelayer path')].map((path) => path.getBoundingClientRect());
          return [...plot.querySelectorAll('.annotation-text')].filter((text) => {
            const at = text.getBoundingClientRect();
            return !boxes.some((box) => box.left <= at.left + 1 && at.right <= box.right + 1 &&
                                        box.top <= at.top + 3 && at.bottom <= box.bottom + 3);
          }).map((text) => text.textContent);
        })"""
    )
    assert outside == [[]] * len(outside) and len(outside) >= 2  # no label hangs out of its box
    page.get_by_text(i18n.say(lang, "laboratory.timelines")).click()
    canvas = page.locator("canvas.canvas")
    canvas.nth(1).wait_for(timeout=120_000)
    page.wait_for_timeout(1_500)  # what is above them moves until fonts are there
    boxes = [canvas.nth(place).bounding_box() for place in (0, 1)]
    tops = [box["y"] for box in boxes if box is not None]
    assert tops[1] - tops[0] >= 480  # one under the other
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert [error for error in visit.errors if "404" not in error] == []
    assert visit.outside() == []
