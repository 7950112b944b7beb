"""How the plain scanner passes what is lost: to its end, or to the next event that stands whole.

Where text is missing, quotes and brackets count what is not there. So an event is known by what it says itself. It is
a whole object with a phase and a name. A comma or the end of the array stands behind it. No byte is looked at more
often than objects can lie within each other.
"""

from __future__ import annotations

import re

from npulens.ingest.events.frame import Skim
from npulens.ingest.events.model import LOOKAHEAD, NEAR
from npulens.ingest.events.strict import Lost, Object, text

#: What is lost is no element: the text cannot be followed.
THREAD = ""
#: What may be met: the data ends, the lost element ends, an event stands within it.
BEHIND, ENDS, EVENT = range(3)

_NO, _YES, _PERHAPS = range(3)
_BLANK = re.compile(rb"[ \t\r\n]*+")
_OBJECT = re.compile(rb'\{[ \t\r\n]*+(?:"|\Z)')
#: Elements that are lost alone: nothing says that text is missing.
_ALONE = frozenset(("not an object", "number overflow"))


class Passing:
    """What is lost from one byte on, in as many pieces as it takes."""

    def __init__(self, reason: str, data: bytearray, at: int, *, torn: bool) -> None:
        """Begins with the byte at ``at``. ``torn``: it was refused before the data ended."""
        self.reason = reason
        self.torn = torn
        self.passed = 1
        self._seeks = reason not in _ALONE
        self._skim = None if reason == THREAD else Skim()
        if self._skim is not None:
            self._skim.feed(data, at, at + 1)

    def feed(self, data: bytearray, at: int, end: int, last: bool) -> tuple[int, int]:
        """What is met, and where."""
        while True:
            object_ = _OBJECT.search(data, at, end) if self._seeks else None
            nearest = object_.start() if object_ else end
            if self._skim is not None and (stop := self._skim.feed(data, at, nearest)) >= 0:
                return ENDS, stop
            found = _stands(data, nearest, end, last) if object_ else _PERHAPS
            if found != _NO:
                return (EVENT if found == _YES else BEHIND), nearest
            at = nearest + 1
            if self._skim is not None:
                self._skim.feed(data, nearest, at)


def _stands(data: bytearray, at: int, end: int, last: bool) -> int:
    """Whether a whole event stands there, so that reading can go on; it may need more data to tell."""
    event = Object()
    try:
        size = event.within(data, at, min(end, at + NEAR))
    except Lost as lost:
        ends = end - at - lost.at < LOOKAHEAD and end - at < NEAR
        return _PERHAPS if ends and not last else _NO
    ph, name = event.found.get("ph", b"null"), event.found.get("name", b"null")
    if name[0] != 0x22 or ph[0] != 0x22 or not re.fullmatch("[\x01-\x7f]", text(ph), re.S):
        return _NO
    mark = _BLANK.match(data, at + size, end).end()  # type: ignore[union-attr]
    if mark < end:
        return _YES if data[mark] in b",]" else _NO
    return _PERHAPS if not last and end - at < 2 * NEAR else _NO
