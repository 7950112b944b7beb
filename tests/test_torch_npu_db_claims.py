"""Which files are a rank's database, what is known of them before parsing, and what damage does to them."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from torch_npu_db_files import DB, PRISTINE, RANKS, Maker, load, real

from npulens.ingest.errors import IngestError
from npulens.ingest.readers.ascend import read_torch_npu_db
from npulens.ingest.tables.draft import Draft


@real
@pytest.mark.shared
def test_reading_leaves_no_trace_beside_the_files(tmp_path: Path) -> None:
    shutil.copytree(DB / "level0/rank0_ascend_pt", tmp_path / "rank0_ascend_pt")
    for path in (tmp_path / "rank0_ascend_pt").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)

    def state() -> dict[str, str]:
        files = sorted(p for p in (tmp_path / "rank0_ascend_pt").rglob("*") if p.is_file())
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    before = state()
    load(tmp_path / "rank0_ascend_pt", tmp_path / "scratch")
    assert state() == before and len(before) == 3


@real
@pytest.mark.shared
def test_facts_come_before_parsing() -> None:
    claims = [read_torch_npu_db.sniff(DB / rank) for rank in RANKS]
    assert all(claim is not None for claim in claims)
    facts = [claim.facts for claim in claims if claim]
    assert [fact.rank for fact in facts] == [0, 1] * 3
    assert len({fact.groups for fact in facts}) == 3 and all(len(fact.groups) == 1 for fact in facts)
    assert all(fact.begin_ns and fact.end_ns and fact.begin_ns < fact.end_ns for fact in facts)


@real
@pytest.mark.shared
def test_a_renamed_lone_database_is_known_by_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "something.dat"
    shutil.copyfile(DB / "level0/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_1.db", path)
    claim = read_torch_npu_db.sniff(path)
    assert claim is not None and claim.root == tmp_path and claim.files == (path,)
    assert (claim.facts.rank, claim.facts.rank_source) == (1, "database")
    assert read_torch_npu_db.sniff(tmp_path) is None  # a directory of anything is not a rank


@real
@pytest.mark.shared
def test_a_truncated_database_gives_what_is_left(tmp_path: Path) -> None:
    """The list of tables lies in the first third of the file: without it there is nothing to go by, then ever more."""
    whole = (PRISTINE / "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db").read_bytes()
    kept = []
    for tenth in (2, 5, 7, 9):
        path = tmp_path / f"cut{tenth}" / "ascend_pytorch_profiler_0.db"
        path.parent.mkdir()
        path.write_bytes(whole[: len(whole) * tenth // 10])
        if tenth == 2:
            with pytest.raises(IngestError, match="truncated: 37 of 189 pages"):
                load(path, tmp_path / "scratch")
            continue
        run = load(path, tmp_path / f"scratch{tenth}")
        assert "truncated" in run.part.reasons[0]
        kept.append(sum(run.part.rows.values()))
    assert kept == sorted(kept) and kept[-1] > kept[0] > 1000


@real
@pytest.mark.shared
def test_analysis_db_alone_counts_where_nothing_says_it_better(tmp_path: Path) -> None:
    """A 4-rank capture of text files and analysis.db but no main database: the text reader has it all."""
    output = tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    shutil.copyfile(DB / "level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/analysis.db", output / "analysis.db")
    run = load(output.parent, tmp_path / "scratch")
    assert run.one("SELECT count(*) FROM profiler_step") == 1 and run.one("SELECT count(*) FROM comm_link") == 48
    assert "4 dropped" in run.cover("comm")["reason"]
    (output / "trace_view.json").write_text("[]")
    assert read_torch_npu_db.sniff(output.parent) is None


def test_databases_of_several_ranks_in_one_directory(tmp_path: Path) -> None:
    for rank in (0, 3):
        Maker(tmp_path / f"ascend_pytorch_profiler_{rank}.db").con.close()
    Maker(tmp_path / "analysis.db").con.close()
    claims = [read_torch_npu_db.sniff(path) for path in sorted(tmp_path.iterdir())]
    assert read_torch_npu_db.sniff(tmp_path) is None and claims[0] is None
    assert [(claim.facts.rank, len(claim.files)) for claim in claims if claim] == [(0, 1), (3, 1)]


def test_a_database_that_msprof_put_beside_its_output(tmp_path: Path) -> None:
    root = tmp_path / "PROF_000001_20250109_ABC"
    (root / "mindstudio_profiler_output").mkdir(parents=True)
    Maker(root / "msprof_20250109.db").con.close()
    claim = read_torch_npu_db.sniff(root)
    assert claim is not None and claim.root == root and claim.files == (root / "msprof_20250109.db",)


@pytest.mark.parametrize("content", ["nothing", "no tables", "empty tables"])
def test_an_empty_database_is_refused_with_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ascend_pytorch_profiler_0.db"
    if content == "nothing":
        path.write_bytes(b"")
    else:
        con = sqlite3.connect(path)
        con.execute("CREATE TABLE TASK(startNs)")
        if content == "no tables":
            con.execute("DROP TABLE TASK")
        con.commit()
        con.close()
    claim = read_torch_npu_db.sniff(path)
    assert claim is not None
    with pytest.raises(IngestError) as refused:
        read_torch_npu_db.read(claim, Draft(tmp_path / "draft", 0))
    assert str(path) in str(refused.value)


def test_other_files_are_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_bytes(b"hello")
    con = sqlite3.connect(tmp_path / "other.db")
    con.execute("CREATE TABLE slice(id)")
    con.commit()
    con.close()
    assert read_torch_npu_db.sniff(tmp_path / "notes.db") is None
    assert read_torch_npu_db.sniff(tmp_path / "other.db") is None
    assert read_torch_npu_db.sniff(tmp_path) is None
