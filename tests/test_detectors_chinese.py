"""What every detector says of itself in Chinese: the same sections, numbers and names as its docstring."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from npulens.analysis.discovery import Detector, detectors
from npulens.analysis.settings import DEFAULT
from npulens.app.pages.learn.words import LIMITS

DETECTORS = {detector.name: detector for detector in detectors(DEFAULT)}
FOLDER = Path(__file__).resolve().parents[1] / "analysis" / "detectors"
HEADINGS = {
    "What it measures": "测量什么", "Why it costs": "为何耗时", "What to do": "怎么做",
    "Limits of the method": "方法的局限", "References": "参考资料",
}  # fmt: skip
NUMBER = re.compile(r"\d+(?:\.\d+)*")
#: What is a name and not a word: in backticks, an address, an option, a setting, anything with an underscore or of
#: capitals, and the file of another detector.
NAMES = re.compile(r"`[^`]+`|https://[^\s;>]+\w|--[\w-]+|\w+=[\w\[]+|\w*[a-zA-Z]_\w+|\b[A-Z][A-Z0-9]{2,}\b|\w+/[\w*./]+\w")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def sections(text: str) -> dict[str, str]:
    """The text under each heading in order; what stands before the first is the headline."""
    headline, *parts = re.split(r"^## ", text.strip(), flags=re.MULTILINE)
    return {"": headline, **{head: body for head, _, body in (part.partition("\n") for part in parts)}}


def both(name: str) -> list[tuple[str, str, str]]:
    """(section, English, Chinese)."""
    english, chinese = (sections(DETECTORS[name].documentation[lang]) for lang in ("en", "zh"))
    return [(head, english[head], chinese[HEADINGS.get(head, "")]) for head in english]


def test_every_detector_has_one_and_no_file_is_left_over() -> None:
    assert {path.name.removesuffix(".zh.md") for path in FOLDER.glob("*.md")} == set(DETECTORS)


@pytest.mark.parametrize("name", DETECTORS)
def test_the_sections_are_those_of_the_docstring(name: str) -> None:
    assert list(sections(DETECTORS[name].documentation["en"])) == ["", *HEADINGS]
    chinese = sections(DETECTORS[name].documentation["zh"])
    assert list(chinese) == ["", *HEADINGS.values()]
    short = [head for head, body in chinese.items() if head != "参考资料" and len(CHINESE.findall(body)) < 8]
    assert short == [], "a section with nothing Chinese in it"


@pytest.mark.parametrize("name", DETECTORS)
def test_every_number_of_the_docstring_is_there(name: str) -> None:
    lost = [(head, sorted(missing)) for head, english, chinese in both(name)
            if (missing := set(NUMBER.findall(english)) - set(NUMBER.findall(chinese)))]  # fmt: skip
    added = [(head, sorted(more)) for head, english, chinese in both(name)
             if (more := set(NUMBER.findall(chinese)) - set(NUMBER.findall(english)))]  # fmt: skip
    assert (lost, added) == ([], [])


@pytest.mark.parametrize("name", DETECTORS)
def test_every_name_of_the_docstring_is_there(name: str) -> None:
    lost = [(head, missing) for head, english, chinese in both(name)
            if (missing := [found for found in NAMES.findall(english) if found not in chinese])]  # fmt: skip
    assert lost == []


@pytest.mark.parametrize("name", DETECTORS)
def test_a_paragraph_is_one_line(name: str) -> None:
    """A broken line would be a space in the middle of a Chinese sentence."""
    lines = DETECTORS[name].documentation["zh"].splitlines()
    assert all(not line or not after for line, after in zip(lines, lines[1:], strict=False))


@pytest.mark.parametrize("detector", DETECTORS.values(), ids=DETECTORS)
def test_the_limits_have_their_chinese(detector: Detector) -> None:
    said = [field.metadata[key] for field in fields(detector.limits) for key in ("unit", "source")]
    assert [text for text in said if text != "ns" and text not in LIMITS] == []


def test_no_chinese_of_a_limit_is_left_over_and_none_lost_a_number() -> None:
    said = {field.metadata[key] for found in DETECTORS.values() for field in fields(found.limits)
            for key in ("unit", "source")}  # fmt: skip
    assert LIMITS.keys() <= said
    lost = [text for text, chinese in LIMITS.items() if set(NUMBER.findall(text)) - set(NUMBER.findall(chinese))]
    assert lost == []
