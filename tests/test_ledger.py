"""Every file of an upload has a fate; disk and time are limits; nothing is left behind."""

from __future__ import annotations

import json
import os
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.app.cli import main
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import quota
from npulens.ingest.store import runs
from tests import archives_made as made
from tests import real_captures
from tests.conftest import SHARED
from tests.test_archive import job
from tests.test_store import kineto


def fates(report: ingest.LoadReport, base: Path) -> dict[str, tuple[str, str | None]]:
    return {os.path.relpath(each.path, base): (each.fate, each.reason) for each in report.files}


def test_read_beside_refused(tmp_path: Path, store_dir: Path) -> None:
    source = job(tmp_path, ("h_1_20260101000000000_ascend_pt",))
    rank = source / "h_1_20260101000000000_ascend_pt"
    (rank / "logs").mkdir()
    (rank / "logs" / "profiler.log").write_text("fine\n")
    (rank / "FRAMEWORK").mkdir()
    (rank / "FRAMEWORK" / "torch.op_range").write_bytes(b"\1")
    (source / "README.md").write_text("hello")
    (source / "page.json").write_text("<html>log in</html>")
    (source / "link").symlink_to("/etc")
    report = ingest.load(source, store_dir)
    run_id = next(run.run_id for run in report.runs if run.run_id)
    found = fates(report, source)
    name = rank.name
    assert {path: fate for path, (fate, _) in found.items()} == {
        f"{name}/profiler_info_0.json": "read",
        f"{name}/ASCEND_PROFILER_OUTPUT/trace_view.json": "read",
        f"{name}/logs/profiler.log": "beside",
        f"{name}/FRAMEWORK/torch.op_range": "beside",
        "README.md": "beside",
        "page.json": "refused",
        "link": "beside",
    }
    assert all(reason for fate, reason in found.values() if fate != "read")
    assert {each.run_id for each in report.files if each.fate == "read"} == {run_id}
    assert [(run.error or {})["kind"] for run in report.runs if run.run_id is None] == ["html"]
    kept = runs.manifest(store_dir, str(run_id))["passed_over"]
    assert sorted(Path(row["path"]).name for row in kept) == ["profiler.log", "torch.op_range"]
    again = ingest.load(source, store_dir)
    assert again.files == report.files, "what is known already has the same fates"


def test_members_of_an_archive_are_called_as_they_are_called_there(tmp_path: Path, store_dir: Path) -> None:
    trace = kineto(tmp_path / "trace.json").read_bytes()
    path = made.zip_of(tmp_path / "上传.zip", [("作业/a.json", trace), ("作业/notes.txt", b"x"), ("../up.json", b"{}")])
    report = ingest.load(path, store_dir)
    assert {each.path.removeprefix(f"{tmp_path}/"): each.fate for each in report.files} == {
        "上传.zip": "read",
        "上传.zip/作业/a.json": "read",
        "上传.zip/作业/notes.txt": "beside",
        "上传.zip/../up.json": "refused",
    }
    assert ".staging" not in repr(report)


def test_very_many_alike_are_listed_to_a_thousand_and_counted(tmp_path: Path, store_dir: Path) -> None:
    """The next page of an upload of 50,000 scraps is not 8 MB long; none of them goes untold."""
    source = tmp_path / "scraps"
    (source / "inner").mkdir(parents=True)
    for number in range(1203):
        (source / f"{number:04}.bin").write_bytes(b"x")
    (source / "inner" / "one.bin").write_bytes(b"x")
    (source / "page.json").write_text("<html>log in</html>")
    found = fates(ingest.load(source, store_dir), source)
    assert len(found) == 1000 + 1 + 1 + 1
    fate, reason = found.pop("\u2026")
    assert fate == "refused" and reason is not None and reason.startswith("203 more files of this directory: ")
    assert {"0000.bin", "0999.bin", "inner/one.bin", "page.json"} <= found.keys() and "1000.bin" not in found
    assert reason.endswith(str(found["0000.bin"][1]))


