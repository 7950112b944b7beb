"""Streams: packed bytes in, plain blocks out, never more than a megabyte at a time.

A stream that ends too early raises Damaged after everything before the damage was given out.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from npulens.ingest.archive.kinds import Kind
from npulens.ingest.archive.tree import Damaged
from npulens.ingest.events.source import open_source
from npulens.ingest.messages import Message

Read = Callable[[int], bytes]

_INPUT, _BLOCK = 1 << 16, 1 << 20
#: Largest dictionary of an xz file that is accepted; `xz -9` needs 65 MB to unpack.
XZ_MEMORY = 256 << 20


def blocks(path: Path, kind: Kind) -> Iterator[bytes]:
    """What a compressed file unpacks to."""
    if kind is Kind.gzip:
        yield from _gzip(path)
        return
    with path.open("rb") as file:
        yield from unpacked(kind.value, file.read)


def plain(path: Path) -> Iterator[bytes]:
    """A file as it is."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def unpacked(method: str, read: Read) -> Iterator[bytes]:
    """The same from anything that can be read."""
    if method == "xz":
        return series(read, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY))
    if method == "bzip2":
        return series(read, bz2.BZ2Decompressor)
    if method == "deflate":
        return deflate(read)
    if method == "stored":
        return _stored(read)
    if method == "zstd":
        return _zstd(read)
    raise ValueError(method)


def _gzip(path: Path) -> Iterator[bytes]:
    source, buffer = open_source(path), bytearray(_BLOCK)
    try:
        while size := source.readinto(memoryview(buffer)):
            yield bytes(buffer[:size])
    finally:
        source.close()
    if source.damage:
        raise Damaged(source.damage)


def series(read: Read, make: Callable[[], Any]) -> Iterator[bytes]:
    """Streams one after the other; padding of zeros between and behind them is allowed."""
    decoder = make()
    raw = read(_INPUT)
    while True:
        try:
            block = decoder.decompress(raw, _BLOCK)
        except (lzma.LZMAError, OSError, ValueError) as error:
            raise Damaged(Message("packed_data_is_damaged", {"error": error})) from None
        if block:
            yield block
        raw = b""
        if decoder.eof:
            raw = decoder.unused_data.lstrip(b"\0")
            while not raw and (more := read(_INPUT)):
                raw = more.lstrip(b"\0")
            if not raw:
                return
            decoder = make()
        elif decoder.needs_input and not (raw := read(_INPUT)):
            raise Damaged(Message("packed_data_is_cut_short"))


def deflate(read: Read, give_back: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """One raw deflate stream, as zip has it; ``give_back`` hears how many bytes behind it were read."""
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    while not decoder.eof:
        raw = decoder.unconsumed_tail or read(_INPUT)
        try:
            block = decoder.decompress(raw, _BLOCK)
        except zlib.error as error:
            raise Damaged(Message("packed_data_is_damaged", {"error": error})) from None
        if block:
            yield block
        elif not raw and not decoder.eof:
            raise Damaged(Message("packed_data_is_cut_short"))
    if give_back is not None:
        give_back(len(decoder.unused_data))


def _stored(read: Read) -> Iterator[bytes]:
    while block := read(_BLOCK):
        yield block


class _File:
    """What pyarrow reads packed bytes from."""

    def __init__(self, read: Read) -> None:
        self._read, self.closed = read, False

    def read(self, size: int = -1) -> bytes:
        return self._read(size if size >= 0 else _INPUT)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _zstd(read: Read) -> Iterator[bytes]:
    try:
        with pa.CompressedInputStream(pa.PythonFile(_File(read), "r"), "zstd") as stream:
            while block := stream.read(_INPUT):
                yield block
    except (OSError, pa.ArrowInvalid) as error:
        if "runcated" in str(error):
            raise Damaged(Message("packed_data_is_cut_short")) from None
        raise Damaged(Message("packed_data_is_damaged", {"error": error})) from None


class Bytes:
    """Reading forward by the byte from blocks; ``damage`` says why they ended, if they should not have."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source, self._held, self._at = source, memoryview(b""), 0
        self.damage: Message | None = None
        self.position = 0

    def _fill(self) -> bool:
        """Have something at hand; False at the end."""
        while self._at == len(self._held) and self.damage is None:
            try:
                self._held, self._at = memoryview(next(self._source, b"")), 0
            except Damaged as damage:
                self.damage = damage.said
                return False
            if not self._held:
                return False
        return self._at < len(self._held)

    def some(self, most: int) -> bytes:
        """The next bytes, as many as lie at hand; b"" at the end."""
        if not most or not self._fill():
            return b""
        piece = bytes(self._held[self._at : self._at + most])
        self._at += len(piece)
        self.position += len(piece)
        return piece

    def read(self, size: int) -> bytes:
        """Exactly so many bytes, or all there are."""
        found = bytearray()
        while len(found) < size and (piece := self.some(size - len(found))):
            found += piece
        return bytes(found)

    def peek(self, size: int) -> bytes:
        """The same without moving."""
        before, found = self.position, self.read(size)
        self._held = memoryview(found + bytes(self._held[self._at :]))
        self._at, self.position = 0, before
        return found

    def skip(self, size: int) -> int:
        """Move on; how far it went."""
        left = size
        while left and (piece := self.some(min(left, _BLOCK))):
            left -= len(piece)
        return size - left

    def rest(self) -> Iterator[bytes]:
        """Everything up to the end."""
        while piece := self.some(_BLOCK):
            yield piece
        if self.damage is not None:
            raise Damaged(self.damage)
