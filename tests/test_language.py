"""How the screen speaks: short sentences, three to four digits, and Chinese without English that has a Chinese word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from npulens import ingest
from npulens.analysis.capability import IN_WORDS
from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.detectors.unfused import GENERIC, in_chinese
from npulens.analysis.detectors.unfused import rules as chained_rules
from npulens.analysis.discovery import detectors
from npulens.analysis.engine import check
from npulens.analysis.say import FAMILIES, on_device, size
from npulens.analysis.settings import DEFAULT
from npulens.app.panels import pick_rows
from npulens.app.text import i18n, wording
from npulens.ingest.messages import Message, catalogue, render, stored
from tests.screen.language import drawn, over, prose, too_long, wrong
from tests.tablecase import connection

ROOT = Path(__file__).resolve().parents[1]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: The pages that the tests read; python -m tests.screen.language reads all of them, in both languages.
PAGES = ("Workspace", "Kernels", "Launch", "Copies", "Communication", "Memory", "Counters", "Efficiency", "Parallel",
         "Runs")  # fmt: skip


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


def numbers() -> Iterator[tuple[str, Path]]:
    """The names of all that detectors give as numbers, as their files write them, and where."""
    for path in (ROOT / "analysis").rglob("*.py"):
        found: list[ast.AST] = []
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Candidate":
                found += node.args[2:3]
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "dict[str, Value]" and node.value:
                found.append(node.value)
        tables = [table for each in found for table in ast.walk(each) if isinstance(table, ast.Dict)]
        for key in (key for table in tables for key in table.keys):
            if isinstance(key, ast.Constant):
                yield str(key.value), path


def test_every_number_behind_a_problem_has_a_name_in_both_languages() -> None:
    every = dict(numbers())
    assert len(every) > 100
    words = {key.removesuffix("_zh") for key in every if key.endswith("_zh")}  # bits of sentences
    shown = {key: path for key, path in every.items() if not key.endswith("_zh") and key not in words}
    assert {key: path.name for key, path in shown.items()
            if not i18n.known(f"numbers.{key}") and key not in wording.WORDS} == {}  # fmt: skip


def test_between_chinese_characters_stands_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(i18n.texts(), "shell.made", ("{a} of {b}", "{b} 的 {a}"))
    assert i18n.say("zh", "shell.made", {"a": "8.6 %", "b": "训练迭代"}) == "训练迭代的 8.6 %"
    assert i18n.say("zh", "shell.made", {"a": "一半", "b": "P99 TTFT"}) == "P99 TTFT 的一半"
    assert i18n.say("en", "shell.made", {"a": "half", "b": "it"}) == "half of it"
    assert i18n.joined("zh", ("一。", "二。")) == "一。二。" and i18n.joined("en", ("One.", "Two.")) == "One. Two."


def test_thousands_are_parted_in_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(i18n.texts(), "shell.made", ("{n} ranks of {world}", "{world} 卡中的 {n} 卡"))
    monkeypatch.setitem(i18n.texts(), "shell.made.one", ("1 rank of {world}", "{world} 卡中的 1 卡"))
    for n, said in ((1, "1 rank"), (999, "999 ranks"), (1_000, "1,000 ranks"), (12_345, "12,345 ranks")):
        assert i18n.say("en", "shell.made", {"n": n, "world": i18n.count(20_000)}) == f"{said} of 20,000"
    assert i18n.say("zh", "shell.made", {"n": "1,000", "world": i18n.count(None)}) == "– 卡中的 1,000 卡"


def test_shares_of_many_wholes_are_times() -> None:
    assert [i18n.share(part, 1000) for part in (283, 9999, 10_000, 1_518_230, -15_182, None)] == [
        "28.3 %", "999.9 %", "10.00 ×", "1,518 ×", "-15.18 ×", "–"
    ]  # fmt: skip


def test_a_column_of_lengths_is_in_one_unit_that_fits_all() -> None:
    """The unit of the median, but where the largest would have five digits before its point."""
    for ns, unit in (([40, 40, 1_315_000_000], "ms"), ([1_200, 9_000, 900_000], "µs"), ([7_000_000, 14_750_000], "ms"),
                     ([2_000, 3_000, 14_750_000], "ms"), ([346_800_000_000, 791_000_000], "s"), ([], "ms"),
                     ([40, 80], "ns"), ([-5_000, 6_000], "µs"), ([10**14], "s")):  # fmt: skip
        assert pick_rows.unit(pd.Series(ns, dtype="float64"))[0] == unit, ns


def test_no_sentence_is_long() -> None:
    wrong = [f"{where}: {each}" for where, english, chinese in texts() for each in too_long(english, chinese)]
    assert wrong == []


def test_no_sentence_is_long_in_what_a_detector_says_of_itself_in_chinese() -> None:
    told = {detector.name: too_long("", detector.documentation["zh"]) for detector in detectors(DEFAULT)}
    assert {name: each for name, each in told.items() if each} == {}


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


def settings_in(tree: ast.AST) -> Iterator[str]:
    """What a file says would record something that is missing: settings of detectors and of capabilities."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            at = {"NotMeasured": (2,), "Capability": (4, 5)}.get(node.func.id, ())
            yield from (text for place in at for each in node.args[place : place + 1] for text in texts_of(each))
        elif isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == ["collect_with"]:
            yield from texts_of(node.value)


