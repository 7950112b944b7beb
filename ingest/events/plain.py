"""The event scanner in Python: the reference for tests of the C scanner, and its fallback where it cannot be built."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from npulens.ingest.events.frame import Skim
from npulens.ingest.events.model import (
    DAMAGED,
    END,
    LOOKAHEAD,
    MAX_DEPTH,
    MAX_EVENT,
    MORE,
    NEAR,
    NULL,
    PAD,
    Column,
    Parts,
)  # fmt: skip
from npulens.ingest.events.passing import BEHIND, ENDS, THREAD, Passing
from npulens.ingest.events.strict import Lost, Object, is_number, members, overflows, scaled, text

_BLANK = re.compile(rb"[ \t\r\n]*+")
_MAYBE_OVERFLOW = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
_LEVEL = rb'[{\[](?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|%s)*[}\]]'
_SHALLOW = re.compile(_LEVEL % (_LEVEL % (_LEVEL % rb"(?!)")), re.S)  # what Skim finds, at once, for nearly all events
_SIMPLE = re.compile(r"(0|[1-8][0-9]{0,15})(?:\.([0-9]{1,3}))?")
_LABELS = ("name", "cat", "pid", "tid")
_KNOWN = frozenset(("ph", "ts", "dur", *_LABELS, "id", "bp", "s"))
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_TYPECODE = {"i": "q", "n": "q", "f": "d", "s": "i", "t": "i"}
_OPEN, _COMMA, _ELEMENT = range(3)  # what the next element comes after

Fields = dict[str, bytes]
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Codes:
    """Text -> code. Forgets everything when it holds too much; codes go on, so several may mean one text."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._codes: dict[str, int] = {}
        self.next = 0
        self.new_batch()

    def new_batch(self) -> None:
        if self._held > self._limit:
            self._codes.clear()
            self._held = 0
        self.first = self.next
        self.offsets = array("i", [0])
        self.bytes = bytearray()

    def code(self, value: str) -> int:
        known = self._codes.get(value)
        if known is not None:
            return known
        code = self._codes[value] = self.next
        self.next += 1
        self.bytes += value.encode()
        self._held += len(self.bytes) - self.offsets[-1] + 48
        self.offsets.append(len(self.bytes))
        return code

    def texts(self) -> tuple[array[int], bytearray]:
        """Those that are new in this batch."""
        return self.offsets, self.bytes


