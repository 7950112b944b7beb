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
from npulens.ingest.events.model import DAMAGED, END, MAX_DEPTH, MAX_EVENT, MORE, NULL, Column, Parts
from npulens.ingest.events.strict import Lost, is_number, members, overflows, scaled, text

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
        self._skim: Skim | None = None  # passing an oversized element
        self.pending = 0
        self._new_batch()

    def _new_batch(self) -> None:
        self._codes.new_batch()
        self._elements = 0
        self._bad: Counter[str] = Counter()
        self._ph, self._ts, self._dur = bytearray(), array("q"), array("q")
        self._labels = {key: array("i") for key in _LABELS}
        self._ids = array("q")
        self._args: list[tuple[array[int], array[Any]]] = [
            (array("i"), array(_TYPECODE[column.type])) for column in self._columns
        ]
        self._words = [_Codes(0) for _ in self._columns]  # of each column the texts of this batch
        self._rest_rows, self._rest_offsets, self._rest_bytes = array("i"), array("i", [0]), bytearray()

    def feed(self, data: bytearray, start: int, end: int) -> tuple[int, int, int, Parts]:
        self._new_batch()
        met, at, done = self._elements_of(data, start, end)
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
        )
        return met, at, done, parts

    def _elements_of(self, data: bytearray, at: int, end: int) -> tuple[int, int, int]:
        done = -1
        while True:
            if self._skim is None:
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
                if self._after == _ELEMENT:
                    if mark != 0x7B:
                        return DAMAGED, at, done
                    self._bad["missing comma"] += 1
                    self._after = _COMMA
            shallow = None if self._skim else _SHALLOW.match(data, at, end)
            skim = self._skim or Skim()
            stop = shallow.end() if shallow else skim.feed(data, at, end)
            if stop == at and not self.pending:
                return DAMAGED, at, done
            if stop < 0:
                if not self.pending and end - at <= MAX_EVENT:
                    return MORE, at, done
                self._skim = skim
                self.pending += end - at
                return MORE, end, done
            self._element(data, at, stop, skim.deepest)
            at = done = stop

    def _element(self, data: bytearray, start: int, stop: int, deepest: int) -> None:
        """Keep or count one complete element."""
        size = self.pending + stop - start
        self._skim, self.pending, self._after = None, 0, _ELEMENT
        self._elements += 1
        try:
            if size > MAX_EVENT:
                raise Lost("too large")
            if data[start] != 0x7B:
                raise Lost("not an object")
            self._event(*_take_apart(bytes(data[start:stop]), deepest))
        except Lost as lost:
            self._bad[str(lost)] += 1

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
    """The members of an event and of its args. An ``args`` that is not an object stays a member."""
    strict = deepest > MAX_DEPTH or _MAYBE_OVERFLOW.search(raw) is not None
    try:
        if not strict:
            raw.decode()
            fields: Fields = {key: bytes(value) for key, value in _members(raw).items()}
    except (UnicodeDecodeError, msgspec.DecodeError):
        strict = True
    if strict:
        fields = members(raw)
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