def texts_of(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (text for each in (node.body, node.orelse) for text in texts_of(each))


#: What is typed as it is, and reads like words.
TYPED = re.compile(r"^(?:--|msprof |domain=)")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def prose_in(setting: str) -> list[str]:
    """The words of a setting that is more than names and values; none where Chinese takes it as it is."""
    return (
        []
        if TYPED.match(setting)
        else [word for word in english_in(QUOTED.sub(" ", setting)) if word not in glossary()]
    )


def test_a_setting_that_is_said_in_words_has_its_chinese() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in (ROOT / "analysis").rglob("*.py")}
    every = {setting: path.name for path, tree in trees.items() for setting in settings_in(tree)}
    assert {"a profile of every rank", "torch.profiler on the device"} <= every.keys() and "record_shapes=True" in every
    wrong = {each: name for each, name in every.items() if prose_in(each) and each not in IN_WORDS}
    assert wrong == {}, "analysis/capability.py says which settings are words"
    assert {each: said for each, said in IN_WORDS.items() if prose_in(render(said, "zh"))} == {}


def test_a_setting_in_words_is_found() -> None:
    tree = ast.parse('NotMeasured("why", "为何", "a profile of every rank" if one else "schedule(active=5 or more)")')
    assert [prose_in(each) for each in settings_in(tree)] == [["of", "every"], ["or"]]
    assert prose_in("profiler_level=Level1, aic_metrics=PipeUtilization") == []


def test_what_to_call_instead_has_no_english_in_chinese() -> None:
    operators = {GENERIC, *(each for rule in chained_rules()[1] for each in (rule.operator, rule.cuda))}
    assert {each: prose_in(in_chinese(each)) for each in operators if prose_in(in_chinese(each))} == {}
    assert prose_in(GENERIC) == ["or", "one"]


def english_filled_in(tree: ast.AST) -> Iterator[str]:
    """Names that hold English words and are filled into Chinese sentences."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        english: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    pairs = [(target, node.value)]
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        pairs = list(zip(target.elts, node.value.elts, strict=False))
                    english |= {name.id for name, value in pairs if isinstance(name, ast.Name) and _spoken(value)}
        for node in ast.walk(function):
            if isinstance(node, ast.JoinedStr) and CHINESE.search(ast.unparse(node)):
                names = (part.value for part in node.values if isinstance(part, ast.FormattedValue))
                yield from (name.id for name in names if isinstance(name, ast.Name) and name.id in english)


def _spoken(value: ast.expr) -> bool:
    """Whether an f-string says something in English between what it is filled with."""
    if not isinstance(value, ast.JoinedStr):
        return False
    said = " ".join(str(part.value) for part in value.values if isinstance(part, ast.Constant))
    return not CHINESE.search(said) and any(word not in glossary() for word in english_in(said))


def test_no_english_is_filled_into_chinese() -> None:
    found = {path.name: sorted(set(english_filled_in(ast.parse(path.read_text("utf-8")))))
             for path in (ROOT / "analysis").rglob("*.py")}  # fmt: skip
    assert {name: names for name, names in found.items() if names} == {}


def test_english_filled_into_chinese_is_found() -> None:
    made = 'def f(a, b):\n    lost, part = f"{a:,} of {b:,}", 1\n    return f"{lost} tasks", f"{lost} 个任务（{part}）"'
    assert list(english_filled_in(ast.parse(made))) == ["lost"]
    assert list(english_filled_in(ast.parse(made.replace(" of ", " / ")))) == []


def test_a_reason_is_the_same_in_both_languages() -> None:
    """A table's own reason counts in Chinese where it does in English."""
    case = {"rank": {0: {"backend": "cuda", "formats": ["kineto"]}}, "spans": [
        {"id": 1, "kind": "kernel", "name": "k", "at": 10, "for": 50, "kernel": {"core": "AI_CORE"}},
    ]}  # fmt: skip
    con = connection(case)
    reason = Message("file_has_no_counters")
    con.execute("UPDATE coverage SET status = 'absent', reason = ?, said = ?, collect_with = NULL, collect_said = NULL "
                "WHERE table_name = 'sample'", [str(reason), stored(reason)])  # fmt: skip
    (found,) = check(con, only=["frequency_drop"]).outcomes
    assert found.reason == "the clock of the AI cores: the file has no counters"
    assert found.reason_zh == f"AI Core 频率：未采集（{render(reason, 'zh')}）"


def test_every_format_that_is_read_has_a_name_in_words() -> None:
    read = {path.stem.removeprefix("read_") for path in (ROOT / "ingest" / "readers").rglob("read_*.py")}
    assert [name for name in sorted(read) if not i18n.known(f"shell.format_{name}")] == []


def test_every_detector_says_its_thresholds_in_words() -> None:
    """A limit's name is `min_share`; the screen and the report say what it is."""
    from dataclasses import fields

    names = {limit.name for detector in detectors(DEFAULT) for limit in fields(detector.limits)}
    assert [name for name in sorted(names) if not i18n.known(f"limits.{name}")] == []


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
def test_every_figure_and_sentence_of_a_page_is_short(name: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(store))
    page = drawn(name, "en")
    assert not page.exception, page.exception[0].value
    assert prose(page), "the page says nothing"
    assert wrong(page, "en") == []