class Scanner:
    """See ``model.Scanner``."""

    def __init__(self, columns: Sequence[Column], flow_names: bool, table_bytes: int) -> None:
        self._columns = columns
        self._flow_names = flow_names
        self._codes = _Codes(table_bytes)
        self._after = _OPEN
        self._passing: Passing | None = None  # what is lost
        self._large: Object | None = None  # an event of which more data has to come
        self._new_batch()

    @property
    def pending(self) -> int:
        return self._passing.passed if self._passing else 0

    def _new_batch(self) -> None:
        self._codes.new_batch()
        self._elements = 0
        self._bad: Counter[str] = Counter()
        self._gaps = self._gap_bytes = self._gap_at = 0
        self._ph, self._ts, self._dur = bytearray(), array("q"), array("q")
        self._labels = {key: array("i") for key in _LABELS}
        self._ids = array("q")
        self._args: list[tuple[array[int], array[Any]]] = [
            (array("i"), array(_TYPECODE[column.type])) for column in self._columns
        ]
        self._words = [_Codes(0) for _ in self._columns]  # of each column the texts of this batch
        self._rest_rows, self._rest_offsets, self._rest_bytes = array("i"), array("i", [0]), bytearray()

    def feed(self, data: bytearray, start: int, end: int, last: bool, /) -> tuple[int, int, int, Parts]:
        self._new_batch()
        met, at, done = self._elements_of(data, start, end, last)
        codes = self._codes
        parts = Parts(
            elements=self._elements,
            n=len(self._ph),
            ph=self._ph,
            ts=self._ts,
            dur=self._dur,
            name=self._labels["name"],
            cat=self._labels["cat"],
            pid=self._labels["pid"],
            tid=self._labels["tid"],
            id=self._ids,
            args=[(*pair, *words.texts()) for pair, words in zip(self._args, self._words, strict=True)],
            rest_rows=self._rest_rows,
            rest_offsets=self._rest_offsets,
            rest_bytes=self._rest_bytes,
            first_code=codes.first,
            string_offsets=codes.offsets,
            string_bytes=codes.bytes,
            bad=dict(+self._bad),
            gaps=self._gaps,
            gap_bytes=self._gap_bytes,
            gap_at=self._gap_at,
        )
        return met, at, done, parts

    def _elements_of(self, data: bytearray, at: int, end: int, last: bool) -> tuple[int, int, int]:
        done = -1
        while True:
            if self._passing is not None:
                torn = self._passing.torn
                at = self._pass(data, at, end, last)
                if self._passing is not None:
                    return (DAMAGED if last and torn else MORE), at, done
                done = at if self._after == _ELEMENT else done
                continue
            at = _BLANK.match(data, at, end).end()  # type: ignore[union-attr]
            if at >= end:
                return MORE, at, done
            mark = data[at]
            if mark in b",]":
                at += 1
                self._bad["empty element"] += self._after == _COMMA or (mark == 0x2C and self._after == _OPEN)
                if mark == 0x5D:
                    return END, at, done
                self._after = _COMMA
                continue
            if mark in b":}" or (self._after == _ELEMENT and mark != 0x7B):
                at = self._lose(THREAD, data, at, torn=True)
                continue
            if self._after == _ELEMENT:
                self._bad["missing comma"] += 1
                self._after = _COMMA
            stop = self._element(data, at, end, last)
            if stop is None:
                return MORE, at, done
            at = stop
            done = done if self._passing else at

    def _element(self, data: bytearray, at: int, end: int, last: bool) -> int | None:
        """Read the element at ``at``: past it, None if it is not complete. If it is lost, past its first byte."""
        if data[at] != 0x7B:
            return self._lose("not an object", data, at, torn=False)
        try:
            fields, args, size = self._taken(data, at, end)
        except Lost as lost:
            reason, ends = str(lost), end - at - lost.at < LOOKAHEAD
            if lost.at > MAX_EVENT or (ends and not last and end - at > MAX_EVENT):
                return self._lose("too large", data, at, torn=False)
            return None if ends and not last else self._lose(reason, data, at, torn=not ends)
        self._large = None
        if size > MAX_EVENT:
            return self._lose("too large", data, at, torn=False)
        self._count()
        try:
            self._event(fields, args)
        except Lost as lost:
            self._bad[str(lost)] += 1
        return at + size

    def _taken(self, data: bytearray, at: int, end: int) -> tuple[Fields, Fields, int]:
        """The members of the event at ``at`` and of its args, and its size. Raises Lost, with a place behind ``at``."""
        if self._large is None:
            near, skim = min(end, at + NEAR), Skim()
            shallow = _SHALLOW.match(data, at, near)
            stop = shallow.end() if shallow else skim.feed(data, at, near)
            if stop >= 0:
                return *_take_apart(bytes(data[at:stop]), skim.deepest), stop - at
            self._large = Object()
        size = self._large.within(data, at, min(end, at + MAX_EVENT + PAD))
        return *_parted(self._large.found, strict=True), size

    def _count(self) -> None:
        self._after = _ELEMENT
        self._elements += 1

    def _lose(self, reason: str, data: bytearray, at: int, *, torn: bool) -> int:
        """From here on something is lost. Past its first byte."""
        self._large = None
        self._passing = Passing(reason, data, at, torn=torn)
        return at + 1

    def _pass(self, data: bytearray, start: int, end: int, last: bool) -> int:
        """Pass what is lost: to its end or to an event within it, or as far as the data goes."""
        passing = self._passing
        assert passing is not None
        met, at = passing.feed(data, start, end, last)
        before = passing.passed
        passing.passed += at - start
        if met == BEHIND:
            return at
        if met == ENDS:
            self._count()
            self._bad["too large" if passing.passed > MAX_EVENT else passing.reason] += 1
        else:
            self._after = _COMMA
            self._gap_at = self._gap_at if self._gaps else start - before
            self._gaps += 1
            self._gap_bytes += passing.passed
        self._passing = None
        return at

    def _event(self, fields: Fields, args: Fields) -> None:
        ph = _phase(fields.get("ph"))
        ts, dur = _stamp(fields, "ts"), _stamp(fields, "dur")
        labels = {key: _label(fields, key) for key in _LABELS}
        name, id_ = labels["name"], _label(fields, "id")
        if name and self._flow_names and chr(ph) in "stf":
            labels["name"] = name.rstrip("0123456789")
        row = len(self._ph)
        self._ph.append(ph)
        self._ts.append(ts)
        self._dur.append(dur)
        for key, label in labels.items():
            self._labels[key].append(-1 if label is None else self._codes.code(label))
        self._ids.append(-1 if id_ is None else self._id(id_))
        for (key, kind), (rows, values), words in zip(self._columns, self._args, self._words, strict=True):
            value = _converted(args[key], kind) if key in args else None
            if value is not None:
                del args[key]
                rows.append(row)
                codes = words if kind == "t" else self._codes
                values.append(codes.code(value) if isinstance(value, str) else value)
        rest = {key: raw for key, raw in fields.items() if key not in _KNOWN} | args
        if rest:
            members = (json.dumps(key, ensure_ascii=False).encode() + b":" + bytes(raw) for key, raw in rest.items())
            self._rest_bytes += b"{" + b",".join(members) + b"}"
            self._rest_rows.append(row)
            self._rest_offsets.append(len(self._rest_bytes))

    def _id(self, text: str) -> int:
        """Of millions of different ids nearly all are numbers, and a number needs no table of texts."""
        if _NUMBER.fullmatch(text) and (number := int(text)) < 2**63 - 1:
            return -2 - number
        return self._codes.code(text)


