"""Small ranks are made of arrays: what they say is what the statements say of a rank of any size."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from torch_npu_db_files import DB, NOW, RANKS, Maker, real

from npulens.ingest.loading import capture, parsing
from npulens.ingest.readers.ascend.db import few as few_of_db
from npulens.ingest.readers.ascend.db.few.analysis import times
from npulens.ingest.readers.ascend.few import latest
from npulens.ingest.readers.ascend.text.few import cells
from npulens.ingest.tables.arrays import NONE, Texts, Unusual, coded, first, lookup, pairs, put_together
from npulens.ingest.tables.json_text import as_json, double
from tests.fuzz import twice
from tests.fuzz.targets import target

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
TEXT = DB.parent / "text"


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each rank that was tried, whether arrays were enough."""
    found: list[bool] = []
    for module in twice.MODULES:
        made: Any = module.make

        def make(*asked: Any, made: Any = made) -> Any:
            done = made(*asked)
            found.append(done is not None)
            return done

        monkeypatch.setattr(module, "make", make)
    return found


def alike(path: Path, scratch: Path) -> None:
    """Every rank of a capture says the same as a small one and as a large one."""
    for number, source in enumerate(capture.find([path]).sources):
        twice.both(source, scratch / str(number), lambda done: None)


@pytest.mark.parametrize(
    ("form", "ranks"), [("torch_npu_db", 2), ("torch_npu_text", 2), ("late_rank/capture", 2), ("kineto", 1)]
)
def test_ranks_of_samples_are_made_of_arrays(form: str, ranks: int, tmp_path: Path, ways: list[bool]) -> None:
    alike(SAMPLES / form, tmp_path)
    assert ways == [True] * ranks


@real
@pytest.mark.parametrize("rank", RANKS[::2])
def test_real_databases_are_made_of_arrays(rank: str, tmp_path: Path, ways: list[bool]) -> None:
    alike(DB / rank, tmp_path)
    assert ways == [True]


@real
@pytest.mark.parametrize("rank", RANKS[1::2])
def test_real_text_exports_are_made_of_arrays(rank: str, tmp_path: Path, ways: list[bool]) -> None:
    alike(TEXT / rank, tmp_path)
    assert ways == [True]


def test_what_arrays_are_not_made_for_is_read_by_statements(tmp_path: Path, ways: list[bool]) -> None:
    """Annotations of mstx, and two operators of which it is not told which a task is of."""
    home = tmp_path / "in_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    home.mkdir(parents=True)
    maker = Maker(home / "ascend_pytorch_profiler_3.db")
    maker.task(1, "KERNEL_AIVEC", 100, 200, connection=11)
    maker.table("MSTX_EVENTS(startNs, endNs, eventType, globalTid, connectionId, message)",
                (NOW + 10, NOW + 90, 0, 77, 11, "mark"))  # fmt: skip
    maker.con.close()
    alike(home.parent, tmp_path / "out")
    assert ways == [False]


@pytest.mark.parametrize("name", ["database", "trace_view", "side_files", "tables", "kineto"])
def test_changed_files_say_the_same_both_ways(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twice.reading, "put_together", twice.both)
    this, draw = target(name), random.Random(7)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        this.check(this.mutate(draw.choice(this.seeds()), draw), tmp_path / str(number))


def test_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_of_db.spans, "stamp", lambda values: np.where(values == NONE, NONE, values + 1))
    source, _ = capture.find([SAMPLES / "torch_npu_db"]).sources
    with pytest.raises(twice.Differs, match="span"):
        twice.both(source, tmp_path, lambda done: None)
    assert parsing._SMALL == 4_000_000


def test_keys_find_their_rows() -> None:
    some, others = np.array([5, NONE, 7, 9]), np.array([9, 5, NONE, 5])
    assert lookup(some, others).tolist() == [1, -1, -1, 0]
    assert lookup(some, np.zeros(0, np.int64)).tolist() == [-1] * 4
    assert [side.tolist() for side in pairs(some, others)] == [[0, 0, 3], [1, 3, 0]]


