"""What somebody types into the search field: words of a name, filters, or a moment to go to.

* `gemm rank:0-3 dur>1ms`: every condition must hold;
* `name~mat*mul name="Add"`: holds, with `*` for anything; is exactly;
* `name!~nccl track:stream cat:kernel,memcpy step:3-5`: not in the name; one of several;
* `@120.5ms`, `@120ms..121ms`: a moment, a window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any


class NotUnderstood(ValueError):
    """A condition that says nothing; ``part`` is what was written."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


@dataclass(frozen=True)
class Text:
    """Pieces that a text holds in this order, whatever the case."""

    pieces: tuple[str, ...]
    whole: bool = False  # nothing before the first piece and nothing after the last
    absent: bool = False  # the text must not be like this

    @property
    def like(self) -> str:
        """As a pattern of LIKE with a backslash before what is meant as written."""
        inner = "%".join(re.sub(r"([%_\\])", r"\\\1", piece) for piece in self.pieces)
        return inner if self.whole else f"%{inner}%"


@dataclass(frozen=True)
class Wanted:
    """Conditions on a span; an empty one holds for every span. Ranges hold both of their ends."""

    names: tuple[Text, ...] = ()
    ranks: tuple[tuple[int, int], ...] = ()
    steps: tuple[tuple[int, int], ...] = ()
    tracks: tuple[Text, ...] = ()  # one of them
    kinds: tuple[Text, ...] = ()  # one of them
    least_ns: int | None = None
    most_ns: int | None = None


@dataclass(frozen=True)
class Place:
    """A moment, or a window of time."""

    begin: int
    end: int | None


_CONDITION = re.compile(r"(name|rank|dur|track|cat|step)\s*(!~|!=|>=|<=|[:：=~<>])(.*)", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(ns|us|µs|μs|ms|s)", re.IGNORECASE)
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_FAR = 2**53


def understood(text: str) -> Wanted | Place:
    """The question in parts."""
    text = text.strip()
    if text.startswith("@"):
        return _place(text)
    found: dict[str, list[Any]] = {"name": [], "rank": [], "step": [], "track": [], "cat": []}
    least: list[int] = []
    most: list[int] = []
    for part in _parts(text):
        condition = _CONDITION.fullmatch(part)
        key, sign, value = condition.groups() if condition else ("name", "~", part)
        key, sign = key.lower(), ":" if sign == "：" else sign
        if not _unquoted(value):
            raise NotUnderstood(part)
        if key == "dur":
            low, high = _length(sign, value, part)
            least += [] if low is None else [low]
            most += [] if high is None else [high]
        elif key in ("rank", "step"):
            found[key] += _ranges(sign, value, part)
        elif key == "name":
            found[key].append(_text(sign, value, part))
        else:
            found[key] += [_text(sign, one, part) for one in _listed(value) if one]
    return Wanted(
        tuple(found["name"]), tuple(found["rank"]), tuple(found["step"]), tuple(found["track"]), tuple(found["cat"]),
        max(least, default=None), min(most, default=None),
    )  # fmt: skip


def _parts(text: str) -> Iterator[str]:
    """The text at its spaces, but for those between quotation marks."""
    for found in re.finditer(r'(?:"(?:\\.|[^"\\])*"|[^\s"]|")+', text):
        yield found[0]


def _quoted(value: str) -> bool:
    return len(value) > 1 and value[0] == value[-1] == '"'


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if _quoted(value) else value


def _listed(value: str) -> list[str]:
    return [value] if _quoted(value) else value.split(",")


def _text(sign: str, value: str, part: str) -> Text:
    if sign not in (":", "~", "=", "!~", "!="):
        raise NotUnderstood(part)
    pieces = (_unquoted(value),) if _quoted(value) else tuple(value.split("*"))
    return Text(pieces, sign in ("=", "!="), sign.startswith("!"))


def _ranges(sign: str, value: str, part: str) -> list[tuple[int, int]]:
    found = [_RANGE.fullmatch(one) for one in value.split(",")]
    if sign not in (":", "=") or not all(found):
        raise NotUnderstood(part)
    return [(int(one[1]), int(one[2] or one[1])) for one in found if one]


def _length(sign: str, value: str, part: str) -> tuple[int | None, int | None]:
    """The least and the most that a length may be."""
    first, _, last = value.partition("..")
    if last and sign in (":", "="):
        return _time(first, part, ROUND_CEILING), _time(last, part, ROUND_FLOOR)
    low, high = _time(value, part, ROUND_CEILING), _time(value, part, ROUND_FLOOR)
    bounds = {
        ">": (high + 1, None), ">=": (low, None), "<": (None, low - 1), "<=": (None, high), "=": (low, high),
        ":": (low, high),
    }  # fmt: skip
    if sign not in bounds:
        raise NotUnderstood(part)
    return bounds[sign]


def _time(value: str, part: str, rounding: str) -> int:
    """Whole nanoseconds; a fraction of one is rounded."""
    found = _TIME.fullmatch(value.strip())
    if found is None:
        raise NotUnderstood(part)
    ns = int((Decimal(found[1]) * _UNITS[found[2].lower()]).to_integral_value(rounding))
    if ns >= _FAR:
        raise NotUnderstood(part)
    return ns


def _place(text: str) -> Place:
    first, dots, last = text[1:].partition("..")
    begin = _time(first, text, ROUND_FLOOR)
    end = _time(last, text, ROUND_CEILING) if dots else None
    if end is not None and end <= begin:
        raise NotUnderstood(text)
    return Place(begin, end)
