"""The page of nights without a browser: the calendar, one night, both languages, nothing there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from npulens.app.nightly import regressions
from npulens.app.nightly.written import as_html, as_markdown
from npulens.app.pages.nights import charts
from tests.hostile_names import NAMES
from tests.nights.lab import Lab, job

PAIRS = 'base = { env = { VALUE = "100" } }\nhead = { env = { VALUE = "105" } }\n'


def page_of() -> None:
    from npulens.app import context
    from npulens.app.pages.nights import page as nights

    nights.render(context.current())


def opened(lang: str, query: Mapping[str, str]) -> AppTest:
    page = AppTest.from_function(page_of, default_timeout=120)
    for key, value in {"lang": lang, **query}.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception, page.exception[0].value
    return page


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in (*page.text, *page.header, *page.subheader))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A quiet night, one that regressed, and one with a task that failed."""
    found = Lab(tmp_path_factory.mktemp("nights"), "[night]\nrounds = 8\n" + job("quiet", "rounds = 1"))
    found.run("--night", "2026-03-01")
    found.path.write_text("[night]\nrounds = 8\n" + job("slow", PAIRS))
    found.run("--night", "2026-03-02")
    found.path.write_text(job("bad"))
    (found.folder / "bad.fails").touch()
    found.run("--night", "2026-03-03")
    return found


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_empty_store_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    page = opened(lang, {})
    assert [code.value for code in page.code] == ["npulens nightly nightly.toml"]


@pytest.mark.parametrize(("lang", "word"), [("en", "1 regression in 1 task"), ("zh", "1 个任务有 1 处变差")])
def test_a_night_says_what_regressed(lab: Lab, monkeypatch: pytest.MonkeyPatch, lang: str, word: str) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(lab.store))
    page = opened(lang, {"night": "2026-03-02"})
    assert word in texts(page) and "slow · step" in texts(page)
    (frame,) = page.dataframe
    assert frame.value["task"].tolist() == ["slow"] and frame.value["change"].tolist()[0].startswith("↑ ")


def test_the_newest_night_is_read_first_and_says_what_failed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(lab.store))
    page = opened("en", {})
    assert "bad: failed (0/3): it ended with status 1: the device is gone" in texts(page)
    assert page.selectbox[0].options[0].startswith("2026-03-03")


def test_a_night_that_died_has_no_report_and_the_page_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(lab.store))
    folder = lab.store / ".nights" / "nightly" / "2026-03-04"
    folder.mkdir()
    (folder / "journal.jsonl").write_text('{"what": "night", "label": "2026-03-04", "at_ns": 1, "steps": 9}\n{"wh')
    try:
        assert "Its journal holds 0 finished steps of 9" in texts(opened("en", {"night": "2026-03-04"}))
        assert (folder / "journal.jsonl").read_text().endswith('{"wh'), "looking changes nothing"
    finally:
        (folder / "journal.jsonl").unlink()
        folder.rmdir()


def test_the_calendar_places_every_night_on_its_weekday() -> None:
    says = dict.fromkeys(charts.MARKS, "word")
    days = [("2026-03-01", "quiet", "a"), ("2026-03-02", "regressed", "b"), ("2026-03-02.2", "broken", "c")]
    picture = charts.calendar(days, says, ["Mon", "Thu", "Sun"], "2026-03-02", "#000")
    placed = {trace.customdata[0]: (trace.x[0], round(trace.base[0] + trace.y[0] / 2)) for trace in picture.data}
    assert placed == {"2026-03-01": (0, 6), "2026-03-02": (1, 0), "2026-03-02.2": (1, 0)}, "a Sunday, then a Monday"


@pytest.mark.parametrize("name", NAMES)
def test_names_from_elsewhere_are_text_in_every_report(tmp_path: Path, lab: Lab, name: str) -> None:
    from msgspec.structs import replace

    night = lab.night("2026-03-02")
    row = replace(night.rows[0], task=name, metric=name, where=name, confirm=name)
    hostile = replace(night, rows=(row,))
    page = as_html.write(hostile, ("en", "zh"))
    assert "<script" not in page.lower() and "<img" not in page.lower() and "onerror=" not in page.replace("&quot;", "")
    assert "](http" not in as_markdown.write(hostile, ("en",)).replace("](http://127.0.0.1", "")


def test_an_open_regression_is_accepted_by_a_click(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, "[night]\nrounds = 8\n" + job("slow", PAIRS))
    lab.run("--night", "2026-03-01")
    monkeypatch.setenv("NPULENS_STORE", str(lab.store))
    page = opened("en", {"night": "2026-03-01"})
    assert "#1 open" in [caption.value for caption in page.caption]
    fields = {field.label: field for field in page.text_input}
    fields["Who decides"].set_value("mei")
    fields["Why"].set_value("exact softmax")
    next(button for button in page.button if button.label.startswith("Accept")).click()
    page.run()
    assert not page.exception
    (known,) = regressions.read(lab.store / ".nights" / "nightly")
    assert (known.state, known.who, known.why) == ("accepted", "mei", "exact softmax")
    assert "#1 accepted · mei · exact softmax" in [caption.value for caption in page.caption]
    assert lab.run("--night", "2026-03-02").exit_code == 0
