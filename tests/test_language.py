"""How the screen speaks: short sentences, three to four digits, and Chinese without English that has a Chinese word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.discovery import detectors
from npulens.analysis.say import FAMILIES, on_device, size
from npulens.analysis.settings import DEFAULT
from npulens.app.text import i18n
from npulens.ingest.messages import catalogue

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = ROOT / "app" / "dashboard.py"
MOST_WORDS, MOST_CHINESE = 22, 45
#: Pages of the run that the walk looks at, and panels of the first one.
PAGES = ("Workspace", "Kernels", "Launch", "Copies", "Communication", "Memory", "Counters", "Efficiency", "Runs")


def texts() -> Iterator[tuple[str, str, str]]:
    """(where, English, Chinese) of everything that is said anywhere."""
    for key, (english, chinese) in {**i18n.texts(), **catalogue(), **CAUSES, **GAP_ONLY}.items():
        yield key, english, chinese
    for detector in detectors(DEFAULT):
        for name, english in detector.text["en"].items():
            chinese = detector.text["zh"][name]
            for family in FAMILIES:
                yield f"{detector.name}.{name}.title", *(on_device(each.title, family) for each in (english, chinese))
                yield f"{detector.name}.{name}.advice", *(on_device(each.advice, family) for each in (english, chinese))


def filled(text: str) -> str:
    """With a value in every blank: a number, which is one word."""
    return re.sub(r"%?\{+[^{}]*\}+", "12", re.sub(r"`[^`]*`", "X", text))


def sentences(text: str, ends: str) -> list[str]:
    return [part for part in re.split(ends, filled(text)) if part.strip()]


def too_long(english: str, chinese: str) -> list[str]:
    """Sentences of either that are over their bound."""
    said = [each for each in sentences(english, r"(?<=[.!?])[\"')]*\s+|\n|<br>") if words(each) > MOST_WORDS]
    read = [each for each in sentences(chinese, r"[。！？\n]|<br>") if len(HAN.findall(each)) > MOST_CHINESE]
    return said + read


HAN = re.compile(r"[\u4e00-\u9fff]")


def words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def test_no_sentence_is_long() -> None:
    wrong = [f"{where}: {each}" for where, english, chinese in texts() for each in too_long(english, chinese)]
    assert wrong == []


def test_a_long_sentence_is_found() -> None:
    assert too_long("One word. " + "word " * 22 + "{n}", "一") == ["word " * 22 + "12"]
    assert too_long("`one two` " + "word " * 21, "一" * 45 + "。二") == []
    assert too_long("", "一" * 46) == ["一" * 46]


def glossary() -> set[str]:
    """What stays English in Chinese, as docs/glossary.md lists it."""
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8").split("## Stays English")[1]
    return {word.lower() for line in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[A-Za-z][\w-]*", line)}


def english_in(chinese: str) -> list[str]:
    """Lower-case English words, without code, commands, options, names of files and what is filled in."""
    text = re.sub(
        r"`[^`]*`|%?\{+[^{}]*\}+|https?://\S+|<[^>]*>|npulens \w+(?: \w+)?|pip install|git lfs pull|\w+[:>~]\w*",
        " ",
        chinese,
    )
    text = re.sub(r"[\w.*/\[\]-]*[_./=()*\\\[][\w.*/=()\[\]-]*|(?<!\w)--?[\w-]+", " ", text)
    return re.findall(r"(?<![A-Za-z0-9-])[a-z]{2,}[a-z-]*(?![A-Za-z0-9])", text)


def test_no_english_is_left_in_chinese() -> None:
    known = glossary()
    wrong = {word: key for key, _, chinese in texts() for word in english_in(chinese) if word not in known}
    assert wrong == {}, "docs/glossary.md says what stays English"


def test_english_in_chinese_is_found() -> None:
    assert english_in("每个 step 的 share of time，`min_share` {name} npulens load X --files a.json") == [
        "step", "share", "of", "time",
    ]  # fmt: skip


def test_every_detector_says_its_thresholds_in_words() -> None:
    """A limit's name is `min_share`; the screen and the report say what it is."""
    from dataclasses import fields

    names = {limit.name for detector in detectors(DEFAULT) for limit in fields(detector.limits)}
    assert [name for name in sorted(names) if not i18n.known(f"limits.{name}")] == []


UNITS = r"(?:ns|µs|us|ms|s|B|kB|MB|GB|TB|KiB|MiB|GiB|%|GB/s|MB/s|TFLOP/s|W|°C|MHz)"
FIGURE = re.compile(rf"(?<![\w.:/-])[-+−]?(\d[\d,]*(?:\.\d+)?)\s?({UNITS})?(?![\w:/-]|\.\d)")


def over(text: str) -> list[str]:
    """Figures of more than four digits; whole numbers without a unit, and whole nanoseconds and bytes, are exact."""
    found = []
    for match in FIGURE.finditer(re.sub(r"\d{4}-\d\d-\d\d|\d+:\d\d(?::\d\d)?|\d+(?:\.\d+){2,}", "", text)):
        number, unit = match[1].replace(",", ""), match[2]
        digits = number.replace(".", "").lstrip("0")
        exact = "." not in number and unit in (None, "ns", "B")
        if len(digits) > 4 and not exact:
            found.append(match[0])
    return found


def test_figures_of_too_many_digits_are_found() -> None:
    assert over("150.995456 MB, 2,163,435.686534 and -0.0060884") == ["150.995456 MB", "2,163,435.686534", "-0.0060884"]
    assert over("12345 ms") == ["12345 ms"]
    assert over("346.7 ms (346,701,234 ns), 12,345 kernels, 0.0003612, 2026-01-05 08:00:01, torch 2.13.0, 98.3 %") == []


@pytest.mark.parametrize("value", [0, 1, 999, 999.4, 1e3, 12345, 999_950, 123_456_789, 5.5e12])
def test_every_writer_of_figures_keeps_the_rule(value: float) -> None:
    said = (i18n.duration(int(value)), i18n.size(int(value)), size(value), i18n.digits(value), i18n.digits(value / 7))
    assert [over(text) for text in said] == [[]] * len(said)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("language") / "store"
    ingest.load(ROOT / "sample_traces" / "torch_npu_db", place, label="torch_npu_db")
    return place


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_of_a_page_has_three_to_four_digits(
    name: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(store))
    page = AppTest.from_file(str(DASHBOARD), default_timeout=90)
    page.query_params["lang"] = "en"
    page.run()
    folder = name.lower()
    if folder != "workspace":
        page = AppTest.from_string(
            "from npulens.app import context\n"
            f"from npulens.app.pages.{folder} import page\n"
            "page.render(context.current())\n", default_timeout=90,
        )  # fmt: skip
        page.query_params["lang"] = "en"
        page.run()
    assert not page.exception, page.exception[0].value
    said = [
        element.value
        for kind in ("text", "caption", "markdown", "header", "subheader", "metric")
        for element in page.get(kind)
    ]
    drawn = [text for chart in page.get("plotly_chart") for text in _strings(json.loads(chart.proto.spec))]
    assert said, "the page says nothing"
    assert [(text, found) for text in [*said, *drawn] if (found := over(str(text)))] == []


def _strings(value: Any) -> Iterator[str]:
    """Every text that a chart shows: hovers, labels, titles; no numbers, which Plotly formats."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("hovertext", "text", "name", "title", "ticktext"):
                yield from _leaves(each)
            yield from _strings(each) if isinstance(each, dict | list) else ()
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, dict | list):
                yield from _strings(each)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
