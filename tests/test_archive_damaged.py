"""Damaged archives and those that lie about themselves: read as far as they are whole, and it is said what is lost."""

from __future__ import annotations

import json
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest import archive
from npulens.ingest.errors import IngestError
from tests import archives_made as made
from tests.test_archive import ROWS, job, tar, zipped
from tests.test_archive_hostile import inside, opened


def one_entry(path: Path, data: bytes, *, size: int | None = None, crc: int | None = None, flags: int = 0,
              method: int = 8, extra: bytes = b"", packed: int | None = None, offset: int = 0) -> Path:  # fmt: skip
    """A zip of one member whose directory claims what it likes."""
    body = made.local(b"t.json", made.deflated(data), data, flags=flags, method=method)
    listed = made.central(
        b"t.json", len(made.deflated(data)) if packed is None else packed, len(data) if size is None else size,
        zlib.crc32(data) if crc is None else crc, offset, flags=flags, method=method, extra=extra,
    )  # fmt: skip
    path.write_bytes(body + listed + made.end(1, len(listed), len(body)))
    return path


@pytest.mark.parametrize(
    ("name", "claims", "why"),
    [
        ("smaller", {"size": 10}, "more than the 10 bytes"),
        ("larger", {"size": 10**6}, "where it claims 1,000,000"),
        ("wrong checksum", {"crc": 1}, "checksum"),
        ("encrypted", {"flags": 1}, "encrypted"),
        ("deflate64", {"method": 9}, "Deflate64"),
        ("unknown method", {"method": 77}, "method 77"),
    ],
)
def test_what_a_zip_claims_is_not_believed(name: str, claims: dict[str, int], why: str, tmp_path: Path) -> None:
    path = one_entry(tmp_path / "a.zip", b"csv,not,json\n" * 1000, **claims)  # type: ignore[arg-type]
    found = opened(path)
    assert len(found.lost) == 1 and why in found.lost[0][2]
    assert inside(tmp_path / "out") == {}, "a table that ends anywhere is no table"


@pytest.mark.parametrize("field", ["packed", "size", "offset"])
def test_64_bit_lies_are_a_refusal_or_a_damage(field: str, tmp_path: Path) -> None:
    extra = b"\x01\x00\x08\x00" + (2**63 - 1).to_bytes(8, "little")
    path = one_entry(tmp_path / "a.zip", b"x" * 100, extra=extra, **{field: 0xFFFFFFFF})  # type: ignore[arg-type]
    found = opened(path)
    assert found.lost or found.damage
    end = b"PK\x06\x06" + (44).to_bytes(8, "little") + bytes(4 + 8) + (2**60).to_bytes(8, "little") * 4
    locator = b"PK\x06\x07" + bytes(4) + bytes(8) + (1).to_bytes(4, "little")
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04" + end + locator + made.end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "b.zip").write_bytes((tmp_path / "b.zip").read_bytes())
    try:
        assert opened(tmp_path / "b" / "b.zip").damage
    except IngestError as error:
        assert error.kind in ("too_many_files", "bad_archive")


def test_negative_sizes_sparse_members_and_giant_headers_of_tar(tmp_path: Path) -> None:
    def patched(name: str, change: Callable[[bytearray], None]) -> Path:
        path = made.tar_of(tmp_path / name, [("a", b"1" * 600), ("b", b"2")], style=tarfile.GNU_FORMAT)
        head = bytearray(path.read_bytes())
        change(head)
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head[:512])
        path.write_bytes(head)
        return path

    def negative(head: bytearray) -> None:
        head[124:136] = b"\xff" * 4 + (2**64 - 4096).to_bytes(8, "big")

    def giant(head: bytearray) -> None:
        head[156:157], head[124:136] = b"L", b"77777777777\0"

    def eight_terabytes(head: bytearray) -> None:
        head[124:136] = b"\x80" + (8 << 40).to_bytes(11, "big")

    def sparse(head: bytearray) -> None:
        head[156:157] = b"S"
        head[386:410] = b"00000000000\0" + b"77777777777\0"
        head[483:495] = b"77777777777\0"

    for number, change in enumerate((negative, giant, eight_terabytes, sparse)):
        place = tmp_path / str(number)
        place.mkdir()
        path = patched(f"{number}/a.tar", change)
        found = opened(path)
        assert found.damage or found.lost, change.__name__
        assert all(len(data) <= 4096 for data in inside(place / "out").values()), change.__name__


