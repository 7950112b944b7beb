"""The SQL page: what a query may do and what not, where a mistake is, how an answer is shown and taken along."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import time
from pathlib import Path

import hostile_capture
import pytest
from streamlit.testing.v1 import AppTest
from test_pages_data import MARKED, opened, texts

from npulens import ingest
from npulens.analysis.look.sql_answers import EXAMPLES, limited, moment
from npulens.analysis.views import install
from npulens.app.aside import ask_process
from npulens.app.aside.ask_process import Answered, Refused
from npulens.app.pages.sql import page
from npulens.ingest.store import runs as stores
from npulens.ingest.store.query import MAX_ROWS

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
LANGUAGES = ("en", "zh")


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with one sample."""
    place = tmp_path_factory.mktemp("sql") / "store"
    return place, str(ingest.load(SAMPLES / "torch_npu_text", place).runs[0].run_id)


def silent(query: ask_process.Asking) -> None:
    """Waits without a word."""


def ask(held: tuple[Path, str], query: str) -> Answered | Refused:
    return ask_process.ended(*held, query, silent)


def answered(held: tuple[Path, str], query: str) -> Answered:
    found = ask(held, query)
    assert isinstance(found, Answered), found
    return found


def test_a_select_is_answered(held: tuple[Path, str]) -> None:
    found = answered(held, "SELECT 9007199254740993 AS big, NULL AS n, 1.5::DOUBLE AS f, [1, 2] AS l, 'x' AS t")
    assert found.columns == ("big", "n", "f", "l", "t")
    assert found.rows == [[9007199254740993, None, 1.5, "[1, 2]", "x"]]
    assert not found.cut and found.seconds > 0


@pytest.mark.parametrize("query", [
    "", ";", "SELECT 1; SELECT 2", "COPY span TO '/tmp/x.csv'", "ATTACH 'x.db'", "PRAGMA version", "SET threads = 8",
    "CREATE TABLE t AS FROM span", "INSTALL httpfs", "DELETE FROM span", "EXPORT DATABASE '/tmp/x'",
    "CALL pragma_version()",
])  # fmt: skip
def test_only_one_select_is_run(held: tuple[Path, str], query: str) -> None:
    assert ask_process.main(*held, query)["kind"] == "not_a_select"


@pytest.mark.parametrize("query", [
    "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/etc/hostname')", "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM '/etc/passwd'", "SELECT * FROM read_parquet('../*/*.parquet')", "SELECT getenv('HOME')",
    "SELECT * FROM read_csv('http://example.invalid/x.csv')",
])  # fmt: skip
def test_nothing_outside_the_run_is_read(held: tuple[Path, str], query: str) -> None:
    found = ask_process.main(*held, query)
    assert found["kind"] == "sql" and "root:" not in found["message"]


def test_a_query_that_wants_all_memory_is_stopped(held: tuple[Path, str]) -> None:
    found = ask(held, "SELECT list_sum(range(2000000000))")
    assert isinstance(found, Refused) and found.kind in ("sql", "too_large", "crashed")


