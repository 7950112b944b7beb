"""Archives that attack or are damaged: refused with a sentence, or read as far as they are whole. Nothing escapes."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import ingest
from ingest import archive
from ingest.archive import names
from ingest.errors import IngestError
from ingest.quota import Quota
from tests import archives_made as made
from tests.test_archive import ROWS, job, tar, zipped

ROOT = Path(__file__).resolve().parent.parent
SMALL = Quota(members=1000, unpacked_bytes=64 << 20, ratio_from_bytes=4 << 20)


def opened(path: Path, quota: Quota = SMALL) -> archive.Unpacked:
    kind = archive.recognise(path)
    assert kind is not None
    return archive.unpack(path, kind, path.parent / "out", quota, path.name)


def refused(path: Path, quota: Quota = SMALL) -> IngestError:
    with pytest.raises(IngestError) as error:
        opened(path, quota)
    return error.value


def inside(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


EVIL = [
    "../up.json", "../../../../../../tmp/npulens_up", "a/../../up", "/abs/olute.json", "..", "a/..", "./.././up",
    "C:\\windows\\x.json", "C:/x.json", "..\\..\\up.json", "\\\\server\\share\\x", "a\0.json", "con\x1b[31m.json",
    "n" * 300 + ".json", "-rf", ".hidden", "~/x", "$HOME", "a\nb.json", "\u202egnp.json", "CON", "a:b", "x" * 5000,
    "/".join("d" * 40), "//etc/passwd", "a//b///c.json", " ", "名字.json",
]  # fmt: skip


def everything(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*")}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_no_name_leads_out_and_every_component_is_plain(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "c"
    place.mkdir(parents=True)
    members = [(name, f"{number}".encode()) for number, name in enumerate(EVIL)]
    path = place / f"evil.{kind}"
    if kind == "zip":
        made.zip_of(path, members)
    else:
        made.tar_of(path, [(name, data) for name, data in members if "\0" not in name])
    before = everything(tmp_path)
    found = opened(path)
    written = everything(tmp_path) - before
    root = place / "out"
    assert all(name == str(root) or name.startswith(f"{root}{os.sep}") for name in written)
    for name in written - {str(root)}:
        assert all(names.own(part) == part for part in Path(name).relative_to(root).parts), name
    assert not Path("/tmp/npulens_up").exists()
    lost = {member for _, member, _ in found.lost}
    climbing = {name for name in EVIL if ".." in name.replace("\\", "/" if kind == "zip" else "\\").split("/")}
    assert {name for name in climbing if "\\" not in name} <= lost
    assert len(inside(root)) + len(lost) + len(found.skipped) >= len(members) - (kind == "tar"), "none is forgotten"


def test_two_spellings_of_a_name_are_two_files(tmp_path: Path) -> None:
    members = [("A.json", b"1"), ("a.json", b"2"), ("a_json", b"3"), ("a?json", b"4"), ("D/x", b"5"), ("d/x", b"6")]
    opened(made.tar_of(tmp_path / "a.tar", members))
    files = inside(tmp_path / "out")
    assert sorted(files.values()) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert len({name.lower() for name in files}) == 6


def test_the_last_of_two_members_counts_and_it_is_said(tmp_path: Path) -> None:
    for name, make in (("a.zip", made.zip_of), ("a.tar", made.tar_of)):
        with pytest.warns(UserWarning) if name == "a.zip" else _nothing():
            make(tmp_path / name, [("t.json", b"first"), ("t.json", b"second")])
        found = opened(tmp_path / name)
        assert inside(tmp_path / "out") == {"t.json": b"second"}
        assert [member for member, why in found.skipped if "more than once" in why] == ["t.json"]
        (tmp_path / "out" / "t.json").unlink()
        (tmp_path / "out").rmdir()


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_links_devices_and_pipes_are_skipped_with_a_reason(tmp_path: Path) -> None:
    specials = [
        ("link", tarfile.SYMTYPE, "/etc"), ("hard", tarfile.LNKTYPE, "/etc/passwd"), ("char", tarfile.CHRTYPE, ""),
        ("block", tarfile.BLKTYPE, ""), ("pipe", tarfile.FIFOTYPE, ""), ("up", tarfile.SYMTYPE, "../.."),
    ]  # fmt: skip
    path = made.special_tar(tmp_path / "a.tar", specials, [("link/passwd", b"x"), ("up/x", b"y"), ("ok", b"z")])
    found = opened(path)
    assert inside(tmp_path / "out") == {"link/passwd": b"x", "up/x": b"y", "ok": b"z"}, "beside the links, not through"
    assert all(
        stat.S_ISREG(p.lstat().st_mode) or stat.S_ISDIR(p.lstat().st_mode) for p in (tmp_path / "out").rglob("*")
    )
    assert {name for name, _ in found.skipped} == {"link", "char", "block", "pipe", "up"}
    assert [name for _, name, _ in found.lost] == ["hard"]


def zip_link(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        info = zipfile.ZipInfo("link")
        info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        out.writestr(info, "/etc/passwd")
        out.writestr("ok", b"z")
    return path


def test_a_link_in_a_zip_is_skipped(tmp_path: Path) -> None:
    found = opened(zip_link(tmp_path / "a.zip"))
    assert inside(tmp_path / "out") == {"ok": b"z"} and [name for name, _ in found.skipped] == ["link"]


BOMBS: dict[str, Callable[[Path], Path]] = {
    "gzip": lambda path: made.gzip_bomb(path, 80),
    "gzip of gzip": lambda path: _twice(made.gzip_bomb(path, 400)),
    "zip": lambda path: made.zip_of(path, [("a.json", bytes(80 << 20))]),
    "full overlap": made.overlap_bomb,
    "quoted overlap": made.quoted_bomb,
    "hard links": lambda path: _links(path),
}


def _twice(path: Path) -> Path:
    path.write_bytes(gzip.compress(path.read_bytes()))
    return path


def _links(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as out:
        info = tarfile.TarInfo("a")
        info.size = 1 << 20
        out.addfile(info, io.BytesIO(bytes(1 << 20)))
        for number in range(100):
            info = tarfile.TarInfo(f"l{number}")
            info.type, info.linkname = tarfile.LNKTYPE, "a"
            out.addfile(info)
    return path


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_what_really_comes_out(name: str, tmp_path: Path) -> None:
    path = BOMBS[name](tmp_path / "bomb")
    assert path.stat().st_size < 1 << 20
    if name == "gzip of gzip":
        report = ingest.load(path, tmp_path / "store")
        assert [(run.error or {})["kind"] for run in report.runs] == ["archive_bomb"]
    else:
        assert refused(path).kind == "archive_bomb"


def test_the_whole_is_limited_even_where_the_ratio_is_honest(tmp_path: Path) -> None:
    path = made.tar_of(tmp_path / "a.tar", [("a", os.urandom(3 << 20)), ("b", os.urandom(3 << 20))])
    assert refused(path, replace(SMALL, unpacked_bytes=4 << 20)).kind == "archive_bomb"


@pytest.mark.parametrize("told", [None, 1, 0xFFFF])
def test_members_are_counted_before_anything_is_made_of_them(told: int | None, tmp_path: Path) -> None:
    path = made.many_members(tmp_path / "many.zip", 2000, told=told)
    assert refused(path).kind == "too_many_files"
    assert list((tmp_path / "out").iterdir()) == []
    with tarfile.open(tmp_path / "many.tar", "w") as out:
        for number in range(1001):
            out.addfile(tarfile.TarInfo(str(number)))
    (tmp_path / "out").rmdir()
    assert refused(tmp_path / "many.tar").kind == "too_many_files"


def one_entry(path: Path, data: bytes, *, size: int | None = None, crc: int | None = None, flags: int = 0,
              method: int = 8, extra: bytes = b"", packed: int | None = None, offset: int = 0) -> Path:  # fmt: skip
    """A zip of one member whose directory claims what it likes."""
    import zlib

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


MEMORY = """
import resource, sys
from pathlib import Path
from ingest import archive
from ingest.quota import Quota
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
path = Path(sys.argv[1])
try:
    archive.unpack(path, archive.recognise(path), path.parent / "out", Quota(), path.name)
except archive.IngestError as error:
    print(error.kind)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("name", ["gzip", "many", "xz", "big zip"])
def test_unpacking_holds_little_in_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    if name == "gzip":
        made.gzip_bomb(path, 200)
    elif name == "many":
        made.many_members(path, 120_000)
    elif name == "xz":
        import lzma

        path.write_bytes(lzma.compress(os.urandom(1 << 20) * 100, preset=6))
    else:
        made.zip_of(path, [("a", os.urandom(1 << 20) * 100)], zipfile.ZIP_STORED)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout.split()[-1]) < 128 * 1024, done.stdout
