"""One JSON object taken apart strictly, with the reason if it is not one.

The slow half of the plain scanner: it reads what the fast half refused, and says why an event is lost.
"""

from __future__ import annotations

import json
import re

from npulens.ingest.events.model import LOOKAHEAD, MAX_DEPTH

_BLANK = re.compile(rb"[ \t\r\n]*+")
_RUN = re.compile(rb'[^"\\\x00-\x1f]*+')
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER = re.compile(rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?+[0-9]++)?")
_WORD = re.compile(rb"true|false|null")
_GLUED = re.compile(rb"[0-9A-Za-z_.+-]")
_GLUED_END = re.compile(rb"[0-9A-Za-z_.+-]*+")
_PARTS = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_ESCAPED_PAIRS = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.S
)
_MAY_BE_LONG = frozenset(("pid", "tid", "id"))
_LARGEST = "17976931348623157"  # the digits of the largest double, whose exponent is 308
_FIRST = 1 << 10  # bytes of an object that are looked at first


class Lost(Exception):
    """An array element that cannot be kept; the text is the reason it is counted under."""

    def __init__(self, reason: str, at: int = 0) -> None:
        """``at``: the byte at which it was refused."""
        super().__init__(reason)
        self.at = at


class Object:
    """The members of a JSON object whose text may come piece by piece: last of each key, values as written."""

    def __init__(self, depth: int = 1) -> None:
        """``depth`` 1 is the event itself."""
        self.found: dict[str, bytes] = {}
        self._depth = depth
        self._at = 0  # where the next member begins, if one was read

    def read(self, raw: bytes) -> int:
        """Go on in the text of the object from its first byte on: where it ends. Raises Lost; what was read stays."""
        at = self._at or _blank(raw, 1)
        if not self._at and raw[at] == 0x7D:
            return at + 1
        while True:
            key_end = _string(raw, at)
            key = text(raw[at:key_end])
            at = _after(raw, key_end, 0x3A)
            end = _value(raw, at, self._depth, self._depth == 1 and key in _MAY_BE_LONG)
            self.found[key] = paired(raw[at:end])
            at = _blank(raw, end)
            if raw[at] == 0x7D:
                return at + 1
            self._at = at = _after(raw, at, 0x2C)

    def within(self, data: bytearray, at: int, end: int) -> int:
        """The size of the object that begins at ``at``. Raises Lost, with a place behind ``at``.

        Pieces grow, so that what is refused at once is not copied far.
        """
        size = self._at + _FIRST
        while True:
            raw = bytes(data[at : min(end, at + size)])
            try:
                return self.read(raw)
            except Lost as lost:
                if at + len(raw) >= end or len(raw) - lost.at >= LOOKAHEAD:
                    raise
                size *= 8


def members(raw: bytes, depth: int = 1) -> dict[str, bytes]:
    """The members of the JSON object ``raw``. ``depth`` 1 is the event itself."""
    whole = Object(depth)
    whole.read(raw)
    return whole.found


def text(raw: bytes) -> str:
    """The text of a valid JSON string token; half a surrogate pair becomes U+FFFD."""
    if b"\\" not in raw:
        return raw[1:-1].decode()
    return _HALF_PAIR.sub("\ufffd", json.loads(raw))


def paired(raw: bytes) -> bytes:
    """A valid JSON value whose halves of surrogate pairs are replaced, for readers that would stumble over them."""
    if b"\\u" not in raw:
        return raw
    return _ESCAPED_PAIRS.sub(lambda m: b"\\ufffd" if m[1] else m[0], raw)


def overflows(number: bytes) -> bool:
    """Whether no double can hold the number."""
    digits, exponent = _digits(number.decode())
    top = len(digits) + exponent - 1
    return bool(digits) and (top > 308 or (top == 308 and digits[:17] > _LARGEST))


