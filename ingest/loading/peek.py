"""What lies at a path: its kind, its first bytes, its names. Each is asked of the system once while a walk goes on.

Every reader asks the same of every file, and an upload may hold tens of thousands. Between walks nothing is kept:
files change.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path

#: How much of the beginning of a file is kept.
HEAD = 4096
#: Paths that are kept at a time: a walk comes by its files one after the other.
_KEPT = 64
#: The system's words for "there is nothing there"; any other word is an error to be told.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


class Seen:
    """One path, links followed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mode = _mode(path)

    @property
    def is_file(self) -> bool:
        """Whether it is a file; a pipe is none, and nothing is ever read from one."""
        return stat.S_ISREG(self._mode)

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self._mode)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a file; none of anything else. Raises OSError where it may not be read."""
        if not self.is_file:
            return b""
        with open(self._path, "rb", buffering=0) as file:
            return file.read(HEAD)

    @cached_property
    def names(self) -> frozenset[str]:
        """What lies in a directory. Raises OSError where it may not be read."""
        return frozenset(os.listdir(self._path)) if self.is_dir else frozenset()


_memo: ContextVar[dict[str, Seen] | None] = ContextVar("memo", default=None)


def at(path: Path) -> Seen:
    """What lies there; raises OSError for what the system does not tell."""
    memo, name = _memo.get(), str(path)
    if memo is None:
        return Seen(path)
    if (known := memo.get(name)) is not None:
        return known
    if len(memo) >= _KEPT:
        memo.clear()
    seen = memo[name] = Seen(path)
    return seen


def head(path: Path) -> bytes:
    """The first bytes of a file that may be none, or not readable: then there are no bytes."""
    try:
        return at(path).head
    except OSError:
        return b""


@contextmanager
def once() -> Iterator[None]:
    """Within it a path is looked at once."""
    token = _memo.set({})
    try:
        yield
    finally:
        _memo.reset(token)


def _mode(path: Path) -> int:
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno not in _NOTHING:
            raise
    except ValueError:  # a name with a NUL
        pass
    return 0
