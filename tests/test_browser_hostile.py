"""Every kind of hostile name in every place a capture can hold one, in a real browser: nothing acts, nothing asks,
nothing is lost of the text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hostile_names import NAMES, word
from hostile_screen import (  # noqa: F401
    Held,
    browser,
    choices,
    downloads,
    harmless,
    held,
    hover,
    opened,
    quoted,
    server,
    unfold,
    watch,
)
from hostile_watch import Watch
from test_browser import CHROMIUM
from timeline_screen import Screen

from npulens.ingest.store import runs

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]
PAGES = ("", "?panel=time", "?panel=ranks", "?panel=recorded", "?panel=checks", "Efficiency", "Kernels", "Launch",
         "Copies", "Communication", "Memory", "Counters", "Compare", "Runs", "Learn")  # fmt: skip


def test_every_kind_of_name_is_in_every_place(held: Held) -> None:  # noqa: F811
    """As the reader keeps them: a text that cannot be one may come as another, none may be lost."""
    places = {
        "span": ("name",), "kernel": ("op_type", "input_shapes", "input_dtypes"), "comm": ("group_name",),
        "host_op": ("input_shapes", "input_dtypes"), "stack": ("frames",), "arg": ("args",), "track": ("name",),
        "sample": ("counter", "series"), "parallel_group": ("group_name",),
    }  # fmt: skip
    con = runs.open_run(held.store, held.runs["kineto"])
    for table, columns in places.items():
        known = {row[0] for row in con.execute(f"DESCRIBE {table}").fetchall()}
        for column in columns:
            if column not in known:
                continue
            texts = " ".join(str(row[0]) for row in con.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall())
            lost = [kind for kind in NAMES if word(kind) not in texts]
            assert lost in ([], list(NAMES)), (table, column)
    con.close()


# With every table's file taken along and every box of choices opened, a walk takes minutes: that is for `make torture`.
@pytest.mark.parametrize(
    ("form", "lang"),
    [("ascend", "zh"), *(pytest.param(*each, marks=pytest.mark.torture)
                         for each in (("kineto", "zh"), ("kineto", "en"), ("ascend", "en")))],
)  # fmt: skip
def test_no_page_takes_a_name_for_anything_but_text(
    watch: Watch, held: Held, form: str, lang: str, tmp_path: Path  # noqa: F811
) -> None:
    tables = 0
    for name in PAGES:
        opened(watch, name, held.runs[form], lang)
        if not name or name.startswith("?"):
            watch.page.locator(".st-key-answer").first.wait_for(timeout=600_000)
        unfold(watch)
        hover(watch)
        watch.take()
        if lang == "en":
            tables += downloads(watch, tmp_path / "table.csv")
            choices(watch)
        assert watch.wrong == [], name
    assert len(watch.seen) >= 18, sorted(watch.seen)
    assert tables >= 12 or lang == "zh"


def test_answers_to_a_query_are_text(watch: Watch, held: Held, tmp_path: Path) -> None:  # noqa: F811
    page, said = watch.page, ("markdown_image", "formula_plus", "formula_wide", "icon", "latex", "script")
    heads = ", ".join(f'1 AS "{NAMES[kind].replace(chr(34), chr(39))}"' for kind in said)
    for query in (
        f"SELECT DISTINCT name, kind, name AS again, {heads} FROM span",
        "SELECT args FROM arg LIMIT 200",
        f"SELECT {NAMES['script']}",
        'SELECT "' + NAMES["markdown_image"] + '" FROM span',
    ):
        opened(watch, "Sql", held.runs["kineto"], "en", f"&sql={quoted(query)}")
        page.wait_for_timeout(1500)
        watch.settle()
        watch.take()
        for button in ("Download CSV", "Download JSON"):
            if not page.get_by_role("button", name=button).count():
                continue
            with page.expect_download(timeout=60_000) as waiting:
                page.get_by_role("button", name=button).click()
            waiting.value.save_as(tmp_path / button)
        downloads(watch, tmp_path / "table.csv")
        if (tmp_path / "Download CSV").exists():
            harmless(tmp_path / "Download CSV")
            json.loads((tmp_path / "Download JSON").read_text("utf-8"))
    assert watch.wrong == [] and (tmp_path / "Download CSV").exists()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_timeline_draws_tells_finds_and_exports_names_as_they_are(
    watch: Watch, held: Held, lang: str, tmp_path: Path  # noqa: F811
) -> None:
    page = watch.page
    screen = Screen(page, watch.url)
    screen.go(held.runs["kineto"], lang=lang)
    for menu in ("tracks", "marks", "legend", "files"):
        page.locator(f".bar button.{menu}").click()
        page.keyboard.press("Escape")
    for at, kind in enumerate(NAMES):
        if at % (1 if lang == "en" else 12):
            continue
        screen.show(1_000_000 * at, 1_000_000 * at + 900_000)
        spans = [span for span in screen.spans() if word(kind) in span["name"]]
        for span in spans[:6]:
            screen.point((span["x"] + span["x1"]) / 2, span["y"])
        if spans:
            screen.pick(spans[at % len(spans)])
    screen.press("t")
    page.wait_for_timeout(300)
    screen.press("Home")
    screen.press("m")
    for kind in ("script", "markdown_image", "bidi"):
        screen.press("/")
        page.locator("input[type=search]").first.fill(word(kind))
        page.locator(".hits .link").first.wait_for(timeout=20_000)
        page.keyboard.press("Enter")
        screen.settle()
        page.keyboard.press("Escape")
    watch.take()
    for text, ending in ((".png", "png"), ("perfetto", "json"), ("speedscope", "json")):
        page.locator(".bar button.files").click()
        button = page.locator(".menu:not(.hits) .link").nth({"png": 0}.get(ending, -3 if text == "perfetto" else -2))
        with page.expect_download(timeout=30_000) as waiting:
            button.click()
        waiting.value.save_as(tmp_path / f"{text}.{ending}")
        page.keyboard.press("Escape")
    trace = json.loads((tmp_path / "perfetto.json").read_text("utf-8"))
    profile = json.loads((tmp_path / "speedscope.json").read_text("utf-8"))
    names = {event["name"] for event in trace["traceEvents"]}
    frames = {frame["name"] for frame in profile["shared"]["frames"]}
    for kind, text in NAMES.items():
        if kind not in ("surrogate", "nul"):
            assert text in names and text in frames, kind
    assert watch.wrong == []
    assert len(watch.seen) >= (18 if lang == "en" else 6), sorted(watch.seen)