def scaled(number: str, places: int, *, exact: bool = False) -> int | None:
    """The number times 10**places as int64, half to even; None if out of range or, when ``exact``, not whole."""
    digits, exponent = _digits(number)
    size = len(digits) + exponent + places
    if not digits:
        return 0
    if size > 19:
        return None
    whole, tail = (digits[:size], digits[size:].rstrip("0")) if size >= 0 else ("", "0")
    if exact and tail:
        return None
    value = int(whole.ljust(max(size, 1), "0"))
    if tail > "5" or (tail == "5" and value & 1):
        value += 1
    if value >= 2**63:
        return None
    return -value if number[0] == "-" else value


def is_number(candidate: str) -> bool:
    """Whether the text is a number as JSON writes it."""
    return candidate.isascii() and _NUMBER.fullmatch(candidate.encode()) is not None


def _digits(number: str) -> tuple[str, int]:
    """Significant digits and the power of ten of the last of them. The exponent is clamped: it may be any length."""
    match = _PARTS.fullmatch(number)
    assert match is not None
    whole, fraction, power = match[1], match[2] or "", match[3] or "0"
    sign = -1 if power[0] == "-" else 1
    power = power.lstrip("+-0") or "0"
    exponent = int(power) if len(power) <= 9 else 10**9
    return (whole + fraction).lstrip("0"), sign * exponent - len(fraction)


def _blank(raw: bytes, at: int) -> int:
    """Past white space, which must not end the element."""
    end = _BLANK.match(raw, at).end()  # type: ignore[union-attr]
    if end >= len(raw):
        raise Lost("syntax", end)
    return end


def _after(raw: bytes, at: int, mark: int) -> int:
    """Past one punctuation mark and the white space around it."""
    at = _blank(raw, at)
    if raw[at] != mark:
        raise Lost("syntax", at)
    return _blank(raw, at + 1)


def _string(raw: bytes, at: int) -> int:
    """Past the string that starts at ``at``."""
    if raw[at] != 0x22:
        raise Lost("syntax", at)
    at += 1
    while True:
        end = _RUN.match(raw, at).end()  # type: ignore[union-attr]
        try:
            raw[at:end].decode()
        except UnicodeDecodeError as error:
            raise Lost("bad utf-8", at + error.start) from None
        if end >= len(raw):
            raise Lost("syntax", end)
        if raw[end] == 0x22:
            return end + 1
        escape = _ESCAPE.match(raw, end)
        if escape is None:
            raise Lost("bad escape" if raw[end] == 0x5C else "control character", end)
        at = escape.end()


def _value(raw: bytes, at: int, depth: int, any_size: bool = False) -> int:
    """Past the value that starts at ``at`` in a container of that depth."""
    first = raw[at]
    if first == 0x22:
        return _string(raw, at)
    if first in b"{[":
        return _container(raw, at, depth + 1)
    if first in b"-0123456789":
        return _number(raw, at, any_size)
    word = _WORD.match(raw, at)
    if word is None or _GLUED.match(raw, word.end()):
        constant = first in b"nNiI" and not raw.startswith(b"nu", at)
        raise Lost("bad number" if constant else "syntax", _glued_end(raw, at))
    return word.end()


def _number(raw: bytes, at: int, any_size: bool) -> int:
    match = _NUMBER.match(raw, at)
    if match is None or _GLUED.match(raw, match.end()):
        raise Lost("bad number", _glued_end(raw, at))
    if not any_size and match.end() - at > 4 and overflows(match[0]):
        raise Lost("number overflow", match.end())
    return match.end()


def _glued_end(raw: bytes, at: int) -> int:
    """Past all that clings to a number or a word."""
    return _GLUED_END.match(raw, at).end()  # type: ignore[union-attr]


def _container(raw: bytes, at: int, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise Lost("too deep", at)
    is_object = raw[at] == 0x7B
    close = 0x7D if is_object else 0x5D
    at = _blank(raw, at + 1)
    if raw[at] == close:
        return at + 1
    while True:
        if is_object:
            at = _after(raw, _string(raw, at), 0x3A)
        at = _blank(raw, _value(raw, at, depth))
        if raw[at] == close:
            return at + 1
        at = _after(raw, at, 0x2C)
