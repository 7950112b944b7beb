"""Every sentence of reading is a message of the catalogue, in both languages and with the values its text has."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npulens.ingest.errors import IngestError
from npulens.ingest.events.model import lost_by
from npulens.ingest.messages import (
    Message,
    catalogue,
    dumped,
    joined,
    listed,
    loaded,
    render,
    restored,
    stored,
    verbatim,
)
from npulens.ingest.tables.assemble import _by_reason

ROOT = Path(__file__).resolve().parents[1]
WORD_FILES = [path for path in sorted((ROOT / "ingest/words").glob("*.py")) if path.stem != "__init__"]
ROOMS = ("ingest", "analysis", "app")
#: Sentences in reading's code that nobody but a programmer or a terminal sees: the beginning is enough.
QUIET = (
    "import sys; ", "columns need distinct keys", "schema.sql", "{} is not in schema.sql", "looking for captures",
    "not needed here", "bad header value", "wrong type: ", "out of range: ", "not an object",
    "float ", "double ", "byte ", "registers per thread", "torch_npu text export",
    "torch_npu and msprof database", "schedule=", "`{} && python", "msprof-analyze cluster",
    "msprof op operator profile", "msprof op simulator", "sub block id", "benchmark of npulens",
    "result of npulens lab", "npulens lab SUBJECT",
    "failed to map segment", "annot allocate memory", "no thread given",
)  # fmt: skip
SQL = re.compile(
    r"\b(?:SELECT|FROM|WHERE|CREATE|JOIN|CAST|PRAGMA|INSERT|DELETE|CASE|COPY|AS|BETWEEN|OVER|UPDATE|PARTITION|NULL)\b|:[isft]\b|_ns\b"
)
WORDS = re.compile(r"(?<![\w.(])[a-z]{2,}(?=[ ;:]|$)")


def names(text: str) -> set[str]:
    """The values that a text is filled with."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def trees(*rooms: str) -> Iterator[tuple[Path, ast.Module]]:
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "words" not in path.parts:
                yield path, ast.parse(path.read_text("utf-8"))


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def keys_of(node: ast.expr) -> Iterator[str]:
    """The keys that an expression can be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from keys_of(node.body)
        yield from keys_of(node.orelse)


def values_of(node: ast.expr | None) -> set[str] | None:
    """The names of the values given; None where they are not written there."""
    if node is None:
        return set()
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
    return None


def said_in(tree: ast.AST) -> Iterator[tuple[int, str, set[str] | None]]:
    """(line, key, names of values) of every message a file says by its name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        given = {"Message": 0, "at_level": 1}.get(called(node))
        if given is None:
            continue
        values = values_of(node.args[given + 1] if len(node.args) > given + 1 else None)
        for key in keys_of(node.args[given]):
            yield node.lineno, key, values
            if given:
                yield node.lineno, f"{key}_at", None if values is None else values | {"level"}


def wrong(tree: ast.AST) -> list[tuple[int, str]]:
    """Messages that the catalogue does not have, or whose text has other values."""
    known = catalogue()
    return [
        (line, key) for line, key, values in said_in(tree)
        if key not in known or (values is not None and values != names(known[key][0]))
    ]  # fmt: skip


def test_every_message_is_in_the_catalogue_with_its_values() -> None:
    """To satisfy it: a text for the key in ingest/words, English and Chinese, with {names} of the values given."""
    found = [f"{path.relative_to(ROOT)}:{line}: {key}" for path, tree in trees(*ROOMS) for line, key in wrong(tree)]
    assert not found, "\n".join(found)


def test_a_message_that_is_not_there_or_has_other_values_is_found() -> None:
    for source in (
        'Message("zork")', 'Message("negative_duration", {"n": 1})', 'Message("dropped")',
        'at_level(level, "no_statistics_were_exported", {"n": 1})', 'at_level(level, "dropped")',
        'Message("negative_duration" if x else "zork")',
    ):  # fmt: skip
        assert wrong(ast.parse(source)), source
    assert not wrong(ast.parse('Message("dropped", {"n": 1, "reason": x})'))