def test_what_is_alike_in_thousands_of_directories_is_counted_too(tmp_path: Path, store_dir: Path) -> None:
    source = tmp_path / "scraps"
    for number in range(4007):
        place = source / ("first" if number < 9 else "second") / f"{number:04}"
        place.mkdir(parents=True)
        (place / "one.bin").write_bytes(b"x")
    found = fates(ingest.load(source, store_dir), source)
    assert len(found) == 4001
    fate, reason = found["second/\u2026"]
    assert fate == "refused" and reason is not None and reason.startswith("7 more files in these directories: ")


def test_the_command_prints_the_table_and_the_list(tmp_path: Path, store_dir: Path) -> None:
    kineto(tmp_path / "in" / "t.json")
    (tmp_path / "in" / "evil\x1b[31m.txt").write_text("x")
    said = CliRunner().invoke(main, ["load", str(tmp_path / "in"), "--store", str(store_dir), "--files"])
    assert said.exit_code == 0 and "beside" in said.output and "\x1b" not in said.output
    said = CliRunner().invoke(main, ["load", str(tmp_path / "in"), "--store", str(store_dir), "--json"])
    files = json.loads(said.output)["files"]
    assert [set(row) for row in files] == [{"path", "fate", "run_id", "reason"}] * 2
    assert Counter(row["fate"] for row in files) == {"read": 1, "beside": 1}


def test_a_rank_that_cannot_be_read_has_its_files_refused(tmp_path: Path, store_dir: Path) -> None:
    (tmp_path / "t.json").write_text('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [')
    report = ingest.load(tmp_path / "t.json", store_dir)
    assert all(run.run_id is None for run in report.runs)
    assert {each.fate for each in report.files} == {"refused"} and all(each.reason for each in report.files)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real captures (../shared/traces) are not here")
def test_every_real_file_has_a_fate() -> None:
    _, report = real_captures.loaded(SHARED)
    here = Counter(str(path) for path in SHARED.rglob("*") if path.is_file())
    assert Counter(each.path for each in report.files) == here
    assert all(each.reason or each.run_id for each in report.files)
    assert all((run.error or {}).get("kind") not in ("defect", "crashed") for run in report.runs)


def test_disk_is_a_limit_that_is_refused_cleanly(tmp_path: Path, store_dir: Path) -> None:
    source = made.zip_of(tmp_path / "a.zip", [("a.json", os.urandom(30_000_000))], zipfile.ZIP_STORED)
    with pytest.raises(IngestError) as error:
        ingest.load(source, store_dir, max_disk="1M")
    assert error.value.kind == "disk_quota" and "--max-disk" in str(error.value)
    assert list((store_dir / ".staging").iterdir()) == [] and runs.runs(store_dir) == []


def test_time_is_a_limit_that_is_refused_cleanly(tmp_path: Path, store_dir: Path) -> None:
    kineto(tmp_path / "t.json", spans=20_000)
    with pytest.raises(IngestError) as error:
        ingest.load(tmp_path / "t.json", store_dir, max_time="0.01s")
    assert error.value.kind == "too_slow" and "--max-time" in str(error.value)
    assert list((store_dir / ".staging").iterdir()) == [] and runs.runs(store_dir) == []


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as error:
        quota.check_free(tmp_path, quota.Quota(keep_free_bytes=0), 1 << 62)
    assert error.value.kind == "disk_full"


@pytest.mark.parametrize(
    ("text", "size"), [("500M", 500 * 10**6), ("20G", 20 * 10**9), ("2.5t", 25 * 10**11), ("7", 7), ("1 GB", 10**9)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert quota.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9", "G", "20X", "1" * 40])
def test_what_is_no_size_is_said(text: str) -> None:
    with pytest.raises(IngestError) as error:
        quota.parse_bytes(text)
    assert error.value.kind == "bad_limit"
    assert quota.parse_seconds("1.5m") == 90.0


def test_the_environment_limits_a_servers_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_MAX_DISK", "3G")
    assert quota.Quota.of({}).disk_bytes == 3 * 10**9
    assert quota.Quota.of({"max_disk": "1G", "max_time": "2h"}) == quota.Quota(disk_bytes=10**9, time_s=7200.0)
