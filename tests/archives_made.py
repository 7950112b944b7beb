"""Archives of every kind of attack and damage, small and made here; nothing of them lies in the repository."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

Members = Iterable[tuple[str, bytes]]


def zip_of(path: Path, members: Members, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip whose names are written as they are, however wrong."""
    with zipfile.ZipFile(path, "w", method) as out:
        for name, data in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, method
            out.writestr(info, data)
    return path


def tar_of(path: Path, members: Members, mode: str = "w", style: int = tarfile.PAX_FORMAT) -> Path:
    """The same as a tar."""
    with tarfile.open(path, mode, format=style) as out:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def special_tar(path: Path, specials: Iterable[tuple[str, bytes, str]], members: Members = ()) -> Path:
    """Links and devices: name, type, what it points to; then files."""
    with tarfile.open(path, "w") as out:
        for name, kind, target in specials:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            out.addfile(info)
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def gzip_bomb(path: Path, megabytes: int) -> Path:
    """Zeros, a thousand to one."""
    with gzip.open(path, "wb", 9) as out:
        for _ in range(megabytes):
            out.write(bytes(1 << 20))
    return path


def local(name: bytes, packed: bytes, data: bytes, *, flags: int = 0, method: int = 8) -> bytes:
    """A member as it stands in a zip: header, name, packed bytes."""
    return (
        struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, flags, method, 0, 0x21, zlib.crc32(data), len(packed), len(data),
                    len(name), 0) + name + packed
    )  # fmt: skip


def central(
    name: bytes, packed: int, size: int, crc: int, offset: int, *, flags: int = 0, method: int = 8, extra: bytes = b""
) -> bytes:
    """Its entry in the directory, which may claim anything."""
    return (
        struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, 0, flags, method, 0, 0x21, crc, packed, size, len(name),
                    len(extra), 0, 0, 0, 0o100644 << 16, offset) + name + extra
    )  # fmt: skip


def end(count: int, length: int, offset: int, *, disk: int = 0) -> bytes:
    """What stands at the end of a zip."""
    return struct.pack("<4s4H2LH", b"PK\x05\x06", disk, disk, min(count, 0xFFFF), min(count, 0xFFFF), length, offset, 0)


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def overlap_bomb(path: Path, entries: int = 500) -> Path:
    """Every entry of the directory is the same megabyte."""
    data = bytes(1 << 20)
    packed = deflated(data)
    body = local(b"a", packed, data)
    listed = b"".join(central(b"a", len(packed), len(data), zlib.crc32(data), 0) for _ in range(entries))
    path.write_bytes(body + listed + end(entries, len(listed), len(body)))
    return path


def quoted_bomb(path: Path, entries: int = 200) -> Path:
    """Fifield's: the bytes of every member hold the headers of those behind it, quoted as stored blocks."""
    kernel = deflated(bytes(1 << 20))
    tail, listed = b"", []
    for number in range(entries):
        name = b"%04d" % number
        if not tail:
            tail = local(name, kernel, bytes(1 << 20))
            listed.append((name, len(kernel)))
            continue
        quoted = tail[: 30 + 4]
        header = struct.pack("<BHH", 0, len(quoted), len(quoted) ^ 0xFFFF)
        tail = local(name, header + tail, b"")
        listed.append((name, len(tail) - 34))
    places = [central(name, packed, 1 << 20, 0, len(tail) - packed - 34) for name, packed in listed]
    directory = b"".join(places)
    path.write_bytes(tail + directory + end(entries, len(directory), len(tail)))
    return path


def many_members(path: Path, count: int, *, told: int | None = None) -> Path:
    """A zip of empty files, whose end may tell another number than there is."""
    body, listed = bytearray(), bytearray()
    for number in range(count):
        name = b"%06d" % number
        listed += central(name, 0, 0, 0, len(body), method=0)
        body += local(name, b"", b"", method=0)
    path.write_bytes(bytes(body) + bytes(listed) + end(count if told is None else told, len(listed), len(body)))
    return path