def test_every_text_of_the_catalogue_is_said() -> None:
    texts = "\n".join(path.read_text("utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    said = {key for _, tree in trees(*ROOMS) for _, key, _ in said_in(tree)}
    made = re.compile("lost_|more_files_|benchmark_")  # of parts
    silent = [
        key for key in catalogue().keys() - said - {"verbatim", "lines", "joined"}
        if not made.match(key) and texts.count(f'"{key}"') < 2
    ]  # fmt: skip
    assert not silent


@pytest.mark.parametrize("key", catalogue())
def test_a_text_has_its_chinese_with_the_same_values(key: str) -> None:
    english, chinese = catalogue()[key]
    assert names(english) == names(chinese)
    if re.search("[a-z]{3}", re.sub(r"\{\w+\}", "", english)):
        assert english != chinese


def test_no_text_is_there_twice() -> None:
    parts = [importlib.import_module(f"npulens.ingest.words.{path.stem}").TEXT for path in WORD_FILES]
    assert sum(map(len, parts)) + 3 == len(catalogue()), "a name is in two files"
    every = [english for english, _ in catalogue().values()]
    twice = {english for english in every if every.count(english) > 1} - {"{text}"}
    assert not twice


def test_scanners_words_are_all_messages() -> None:
    source = (ROOT / "ingest/events/_scan.c").read_text("utf-8")
    listed_there = re.search(r"REASON\[REASONS\] = \{(.*?)\};", source, re.DOTALL)
    assert listed_there
    reasons = [reason for reason in re.findall(r'"([^"]*)"', listed_there[1]) if reason]
    assert len(reasons) > 15
    reasons += ["trailing data", "second traceEvents", "bad header value"]
    for reason in reasons:
        assert lost_by(reason) == reason
        assert render(lost_by(reason), "zh") != reason


def literal(node: ast.expr) -> Iterator[str]:
    """The texts an expression can be, {} for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of whatever reads like a sentence and is no documentation, no SQL and no programmer's error."""
    tree = ast.parse(source)
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            silent.add(id(node.value))
        thrown = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(thrown, ast.Call) and called(thrown) in ("ValueError", "TypeError", "RuntimeError"):
            silent.update(id(inner) for inner in ast.walk(thrown))
        if isinstance(node, ast.JoinedStr):
            silent.update(id(value) for value in node.values)
    for node in ast.walk(tree):
        if id(node) in silent or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        for text in literal(node):
            if len(WORDS.findall(text)) >= 3 and not SQL.search(text) and "\n" not in text:
                yield node.lineno, text


def test_reading_says_nothing_but_messages() -> None:
    """To satisfy it: Message("room.key", values) with its text in ingest/words; what nobody reads goes to QUIET."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "ingest").rglob("*.py")) if "words" not in path.parts
        for line, text in sentences(path.read_text("utf-8")) if not text.startswith(QUIET)
    ]  # fmt: skip
    assert not found, "\n".join(found)


def test_the_look_through_the_code_finds_sentences() -> None:
    source = (
        '"""A file of many words and sentences."""\n'
        'draft.absent("t", "zork was never recorded", "a=1")\n'
        "reason = f'the {name} of it is gone'\n"
        'raise ValueError("a programmer sees this only")\n'
        'con.execute("SELECT the one from here")\n'
    )
    assert [text for _, text in sorted(sentences(source))] == ["zork was never recorded", "the {} of it is gone"]


LOST = Message("file_ends_before_its_event")
SAID = [
    (Message("of_rank", {"ranks": "2", "reason": Message("of", {
        "name": "trace_view.json", "said": Message("bytes_lost", {"reason": LOST, "n": 250})})}),
     "rank 2: trace_view.json: the file ends before its event array is closed, 250 bytes lost",
     "rank 2：trace_view.json：文件在事件数组结束之前中断，丢失 250 字节"),
    (Message("no_cann_calls_were_recorded_at", {"level": "Level0"}), "no CANN calls were recorded at Level0",
     "Level0 下未采集 CANN 调用"),
    (joined([Message("dropped", {"n": 12, "reason": Message("no_time_stamp")}),
             Message("expected", {"rows": 3, "expected": 15})]),
     "12 dropped: no time stamp; 3 of 15 expected", "丢弃 12 条：没有时间戳；应有 15 条，实有 3 条"),
    (Message("one_its_formats_could_not", {
        "reason": IngestError("empty", Message("file_is_empty"), "a/b.json", 7).said()}),
     "one of its formats could not be read: the file is empty (a/b.json at byte 7)",
     "其中一种格式无法读取：文件为空（a/b.json，第 7 字节）"),
    (joined(["somebody's own words", Message("no_memory_was_recorded")]),
     "somebody's own words; no memory was recorded", "somebody's own words；未采集内存"),
    (listed(["a", "b", "c"], 2), "a, b and 1 more", "a, b 等，另有 1 个"),
    (verbatim("{0.__class__} {run}"), "{0.__class__} {run}", "{0.__class__} {run}"),
    (Message("of", {"name": "two\nlines \u202e", "said": None}), "two\\nlines \\u202e: ",
     "two\\nlines \\u202e："),
]  # fmt: skip


@pytest.mark.parametrize(("message", "english", "chinese"), SAID)
def test_messages_in_both_languages(message: Message, english: str, chinese: str) -> None:
    assert (message, render(message, "en"), render(message, "zh")) == (english, english, chinese)
    for again in (pickle.loads(pickle.dumps(message)), loaded(dumped({"x": [message]}))["x"][0]):
        assert isinstance(again, Message)
        assert (again, render(again, "zh")) == (english, chinese)
    assert render(restored(str(message), stored(message)), "zh") == chinese


@given(st.dictionaries(st.sampled_from(["n", "reason"]), st.text() | st.integers() | st.none(), min_size=2))
def test_any_value_comes_back_from_json(values: dict[str, object]) -> None:
    message = Message("dropped", values)
    again = loaded(dumped(message))
    assert (again, again.values) == (message, message.values)
    assert "\n" not in message


@pytest.mark.parametrize("data", [
    None, "", "{", "[]", '"text"', '{"said": "zork.zork", "values": {}}', '{"said": 1, "values": 2}',
    '{"said": "dropped", "values": {"n": 1}}', dumped(Message("no_time_stamp")), "[" * 100_000,
])  # fmt: skip
def test_data_that_does_not_say_the_text_leaves_it_as_it_is(data: str | None) -> None:
    assert restored("what the table says", data) == "what the table says"
    assert restored(None, data) is None


def test_ranks_that_lack_the_same_are_told_together() -> None:
    lack = Message("export_lacks_its_analysis_did", {"files": "step_trace_time.csv"})
    told = _by_reason([(0, lack), (1, lack), (2, "no time stamp"), (3, lack), (9, lack)])
    assert told == [f"ranks 0-1, 3, 9: {lack}", "rank 2: no time stamp"]
    assert render(told[0], "zh").startswith("rank 0-1, 3, 9：导出缺少 step_trace_time.csv")
