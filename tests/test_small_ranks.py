"""Small ranks are finished in memory and read one after the other: their tables are those of ranks of any size."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from torch_npu_db_files import CANN, NOW, Maker

from npulens import ingest
from npulens.ingest.loading import capture, parsing
from npulens.ingest.store import runs
from npulens.ingest.tables import device_time
from npulens.ingest.tables.concatenate import arrow, concatenate, pack
from npulens.ingest.tables.draft import Desk
from npulens.ingest.tables.finish import Part
from npulens.ingest.tables.held import Work
from npulens.ingest.tables.steps import Steps
from tests.test_torch_npu_db_made import make_newest

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
FORMS = ("torch_npu_db", "torch_npu_text", "kineto", "cpu_train_step")


def rows(part: Part) -> dict[str, list[tuple[Any, ...]]]:
    con = duckdb.connect()
    return {name: con.execute(f"FROM '{part.directory}/{name}.parquet' ORDER BY ALL").fetchall() for name in part.rows}


def told(part: Part) -> Part:
    return replace(part, directory="", seconds=0.0)


def read(path: Path, scratch: Path) -> list[Part]:
    """Every rank of a capture, one after the other on one desk."""
    desks = parsing.Desks(scratch)
    found = capture.find([path]).sources
    return [parsing.put_together(source, scratch / str(n), lambda done: None, desks) for n, source in enumerate(found)]


@pytest.mark.parametrize("form", FORMS)
def test_a_small_rank_has_the_tables_of_a_large_one(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same files, taken once for small and once for large."""
    small = read(SAMPLES / form, tmp_path / "small")
    monkeypatch.setattr(parsing, "_SMALL", 0)
    large = read(SAMPLES / form, tmp_path / "large")
    assert [(tmp_path / size / "0" / "1GB" / "tables").exists() for size in ("small", "large")] == [True, False]
    assert [told(part) for part in small] == [told(part) for part in large]
    for one, other in zip(small, large, strict=True):
        theirs = rows(other)
        assert {name: found for name, found in rows(one).items() if found != theirs[name]} == {}
        assert one.rows["span"] > 100


def ranks(folder: Path) -> list[Path]:
    """Databases that hold other things than the one before: tables, columns, communication, nothing but calls."""
    made = []
    for number in range(5):
        home = folder / f"{number}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        home.mkdir(parents=True)
        maker = Maker(home / f"ascend_pytorch_profiler_{number}.db")
        if number in (0, 2, 4):
            make_newest(maker)
        elif number == 1:
            maker.task(1, "KERNEL_AIVEC", 100, 200, connection=11)
            maker.table("COMPUTE_TASK_INFO(name, globalTaskId, opType)", ("Add_1", 1, "Add"))
        else:
            maker.table(CANN, (NOW, NOW + 50, 10000, 77 << 32 | 5, 11, "launch"))
        if number == 4:
            maker.table("PYTORCH_CALLCHAINS(id, stack, stackDepth)", (1, "a.py(1)", 0))
        maker.con.close()
        made.append(home.parent)
    return made


def test_a_rank_does_not_know_who_was_read_before_it(tmp_path: Path) -> None:
    """What the rank before has made is used again or goes; alone, each rank has the same tables."""
    homes = ranks(tmp_path / "in")
    together = read(tmp_path / "in", tmp_path / "together")
    alone = [read(home, tmp_path / f"alone{number}")[0] for number, home in enumerate(homes)]
    assert [told(part) for part in together] == [told(part) for part in alone]
    assert [rows(part) for part in together] == [rows(part) for part in alone]
    assert len({str(sorted(part.rows.items())) for part in together}) == 3


def test_ranks_that_are_read_together_are_one_run_and_a_broken_one_costs_no_other(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "torch_npu_db", tmp_path / "in")
    whole = ingest.load(tmp_path / "in", tmp_path / "whole").runs
    broken = tmp_path / "in" / "aaa_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler_7.db"
    broken.parent.mkdir(parents=True)
    maker = Maker(broken)
    maker.con.close()
    found = ingest.load(tmp_path / "in", tmp_path / "some").runs
    assert [run.run_id for run in found if run.error is None] == [whole[0].run_id]
    assert [run.error["kind"] for run in found if run.error is not None] == ["empty"]
    one, other = (runs.open_run(tmp_path / store, whole[0].run_id or "") for store in ("whole", "some"))
    for table in ("span", "kernel", "comm", "device_time", "coverage"):
        assert one.execute(f"FROM {table} ORDER BY ALL").fetchall() == (
            other.execute(f"FROM {table} ORDER BY ALL").fetchall()
        )


