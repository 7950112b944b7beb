"""What tables, views and their columns mean, in Chinese: each has it, none is left over, and all of it is Chinese."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_language import english_in, glossary
from test_pages_data import opened, texts

from npulens import ingest
from npulens.app import docs_of
from tests.screen.language import HAN, too_long

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
#: Names as others write them, and what stands for itself.
NAMES = {"cann"}
#: A value, to be typed as it stands there; not what a word's apostrophe begins.
QUOTED = re.compile(r"(?<!\w)'([^']+)'")


def meanings() -> set[str]:
    """The English of every table, view and column that says something."""
    said = {text for one in docs_of.relations() for text in (one.means, *(each.means for each in one.columns))}
    return said - {""}


def names() -> set[str]:
    """What tables, views and columns are called."""
    every = {name for one in docs_of.relations() for name in (one.name, *(each.name for each in one.columns))}
    return every | NAMES


def prose(text: str) -> list[str]:
    """The English words of a meaning, without values in quotes."""
    return english_in(QUOTED.sub(" ", text))


def without_chinese(means: set[str], chinese: set[str]) -> set[str]:
    """Meanings that lack it; those of values and names alone need none."""
    return {text for text in means - chinese if set(prose(text)) - names() or text.startswith("e.g.")}


def test_every_meaning_has_its_chinese_and_none_is_left_over() -> None:
    """To satisfy it: the English of schema.sql or of analysis/sql = the Chinese, in app/text/meanings.toml."""
    known = set(docs_of.chinese())
    assert without_chinese(meanings(), known) == set()
    assert known - meanings() == set(), "no table, view or column means that any more"


def test_a_meaning_without_chinese_is_found() -> None:
    means = {"JSON", "'npu', 'cuda'", "AI_CORE, SDMA...", "launched - started", "the task", "e.g. 'MHz'"}
    assert without_chinese(means, set()) == {"the task", "e.g. 'MHz'"}
    assert without_chinese(means, {"the task"}) == {"e.g. 'MHz'"}


def test_the_chinese_is_chinese_in_short_sentences_and_said_once() -> None:
    known, called = glossary(), names()
    for english, chinese in docs_of.chinese().items():
        assert HAN.search(chinese) or "：" in chinese, english
        assert too_long("", chinese) == [], english
        assert [word for word in prose(chinese) if word not in known | called] == [], english
        assert english.endswith(".") == chinese.endswith("。") or english.endswith("..."), english
        assert not re.search(r"[,;:] |[\u4e00-\u9fff] [\u4e00-\u9fff]", re.sub(r"'[^']*'|（A, .*?）", "", chinese))
    assert len(set(docs_of.chinese().values())) == len(docs_of.chinese()), "two meanings of one Chinese are one meaning"


def test_values_and_names_are_the_same_in_both() -> None:
    """What stands in quotes is to be typed, and a column that is named is to be found."""
    for english, chinese in docs_of.chinese().items():
        typed = set(QUOTED.findall(english))
        assert {each for each in typed if each not in chinese} == set(), english
        for name in re.findall(r"\b[a-z]+_[a-z_]+\b", english):
            assert name in chinese or name == "run_id", english


def test_only_who_asks_in_chinese_reads_it() -> None:
    program = (
        "from npulens.app import docs_of\n"
        "from npulens.app.pages.sql import page\n"
        "docs_of.columns('', None, {})\n"
        "print(docs_of.chinese.cache_info().currsize)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip().endswith("0"), done.stderr[-2000:]


def test_the_page_says_and_finds_them_in_chinese(store_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest.load(SAMPLES / "torch_npu_text", store_dir)
    monkeypatch.setenv("NPULENS_STORE", str(store_dir))
    page = opened("sql", "zh", {})
    shown = next(frame.value for frame in page.dataframe if "means" in frame.value)
    assert [text for text in shown["means"] if without_chinese({text} & meanings(), set())] == []
    page.selectbox(key="sql_within_zh").set_value("track").run()
    assert "时间线上的一条泳道。" in texts(page)
    for wanted in ("stream 设备侧", "device stream id"):
        page.text_input(key="sql_search").set_value(wanted).run()
        found = next(frame.value for frame in page.dataframe if "means" in frame.value)
        assert found["name"].tolist() == ["stream"] and found["means"].tolist() == ["设备侧的 stream id"]
