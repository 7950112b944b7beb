"""The beginning of a file and its lines, unpacked where it is gzip; a bomb ends in the limits of every trace."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from npulens.ingest.errors import IngestError
from npulens.ingest.events.source import open_source
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.tables.draft import Draft

_GZIP, _WINDOW = b"\x1f\x8b", 31
_BLOCK = 1 << 20
#: Longest line: an export of OpenTelemetry holds up to some thousand spans.
_LONGEST = 64 << 20
#: Largest document that is read at once.
_LARGEST = 1 << 30


def beginning(path: Path) -> bytes:
    """The first bytes, unpacked, without blanks."""
    return _unpacked(peek.head(path))


@lru_cache(4)  # every reader asks for the same head
def _unpacked(head: bytes) -> bytes:
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(_WINDOW).decompress(head, peek.HEAD)
        except zlib.error:
            return b""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")


def blocks(path: Path, draft: Draft) -> Iterator[bytes]:
    """The bytes of a file; where they end early, the draft is partial."""
    source = open_source(path)
    try:
        room, done = bytearray(_BLOCK), 0
        while size := source.readinto(memoryview(room)):
            draft.advance(source.file_bytes - done)
            done = source.file_bytes
            yield bytes(room[:size])
        if source.damage:
            draft.partial(None, source.damage)
    finally:
        source.close()


def lines(path: Path, draft: Draft) -> Iterator[bytes]:
    """The lines of a file. One that never ends is left out, and said."""
    held, skipping = b"", False
    for block in blocks(path, draft):
        *whole, held = (held + block).split(b"\n")
        for line in whole:
            if not skipping:
                yield line
            skipping = False
        if len(held) > _LONGEST:
            if not skipping:
                draft.partial(None, Message("serving_line_too_long", {"n": _LONGEST >> 20}))
            held, skipping = b"", True
    if held and not skipping:
        yield held


def document(path: Path, draft: Draft) -> Any:
    """A whole JSON document."""
    held, size = list[bytes](), 0
    for block in blocks(path, draft):
        size += len(block)
        if size > _LARGEST:
            raise IngestError("too_large", Message("is_larger_than_mb", {"file": path.name, "n": _LARGEST >> 20}),
                              str(path))  # fmt: skip
        held.append(block)
    try:
        return msgspec.json.decode(b"".join(held).removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise IngestError("damaged", Message("serving_json_damaged", {"error": str(error)[:200]}), str(path)) from error


def decoded(line: bytes) -> dict[str, Any] | None:
    """An object of JSON; None for anything else."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def table(value: object) -> dict[str, Any]:
    """An object within JSON, or none."""
    return value if isinstance(value, dict) else {}


def several(value: object) -> list[Any]:
    """A list within JSON, or none."""
    return value if isinstance(value, list) else []