def test_packed_tables_come_out_as_they_went_in(tmp_path: Path) -> None:
    """Beside tables in files of their own, each moved from its origin."""
    steps = [{"rank": n, "step": n, "ts_ns": n, "dur_ns": 5, "device_ts_ns": None, "source": "s"} for n in range(3)]
    homes = [tmp_path / str(number) for number in range(2)]
    for home, some in zip(homes, (steps[:2], steps[2:]), strict=True):
        home.mkdir()
        pack({"track": arrow("track").empty_table(), "step": pa.Table.from_pylist(some, schema=arrow("step"))}, home)
    for table in ("step", "track"):
        concatenate(table, [(homes[0], 10), (homes[1], 0)], tmp_path / f"{table}.parquet")
    con = duckdb.connect()
    assert con.execute(f"SELECT step, ts_ns FROM '{tmp_path}/step.parquet'").fetchall() == [(0, 10), (1, 11), (2, 2)]
    assert con.execute(f"SELECT count(*) FROM '{tmp_path}/track.parquet'").fetchall() == [(0,)]


def test_what_is_made_again_is_there_once_and_what_is_not_is_gone(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick=True, files=False)

    def rank(number: int, *, other: bool) -> None:
        desk.begin()
        desk.make(f"CREATE TABLE it AS SELECT {number} AS a")
        desk.make("CREATE VIEW seen AS SELECT a + 1 AS b FROM it")
        if other:
            desk.make("CREATE VIEW between AS SELECT 'text' AS c")
            desk.make("CREATE TABLE seen AS SELECT 7 AS b")
        desk.make("CREATE MACRO seen(x) AS x * 2")

    def there() -> list[tuple[str]]:
        return desk.con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()

    for number, other in enumerate((False, False, True, True, False, True, False)):
        rank(number, other=other)
        assert desk.con.execute("SELECT seen(b) FROM seen").fetchall() == [(14 if other else 2 * (number + 1),)]
        assert there() == [("between",)] if other else [("seen",)]
    desk.begin()
    assert there() == [("seen",)]
    desk.make("CREATE TABLE it AS SELECT 'x' AS a")  # of another type: what rests upon it goes
    assert there() == []


KINDS = ("kernel", "memset", "memcpy", "comm_op", "comm_task", "unknown", "cpu_op", "wait")
TASKS = ("Notify_Wait", "Notify_Record", "Memcpy", "Reduce_Inline", "write value", None)


def drawn(draw: random.Random) -> tuple[pa.Table, pa.Table, Steps]:
    """Spans, what communicates of them, and steps."""
    many = draw.randrange(0, 40)
    marks = sorted(draw.sample(range(100), draw.randrange(4)))
    steps = Steps(*np.array([range(5, 5 + len(marks)), marks, [*marks[1:], 100][: len(marks)], marks], np.int64))
    begins = [draw.randrange(120) for _ in range(many)]
    number, outside = steps.of(np.array(begins, np.int64))
    spans = [
        {"span_id": n * 3, "rank": 0, "track": 1, "kind": draw.choice(KINDS), "name": "n", "ts_ns": begin,
         "dur_ns": draw.choice((0, 1, 9, 40)), "step": None if outside[n] else int(number[n]), "depth": 0}
        for n, begin in enumerate(begins)
    ]  # fmt: skip
    comm = [
        {"span_id": n, "rank": 0, "op_span_id": draw.choice((n, n, 3 * draw.randrange(40), None)),
         "task_type": draw.choice(TASKS)}
        for n in draw.sample(range(150), draw.randrange(30))
    ]  # fmt: skip
    return pa.Table.from_pylist(spans, schema=arrow("span")), pa.Table.from_pylist(comm, schema=arrow("comm")), steps


@pytest.mark.parametrize("seed", range(40))
def test_sums_over_arrays_are_those_of_sql(seed: int) -> None:
    draw = random.Random(seed)
    con = duckdb.connect()
    for _ in range(3):
        spans, comm, steps = drawn(draw)
        con.register("spans", spans)
        con.register("comms", comm)
        work, names = Work(spans, comm), {"span": "spans", "comm": "comms"}
        absent = set(draw.sample(("kernel", "comm", "transfer"), draw.randrange(3)))
        for world in (1, 4):
            untold = device_time.untold(con, names, 0, world)
            assert work.untold(world) == untold
        expected = device_time.device_time(con, names, 0, steps, absent, untold=untold)
        found = device_time.of_work(work, 0, steps, absent, untold=untold)
        assert found.to_pylist() == expected.to_pylist()
