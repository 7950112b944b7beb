"""Archives: bombs, names that lead out, members that lie, headers that overlap, ends that are missing."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.hostile.directories import NAMES
from tests.hostile.kineto import HEADER, good
from tests.hostile.planted import Kind, Planted, damaged

TRACE = (f'{{{HEADER}, "traceEvents": [\n' + ",\n".join(good()) + "\n]}").encode()
MEMBER = "rank/t.pt.trace.json"
OUT = ("../t.pt.trace.json", "a/../../b.json", "/etc/cron.d/x", "//etc/x", "C:\\x.json", "..\\..\\x.json",
       "\\\\host\\x", "./././x.json", "a//b///c.json", "", ".", "..", "/", "a/", "a\0b.json", "x" * 300,
       "/".join("d" * 100), "~/.bashrc", "$(id).json", "a:b.json", "con.json", "a/./b/../c.json",
       "x" * 60_000)  # fmt: skip
PACKERS: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, bz2.compress, lzma.compress)


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in members:
            info = zipfile.ZipInfo("placeholder")
            info.filename, info.compress_type = name, method
            archive.writestr(info, content)
    return made.getvalue()


def tarred(members: list[tuple[tarfile.TarInfo, bytes]], format: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", type: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = type, link, len(content)
    return info, content


def lay(directory: Path, name: str, content: bytes) -> Path:
    (directory / name).write_bytes(content)
    return directory / name


def _good(number: int) -> tuple[str, bytes]:
    """The trace as an archive of one kind or another."""
    match number % 6:
        case 0:
            return "x.zip", zipped([(MEMBER, TRACE)])
        case 1:
            return "x.tar", tarred([member(MEMBER, TRACE)])
        case 2:
            return "x.zip", zipped([(MEMBER, TRACE), ("notes.txt", b"x" * 999)], zipfile.ZIP_STORED)
        case kind:
            return "x.tar." + ("gz", "bz2", "xz")[kind - 3], PACKERS[kind - 3](tarred([member(MEMBER, TRACE)]))


def _flip(directory: Path, dice: random.Random, number: int) -> Planted:
    """The trace is there as a whole, in part and said to be, or not at all."""
    name, content = _good(number)
    return Planted(lay(directory, name, damaged(content, dice)))


def _cut(directory: Path, dice: random.Random, number: int) -> Planted:
    name, content = _good(number)
    return Planted(lay(directory, name, content[: dice.randrange(1, len(content))]))


def _names(directory: Path, dice: random.Random, number: int) -> Planted:
    """A member whose name leads somewhere else, beside one that is good."""
    name = (*OUT, *NAMES)[number // 2 % (len(OUT) + len(NAMES))]
    if number % 2:
        raw = tarred([member(name, TRACE[:50]), member(MEMBER, TRACE)])
    else:
        text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raw = zipped([(text, TRACE[:50]), (MEMBER, TRACE)])
    return Planted(lay(directory, "x.tar" if number % 2 else "x.zip", raw), rows={"span": 20})


def _links(directory: Path, dice: random.Random, number: int) -> Planted:
    """Links, devices and pipes that an unpacker would make, and files that would then be written through them."""
    types = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE,
             tarfile.GNUTYPE_SPARSE, tarfile.DIRTYPE, b"Z", b"\0")  # fmt: skip
    target = ("/etc/passwd", "../../..", ".", "rank", MEMBER, "/dev/zero", "")[number // len(types) % 7]
    kind = types[number % len(types)]
    members = [member("rank/link", type=kind, link=target), member("rank/link/t.json", b"{}"), member(MEMBER, TRACE)]
    formats = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)
    return Planted(lay(directory, "x.tar", tarred(members, formats[number % 3])), rows={"span": 20})


def _headers(directory: Path, dice: random.Random, number: int) -> Planted:
    """A field of a header says something else: sizes, offsets, methods, flags, checksums."""
    raw = bytearray(zipped([(MEMBER, TRACE), ("b.json", b"{}")]))
    places = {b"PK\x03\x04": ((4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)),
              b"PK\x01\x02": ((4, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (34, 2),
                              (38, 4), (42, 4)),
              b"PK\x05\x06": ((4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2))}  # fmt: skip
    flat = [(magic, *place) for magic, of in places.items() for place in of]
    magic, at, length = flat[number % len(flat)]
    start = raw.index(magic) + at
    values = (bytes(length), b"\xff" * length, b"\xff" * (length - 1) + b"\x7f", b"\x01" + bytes(length - 1),
              dice.randbytes(length))  # fmt: skip
    raw[start : start + length] = values[number // len(flat) % len(values)]
    return Planted(lay(directory, "x.zip", bytes(raw)))


def _tar_headers(directory: Path, dice: random.Random, number: int) -> Planted:
    """The same in tar, where numbers are octal text or base 256, with the checksum made right again."""
    raw = bytearray(tarred([member("b.json", b"{}"), member(MEMBER, TRACE)], tarfile.GNU_FORMAT))
    places = ((0, 100), (100, 8), (108, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155))
    at, length = places[number % len(places)]
    values = (b"\xff" * length, b"\x80" + b"\xff" * (length - 1), b"7" * length, b"-1" + bytes(max(0, length - 2)),
              bytes(length), dice.randbytes(length), b"L" * length, b"x" * length)  # fmt: skip
    raw[at : at + length] = values[number // 9 % len(values)][:length]
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    return Planted(lay(directory, "x.tar", bytes(raw)))


def _overlapping(directory: Path, dice: random.Random, number: int) -> Planted:
    """Many members of the directory share the same bytes (as in CVE-2024-0450)."""
    block = zlib.compress(bytes(20 << 20), 9)[2:-4]
    count = (2, 20, 2000)[number % 3]
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 8, 0, 0, zlib.crc32(bytes(20 << 20)), len(block), 20 << 20, 1, 0)
    shift = number // 3 % 2  # the same header for all, or one behind the other
    body = b"".join(local + b"%c" % (65 + i % 26) for i in range(count if shift else 1)) + block
    entries = b""
    for i in range(count):
        size = len(block) + (31 * (count - i - 1) if shift else 0)
        entries += struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 8, 0, 0, zlib.crc32(b""), size, 20 << 20, 1, 0, 0,
                               0, 0, 0, 31 * i * shift) + b"%c" % (65 + i % 26)  # fmt: skip
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(entries), len(body), 0)
    return Planted(lay(directory, "x.zip", body + entries + end), status=("refused",))


def _bombs(directory: Path, dice: random.Random, number: int) -> Planted:
    """Little that unpacks to much, in one layer or several."""
    size = (70 << 20, 400 << 20)[number % 2]
    match number // 2:
        case 0:
            raw, name = zipped([("a.json", bytes(size))]), "x.zip"
        case 1:
            raw, name = gzip.compress(bytes(size), 9), "x.gz"
        case 2:
            raw, name = lzma.compress(bytes(size), preset=1), "x.xz"
        case 3:
            raw, name = bz2.compress(bytes(size)), "x.bz2"
        case 4:
            raw, name = gzip.compress(gzip.compress(bytes(size), 9), 9), "x.gz.gz"
        case 5:
            inner = zipped([("a.json", bytes(size // 10))])
            raw, name = zipped([(f"{i}.zip", inner) for i in range(16)]), "x.zip"
        case 6:
            raw, name = zipped([(f"{i}.json", bytes(size // 100)) for i in range(100)]), "x.zip"
        case _:
            raw, name = gzip.compress(tarred([member("a.json", bytes(size))]), 9), "x.tgz"
    return Planted(lay(directory, name, raw), status=("refused",))


def _nested(directory: Path, dice: random.Random, number: int) -> Planted:
    """Archives in archives, of every two kinds, as deep as it goes."""
    depth, raw, name = number % 6 + 1, TRACE, "t.pt.trace.json"
    for _ in range(depth):
        packer = dice.randrange(3)
        if packer == 2:
            raw, name = PACKERS[dice.randrange(3)](raw), name + ".gz"
        else:
            raw = zipped([(name, raw)]) if packer else tarred([member(name, raw)])
            name = "x.zip" if packer else "x.tar"
    return Planted(lay(directory, name, raw), rows={"span": 20} if depth < 3 else {})


def _many(directory: Path, dice: random.Random, number: int) -> Planted:
    """Very many members of nothing."""
    count = (1000, 20_000, 49_000, 120_000)[number % 4]
    if number < 4:
        raw = zipped([(f"{i}.txt", b"") for i in range(count)], zipfile.ZIP_STORED)
    elif number < 8:
        raw = tarred([member(f"{i}.txt") for i in range(count)], tarfile.USTAR_FORMAT)
    else:
        deep = [member("d/" * (i % 30) + f"{i}", type=tarfile.DIRTYPE) for i in range(count)]
        raw = tarred(deep, tarfile.USTAR_FORMAT)
    return Planted(lay(directory, "x.zip" if number < 4 else "x.tar", raw), status=("refused",))


def _pax(directory: Path, dice: random.Random, number: int) -> Planted:
    """Extended headers: long, circular, of sizes and names that are none."""
    pairs = ({"path": MEMBER}, {"path": "../../x"}, {"size": "99999999999"}, {"size": "-1"}, {"size": "x"},
             {"linkpath": "/etc/passwd"}, {"path": "a\0b"}, {"GNU.sparse.map": "0,8796093022208"},
             {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, {"hdrcharset": "BINARY", "path": "\udcff"},
             {"mtime": "nan"}, {"uid": "1e400"}, {"path": "x" * 300_000}, {f"k{i}": "v" for i in range(9000)})
    info, content = member(MEMBER, TRACE)
    info.pax_headers = pairs[number % len(pairs)]
    raw = tarred([(info, content), member("rank2/t.pt.trace.json", TRACE)][:: 1 if number % 2 else -1])
    return Planted(lay(directory, "x.tar", raw if number < 28 else damaged(raw[:2048], dice) + raw[2048:]))


KINDS = (
    Kind("archive flip", 120, _flip),
    Kind("archive cut", 90, _cut),
    Kind("archive names", 2 * (len(OUT) + len(NAMES)), _names),
    Kind("archive links", 70, _links),
    Kind("archive zip header", 27 * 5, _headers),
    Kind("archive tar header", 72, _tar_headers),
    Kind("archive overlap", 6, _overlapping),
    Kind("archive bomb", 16, _bombs),
    Kind("archive nested", 36, _nested),
    Kind("archive many", 12, _many),
    Kind("archive pax", 42, _pax),
)
