"""Archives of a capture are that capture: one run id for the directory and whatever it was packed into."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from npulens import ingest
from npulens.ingest import archive
from npulens.ingest.loading.quota import Quota
from tests import archives_made
from tests.test_rankdir import rank_directory
from tests.test_store import kineto

ROWS = (
    '[{"ph":"X","name":"aten::add","pid":1,"tid":1,"ts":"1736408883688177.930","dur":5.0,"cat":"cpu_op"},\n'
    '{"ph":"X","name":"aten::mul","pid":1,"tid":1,"ts":"1736408883688187.931","dur":5.0,"cat":"cpu_op"}]'
)


def job(tmp_path: Path, names: tuple[str, ...]) -> Path:
    """A job of some ranks, each a directory of torch_npu."""
    for rank, name in enumerate(names):
        root = rank_directory(tmp_path / "job", name, f"profiler_info_{rank}.json")
        (root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text(ROWS.replace("aten::add", f"aten::add{rank}"))
    return tmp_path / "job"


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as packer:
        packer.write(data)
    return bytes(out.getvalue().to_pybytes())


def tar(source: Path, inside: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packer:
        for child in [source] if inside else sorted(source.iterdir()):
            packer.add(child, inside or child.name)
    return out.getvalue()


def zipped(source: Path, inside: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packer:
        for path in sorted(source.rglob("*")):
            packer.write(path, Path(inside) / path.relative_to(source))
    return out.getvalue()


PACKED: dict[str, Callable[[Path, str], bytes]] = {
    "zip": zipped,
    "tar": tar,
    "tar.gz": lambda source, inside: gzip.compress(tar(source, inside)),
    "tar.xz": lambda source, inside: lzma.compress(tar(source, inside)),
    "tar.zst": lambda source, inside: zstd(tar(source, inside)),
    "tar.bz2": lambda source, inside: bz2.compress(tar(source, inside)),
    "zip in a tar": lambda source, inside: _single("inner.zip", zipped(source, inside)),
    "zip.xz": lambda source, inside: lzma.compress(zipped(source, inside)),
}


def _single(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packer:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        packer.addfile(info, io.BytesIO(data))
    return out.getvalue()


def loaded(path: Path, store: Path) -> list[ingest.LoadedRun]:
    shutil.rmtree(store, ignore_errors=True)
    found = list(ingest.load(path, store).runs)
    assert list((store / ".staging").iterdir()) == [], "something was left behind"
    return found


@pytest.mark.parametrize(
    "names",
    [("h_1_20260101000000000_ascend_pt", "h_2_20260101000000001_ascend_pt"),
     ("训练机_1_20260101000000000_ascend_pt", "训练机_2_20260101000000001_ascend_pt"),
     ("训练 机_7_20260101000000000_ascend_pt",)],
)  # fmt: skip
def test_a_capture_has_one_id_however_it_is_packed(names: tuple[str, ...], tmp_path: Path) -> None:
    source, store = job(tmp_path, names), tmp_path / "store"
    [want] = loaded(source, store)
    assert want.status != "refused" and want.ranks == tuple(range(len(names)))
    hosts = _hosts(store, str(want.run_id))
    for number, (kind, pack) in enumerate(PACKED.items()):
        inside = ("", "job", "作业/中")[(number + len(names)) % 3]
        path = tmp_path / "packed.bin"  # the content tells what it is, not the name
        path.write_bytes(pack(source, inside))
        [run] = loaded(path, store)
        assert (run.run_id, run.ranks, run.status) == (want.run_id, want.ranks, want.status), (kind, inside)
        assert _hosts(store, str(run.run_id)) == hosts, (kind, inside)


def _hosts(store: Path, run_id: str) -> list[tuple[object, ...]]:
    from npulens.ingest.store.runs import open_run

    con = open_run(store, run_id)
    return con.execute("SELECT rank, host, status FROM rank ORDER BY rank").fetchall()


def test_a_single_file_is_named_after_its_archive(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "trace_view.json").write_text(ROWS)
    [want] = loaded(tmp_path / "plain" / "trace_view.json", tmp_path / "store")
    packers = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "ZST": zstd}
    for ending, pack in packers.items():
        path = tmp_path / f"trace_view.json.{ending}"
        path.write_bytes(pack(ROWS.encode()))
        assert [run.run_id for run in loaded(path, tmp_path / "store")] == [want.run_id], ending


def test_a_gzipped_kineto_trace_stays_with_its_reader(tmp_path: Path) -> None:
    trace = kineto(tmp_path / "trace.json")
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    [alone] = loaded(packed, tmp_path / "store")
    (tmp_path / "w.zip").write_bytes(archives_made.zip_of(tmp_path / "w", [("trace.json.gz", packed.read_bytes())])
                                     .read_bytes())  # fmt: skip
    [run] = loaded(tmp_path / "w.zip", tmp_path / "store")
    assert run.run_id == alone.run_id and run.formats == ("kineto",)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_method_of_zip_gives_the_bytes_back(method: int, tmp_path: Path) -> None:
    data = os.urandom(300_000) + bytes(3_000_000) + os.urandom(10)
    path = archives_made.zip_of(tmp_path / "a.zip", [("d/a.bin", data), ("b", b"")], method)
    found = archive.unpack(path, archive.Kind.zip, tmp_path / "out", Quota(), "a.zip")
    assert (tmp_path / "out" / "d" / "a.bin").read_bytes() == data
    assert (found.members, found.bytes, found.lost, found.damage) == (2, len(data), [], None)


def test_streamed_zips_and_64_bit_ones(tmp_path: Path) -> None:
    class Pipe(io.RawIOBase):
        """Not seekable: sizes come behind the data."""

        def __init__(self) -> None:
            self.got = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.got += memoryview(data).cast("B")  # type: ignore[arg-type]
            return len(memoryview(data).cast("B"))  # type: ignore[arg-type]

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as out:  # type: ignore[arg-type]
        with out.open("big", "w", force_zip64=True) as member:
            member.write(b"x" * 100_000)
        out.writestr("small", b"y")
    whole = bytes(pipe.got)
    for name, data, lost in (("whole", whole, None), ("no end", whole[: whole.index(b"PK\x01\x02")], "end")):
        (tmp_path / "a.zip").write_bytes(data)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        found = archive.unpack(tmp_path / "a.zip", archive.Kind.zip, tmp_path / "out", Quota(), "a.zip")
        assert (tmp_path / "out" / "big").read_bytes() == b"x" * 100_000, name
        assert (tmp_path / "out" / "small").read_bytes() == b"y", name
        assert (found.damage is None) == (lost is None), name


def test_something_before_a_zip_does_not_matter_but_something_between_does(tmp_path: Path) -> None:
    path = archives_made.zip_of(tmp_path / "a.zip", [("a", b"1" * 50), ("b", b"2" * 50)])
    path.write_bytes(b"PK\x03\x04" + b"#" * 96 + path.read_bytes())
    found = archive.unpack(path, archive.Kind.zip, tmp_path / "out", Quota(), "a.zip")
    assert (tmp_path / "out" / "b").read_bytes() == b"2" * 50 and found.lost == []


@pytest.mark.parametrize("style", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_and_chinese_names_of_both_tars(style: int, tmp_path: Path) -> None:
    deep = "/".join(["d" * 90] * 5) + "/名.json"
    path = archives_made.tar_of(tmp_path / "a.tar", [(deep, b"1"), ("n" * 300, b"2")], style=style)
    found = archive.unpack(path, archive.Kind.tar, tmp_path / "out", Quota(), "a.tar")
    files = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert sorted(files.values()) == [b"1", b"2"] and found.lost == []
    assert sorted(found.renamed.values()) == ["n" * 300, "名.json"]
    assert all(len(part) <= 120 for name in files for part in name.split("/"))


def test_a_hard_link_is_the_file_and_a_symbolic_one_is_not(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        info = tarfile.TarInfo("one")
        info.size = 3
        out.addfile(info, io.BytesIO(b"abc"))
        for name, kind in (("two", tarfile.LNKTYPE), ("three", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "one"
            out.addfile(info)
    found = archive.unpack(tmp_path / "a.tar", archive.Kind.tar, tmp_path / "out", Quota(), "a.tar")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["one", "two"]
    assert (tmp_path / "out" / "two").read_bytes() == b"abc"
    assert [name for name, _ in found.skipped] == ["three"]


def test_files_of_nothing_are_there_whatever_becomes_of_them(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        for name, content, link in (
            ("none", b"", None), ("link", b"", "none"), ("later", b"", None), ("later", b"abc", None),
            ("gone", b"abc", None), ("gone", b"", None),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(content), tarfile.LNKTYPE if link else tarfile.REGTYPE, link or ""
            out.addfile(info, io.BytesIO(content))
    archive.unpack(tmp_path / "a.tar", archive.Kind.tar, tmp_path / "out", Quota(), "a.tar")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        "none": b"", "link": b"", "later": b"abc", "gone": b""
    }  # fmt: skip
