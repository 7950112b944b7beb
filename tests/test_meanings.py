"""Chinese of what tables mean and who says what of a device: each has it, none is left over, all of it is Chinese."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from test_language import english_in, glossary
from test_pages_data import opened, texts

from npulens import ingest
from npulens.analysis.device import abilities
from npulens.app import docs_of
from npulens.app.text import written
from tests.screen.language import HAN, too_long

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
#: Names as others write them, and what stands for itself.
NAMES = {"cann"}
#: Names within sources.
TITLES = {"mlcommons", "int8", "deviceProperties"}
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


def test_every_table_and_every_column_says_what_it_means() -> None:
    silent = {one.name: [each.name for each in one.columns if not each.means] for one in docs_of.relations()}
    assert {name: columns for name, columns in silent.items() if columns} == {}
    assert [one.name for one in docs_of.relations() if not one.means] == []


def test_every_meaning_has_its_chinese_and_none_is_left_over() -> None:
    """To satisfy it: the English of schema.sql or of analysis/sql = the Chinese, in app/text/meanings.toml."""
    known = set(written.chinese("meanings"))
    assert without_chinese(meanings(), known) == set()
    assert known - meanings() == set(), "no table, view or column means that any more"


def test_a_meaning_without_chinese_is_found() -> None:
    means = {"JSON", "'npu', 'cuda'", "AI_CORE, SDMA...", "launched - started", "the task", "e.g. 'MHz'"}
    assert without_chinese(means, set()) == {"the task", "e.g. 'MHz'"}
    assert without_chinese(means, {"the task"}) == {"e.g. 'MHz'"}


def test_the_chinese_is_chinese_in_short_sentences_and_said_once() -> None:
    known, called = glossary(), names()
    for english, chinese in written.chinese("meanings").items():
        assert HAN.search(chinese) or "：" in chinese, english
        assert too_long("", chinese) == [], english
        assert [word for word in prose(chinese) if word not in known | called] == [], english
        assert english.endswith(".") == chinese.endswith("。") or english.endswith("..."), english
        assert not re.search(r"[,;:] |[\u4e00-\u9fff] [\u4e00-\u9fff]", re.sub(r"'[^']*'|（A, .*?）", "", chinese))
    several = Counter(written.chinese("meanings").values())
    assert [chinese for chinese, n in several.items() if n > 1] == [], "two meanings of one Chinese are one meaning"


def test_values_and_names_are_the_same_in_both() -> None:
    """What stands in quotes is to be typed, and a column that is named is to be found."""
    for english, chinese in written.chinese("meanings").items():
        typed = set(QUOTED.findall(english))
        assert {each for each in typed if each not in chinese} == set(), english
        for name in re.findall(r"\b[a-z]+_[a-z_]+\b", english):
            assert name in chinese or name == "run_id", english


def test_only_who_asks_in_chinese_reads_it() -> None:
    program = (
        "from npulens.app import docs_of\n"
        "from npulens.app.pages.sql import page\n"
        "docs_of.columns('', None, {})\n"
        "from npulens.app.text import written\n"
        "print(written.chinese.cache_info().currsize)\n"
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


def parts() -> set[str]:
    """What semicolons divide in all that is said of who says what of a device."""
    return {part for model in abilities.models() for part in written.parts(model.source)[0]}


def foreign(text: str) -> list[str]:
    """English words of a source without its addresses, titles and figures."""
    bare = re.sub(r"\S*[/_]\S*|\(\w{7}\)", " ", text)
    return [word for word in english_in(bare) if word not in glossary() | TITLES]


def test_every_source_of_a_device_is_said_in_chinese() -> None:
    """To satisfy it: the English of a part = the Chinese, in app/text/sources.toml."""
    assert {part for part in parts() if foreign(written.source(part, "zh"))} == set()
    known = written.chinese("sources")
    used = {head for head in known for part in parts() if part == head or part.startswith(f"{head}, ")}
    assert known.keys() - used == set(), "no source says that any more"
    assert {english: foreign(chinese) for english, chinese in known.items() if foreign(chinese)} == {}
    assert {english for english, chinese in known.items() if not HAN.search(chinese) and "：" not in chinese} <= {
        "HGX B200 at 1000 W", "bf16 as fp16"
    }  # fmt: skip


def test_figures_and_addresses_of_a_source_are_the_same_in_both() -> None:
    for english, chinese in written.chinese("sources").items():
        for said in (re.findall(r"[\d.,]*\d", english), re.findall(r"\S+/\S+", english)):
            assert [each for each in said if each.strip("(),:;") not in chinese] == [], english


def test_a_source_is_said_part_by_part() -> None:
    text = (
        "CANN runtime repository 681ef76, src/a.ini; HCCS 392 GB/s both ways to seven others, b.io/c; "
        "d.io/e (x; y) (2026-11-20)"
    )
    assert written.source(text, "en") == text
    assert written.source(text, "zh") == (
        "CANN runtime 仓库 681ef76，src/a.ini；HCCS 到其余七颗双向共 392 GB/s，b.io/c；d.io/e (x; y)（2026-11-20）"
    )
