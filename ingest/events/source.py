"""Where the bytes come from: a file, or a gzip stream unpacked in a thread beside the scanner."""

from __future__ import annotations

import contextlib
import queue
import threading
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import swollen
from npulens.ingest.messages import Message

try:
    from isal import isal_zlib

    _inflate: Any = isal_zlib
except ImportError:  # three times slower, same result
    _inflate = zlib

_MAGIC = b"\x1f\x8b"
_GZIP = 31  # window bits that mean "gzip member"
_INPUT = 1 << 18
_BLOCK = 1 << 20
_STEP = 1 << 14
#: Times its size that a gzip file may come to, and the bytes from which that matters. Every event carries a stamp of
#: its own: 86 real traces packed as well as gzip can reach 35 times. A million equal events reach 300 and more.
_SWELL, _SWELL_FROM = 200, 16 << 20


class Source(Protocol):
    """Bytes of a trace."""

    damage: Message | None  # why the bytes ended early
    trailing: bool  # something that is not gzip follows the gzip stream

    @property
    def file_bytes(self) -> int:
        """Bytes of the file consumed, for progress."""

    def readinto(self, into: memoryview) -> int:
        """Fill ``into`` as far as possible; 0 at the end."""

    def close(self) -> None:
        """Let go of the file."""


def open_source(path: Path) -> Source:
    """The bytes of a file, unpacked if it is a gzip file whatever its name."""
    try:
        file = path.open("rb")
        magic = file.read(2)
        file.seek(0)
    except OSError as error:
        raise IngestError("unreadable", Message("cannot_be_read", {"error": error.strerror}), str(path)) from None
    return GzipSource(file) if magic == _MAGIC else FileSource(file)


class FileSource:
    """A plain file."""

    def __init__(self, file: BinaryIO) -> None:
        self.damage: Message | None = None
        self.trailing = False
        self.file_bytes = 0
        self._file = file

    def readinto(self, into: memoryview) -> int:
        try:
            got: int = self._file.readinto(into)  # type: ignore[attr-defined]
        except OSError as error:
            self.damage = Message("file_cannot_be_read_on", {"error": error.strerror})
            return 0
        self.file_bytes += got
        return got

    def close(self) -> None:
        self._file.close()


class GzipSource:
    """A gzip file of one or more members: all that can be unpacked, then ``damage`` says what ended it."""

    def __init__(self, file: BinaryIO) -> None:
        self.damage: Message | None = None
        self.trailing = False
        self.file_bytes = 0
        self._file = file
        self._blocks: queue.Queue[bytes | None] = queue.Queue(maxsize=8)
        self._current = memoryview(b"")
        self._unpacked = 0
        self._refusal: IngestError | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gunzip", daemon=True)
        self._thread.start()

    def readinto(self, into: memoryview) -> int:
        filled = 0
        while filled < len(into):
            if not self._current:
                block = None if self._closed.is_set() else self._blocks.get()
                if block is None:
                    self._closed.set()
                    if self._refusal is not None:
                        raise self._refusal
                    break
                self._current = memoryview(block)
            take = min(len(into) - filled, len(self._current))
            into[filled : filled + take] = self._current[:take]
            self._current = self._current[take:]
            filled += take
        return filled

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        try:
            self._members()
        except OSError as error:
            self.damage = Message("file_cannot_be_read_on", {"error": error.strerror})
        except IngestError as error:
            self._refusal = error
        finally:
            self._put(None)

    def _read(self) -> bytes:
        raw = self._file.read(_INPUT)
        self.file_bytes += len(raw)
        return raw

    def _put(self, block: bytes | None) -> None:
        """Hand a block over, unless nobody wants it any more."""
        while not self._closed.is_set():
            try:
                return self._blocks.put(block, timeout=0.1)
            except queue.Full:
                continue

    def _members(self) -> None:
        """Unpack member after member."""
        raw = self._read()
        while raw and not self._closed.is_set():
            if not raw.startswith(_MAGIC[: len(raw)]):
                self.trailing = True
                return
            rest = self._member(raw, self._file.tell() - len(raw))
            if rest is None:
                return
            raw = rest.lstrip(b"\0")  # padding is allowed behind a member
            while not raw and (rest := self._read()):
                raw = rest.lstrip(b"\0")

    def _member(self, raw: bytes, member: int) -> bytes | None:
        """Unpack the member at file offset ``member``; what was read behind it, or None if it is damaged."""
        decoder = _inflate.decompressobj(wbits=_GZIP)
        delivered = 0
        while not decoder.eof and not self._closed.is_set():
            try:
                block = decoder.decompress(raw, _BLOCK)
            except (_inflate.error, zlib.error) as error:
                self._salvage(member, delivered)
                self.damage = Message("gzip_stream_is_damaged", {"error": error})
                return None
            if block:
                self._put(block)
                delivered += len(block)
            raw = decoder.unconsumed_tail
            self._weigh(len(block), self.file_bytes - len(raw))
            if not raw and len(block) < _BLOCK and not decoder.eof:
                raw = self._read()
                if not raw:
                    self.damage = Message("gzip_stream_is_cut_short")
                    return None
        behind: bytes = decoder.unused_data
        return behind

    def _weigh(self, more: int, packed: int) -> None:
        """Refuse what swells as no capture does before its events cost more than its bytes."""
        self._unpacked += more
        if self._unpacked > max(_SWELL_FROM, _SWELL * packed):
            raise swollen(packed, _SWELL)

    def _salvage(self, member: int, delivered: int) -> None:
        """Unpack a damaged member again in small steps, to get what lies before the damage to the last byte."""
        decoder = zlib.decompressobj(wbits=_GZIP)
        self._file.seek(member)
        while raw := self._file.read(_STEP):
            before = decoder.copy()
            try:
                block = decoder.decompress(raw)
            except zlib.error:
                block = _until_error(before, raw)
                raw = b""
            self._put(block[delivered:])
            delivered = max(0, delivered - len(block))
            if not raw:
                return


def _until_error(decoder: zlib._Decompress, raw: bytes) -> bytes:
    """What the decoder makes of the input before the byte it cannot take."""
    out = bytearray()
    with contextlib.suppress(zlib.error):
        for at in range(len(raw)):
            out += decoder.decompress(raw[at : at + 1])
    return bytes(out)
