"""A function of torch that somebody wants to hear of: it does what it did, and tells when it has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Overheard:
    """Stands in for ``place.name`` until it is stopped. Calls within a call of the same ``depth`` are not told.

    ``done`` is told the first argument: of a method, whose it is.
    """

    def __init__(self, place: Any, name: str, done: Callable[[Any], None], depth: list[int]) -> None:
        self._place, self._name, self._done, self._depth = place, name, done, depth
        self._real = getattr(place, name)
        self._over = False
        self._stand_in = self._made()
        setattr(place, name, self._stand_in)

    def stop(self) -> None:
        """From now on it is the function that it was; whoever kept the stand-in may go on calling it."""
        self._over = True
        if getattr(self._place, self._name, None) is self._stand_in:
            setattr(self._place, self._name, self._real)

    def _made(self) -> Any:
        real = self._real

        @functools.wraps(real)
        def told(*given: Any, **named: Any) -> Any:
            if self._over:
                return real(*given, **named)
            self._depth[0] += 1
            try:
                found = real(*given, **named)
            finally:
                self._depth[0] -= 1
            if not self._depth[0]:
                self._done(given[0] if given else None)
            return found

        return told
