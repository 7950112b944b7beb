"""From P99 to a kernel in three clicks, photographed: `python -m tests.serving.film [--captures DIR] [--out DIR]`.

Writes `requests_film.gif`, a frame before and after each click on a profiled run. `slow_request.png` is a slow request
of a run with long prompts, with its iterations. Nothing is judged here: a person looks.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from npulens import ingest
from npulens.analysis.serving import look
from npulens.ingest.store import runs as stores
from tests.bench.shots import ROOT, _browser, _served
from tests.screen.pages import opened
from tests.serving.known import CAPTURES

#: Of the film: pixels of the page, and of a frame; how long each stands.
_PAGE, _FRAME, _STANDS_MS = (1280, 860), (960, 645), 2600
_ROW_PX, _COLOURS = 35, 96
#: Rows that a table shows without scrolling.
_REQUESTS, _PARTS = 5, 9


@dataclass(frozen=True)
class Clicks:
    """Where the three clicks go: the percentile, the row of a request, the row of a part with kernels."""

    percentile: str
    request: int
    part: int


def way(store: Path, run_id: str) -> Clicks:
    """The first request and part of the slowest in whose iteration kernels were recorded."""
    with stores.open_run(store, run_id) as con:
        found = look.look(con)
        assert found is not None
        for measure, percent in (("tpot", 99), ("tpot", 90), ("ttft", 90)):
            for row, key in enumerate(look.near(found.rows, measure, percent)["key"].tolist()[:_REQUESTS]):
                around = look.around(con, int(key))
                if around is None or around.rank is None:
                    continue
                mine = around.pieces[around.pieces["request"] == key]
                mine = mine.sort_values("dur_ns", ascending=False, kind="stable")
                for at, part in enumerate(mine.head(_PARTS).itertuples()):
                    place = None if part.iteration is None or part.iteration != part.iteration else int(part.iteration)
                    inner = look.inside(con, int(part.ts_ns), int(part.dur_ns), place, around.rank)
                    if row and at and place is not None and len(inner.kernels):
                        return Clicks(f"{measure.upper()} P{percent}", row, at)
    raise SystemExit("no part of a slow request lies in the profile")


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.serving.film")
    asked.add_argument("--captures", type=Path, default=CAPTURES / "made+vllm-0.32.0-cpu")
    asked.add_argument("--out", type=Path, default=ROOT / "docs")
    options = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="npulens-film-") as place:
        store = Path(place) / "store"
        names = ("B_long_prompts", "E_profiled")
        long, traced = (
            next(str(run.run_id) for run in ingest.load(options.captures / name, store, label=name).runs)
            for name in names
        )
        clicks = way(store, traced)
        with _served(store) as url, _browser() as browser:
            page = browser.new_page(
                viewport={"width": _PAGE[0], "height": 2400}, locale="en-US", reduced_motion="reduce"
            )
            opened(page, url, "Requests", long)
            _axis(page, options.out / "slow_request.png")
            page.set_viewport_size({"width": _PAGE[0], "height": _PAGE[1]})
            opened(page, url, "Requests", traced)
            frames = _film(page, clicks)
        frames[0].save(options.out / "requests_film.gif", save_all=True, append_images=frames[1:],
                       duration=_STANDS_MS, loop=0, optimize=True)  # fmt: skip
    for name in ("slow_request.png", "requests_film.gif"):
        print(f"{options.out / name}: {(options.out / name).stat().st_size:,} bytes")


def _axis(page: Any, target: Path) -> None:
    """The slowest request by TTFT with the engine, and its parts below."""
    chart = page.locator("[data-testid=stPlotlyChart]").nth(1)
    chart.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    box = chart.bounding_box()
    clip = {"x": box["x"] - 12, "y": box["y"] - 60, "width": box["width"] + 24, "height": box["height"] + 70}
    target.write_bytes(_small(page.screenshot(clip=clip)))


def _small(picture: bytes) -> bytes:
    """The picture with fewer colours."""
    made = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(_COLOURS).save(made, "PNG", optimize=True)
    return made.getvalue()


def _film(page: Any, clicks: Clicks) -> list[Image.Image]:
    """A frame before each click, with a ring where it goes, and one behind the last."""
    control = page.get_by_role("radio", name=clicks.percentile).or_(
        page.locator("[data-testid=stButtonGroup] button", has_text=clicks.percentile)
    ).first  # fmt: skip
    frames = [_shot(page, ())]
    frames += _clicked(page, control, None)
    tables = page.locator("[data-testid=stDataFrame]")
    frames += _clicked(page, tables.nth(0), clicks.request)
    frames += _clicked(page, tables.nth(1), clicks.part)
    page.evaluate("document.querySelector('#inside').scrollIntoView({block: 'start'})")
    page.wait_for_timeout(900)
    return [*frames, _shot(page, ())]


def _clicked(page: Any, target: Any, row: int | None) -> list[Image.Image]:
    """Scrolls there, rings it, clicks, and waits until the page rests."""
    target.scroll_into_view_if_needed()
    page.wait_for_timeout(700)
    box = target.bounding_box()
    at = (
        (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        if row is None
        else (box["x"] + 120, box["y"] + (row + 1.5) * _ROW_PX)
    )
    ringed = _shot(page, at)
    page.mouse.click(*at)
    for _ in range(3):
        page.wait_for_timeout(500)
        page.wait_for_function(
            "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'", timeout=120_000
        )
    page.wait_for_timeout(900)
    return [ringed, _shot(page, ())]


def _shot(page: Any, ring: Sequence[float]) -> Image.Image:
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    if ring:
        x, y = ring
        ImageDraw.Draw(picture).ellipse((x - 22, y - 22, x + 22, y + 22), outline=(214, 40, 40), width=4)
    return picture.resize(_FRAME, Image.Resampling.LANCZOS).quantize(_COLOURS)


if __name__ == "__main__":
    main()