def test_a_chain_of_headers_without_end_is_a_damage(tmp_path: Path) -> None:
    path = made.tar_of(tmp_path / "a.tar", [("n" * 200, b"")], style=tarfile.GNU_FORMAT)
    longname = path.read_bytes()[:1024]
    path.write_bytes(longname * 3000)
    assert opened(path).damage


def test_every_cut_of_an_archive_gives_what_is_whole(tmp_path: Path) -> None:
    members = {f"m{i}.csv": bytes([65 + i]) * (700 * i) for i in range(6)}
    sources = {
        "zip": made.zip_of(tmp_path / "w.zip", members.items()),
        "stored": made.zip_of(tmp_path / "s.zip", members.items(), zipfile.ZIP_STORED),
        "tar": made.tar_of(tmp_path / "w.tar", members.items()),
        "tgz": made.tar_of(tmp_path / "w.tgz", members.items(), "w:gz"),
    }
    for name, source in sources.items():
        whole = source.read_bytes()
        for cut in range(120, len(whole), max(1, len(whole) // 60)):
            place = tmp_path / f"{name}{cut}"
            place.mkdir()
            (place / "a").write_bytes(whole[:cut])
            if archive.recognise(place / "a") is None:
                continue
            found = opened(place / "a")
            got = inside(place / "out")
            assert all(members[file] == data for file, data in got.items()), (name, cut)
            if len(got) < len(members):
                assert found.damage or found.lost, (name, cut)


def test_a_cut_archive_of_a_capture_is_a_partial_run_of_its_own(tmp_path: Path) -> None:
    source = job(tmp_path, ("h_1_20260101000000000_ascend_pt",))
    (source / "zz_notes.txt").write_bytes(os.urandom(3000))
    store = tmp_path / "store"
    [want] = ingest.load(source, store).runs
    for name, data in (("t.tar", tar(source, "job")), ("z.zip", zipped(source, "job"))):
        (tmp_path / name).write_bytes(data[: len(data) - (2500 if name == "z.zip" else 11000)])
        [run, *_] = ingest.load(tmp_path / name, store).runs
        assert run.status == "partial" and name in str(run.reason)
        assert run.run_id not in (None, want.run_id), "the whole one must not be called partial"
    [again] = ingest.load(source, store).runs
    assert again.run_id == want.run_id and again.stored == "exists"


def test_encrypted_and_multi_volume_say_what_to_do(tmp_path: Path) -> None:
    one_entry(tmp_path / "a.zip", ROWS.encode(), flags=1)
    [run] = ingest.load(tmp_path / "a.zip", tmp_path / "store").runs
    assert run.run_id is None and "password" in str(run.reason)
    path = made.zip_of(tmp_path / "b.zip", [("a", b"1")])
    path.write_bytes(path.read_bytes()[:-22] + made.end(1, 47, 32, disk=3))
    [run] = ingest.load(path, tmp_path / "store").runs
    assert (run.error or {})["kind"] == "multi_volume"


def test_archives_are_opened_two_deep_and_no_deeper(tmp_path: Path) -> None:
    made.zip_of(tmp_path / "1.zip", [("trace_view.json", ROWS.encode())])
    made.zip_of(tmp_path / "2.zip", [("1.zip", (tmp_path / "1.zip").read_bytes())])
    made.zip_of(tmp_path / "3.zip", [("2.zip", (tmp_path / "2.zip").read_bytes())])
    assert [run.run_id is None for run in ingest.load(tmp_path / "2.zip", tmp_path / "store").runs] == [False]
    [run] = ingest.load(tmp_path / "3.zip", tmp_path / "store").runs
    assert (run.error or {})["kind"] == "nested_archive"
    assert str((run.error or {})["path"]).endswith("3.zip/2.zip/1.zip"), "called as it is called outside"
    assert ".staging" not in json.dumps(run.as_dict())
