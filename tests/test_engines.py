"""What a node of a cluster does of a load is what this machine would do, and what is wrong with it is said."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from npulens import ingest
from npulens.ingest import IngestError, engines
from npulens.ingest.engines import node
from npulens.ingest.loading import capture
from npulens.ingest.store import runs
from npulens.ingest.tables import schema
from npulens.ingest.tables.finish import Part

CAPTURE = Path(__file__).resolve().parents[1] / "sample_traces" / "torch_npu_db"


def asked(capture_dir: Path, scratch: Path) -> node.Ranks:
    scratch.mkdir()
    return node.Ranks(capture.find([capture_dir]).sources, scratch, True, node.this_version())


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run as this machine loads it."""
    store = tmp_path_factory.mktemp("local")
    report = ingest.load(CAPTURE, store)
    return store / str(report.runs[0].run_id)


def test_a_node_reads_ranks_and_writes_tables_as_this_machine_does(local: Path, tmp_path: Path) -> None:
    answers = node.understood(node.read(asked(CAPTURE, tmp_path / "scratch")))
    parts = [Part(**answer["part"]) for answer in answers]
    manifest = runs.manifest(local.parent, local.name)
    assert [part.rank for part in parts] == manifest["ranks"]
    first = min(part.origin_ns for part in parts)
    assert first == manifest["origin_ns"]
    (tmp_path / "staged").mkdir()
    for table in set(schema.tables()) - {"run", "rank", "coverage"}:
        node.write(table, [(part.directory, part.origin_ns - first) for part in parts], str(tmp_path / "staged"))
        ours, theirs = (pq.read_table(folder / f"{table}.parquet") for folder in (tmp_path / "staged", local))
        assert ours.equals(theirs), table
    assert not [path for path in (tmp_path / "staged").iterdir() if path.suffix != ".parquet"]


def test_a_rank_that_cannot_be_read_is_said_and_the_other_is_read(tmp_path: Path) -> None:
    broken = tmp_path / "capture"
    shutil.copytree(CAPTURE, broken)
    ranks = asked(broken, tmp_path / "scratch")
    database = next(file for file in ranks.sources[0].files if file.name.startswith("ascend_pytorch_profiler"))
    database.write_bytes(database.read_bytes()[:5000])
    first, second = node.understood(node.read(ranks))
    assert IngestError(**first["error"]).message and "part" in second


def test_a_node_that_sees_nothing_or_has_another_version_is_named(tmp_path: Path) -> None:
    ranks = asked(CAPTURE, tmp_path / "scratch")
    with pytest.raises(IngestError, match="does not see it: the capture and the store must have the same path"):
        node.understood(node.read(replace(ranks, scratch=tmp_path / "elsewhere")))
    with pytest.raises(IngestError, match=r"has npulens .*, not 0\.0\.1/1 as here"):
        node.understood(node.read(replace(ranks, made_by="0.0.1/1")))


def test_an_unknown_engine_and_one_that_is_not_installed_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(IngestError, match="an engine is local, ray or ray://HEAD, not dask"):
        ingest.load(CAPTURE, tmp_path / "store", engine="dask")
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        engines.opened("ray") as engine,
        pytest.raises(IngestError, match=r"pip install 'npulens\[ray\]'"),
    ):
        engine.write(["span"], [], tmp_path)
