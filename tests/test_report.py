"""Reports: whole without a network, in both languages, the same facts in every format, and names stay text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import judged
import pytest
from click.testing import CliRunner, Result

from npulens import ingest
from npulens.app.cli import main
from npulens.app.report.as_markdown import text as markdown

MARKUP = "<script>window.pwned=1</script><img src=x onerror=pwned>]]>![x](http://evil.invalid/b) @all `x` |a|\x00\x1b"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run whose names and label are hostile, and one that is not."""
    directory = tmp_path_factory.mktemp("report")
    judged.folder(directory)
    ingest.load(judged.capture(directory / "evil.json", MARKUP), directory / "store", label="evil" + MARKUP)
    ingest.load(judged.capture(directory / "good.json", "matmul", steps=3), directory / "store", label="good")
    return directory


def write(place: Path, name: str, *words: str, runs: tuple[str, ...] = ("good",)) -> tuple[str, Result]:
    target = place / name
    command = ["report", *runs, "-o", str(target), "--store", str(place / "store"), "--config",
               str(place / "npulens.toml"), *words]  # fmt: skip
    done = CliRunner().invoke(main, command)
    return (target.read_text("utf-8") if target.exists() else ""), done


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.said.append(data)


def test_a_page_needs_nothing_else_and_is_well_formed(place: Path) -> None:
    text, done = write(place, "x.html", runs=("good", "evil" + MARKUP))
    assert done.exit_code == 0, done.output
    page = Page(text)
    assert page.open == []
    assert not {"script", "img", "iframe", "link", "object", "embed", "base", "form"} & set(page.tags)
    addresses = [value for name, value in page.attributes if name in ("src", "href", "data", "action", "xlink:href")]
    assert addresses and all(str(value).startswith("#") for value in addresses)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "@import" not in text and "url(" not in text
    assert "default-src 'none'" in text


def test_hostile_names_are_text(place: Path) -> None:
    said = "".join(Page(write(place, "x.html", runs=("evil" + MARKUP,))[0]).said)
    assert MARKUP.replace("\x00", "\ufffd").replace("\x1b", "\ufffd") in said


def test_both_languages_are_in_the_page_and_one_alone_if_asked(place: Path) -> None:
    both, _ = write(place, "x.html")
    assert "of each step. Fixing it saves at most" in both and "最多可省" in both and 'id="lang-zh"' in both
    chinese, _ = write(place, "x.html", "--lang", "zh")
    assert "Fixing it" not in chinese and "最多可省" in chinese and "English" not in chinese
    english, _ = write(place, "x.html", "--lang", "en")
    assert not re.search("[\u4e00-\u9fff]", english.split("</style>")[1])


def test_the_page_holds_evidence_thresholds_definitions_and_the_configuration(place: Path) -> None:
    said = "".join(Page(write(place, "x.html", "--lang", "en")[0]).said)
    for word in ("made up for this test", "The mean step", "schedule(", "How the score comes about",
                 "RuntimeError: it broke", "profile_memory=True", "ranks 1-3 of 4"):  # fmt: skip
        assert word in said, word


def test_the_split_is_drawn_to_scale(place: Path) -> None:
    """Each step is 100 us: 40 computing, 10 copying, the rest idle, on 850 units."""
    text, _ = write(place, "x.html", "--lang", "en")
    rest = r'" x="[\d.]+" y="\d+" width="([\d.]+)"'
    widths = {
        part: [float(width) for width in re.findall(f'class="part p-{part}{rest}', text)]
        for part in ("computing", "copying", "idle")
    }
    assert widths["computing"][:2] == [340.0, 340.0]  # 40 of 100 us
    assert widths["copying"][:2] == [85.0, 85.0]
    assert widths["idle"][:2] == [425.0, 425.0]


def test_markdown_is_plain_and_short(place: Path) -> None:
    text, done = write(place, "x.md", runs=("evil" + MARKUP,))
    assert done.exit_code == 0, done.output
    assert not re.search(r"(?<!\\)[<>]", text.split("```")[0])
    assert "](http" not in text and "http://evil" not in text and "@all" not in text
    assert "\x00" not in text and "\x1b" not in text
    assert "| 1 | " in text and "```python" in text
    rows = [line for line in text.splitlines() if line.startswith("| 1 |")]
    assert len(rows) == 1 and len(re.findall(r"(?<!\\)\|", rows[0])) == 5
    assert "最多可省" in write(place, "x.md", "--lang", "zh")[0]
    both = write(place, "x.md", "--lang", "both")[0]
    assert "Fixing it" in both and "最多可省" in both


def test_markdown_text_is_never_markup() -> None:
    assert markdown("a_b*c|[x](y) @me https://z") == "a\\_b\\*c\\|\\[x\\]\\(y\\) @\u200bme https:\u200b//z"
    assert markdown("$x$ :smile: aten::add www.a.b") == "\\$x\\$ :\u200bsmile: aten::add w\u200bww.a.b"


def test_json_is_what_check_and_breakdown_say(place: Path) -> None:
    text, _ = write(place, "x.json", runs=("good", "evil" + MARKUP))
    good, evil = json.loads(text)["runs"]
    words = ["check", "good", "--json", "--store", str(place / "store"), "--config", str(place / "npulens.toml")]
    said = json.loads(CliRunner().invoke(main, words).stdout)
    assert {key: good[key] for key in said} == said
    shown = "evil" + MARKUP.replace("\x00", "").replace("\x1b", "")  # labels are kept without what acts on a terminal
    assert (good["label"], evil["label"], len(good["breakdown"])) == ("good", shown, 4)
    both = json.loads(write(place, "y.json", "--lang", "both")[0])["runs"][0]
    assert both["zh"]["findings"][0]["title"] != both["findings"][0]["title"]


def test_junit_has_a_case_a_detector(place: Path) -> None:
    text, done = write(place, "x.xml", runs=("good", "evil" + MARKUP))
    assert done.exit_code == 0, done.output
    root = ElementTree.fromstring(text)
    assert {key: root.get(key) for key in ("tests", "failures", "skipped", "errors")} == {
        "tests": "8", "failures": "2", "skipped": "2", "errors": "2",
    }  # fmt: skip
    cases = {case.get("name"): [child.tag for child in case] for case in root[0].iter("testcase")}
    assert cases == {
        "longest": ["failure"], "quiet": ["system-out"], "blind": ["skipped"], "broken": ["error"],
    }  # fmt: skip
    failure = root[0].find(".//failure")
    assert failure is not None and failure.get("type") == "slow_tail"
    assert failure.text is not None and failure.text.count("\n- ") == 3  # a moment a step


def test_a_file_name_that_says_no_format_and_a_place_that_cannot_be_written_are_errors(place: Path) -> None:
    _, done = write(place, "x.pdf")
    assert done.exit_code == 2 and ".html" in done.stderr
    _, done = write(place, "nowhere/x.md")
    assert done.exit_code == 2 and "cannot write the report" in done.stderr
