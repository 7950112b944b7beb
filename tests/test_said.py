"""Every sentence that reading can say has its Chinese, so that no page is half English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from npulens.app.text.translate import messages as pairs
from npulens.app.text.translate import said, translated
from npulens.ingest.tables.assemble import _by_reason

INGEST = Path(__file__).resolve().parents[1] / "ingest"
#: Where the message stands among the arguments of what says one.
SAYS = {"absent": 1, "partial": 1, "drop": 1, "note": 1, "IngestError": 1}
#: Sentences in reading's code that nobody but a programmer or a terminal sees: the beginning is enough.
QUIET = (
    "import sys; ", "columns need distinct keys", "schema.sql", "{} is not in schema.sql", "bad header value",
    "not an object", "looking for captures", "not needed here", "float ", "double ", "byte ", "registers per thread",
    "torch_npu text export", "torch_npu and msprof database", "schedule=", "`{} && python", "msprof-analyze cluster",
    "msprof op operator profile", "sub block id", "benchmark of npulens", "failed to map segment",
    "annot allocate memory",
)  # fmt: skip
SQL = re.compile(
    r"\b(?:SELECT|FROM|WHERE|CREATE|JOIN|CAST|PRAGMA|INSERT|DELETE|CASE|COPY|AS|BETWEEN|OVER|UPDATE|PARTITION|NULL)\b|:[isft]\b|_ns\b"
)
WORDS = re.compile(r"(?<![\w.(])[a-z]{2,}(?=[ ;:]|$)")


def literal(node: ast.expr) -> Iterator[str]:
    """The texts an expression can be, {} for what is filled in; nothing where it is no text of this place."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for left in list(literal(node.left)) or ["{}"]:
            for right in list(literal(node.right)) or ["{}"]:
                yield left + right
    elif isinstance(node, ast.IfExp):
        yield from literal(node.body)
        yield from literal(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from literal(value)


def messages(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of everything that is said, and of whatever else reads like a sentence: it may be said later."""
    tree = ast.parse(source)
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            silent.add(id(node.value))  # documentation
        thrown = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(thrown, ast.Call) and "IngestError" not in ast.dump(thrown.func):
            silent.update(id(inner) for inner in ast.walk(thrown))
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SAYS and len(node.args) > SAYS[name]:
                told = node.args[SAYS[name]]
                for text in literal(told):
                    yield told.lineno, text
                silent.update(id(inner) for inner in ast.walk(told))
        if isinstance(node, ast.JoinedStr):
            silent.update(id(value) for value in node.values)
    for node in ast.walk(tree):
        if id(node) in silent or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        for text in literal(node):
            if len(WORDS.findall(text)) >= 3 and not SQL.search(text) and "\n" not in text:
                yield node.lineno, text


def known(text: str) -> bool:
    """Whether a sentence has its Chinese; what is filled in at its end may be nothing or a clause of its own."""
    parts = [part for part in text.split("; ") if re.search("[a-z]", part.replace("{}", ""))]
    text = "; ".join(parts).rstrip(" ;")
    text = f"x1{text}" if text.startswith(",") else text.strip()
    ends = (text, re.sub(r"(?<=\w)\{\}$", " at {}", text), re.sub(r"(?<=\w)(?:\{\})+$", "", text))
    return any(translated(end.replace("{}", "x1")) for end in ends)


def missing() -> list[str]:
    found = []
    for path in sorted(INGEST.rglob("*.py")):
        for line, text in messages(path.read_text("utf-8")):
            if not re.search("[a-z]{2}", text.replace("{}", "")) or text.startswith(QUIET):
                continue
            if not known(text):
                found.append(f"{path.relative_to(INGEST.parent)}:{line}: {text}")
    return found


def test_every_message_of_reading_has_its_chinese() -> None:
    """To satisfy it: add ("your sentence with {names}", "中文") to MESSAGES of a file in app/text/words."""
    lacking = missing()
    assert not lacking, (
        "These have no Chinese. Add a pair to MESSAGES in app/text/words/ingest.py (coverage) or refused.py beside it "
        "(refusals); what nobody reads goes to QUIET in tests/test_said.py:\n" + "\n".join(lacking)
    )


def test_the_look_through_the_code_finds_what_is_said() -> None:
    source = (
        'draft.absent("t", "zork was never recorded", "a=1")\n'
        "reason = f'the {name} of it is gone'\n"
        'raise IngestError("kind", f"{path.name} is not what it says")\n'
        'raise ValueError("a programmer sees this only")\n'
        'con.execute("SELECT the one from here")\n'
    )
    assert [text for _, text in messages(source)] == [
        "zork was never recorded", "{} is not what it says", "the {} of it is gone"
    ]  # fmt: skip
    assert not translated("zork was never recorded")


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair[0][:40])
def test_a_pair_fills_the_same_names(pair: tuple[str, str]) -> None:
    names = [sorted(name for _, name, _, _ in Formatter().parse(text) if name) for text in pair]
    assert names[0] == names[1]
    assert pair[0] != pair[1] or pair[1].startswith("未采集")


def test_no_sentence_is_there_twice() -> None:
    every = [english for english, _ in pairs()]
    assert len(set(every)) == len(every)


SAID = [
    ("rank 2: trace_view.json: the file ends before its event array is closed, 250 bytes lost",
     "rank 2：trace_view.json：文件在事件数组结束之前中断，丢失 250 字节"),
    ("no CANN calls were recorded at Level0", "Level0 下未采集 CANN 调用"),
    ("no CANN calls were recorded", "未采集 CANN 调用"),
    ("rank 3: profiler_info has no end_info: the profiler did not stop in order",
     "rank 3：profiler_info 没有 end_info：profiler 未正常结束"),
    ("12 dropped: no time stamp; 3 of 15 expected", "丢弃 12 条：没有时间戳；应有 15 条，实有 3 条"),
    ("the db export does not hold it; it follows from the spans", "db 导出不包含此项，可由区间推出"),
    ("spans only the database has: 3 kernel; this format does not carry it",
     "仅 db 含有的区间：3 kernel；该格式不包含此项"),
    ("one of its formats could not be read: the file is empty (a/b.json at byte 7)",
     "其中一种格式无法读取：文件为空（a/b.json，第 7 字节）"),
    ("未采集（no device tasks were recorded）", "未采集（未采集设备任务）"),
    ("somebody's own words; no memory was recorded", "somebody's own words；未采集内存"),
    ("kernel_details.csv is damaged from row 12 on: odd; very odd",
     "kernel_details.csv 从第 12 行起损坏：odd；very odd"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("english", "chinese"), SAID)
def test_sentences_in_chinese(english: str, chinese: str) -> None:
    assert said("zh", english) == chinese
    assert said("en", english) == english


def test_a_strangers_text_is_no_format_and_takes_no_time() -> None:
    assert said("zh", "run {run} is called {0.__class__} already; give it another name first") == (
        "运行 {run} 已使用标签 {0.__class__}，请先给它改名"
    )
    assert said("zh", "; ".join(["x: y"] * 400)).count("x") == 400


def test_ranks_that_lack_the_same_are_told_together() -> None:
    lack = "the export lacks step_trace_time.csv"
    told = _by_reason([(0, lack), (1, lack), (2, "no time stamp"), (3, lack), (9, lack)])
    assert told == [f"ranks 0-1, 3, 9: {lack}", "rank 2: no time stamp"]