def living() -> set[int]:
    """The groups of all processes that run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            if state != "Z":
                found.add(int(group))
    return found


def test_a_query_without_end_is_stopped_with_all_its_children(
    held: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_process, "WALL_S", 4.0)
    began, seen = time.monotonic(), set[int]()

    def tell(query: ask_process.Asking) -> None:
        assert query.process is not None
        seen.add(query.process.pid)

    found = ask_process.ended(
        *held, "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i FROM t) SELECT count(*) FROM t", tell
    )
    assert found == Refused("too_slow", "") and time.monotonic() - began < 20
    for _ in range(50):
        if not (left := seen & living()):
            break
        time.sleep(0.1)
    assert not left


def test_whoever_leaves_ends_the_query(held: tuple[Path, str]) -> None:
    asked: list[ask_process.Asking] = []

    def leave(query: ask_process.Asking) -> None:
        asked.append(query)
        if query.process is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask_process.ended(*held, "SELECT 1", leave)
    process = asked[-1].process
    assert process is not None and process.poll() is not None


def test_too_many_rows_are_cut(held: tuple[Path, str]) -> None:
    found = answered(held, "SELECT range AS i FROM range(10000000);")
    assert found.cut and len(found.rows) == MAX_ROWS and found.rows[-1] == [MAX_ROWS - 1]
    whole = answered(held, f"SELECT range FROM range({MAX_ROWS})")
    assert not whole.cut and len(whole.rows) == MAX_ROWS


def test_a_query_that_cannot_be_cut_says_so(held: tuple[Path, str]) -> None:
    found = ask(held, "SELECT * FROM range(10000000); -- all of it")
    assert isinstance(found, Refused) and found.kind == "too_many_rows"


def test_long_cells_and_large_answers_are_cut(held: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask_process.main(*held, "SELECT repeat('x', 50000) AS long FROM range(3)")
    assert found["shortened"] == 3 and len(found["rows"][0][0]) == ask_process.MOST_LETTERS + 1 and not found["cut"]
    monkeypatch.setattr(ask_process, "MOST_BYTES", 100_000)
    wide = ask_process.main(*held, "SELECT repeat('x', 9000) AS long FROM range(50)")
    assert wide["cut"] and 5 < len(wide["rows"]) < 50
    assert sum(len(row[0]) for row in wide["rows"]) <= ask_process.MOST_BYTES


@pytest.mark.parametrize(("query", "word"), [
    ("SELECT nme FROM span", "nme"), ("SELECT 1,\n  2 AS x,\n nme FROM span", "nme"), ("SELEC 1", "SELEC"),
    ("SELECT 1 FROM span WHERE name = '" + "a" * 90 + "' AND nme = '" + "b" * 90 + "'", "nme"),
    ("SELECT * FROM spam", "spam"),
])  # fmt: skip
def test_a_mistake_is_said_in_one_line_with_its_place(held: tuple[Path, str], query: str, word: str) -> None:
    found = Refused(**ask_process.main(*held, query))
    assert "\n" not in found.message and "LINE" not in found.message
    assert found.line is not None and found.column is not None
    assert query.splitlines()[found.line - 1][found.column - 1 :].startswith(word)


def test_more_than_two_at_once_wait(held: tuple[Path, str]) -> None:
    slow = "SELECT count(*) FROM range(3000000000)"
    first, second, third = (ask_process.Asking(*held, slow) for _ in range(3))
    try:
        assert first.start() and second.start()
        assert not third.start() and third.outcome() is None
        first.stop()
        assert third.start()
    finally:
        for each in (first, second, third):
            each.stop()


@pytest.mark.parametrize("sample", ["torch_npu_text", "torch_npu_db", "kineto"])
def test_every_example_runs(sample: str, store_dir: Path) -> None:
    run = ingest.load(SAMPLES / sample, store_dir).runs[0]
    con = stores.open_run(store_dir, str(run.run_id))
    install(con)
    for name, query in EXAMPLES:
        found = con.execute(query).fetchall()
        assert found or name in ("collectives", "missing"), name
        assert len(con.execute(limited(query + ";\n", 1)).fetchall()) <= 1


def test_a_frame_keeps_every_digit_and_every_text_a_text() -> None:
    answer = Answered(("a", "a", "=b", "c", "d"), [
        [1, 2**60, "=1+1", None, True], [None, -1, hostile_capture.MARKUP + "\x1b[31m", "@x", False],
    ], False, 0, 0.1)  # fmt: skip
    frame = page.frame(answer.columns, answer.rows)
    assert list(frame.columns) == ["a", "a (2)", "'=b", "c", "d"]
    assert str(frame["a"].dtype) == "Int64" and frame["a"].isna().tolist() == [False, True]
    assert frame["a (2)"].tolist() == [str(2**60), "'-1"]
    assert frame["'=b"].tolist()[0] == "'=1+1" and "\x1b" not in frame["'=b"].tolist()[1]
    assert str(frame["d"].dtype) == "boolean"


def test_what_is_taken_along_is_no_formula_and_exact() -> None:
    answer = Answered(("=x", "n"), [["=cmd|'/c calc'!A1", 2**60], ["+1", None], ["fine\nline", -1]], True, 0, 0.1)
    rows = list(csv.reader(io.StringIO(page.as_csv(answer))))
    assert rows == [["'=x", "n"], ["'=cmd|'/c calc'!A1", str(2**60)], ["'+1", ""], ["fine\nline", "-1"]]
    assert json.loads(page.as_json(answer)) == {"columns": ["=x", "n"], "rows": answer.rows, "cut": True}


def test_a_span_has_a_moment(held: tuple[Path, str]) -> None:
    con = stores.open_run(*held)
    span, rank, start, length = con.execute("SELECT span_id, rank, ts_ns, dur_ns FROM span LIMIT 1").fetchall()[0]
    found = moment(con, span)
    assert found is not None and (found.rank, found.ts_ns, found.dur_ns) == (rank, start, length)
    assert moment(con, -5) is None


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_link_asks_its_query(lang: str, held: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(held[0]))
    page = opened("sql", lang, {"sql": "SELECT span_id, name, 7 AS seven FROM span LIMIT 2"})
    assert page.text_area(key="sql_text").value.startswith("SELECT span_id")
    shown = next(frame.value for frame in page.dataframe if "seven" in frame.value)
    assert shown["seven"].tolist() == [7, 7]
    assert {"en": "2 rows in", "zh": "2 行，用时"}[lang] in texts(page)
    assert {"en": "At most 100,000 rows", "zh": "最多返回 100,000 行"}[lang] in page.caption[0].value


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_mistake_in_a_link_is_one_sentence(
    lang: str, held: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(held[0]))
    evil = hostile_capture.MARKUP.replace("'", "''").replace('"', '""')
    page = opened("sql", lang, {"sql": f'SELECT "{evil}" FROM span'})
    assert {"en": "Line 1, column 8: ", "zh": "第 1 行第 8 列："}[lang] in texts(page)
    for kind in MARKED:
        assert all("pwned" not in str(getattr(element, "value", "")) for element in page.get(kind))


def test_an_example_is_clicked_and_kept_in_the_link(held: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(held[0]))
    page: AppTest = opened("sql", "en", {})
    assert not any("seconds" in text.value for text in page.text)
    page.button(key="sql_example_split").click().run()
    assert not page.exception
    assert page.query_params["sql"] == dict(EXAMPLES)["split"]
    assert any("idle_ns" in frame.value for frame in page.dataframe)


def test_tables_can_be_searched(held: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(held[0]))
    page = opened("sql", "en", {})
    page.text_input(key="sql_search").set_value("bandwidth transfer").run()
    found = next(frame.value for frame in page.dataframe if "means" in frame.value)
    assert "bandwidth_bytes_per_s" in found["name"].tolist()
    page.text_input(key="sql_search").set_value("no such thing at all").run()
    assert "is called so" in texts(page)
