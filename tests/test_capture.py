"""What an upload holds: claimed, passed over, or refused by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest import capture
from tests.test_store import kineto


def kinds(path: Path) -> list[str]:
    return [error.kind for error in capture.find([path]).refused]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.zip", b"PK\x03\x04rest", "zip_archive"),
        ("a.pickle", b"\x80\x04\x95rest", "pickle"),
        ("a.json", b'{"nodes": []}', "unknown_json"),
        ("a.json", "[{}]".encode("utf-16"), "utf16"),
        ("a.db", b"SQLite format 3\0" + bytes(100), "unknown_database"),
        ("a.nsys-rep", b"whatever", "nsight_systems"),
        ("a.xplane.pb", b"\x0a\x0b", "xplane"),
        ("a.txt", b"hello", "unknown_format"),
        ("a.json", b"", "empty"),
    ],
)
def test_a_file_nobody_reads_is_refused_by_its_name(name: str, content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert kinds(tmp_path / name) == [kind]


def test_raw_directories_say_how_to_parse_them(tmp_path: Path) -> None:
    (tmp_path / "PROF_000001_20260101000000000_ABC" / "host" / "data").mkdir(parents=True)
    (tmp_path / "host_1_20260101000000000_ascend_pt" / "FRAMEWORK").mkdir(parents=True)
    found = capture.find([tmp_path]).refused
    assert {error.kind for error in found} == {"raw_msprof", "raw_torch_npu"}
    assert any("msprof --export=on" in error.message for error in found)
    assert any("analyse(" in error.message for error in found)


def test_notes_beside_a_capture_are_passed_over_in_silence(tmp_path: Path) -> None:
    kineto(tmp_path / "job" / "trace.json")
    (tmp_path / "job" / "manifest.json").write_text(json.dumps({"what": "a sample"}))
    (tmp_path / "job" / "README.md").write_text("notes")
    (tmp_path / "job" / "kernels.csv").write_text("a,b")
    found = capture.find([tmp_path])
    assert [source.files[0].name for source in found.sources] == ["trace.json"]
    assert found.refused == ()


def test_an_empty_directory_and_a_missing_path(tmp_path: Path) -> None:
    assert kinds(tmp_path) == ["empty"]
    assert kinds(tmp_path / "nowhere") == ["not_found"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    kineto(tmp_path / "outside" / "trace.json")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "link").symlink_to(tmp_path / "outside")
    assert capture.find([tmp_path / "job"]).sources == ()