def test_columns_together_are_keys() -> None:
    names, more = Texts.of(pa.array(["a", None, "b", "a"])), Texts.of(pa.array(["b", "a", "c"]))
    one, other = coded((np.array([1, 1, 2, 3]), names), (np.array([2, 1, 2]), more))
    assert [[int(a == b and a != NONE) for b in other] for a in one] == [[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_texts_are_put_together() -> None:
    one, other = Texts.of(pa.array(["x", None, None])), Texts.of(pa.array(["y", "z", None]))
    assert put_together(one, other, " ").list == ["x y", "z", ""]
    assert first(one, other).list == ["x", "z", None]
    assert one.take(np.array([0, -1])).list == ["x", None]


def test_the_latest_begin_is_found_and_two_at_once_are_refused() -> None:
    keys, ts = np.array([1, 1, 2, NONE]), np.array([10, 20, 15, 1])
    assert latest(np.array([1, 1, 1, 2, 3, NONE]), np.array([9, 10, 25, 30, 30, 30]), keys, ts).tolist() == [
        -1, 0, 1, 2, -1, -1]  # fmt: skip
    with pytest.raises(Unusual):
        latest(keys, ts, np.array([4, 4]), np.array([3, 3]))


def test_cells_are_read_as_sql_reads_them() -> None:
    draw, con = random.Random(3), duckdb.connect()
    con.execute("CREATE MACRO exact(cell) AS try_cast(cell AS DECIMAL(38, 15))")
    con.execute(
        "CREATE MACRO scaled(cell, factor) AS "
        "try_cast(round_even(TRY(exact(cell) * CAST(factor AS DECIMAL(15, 0))), 0) AS BIGINT)"
    )
    texts = ["N/A", "-", "1767600000123456.789\t", "0.0005", "0.0015", "-2.5", " 7 ", "99999999999999999999.5"]
    for _ in range(400):
        whole = str(draw.randrange(1, 10 ** draw.randrange(1, 20)))
        places = "." + str(draw.randrange(10 ** draw.randrange(1, 25))) if draw.random() < 0.8 else ""
        texts.append(draw.choice(("", "-")) + whole + places + draw.choice(("", "\t", " ")))
    query = "SELECT scaled(t, 1000), scaled(t, 1048576), exact(t)::VARCHAR FROM (SELECT unnest(?) AS t)"
    expected = con.execute(query, [texts]).fetchall()
    exact = [cells._exact(text) for text in texts]
    found = [
        (cells._times(1000)(text), cells._times(1 << 20)(text), None if number is None else f"{number:.15f}")
        for text, number in zip(texts, exact, strict=True)
    ]
    assert found == expected


def test_numbers_and_texts_are_written_as_sql_writes_them() -> None:
    draw, con = random.Random(4), duckdb.connect()
    numbers = [0.0, 1.0, -2.5, 0.1, 1e-6, 12345.678, 1e20, 123456789012345680.0, 2.5e-5]
    numbers += [draw.uniform(-1, 1) * 10 ** draw.randrange(-4, 18) for _ in range(300)]
    found = con.execute("SELECT json_object('a', x)::VARCHAR FROM (SELECT unnest(?) AS x)", [numbers]).fetchall()
    assert [f'{{"a":{double(number)}}}' for number in numbers] == [text for (text,) in found]
    texts = ["plain", 'q"uote', "back\\slash", "line\nbreak\ttab\r", "\x01\x1f\x7f", "中文/é", "\u2028"]
    found = con.execute("SELECT json_object('a', x)::VARCHAR FROM (SELECT unnest(?) AS x)", [texts]).fetchall()
    assert [f'{{"a":{as_json(text)}}}' for text in texts] == [text for (text,) in found]
    query = "SELECT TRY_CAST(round(x * 1000000) AS BIGINT) FROM (SELECT unnest(?) AS x)"
    assert [times(number, 1_000_000) for number in numbers] == [
        one for (one,) in con.execute(query, [numbers]).fetchall()
    ]
