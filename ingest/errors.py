"""What can go wrong with somebody else's file, said in one sentence."""

from __future__ import annotations

from dataclasses import dataclass


def printable(text: str) -> str:
    """A name from a file as text of one line: line breaks, control characters and marks of direction as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def one_line(text: str, most: int = 400) -> str:
    """The same, and not longer than people read: names in files have up to megabytes."""
    return printable(text if len(text) <= most else text[:most] + " ...")


@dataclass
class IngestError(Exception):
    """A capture, or a part of it, that could not be read.

    ``kind`` is stable for scripts, ``message`` says what, where and what to do.
    """

    kind: str
    message: str
    path: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        at = f" at byte {self.offset}" if self.offset is not None else ""
        return printable(f"{self.message} ({self.path}{at})" if self.path else self.message)

    def as_dict(self) -> dict[str, str | int | None]:
        return {"kind": self.kind, "message": str(self), "path": self.path, "offset": self.offset}