def _take_apart(raw: bytes, deepest: int) -> tuple[Fields, Fields]:
    """The members of an event and of its args."""
    strict = deepest > MAX_DEPTH or _MAYBE_OVERFLOW.search(raw) is not None
    try:
        if not strict:
            raw.decode()
            fields: Fields = {key: bytes(value) for key, value in _members(raw).items()}
    except (UnicodeDecodeError, msgspec.DecodeError):
        strict = True
    if strict:
        fields = members(raw)
    return _parted(fields, strict=strict)


def _parted(fields: Fields, *, strict: bool) -> tuple[Fields, Fields]:
    """An event without its args, and those. An ``args`` that is not an object stays a member."""
    args = fields.get("args", b"null")
    if args[:1] == b"{":
        del fields["args"]
        return fields, members(args, 2) if strict else {key: bytes(value) for key, value in _members(args).items()}
    if args == b"null":
        fields.pop("args", None)
    return fields, {}


def _phase(raw: bytes | None) -> int:
    if raw is None or raw == b"null":
        return 0
    value = text(raw) if raw[0] == 0x22 else ""
    if len(value) != 1 or not value.isascii():
        raise Lost("wrong type: ph")
    return ord(value)


def _number_text(raw: bytes) -> str | None:
    """The number as text, wherever quotes and blanks are around it; None if it is something else."""
    if raw[0] == 0x22:
        number = text(raw).strip(" \t\r\n")
        return number if is_number(number) else None
    return raw.decode() if raw[0] in b"-0123456789" else None


def _nanoseconds(number: str) -> int | None:
    simple = _SIMPLE.fullmatch(number)
    return int(simple[1] + (simple[2] or "").ljust(3, "0")) if simple else scaled(number, 3)


def _stamp(fields: Fields, key: str) -> int:
    raw = fields.get(key, b"null")
    if raw == b"null":
        return NULL
    number = _number_text(raw)
    if number is None:
        raise Lost(f"wrong type: {key}")
    value = _nanoseconds(number)
    if value is None:
        raise Lost(f"out of range: {key}")
    return value


def _label(fields: Fields, key: str) -> str | None:
    raw = fields.get(key, b"null")
    if raw[0] == 0x22:
        return text(raw)
    if raw == b"null":
        return None
    if key in ("name", "cat") or raw[0] not in b"-0123456789":
        raise Lost(f"wrong type: {key}")
    return raw.decode()


def _converted(raw: bytes, kind: str) -> int | float | str | None:
    """A value as its column wants it, or None if it does not fit."""
    if raw == b"null":
        return None
    if kind in ("s", "t"):
        return text(raw) if raw[0] == 0x22 else raw.decode()
    number = _number_text(raw)
    if number is None:
        return None
    if kind == "f":
        return None if overflows(number.encode()) else float(number)
    return scaled(number, 0, exact=True) if kind == "i" else _nanoseconds(number)
