"""Ranks and steps as people write them: 3, 0-7 or 1,4."""

from __future__ import annotations

#: No more than this are meant by a list that people write.
_MOST = 1_000_000
_DIGITS = 36  # of two numbers; steps and ranks have 18 at most


class NoNumbers(ValueError):
    """A text that is no list of numbers."""


def numbers(text: str, most: int = _MOST) -> tuple[int, ...]:
    """The numbers that a text names, in order; at most so many."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > _DIGITS:
            raise NoNumbers(text)
        if int(last or first) - int(first) >= most:
            raise NoNumbers(text)
        found |= set(range(int(first), int(last or first) + 1))
        if len(found) > most:
            raise NoNumbers(text)
    return tuple(sorted(found))
