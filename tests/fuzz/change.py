"""Changes of an input that keep most of its grammar, so that they reach what lies behind the first check."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from random import Random

#: Numbers at the edges of int32, int64, double and of what stamps may be, and what is no number at all.
NUMBERS = (
    b"0", b"-1", b"1", b"1e400", b"-1e400", b"1e-400", b"NaN", b"9223372036854775807", b"-9223372036854775808",
    b"9223372036854775808", b"18446744073709551615", b"4294967295", b"4294967296", b"2147483648", b"0.0005",
    b"1.7976931348623158e308", b"4611686018427387.904", b"9223372036854775.807", b"1152921504606846.977", b"1e15",
    b"123456789012345678901234567890.5", b"1E+2", b"-0.0", b"00", b"1.", b".5", b"0x10", b"1_000", b"inf", b"5e-324",
)  # fmt: skip
TEXTS = (
    b"", b" ", b"N/A", b"\\u0000", b"\\ud800", b"\xff\xfe", b"\xe8\xae\xa1", b"'; DROP TABLE span; --", b"${x}", b"{}",
    b"[]", b"null", b"\\", b"%s%n", b"../../x", b"=1+1", b"<script>", b"a" * 300, b"\\n", b"\t", b"true", b"-", b"T",
)  # fmt: skip
WORDS = (b"null", b"true", b"false", b"{}", b"[]", b"[[[]]]", b'{"a":{}}', b'[1,"x",null]')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_CELL = re.compile(rb"[^,\n]*")


def json_text(data: bytes, draw: Random) -> bytes:
    """A JSON text with some tokens changed, and now and then its elements; seldom gzipped or cut."""
    for _ in range(draw.choice((0, 1, 1, 2, 4, 8, 16))):
        data = _token(data, draw)
    if draw.random() < 0.4:
        data = draw.choice((_element, _element, anything))(data, draw)
    return _packed(data, draw) if draw.random() < 0.03 else data


def csv_text(data: bytes, draw: Random) -> bytes:
    """A CSV text with some cells changed, and now and then its lines."""
    for _ in range(draw.choice((0, 1, 1, 2, 4, 8))):
        data = _cell(data, draw)
    return draw.choice((_line, _line, anything))(data, draw) if draw.random() < 0.4 else data


def anything(data: bytes, draw: Random) -> bytes:
    """Bytes flipped, cut out, doubled or put in."""
    at = draw.randrange(len(data) + 1)
    size = draw.choice((1, 1, 2, 4, 16, 100))
    how = draw.randrange(5)
    if how == 0:
        return data[:at] + bytes(draw.randrange(256) for _ in range(size)) + data[at + size :]
    if how == 1:
        return data[:at] + data[at + size :]
    if how == 2:
        return data[:at] + data[at : at + size] + data[at:]
    if how == 3:
        return data[:at] if draw.random() < 0.2 else data[:at] + draw.choice(NUMBERS + TEXTS) + data[at:]
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :] if at < len(data) else data


def _token(data: bytes, draw: Random) -> bytes:
    """One string, number or word of a JSON text by another."""
    found = list(_TOKEN.finditer(data, 0, 1 << 16))
    if not found:
        return anything(data, draw)
    old = draw.choice(found)
    if draw.random() < 0.15:  # by one of the same text: a key by a key, an id by an id
        new = draw.choice(found)[0]
    elif old[0][:1] == b'"' and draw.random() < 0.6:
        new = b'"' + draw.choice(TEXTS + NUMBERS) + b'"'
    else:
        new = draw.choice(NUMBERS + WORDS)
    return data[: old.start()] + new + data[old.end() :]


def _element(data: bytes, draw: Random) -> bytes:
    """An element left out, doubled or in another place."""
    return _shuffled(data, re.split(rb"(?<=\}),\s*(?=\{)", data), b",", draw)


def _cell(data: bytes, draw: Random) -> bytes:
    found = [cell for cell in _CELL.finditer(data, 0, 1 << 16) if cell[0]]
    if not found:
        return anything(data, draw)
    old = draw.choice(found)
    new = draw.choice(found)[0] if draw.random() < 0.2 else draw.choice(NUMBERS + TEXTS)
    if draw.random() < 0.2:
        new = b'"' + new + draw.choice((b'"', b'""', b"", b',"', b'\n"'))
    return data[: old.start()] + new + data[old.end() :]


def _line(data: bytes, draw: Random) -> bytes:
    return _shuffled(data, data.split(b"\n"), b"\n", draw)


def _shuffled(data: bytes, parts: list[bytes], glue: bytes, draw: Random) -> bytes:
    if len(parts) < 2:
        return anything(data, draw)
    at, how = draw.randrange(len(parts)), draw.randrange(3)
    changes: tuple[Callable[[], object], ...] = (
        lambda: parts.pop(at),
        lambda: parts.insert(draw.randrange(len(parts)), parts[at]),
        lambda: parts.append(parts.pop(at)),
    )
    changes[how]()
    return glue.join(parts)


def _packed(data: bytes, draw: Random) -> bytes:
    packed = gzip.compress(data, 1, mtime=0) if draw.random() < 0.8 else zlib.compress(data)
    return packed if draw.random() < 0.5 else packed[: draw.randrange(len(packed))]
