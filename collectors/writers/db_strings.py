"""STRING_IDS in the making: every tool numbers its strings from a start of its own."""

from __future__ import annotations

from collections.abc import Iterator


class Strings:
    def __init__(self) -> None:
        self._rows: list[tuple[int, str]] = []
        self.start(0)

    def start(self, first: int) -> None:
        """Another tool writes from here on; it knows nothing of the strings before."""
        self._ids: dict[str, int] = {}
        self._first = first

    def __getitem__(self, text: str) -> int:
        number = self._ids.get(text)
        if number is None:
            number = self._ids[text] = self._first + len(self._ids)
            self._rows.append((number, text))
        return number

    def rows(self) -> Iterator[tuple[int, str]]:
        return iter(self._rows)
