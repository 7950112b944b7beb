"""What can go wrong with somebody else's file, said in one sentence."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from npulens.ingest.messages import Message, Text, text


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
    message: Text
    path: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        at = f" at byte {self.offset}" if self.offset is not None else ""
        message = one_line(text(self.message), 1000)
        return f"{message} ({printable(self.path)}{at})" if self.path else message

    def as_dict(self) -> dict[str, str | int | None]:
        return {"kind": self.kind, "message": str(self), "path": self.path, "offset": self.offset}


#: What the system says where a file cannot grow any more -> what that is called and what to do.
_NO_ROOM = {
    errno.ENOSPC: ("disk_full", Message.of("archives.there_is_no_space_left")),
    errno.EDQUOT: ("disk_full", Message.of("archives.quota_disk_where_store_lies")),
    errno.EFBIG: ("system", Message.of("refused.system_refused_limit_on_files", {"error": os.strerror(errno.EFBIG)})),
}


def no_room(error: BaseException | None) -> IngestError | None:
    """The refusal, if a disk without room or a limit on files is behind an error, whoever met it first."""
    while error is not None:
        number = error.errno if isinstance(error, OSError) else None
        for code, (kind, message) in _NO_ROOM.items():
            if number == code or (number is None and os.strerror(code) in str(error)):  # DuckDB quotes the system
                return IngestError(kind, message)
        error = error.__cause__
    return None
