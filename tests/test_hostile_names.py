"""What the hostile files found, each kept small: odd names, pipes, rows that Arrow cannot decode, zips of Python."""

from __future__ import annotations

import os
import sqlite3
import zipfile
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import capture
from npulens.ingest.messages import one_line
from npulens.ingest.readers.ascend import rankdir
from npulens.ingest.readers.sqlite import Database, is_sqlite
from tests.hostile.kineto import good, trace
from tests.text_export import KERNEL, L1, ROOT, load, write

RAW = b"\xff\xfe".decode("utf-8", "surrogateescape")  # bytes that are no UTF-8, as Python shows them


def test_a_name_cannot_break_the_line_of_a_refusal() -> None:
    error = IngestError("x", "no capture", f"/up/a\nb\u202e{RAW}", 7)
    assert str(error) == "no capture (/up/a\\nb\\u202e\\udcff\\udcfe at byte 7)"
    assert str(IngestError("x", "no capture", "/up/算子 é")) == "no capture (/up/算子 é)"
    assert one_line("ab" * 300) == "ab" * 200 + " ..."


def test_a_row_of_another_width_that_is_no_utf8_is_kept(tmp_path: Path) -> None:
    """Arrow passes such a row over without asking: every row of the file is there, the text with its marks."""
    odd = KERNEL.replace("MatMul1", "Mat@1") + ",more"
    content = f"{L1}\n{KERNEL}\n{odd}\n".encode().replace(b"@", b"\xa1\xff")
    got = load(write(tmp_path / ROOT, kernel_details_csv=content), tmp_path)
    assert got.all("SELECT name FROM span ORDER BY name") == [("MatMul1",), ("Mat\ufffd\ufffd1",)]
    assert "1 rows of kernel_details.csv have too few or too many cells" in got.cover("kernel")["reason"]


def test_directories_whose_names_are_no_text(tmp_path: Path) -> None:
    write(tmp_path / f"{RAW}_ascend_pt", kernel_details_csv=f"{L1}\n{KERNEL}\n")
    got = load(tmp_path / f"{RAW}_ascend_pt", tmp_path)
    assert got.all("SELECT name FROM span") == [("MatMul1",)]
    path = tmp_path / f"{RAW}.db"
    with sqlite3.connect(os.fsencode(path)) as con:
        con.execute("CREATE TABLE TASK(startNs)")
    con.close()
    with Database(path) as database:
        assert database.tables == {"TASK": ("startNs",)}


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    for name in ("profiler_info_3.json", "analysis.db"):
        os.mkfifo(tmp_path / name)
    assert rankdir.info_file(tmp_path) is None
    assert not is_sqlite(tmp_path / "analysis.db")
    (tmp_path / "ASCEND_PROFILER_OUTPUT").mkdir()
    os.mkfifo(tmp_path / "ASCEND_PROFILER_OUTPUT" / "communication.json")
    assert rankdir.facts(tmp_path).groups == ()


def test_a_zip_member_without_a_file_type_is_a_file(tmp_path: Path, store_dir: Path) -> None:
    """Python's writestr stores the permissions of a member and nothing else."""
    made = trace(tmp_path, good())
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("t.pt.trace.json", made.read_bytes())
    (run,) = ingest.load(tmp_path / "x.zip", store_dir).runs
    assert {row["table"]: row["rows"] for row in run.coverage}["span"] == 20


def test_what_cannot_be_entered_costs_only_itself(tmp_path: Path) -> None:
    """A path longer than the system takes: the rest of the upload is found."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    trace(tmp_path, good())
    found = capture.find([tmp_path])
    assert [source.root.name for source in found.sources] == ["t.pt.trace.json"]
    assert {error.kind for error in found.refused} == {"unreadable"}


def test_too_many_files_are_refused_before_they_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_ENTRIES", 5)
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(IngestError, match="more than 5 files"):
        capture.find([tmp_path])
    (tmp_path / "0.txt").unlink()
    assert [error.kind for error in capture.find([tmp_path]).refused] == ["empty"] * 4


def test_a_hole_of_a_terabyte_is_not_read(tmp_path: Path, store_dir: Path) -> None:
    path = trace(tmp_path, good())
    os.truncate(path, 1 << 40)
    with pytest.raises(IngestError, match="1.1 TB of captures") as caught:
        ingest.load(path, store_dir)
    assert caught.value.kind == "too_large"


@pytest.mark.parametrize(("number", "rank"), [("524287", 524287), ("524288", None), ("9" * 30, None)])
def test_a_rank_whose_spans_could_not_be_numbered_is_none(tmp_path: Path, number: str, rank: int | None) -> None:
    files = {f"profiler_info_{number}_json": "{}", "kernel_details_csv": f"{L1}\n{KERNEL}\n"}
    (source,) = capture.find([write(tmp_path / "x_ascend_pt", **files)]).sources
    assert source.facts.rank == rank
    loaded = load(source.root, tmp_path, source.facts.rank or 0)
    assert loaded.all("SELECT rank FROM span") == [(rank or 0,)]
