"""Spans of OpenTelemetry, whatever they are written as: JSON in one of its spellings, or protobuf."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from npulens.ingest.readers.serving.lines import several, table

_HEX = re.compile(r"^(?:[0-9a-fA-F]{16}){1,2}$")
#: Texts of attributes that are longer are prompts or answers: they are not kept.
_LONGEST_TEXT = 1_000
#: A number of 64 bits takes so many bytes at most.
_VARINT_BYTES = 10

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    ts_ns: int
    attributes: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Span:
    """One span; stamps are as written, 0 where there is none."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    resource: dict[str, Value]
    events: tuple[Event, ...] = ()
    error: str | None = None
    server: bool = field(default=False)  # a span of kind SERVER


class Damaged(ValueError):
    """Bytes that are no such message."""


def of_json(said: object) -> Iterator[Span]:
    """Spans of a decoded export, or of a list of them."""
    for export in said if isinstance(said, list) else [said]:
        for one in several(_either(export, "resourceSpans", "resource_spans")):
            resource = _attributes(table(_either(one, "resource")).get("attributes"))
            scopes = _either(one, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
            for scope in several(scopes):
                for span in several(_either(scope, "spans")):
                    if isinstance(span, dict):
                        yield _span_of_json(span, resource)


def _either(said: object, *names: str) -> Any:
    """What an object has under the first of several spellings."""
    found = table(said)
    return next((found[name] for name in names if name in found), None)


def _span_of_json(said: dict[str, Any], resource: dict[str, Value]) -> Span:
    status, kind = table(said.get("status")), said.get("kind")
    failed = status.get("code") in (2, "STATUS_CODE_ERROR", "ERROR")
    return Span(
        _id(_either(said, "traceId", "trace_id")), _id(_either(said, "spanId", "span_id")),
        _id(_either(said, "parentSpanId", "parent_span_id")), str(said.get("name", "")),
        _stamp(_either(said, "startTimeUnixNano", "start_time_unix_nano")),
        _stamp(_either(said, "endTimeUnixNano", "end_time_unix_nano")),
        _attributes(said.get("attributes")), resource,
        tuple(
            Event(str(one.get("name", "")), _stamp(_either(one, "timeUnixNano", "time_unix_nano")),
                  _attributes(one.get("attributes")))
            for one in several(said.get("events")) if isinstance(one, dict)
        ),
        str(status.get("message") or "error")[:_LONGEST_TEXT] if failed else None,
        kind in (2, "SPAN_KIND_SERVER", "SERVER"),
    )  # fmt: skip


def _id(value: object) -> str:
    """An id as hexadecimal digits: it is written as those or as base64."""
    if not isinstance(value, str) or not value or len(value) > 64:
        return ""
    if _HEX.match(value):
        return value.lower()
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return value


def _stamp(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else 0


def _attributes(said: object) -> dict[str, Value]:
    """Attributes with plain values; long texts are left out. Some exporters write an object."""
    if isinstance(said, dict):
        return {str(key): kept for key, value in said.items() if (kept := _kept(value)) is not None}
    found: dict[str, Value] = {}
    for one in several(said):
        pair = table(one)
        key, value = pair.get("key"), _plain(pair.get("value"))
        if isinstance(key, str) and (kept := _kept(value)) is not None:
            found[key] = kept
    return found


def _plain(said: object) -> object:
    """The value within a tagged one: {"intValue": "3"} is 3."""
    if not isinstance(said, dict):
        return said
    for name, value in said.items():
        tag = name.replace("_", "").lower()
        if tag == "intvalue" and isinstance(value, str | int):
            try:
                return int(value)
            except ValueError:
                return None
        if tag == "arrayvalue":
            values = [_plain(each) for each in several(table(value).get("values"))]
            return ", ".join(str(each) for each in values if isinstance(each, str | int | float))
        if tag in ("stringvalue", "doublevalue", "boolvalue"):
            return value
    return None


def _kept(value: object) -> Value:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    return value if isinstance(value, bool | int | float) else None


# Protobuf: a message is fields, each with a number and one of four kinds of value.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def of_protobuf(message: bytes) -> Iterator[Span]:
    """Spans of an export request, or of the data of one."""
    for number, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            yield from _resource_spans(value)


def _resource_spans(message: bytes) -> Iterator[Span]:
    parts = list(_fields(message))
    about = [inner for number, value in parts if number == 1 for inner in _fields(_bytes(value))]
    resource = _pairs(value for number, value in about if number == 1)
    for number, value in parts:
        if number == 2:
            for inner, span in _fields(_bytes(value)):
                if inner == 2:
                    yield _span_of_protobuf(_bytes(span), resource)


def _span_of_protobuf(message: bytes, resource: dict[str, Value]) -> Span:
    one: dict[int, int | bytes] = {}
    attributes, events, status = list[int | bytes](), list[Event](), dict[int, int | bytes]()
    for number, value in _fields(message):
        if number == 9:
            attributes.append(value)
        elif number == 11:
            inner = list(_fields(_bytes(value)))
            about = dict(inner)
            events.append(Event(_text(about.get(2)), _number(about.get(1)), _pairs(v for n, v in inner if n == 3)))
        elif number == 15:
            status = dict(_fields(_bytes(value)))
        else:
            one[number] = value
    failed = _number(status.get(3)) == 2
    return Span(
        _bytes(one.get(1)).hex(), _bytes(one.get(2)).hex(), _bytes(one.get(4)).hex(), _text(one.get(5)),
        _number(one.get(7)), _number(one.get(8)), _pairs(attributes), resource, tuple(events),
        (_text(status.get(2)) or "error")[:_LONGEST_TEXT] if failed else None, _number(one.get(6)) == 2,
    )  # fmt: skip


def _pairs(values: Iterator[int | bytes] | list[int | bytes]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for value in values:
        pair = dict(_fields(_bytes(value)))
        kept = _kept(_any(_bytes(pair.get(2))))
        if kept is not None:
            found[_text(pair.get(1))] = kept
    return found


def _any(message: bytes) -> Value:
    for number, value in _fields(message):
        if number == 1:
            return _text(value)
        if number == 2:
            return bool(value)
        if number == 3 and isinstance(value, int):
            return value - (1 << 64) if value >> 63 else value
        if number == 4 and isinstance(value, int):
            return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])
    return None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind, -1)
        if size < 0 or at + size > end:
            raise Damaged
        piece, at = message[at : at + size], at + size
        yield key >> 3, piece if kind == _BYTES else int.from_bytes(piece, "little")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES):
        if at >= len(message):
            raise Damaged
        byte = message[at]
        at += 1
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise Damaged


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


def _text(value: object) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _number(value: object) -> int:
    return value if isinstance(value, int) and value < 1 << 63 else 0
