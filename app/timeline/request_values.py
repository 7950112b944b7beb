"""The values of a request, checked: whole numbers within limits and known words. Anything else is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
#: JavaScript counts exactly to here.
FAR = 2**53 - 1
#: Ids one request may name.
MOST_IDS = 4096


class Refused(Exception):
    """A request that is not served; ``key`` says why."""

    def __init__(self, key: str, status: int = 400) -> None:
        super().__init__(key)
        self.key, self.status = key, status


def whole(query: Mapping[str, str], key: str, least: int = -FAR, most: int = FAR, default: int | None = None) -> int:
    """A whole number between two others."""
    text = query.get(key)
    if text is None and default is not None:
        return default
    if text is None or not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise Refused(f"bad_{key}")
    return int(text)


def number(text: str, key: str) -> int:
    """A whole number out of a path."""
    if not _WHOLE.fullmatch(text) or abs(int(text)) > 2**62:
        raise Refused(f"bad_{key}")
    return int(text)


def window(query: Mapping[str, str], last: str = "to") -> tuple[int, int]:
    """From and to of a window that is not empty."""
    begin, end = whole(query, "from"), whole(query, last)
    if begin >= end:
        raise Refused(f"bad_{last}")
    return begin, end


def ids(query: Mapping[str, str], key: str) -> list[int] | None:
    """A comma list of whole numbers, each once; None where the request has none."""
    text = query.get(key)
    if text is None:
        return None
    parts = [part for part in text.split(",") if part]
    if len(parts) > MOST_IDS or not all(_WHOLE.fullmatch(part) and abs(int(part)) <= FAR for part in parts):
        raise Refused(f"bad_{key}")
    return list(dict.fromkeys(int(part) for part in parts))


def ranges(query: Mapping[str, str], key: str) -> list[tuple[int, int]]:
    """A comma list of whole numbers from 0 on, and of ranges that hold both of their ends: 0-15,16."""
    found = [_RANGE.fullmatch(part) for part in query.get(key, "").split(",")]
    if not all(found):
        raise Refused(f"bad_{key}")
    return [(int(one[1]), int(one[2] or one[1])) for one in found if one]


def choice(query: Mapping[str, str], key: str, allowed: tuple[str, ...]) -> str:
    """One of some words."""
    text = query.get(key, "")
    if text not in allowed:
        raise Refused(f"bad_{key}")
    return text
