"""Archives of every kind, unpacked in place: fields of their headers, whole members and bytes changed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from random import Random

from npulens.ingest.archive import Unpacked, recognise, unpack
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import Quota
from tests.fuzz import change

_QUOTA = Quota(unpacked_bytes=8 << 20, ratio_from_bytes=1 << 20, members=100, keep_free_bytes=0)
_NUMBERS = (0, 1, 2, 7, 8, 12, 14, 99, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
#: Where a zip's headers begin, and the length of their fixed part.
_ZIP = re.compile(rb"PK(?:\x03\x04|\x01\x02|\x05\x06|\x06\x06|\x06\x07|\x07\x08)")
_FIXED = {b"\3\4": 30, b"\1\2": 46, b"\5\6": 22, b"\6\6": 56, b"\6\7": 20, b"\7\10": 24}
_TAR_FIELDS = ((0, 100), (100, 8), (108, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155))
_TAR_VALUES = (
    b"", b"../../x", b"/etc/x", b"a/b", b"\xff\xfe", b"77777777777", b"00000000001", b"\x80" + bytes(10) + b"\x20",
    b"-1", b"0", b"1", b"2", b"5", b"L", b"K", b"x", b"g", b"S", b"V", b"a" * 100, b"\x80" + b"\xff" * 11,
)  # fmt: skip


def _zip(method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", b"[]" * 40)
        archive.writestr("rank0_ascend_pt/profiler_info_0.json", b"{}")
        archive.writestr("\u8ba1\u7b97/a.txt", b"x" * 3000)
        archive.writestr("empty/", b"")
    return out.getvalue()


def _streamed() -> bytes:
    """A zip written to a pipe: sizes behind the data."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError("a pipe")

    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.json", b'{"traceEvents":[]}' * 9)
        archive.writestr("b.json", b"[]")
    return out.getvalue()


def _tar(form: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        long = "d" * 60 + "/" + "n" * 60 + ".csv"
        for name, content in (("d/t.json", b"[]" * 300), (long, b"a,b\n"), ("d/\u8ba1.txt", b"x")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("d/link")
        link.type, link.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        archive.addfile(link)
    return out.getvalue()


def seeds() -> list[bytes]:
    tar = _tar(tarfile.GNU_FORMAT)
    return [
        *(_zip(method) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
        _streamed(), tar, _tar(tarfile.PAX_FORMAT), _tar(tarfile.USTAR_FORMAT), gzip.compress(tar, mtime=0),
        lzma.compress(tar), bz2.compress(tar), gzip.compress(b"[]" * 50, mtime=0) + gzip.compress(b"{}", mtime=0),
    ]  # fmt: skip


def mutate(data: bytes, draw: Random) -> bytes:
    if data[:2] == b"\x1f\x8b" and draw.random() < 0.5:  # what is inside, and packed again
        return gzip.compress(mutate(_inflated(data), draw), mtime=0)
    for _ in range(draw.choice((1, 1, 2, 4))):
        if _ZIP.match(data) and draw.random() < 0.7:
            data = _zip_field(data, draw)
        elif recognise_tar(data) and draw.random() < 0.7:
            data = _tar_field(data, draw)
        else:
            data = change.anything(data, draw)
    return data


def _inflated(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(data, 1 << 20)
    except zlib.error:
        return b""


def recognise_tar(data: bytes) -> bool:
    return len(data) >= 1024 and data[257:262] == b"ustar"


def _zip_field(data: bytes, draw: Random) -> bytes:
    """Two or four bytes of one header by a number that is too small, too large or just another."""
    header = draw.choice(list(_ZIP.finditer(data)))
    place = header.start() + 4 + 2 * draw.randrange((_FIXED[header[0][2:]] - 4) // 2)
    size = draw.choice((2, 4))
    number = draw.choice((*_NUMBERS, header.start(), len(data), draw.randrange(len(data) + 1)))
    packed = struct.pack("<I", number & 0xFFFFFFFF)[:size]
    return data[:place] + packed + data[place + size :]


def _tar_field(data: bytes, draw: Random) -> bytes:
    """One field of one header, with the checksum made right again."""
    block = 512 * draw.randrange(len(data) // 512)
    at, size = draw.choice(_TAR_FIELDS)
    header = bytearray(data[block : block + 512])
    header[at : at + size] = draw.choice(_TAR_VALUES)[:size].ljust(size, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return data[:block] + bytes(header) + data[block + 512 :]


def check(data: bytes, scratch: Path) -> None:
    path, into = scratch / "upload", scratch / "into"
    path.write_bytes(data)
    kind = recognise(path)
    if kind is None:
        return
    try:
        done = unpack(path, kind, into, _QUOTA, "upload.bin")
    except IngestError as error:
        assert error.kind and error.message
        return
    finally:
        assert {entry.name for entry in scratch.iterdir()} <= {"upload", "into", "into.member"}, "something lies beside"
    json.dumps(done.as_dict())
    contents = _contents(into, done)
    for expected in (_by_zipfile(path), _by_tarfile(path)):
        if expected is not None and not done.lost and done.damage is None:
            missing = expected - contents
            assert sum(missing.values()) <= len(done.skipped), f"members are missing and nothing is said: {done}"


def _contents(into: Path, done: Unpacked) -> Counter[bytes]:
    """What lies there: plain files and directories, no more than was counted."""
    found: Counter[bytes] = Counter()
    for folder, _, files in os.walk(into):
        for name in files:
            path = Path(folder) / name
            assert stat.S_ISREG(path.lstat().st_mode), f"{path} is no plain file"
            found[path.read_bytes()] += 1
    size = sum(len(content) * times for content, times in found.items())
    assert size <= done.bytes <= _QUOTA.unpacked_bytes and sum(found.values()) <= max(done.members, 1)
    return found


#: What the standard library says of a zip it cannot read.
_ZIPFILE = (
    zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error, struct.error,
    lzma.LZMAError, IndexError,
)  # fmt: skip


def _by_zipfile(path: Path) -> Counter[bytes] | None:
    """Members by the standard library, where it reads all of them and they do not share a name."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            if not all(_plain(info.filename) and not stat.S_ISLNK(info.external_attr >> 16) for info in infos):
                return None
            if len({info.filename.lower() for info in infos}) < len(infos) or len(infos) > 50:
                return None
            if any(info.flag_bits & 1 or info.file_size > 1 << 20 for info in infos):
                return None
            return Counter(archive.read(info) for info in infos)
    except _ZIPFILE:
        return None


def _by_tarfile(path: Path) -> Counter[bytes] | None:
    try:
        with tarfile.open(path, "r:", ignore_zeros=False) as archive:
            infos = [info for info in archive if info.isfile()]
            if not all(_plain(info.name) and not info.issparse() and info.size < 1 << 20 for info in infos):
                return None
            if len({info.name.lower() for info in infos}) < len(infos):
                return None
            return Counter(file.read() for info in infos if (file := archive.extractfile(info)))
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, KeyError, MemoryError):
        return None  # a name of terabytes it would really read


def _plain(name: str) -> bool:
    """A name whose every part is an ordinary one, so that no rule of ours has anything against it."""
    return bool(re.fullmatch(r"[A-Za-z0-9_\u8ba1\u7b97][A-Za-z0-9_.\u8ba1\u7b97/]{0,150}", name)) and "//" not in name
