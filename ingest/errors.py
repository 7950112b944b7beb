"""What can go wrong with somebody else's file, said in one sentence."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from npulens.ingest.messages import Message, verbatim


@dataclass
class IngestError(Exception):
    """A capture, or a part of it, that could not be read.

    ``kind`` is stable for scripts, ``message`` says what, where and what to do.
    """

    kind: str
    message: Message
    path: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        return str(self.said())

    def said(self) -> Message:
        """What and where."""
        message = self.message if self.message.isprintable() else verbatim(str(self.message))
        if not self.path:
            return message
        where = {"said": message, "path": self.path}
        if self.offset is None:
            return Message("in_path", where)
        return Message("in_path_at_byte", {**where, "offset": self.offset})

    def as_dict(self) -> dict[str, str | int | None]:
        return {"kind": self.kind, "message": self.said(), "path": self.path, "offset": self.offset}


#: What the system says where a file cannot grow any more -> what that is called and what to do.
_NO_ROOM = {
    errno.ENOSPC: ("disk_full", Message("there_is_no_space_left")),
    errno.EDQUOT: ("disk_full", Message("quota_disk_where_store_lies")),
    errno.EFBIG: ("system", Message("system_refused_limit_on_files", {"error": os.strerror(errno.EFBIG)})),
}


#: What else a disk or a limit answers, whatever was asked of it: nothing of that is a defect of ours.
_REFUSED = (
    errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EMFILE, errno.ENFILE, errno.ESTALE,
    errno.ENOTDIR, errno.ELOOP, errno.ETXTBSY, errno.EBUSY,
)  # fmt: skip


def of_the_system(error: OSError) -> IngestError | None:
    """The sentence for a disk that is full, may only be read, or is odd. None where it may be a defect of ours."""
    path = str(error.filename) if error.filename is not None else None
    if full := no_room(error):
        return IngestError(full.kind, full.message, path)
    if error.errno not in _REFUSED:
        return None
    key = "disk_may_not_be_written" if error.errno == errno.EROFS else "system_refused"
    return IngestError("system", Message(key, {"error": error.strerror or error}), path)


def no_room(error: BaseException | None) -> IngestError | None:
    """The refusal, if a disk without room or a limit on files is behind an error, whoever met it first."""
    while error is not None:
        number = error.errno if isinstance(error, OSError) else None
        for code, (kind, message) in _NO_ROOM.items():
            if number == code or (number is None and os.strerror(code) in str(error)):  # DuckDB quotes the system
                return IngestError(kind, message)
        error = error.__cause__
    return None
