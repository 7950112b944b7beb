"""What can go wrong with somebody else's file, said in one sentence."""

from __future__ import annotations

from dataclasses import dataclass


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
        where = f" ({self.path}" + (f" at byte {self.offset})" if self.offset is not None else ")") if self.path else ""
        return self.message + where

    def as_dict(self) -> dict[str, str | int | None]:
        return {"kind": self.kind, "message": str(self), "path": self.path, "offset": self.offset}
