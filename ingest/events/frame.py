"""What surrounds the events: a window on the bytes, the root of the document and its other members."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from npulens.ingest.errors import IngestError
from npulens.ingest.events.model import MAX_DEPTH, MAX_EVENT, PAD
from npulens.ingest.messages import Message

_BLANK = re.compile(rb"[ \t\r\n]*+")
# A group that can fail half-way is never possessive: Python 3.11.2 then keeps what the group had read.
_PLAIN = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*', re.S)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.S)
_SCALAR = re.compile(rb'[^ \t\r\n,:"{}\[\]]*+')
_NOT_UTF8 = re.compile(rb"\xff\xfe|\xfe\xff|.?\x00", re.S)


class Bytes(Protocol):
    """Where a window gets its bytes from."""

    def readinto(self, into: memoryview) -> int:
        """Fill ``into`` as far as possible; 0 at the end."""


class Window:
    """The part of the file in memory: what is not consumed yet, and room for the next chunk."""

    def __init__(self, source: Bytes, chunk_size: int) -> None:
        self._source = source
        self._chunk = chunk_size
        self.data = bytearray(chunk_size + MAX_EVENT + PAD)
        self.start = self.end = 0
        self.base = 0  # file offset of data[0]

    @property
    def offset(self) -> int:
        """File offset of the first byte not consumed."""
        return self.base + self.start

    @property
    def read(self) -> int:
        """Bytes read so far."""
        return self.base + self.end

    def more(self) -> bool:
        """Read another chunk behind what is left. False at the end of the file."""
        kept = self.end - self.start
        if self.start:
            self.data[:kept] = self.data[self.start : self.end]
        self.base += self.start
        self.start, self.end = 0, kept
        with memoryview(self.data) as view:
            got = self._source.readinto(view[kept : min(kept + self._chunk, len(self.data) - PAD)])
        self.end += got
        return got > 0

    def drain(self) -> int:
        """Skip to the end of the file; how many bytes that was."""
        skipped = 0
        while True:
            skipped += self.end - self.start
            self.start = self.end
            if not self.more():
                return skipped

    def forget(self) -> None:
        """Let go of the bytes; what was read of how much can still be asked."""
        self.data = bytearray()

    def peek(self) -> int:
        """The next byte that is not white space, or -1 at the end of the file."""
        while True:
            self.start = _BLANK.match(self.data, self.start, self.end).end()  # type: ignore[union-attr]
            if self.start < self.end:
                return self.data[self.start]
            if not self.more():
                return -1


class Skim:
    """Finds the end of one JSON value by its brackets and quotes alone, in as many pieces as it takes."""

    def __init__(self) -> None:
        self.depth = self.deepest = 0
        self._mode = ""

    def feed(self, data: bytearray, at: int, end: int) -> int:
        """The end of the value, or -1 if it goes on behind ``end``. ``at`` itself if no value starts there."""
        if at >= end:
            return -1
        if not self._mode:
            self._mode = "string" if data[at] == 0x22 else "inside" if data[at] in b"{[" else "scalar"
            at += self._mode == "string"
        if self._mode == "scalar":
            stop = _SCALAR.match(data, at, end).end()  # type: ignore[union-attr]
            return stop if stop < end else -1
        if self._mode == "escape":
            self._mode, at = "string", at + 1
        while at < end:
            in_string = self._mode == "string"
            at = (_IN_STRING if in_string else _PLAIN).match(data, at, end).end()  # type: ignore[union-attr]
            if at < end:
                self._turn(data[at], in_string)
                at += 1
                if self._mode == "inside" and not self.depth:
                    return at
        return -1

    def _turn(self, mark: int, in_string: bool) -> None:
        """What a quote, backslash or bracket changes."""
        if in_string:
            self._mode = "inside" if mark == 0x22 else "escape"
        elif mark == 0x22:
            self._mode = "string"
        elif mark in b"{[":
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
        else:
            self.depth -= 1


class Broken(Exception):
    """The document cannot be followed any further."""

    def __init__(self, said: Message) -> None:
        super().__init__(said)
        self.said = said


class Frame:
    """The document around the event array: an object's other members, or nothing."""

    def __init__(self, window: Window, path: str) -> None:
        self.header: dict[str, object] = {}
        self.bad: dict[str, int] = {}
        self._window = window
        self._path = path
        self._is_object = self._entered = False

    def enter(self) -> None:
        """Consume everything up to and including the bracket that opens the event array."""
        window = self._window
        while window.end < 4 and window.more():
            pass
        if _NOT_UTF8.match(window.data, 0, window.end):
            raise self._not_a_trace(Message("file_is_utf_16_or"))
        if window.data.startswith(b"\xef\xbb\xbf", 0, window.end):
            window.start = 3
        first = window.peek()
        if first == -1:
            raise self._not_a_trace(Message("file_is_empty"))
        if first not in b"[{":
            raise self._not_a_trace(Message("file_is_neither_json_array"))
        window.start += 1
        self._is_object = first == 0x7B
        if not self._is_object:
            return
        try:
            if not self._members():
                raise self._not_a_trace(Message("json_object_has_no_event"))
        except Broken as error:
            raise self._not_a_trace(Message("no_event_array_found", {"error": error})) from None

    def leave(self) -> None:
        """Consume what follows the event array, to the end of the file; raises Broken."""
        if self._is_object:
            self._members()
        if self._window.peek() != -1:
            self._count("trailing data")
            self._window.drain()

    def _members(self) -> bool:
        """Read members until the event array opens (True) or the object closes (False)."""
        window = self._window
        while True:
            mark = self._mark()
            if mark in (0x7D, 0x2C):
                window.start += 1
                if mark == 0x7D:
                    return False
                continue
            if mark != 0x22:
                raise self._damaged()
            key = _decoded(self._value())
            if self._mark() != 0x3A:
                raise self._damaged()
            window.start += 1
            if key == "traceEvents" and window.peek() == 0x5B and not self._entered:
                window.start += 1
                self._entered = True
                return True
            self._keep(key, self._value())

    def _value(self) -> bytes | None:
        """The next JSON value as written; None if it is too large to keep."""
        window, skim = self._window, Skim()
        self._mark()
        at, oversized = window.start, False
        while (stop := skim.feed(window.data, at, window.end)) < 0:
            if window.end - window.start > MAX_EVENT:
                window.start, oversized = window.end, True
            seen = window.end - window.start
            if not window.more():
                raise Broken(Message("file_ends_before_its_root"))
            at = window.start + seen
        if stop == window.start and not oversized:
            raise self._damaged()
        keep = not oversized and stop - window.start <= MAX_EVENT and skim.deepest <= MAX_DEPTH
        raw = bytes(window.data[window.start : stop]) if keep else None
        window.start = stop
        return raw

    def _mark(self) -> int:
        """The next byte that is not white space; there must be one."""
        mark = self._window.peek()
        if mark == -1:
            raise Broken(Message("file_ends_before_its_root"))
        return mark

    def _damaged(self) -> Broken:
        return Broken(Message("damaged_at_byte", {"offset": self._window.offset}))

    def _keep(self, key: object, raw: bytes | None) -> None:
        """File a member of the root; what cannot be read is counted."""
        if key == "traceEvents" and self._entered:
            self._count("second traceEvents")
        elif not isinstance(key, str) or raw is None or (value := _decoded(raw)) is _UNREADABLE:
            self._count("bad header value")
        else:
            self.header[key] = value

    def _count(self, reason: str) -> None:
        self.bad[reason] = self.bad.get(reason, 0) + 1

    def _not_a_trace(self, message: str) -> IngestError:
        return IngestError("not_a_trace", Message("not_trace", {"reason": message}), self._path)


_UNREADABLE = object()


def _decoded(raw: bytes | None) -> object:
    """The value of a JSON text, or _UNREADABLE."""
    try:
        return _UNREADABLE if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNREADABLE
