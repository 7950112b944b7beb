"""Which archive a file is, told by its bytes and never by its name."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from npulens.ingest.loading import peek

BLOCK = 512  # of a tar
_CHECKSUM, _USTAR = slice(148, 156), slice(257, 263)


class Kind(Enum):
    """What is opened."""

    zip = "zip"
    tar = "tar"
    gzip = "gzip"
    xz = "xz"
    zstd = "zstd"
    bzip2 = "bzip2"


_MAGIC = (
    (b"PK\x03\x04", Kind.zip),
    (b"PK\x05\x06", Kind.zip),  # without a member
    (b"\x1f\x8b\x08", Kind.gzip),
    (b"\xfd7zXZ\x00", Kind.xz),
    (b"\x28\xb5\x2f\xfd", Kind.zstd),
)
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_ZSTD_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")  # pzstd begins with such a frame
_ENDINGS = {
    Kind.zip: (".zip",),
    Kind.tar: (".tar",),
    Kind.gzip: (".tar.gz", ".tgz", ".gz"),
    Kind.xz: (".tar.xz", ".txz", ".xz"),
    Kind.zstd: (".tar.zst", ".tzst", ".zstd", ".zst"),
    Kind.bzip2: (".tar.bz2", ".tbz2", ".tbz", ".bz2"),
}


def recognise(path: Path) -> Kind | None:
    """The archive a file is, for the price of its first block."""
    head = peek.head(path)[:BLOCK]
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if _BZIP2.match(head):
        return Kind.bzip2
    if _ZSTD_SKIPPABLE.match(head):
        return Kind.zstd
    return Kind.tar if is_tar(head) else None


def is_tar(head: bytes) -> bool:
    """Whether a stream begins with a tar header of any age: only its checksum is in all of them."""
    if len(head) < BLOCK or not (head[0] or head[_USTAR].startswith(b"ustar")):  # its first member may have no name
        return False
    told = re.match(rb"[ \0]*([0-7]{1,7})[ \0]", head[_CHECKSUM])
    blank = head[:148] + b" " * 8 + head[156:BLOCK]
    return told is not None and int(told[1], 8) in (
        sum(blank),
        sum(byte - 256 if byte > 127 else byte for byte in blank),
    )


def stem(name: str, kind: Kind) -> str:
    """What an archive's content is called: its file's name without the ending that says how it is packed."""
    for ending in _ENDINGS[kind]:
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return name
