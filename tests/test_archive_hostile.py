"""Archives that attack or are damaged: refused with a sentence, or read as far as they are whole. Nothing escapes."""

from __future__ import annotations

import gzip
import io
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

from npulens import ingest
from npulens.ingest import archive
from npulens.ingest.archive import names
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import Quota
from tests import archives_made as made

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


MEMORY = """
import resource, sys
from pathlib import Path
from npulens.ingest import archive
from npulens.ingest.loading.quota import Quota
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

        path.write_bytes(lzma.compress(bytes(1 << 20) * 60 + os.urandom(1 << 20), preset=1))
    else:
        made.zip_of(path, [("a", os.urandom(1 << 20) * 100)], zipfile.ZIP_STORED)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout.split()[-1]) < 128 * 1024, done.stdout
