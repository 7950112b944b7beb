"""Disposable children: a hostile file may kill, starve or hang its reader and nobody else.

Each task runs in a forked child with limits on memory, processor time and the size of what it writes. Its parent keeps
a deadline. A child may do several small tasks one after the other, each within limits of its own. The last message of a
task is its result; a child that dies without one becomes an error like any other.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from npulens.ingest.errors import IngestError, no_room
from npulens.ingest.messages import Message, dumped, loaded

GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What a child may use for one task."""

    memory_bytes: int  # address space beside what it begins with; DuckDB and Arrow reserve more than they touch
    file_bytes: int  # size of any file it writes
    cpu_s: int
    wall_s: float

    @staticmethod
    def for_input(size: int) -> Limits:
        """Generous for any honest capture: 1 MB/s, and 12 times its size on disk."""
        seconds = 120 + size // 1_000_000
        return Limits(12 * GIB, GIB + 12 * size, seconds, float(seconds * 2))


@dataclass(frozen=True)
class Answer:
    """What a child says: progress on the way (bytes), or its outcome."""

    task: int
    progress: int = 0
    result: dict[str, Any] | None = None
    error: IngestError | None = None


Task = Callable[[Callable[[int], None]], dict[str, Any]]


def run(
    tasks: Sequence[tuple[Task, Limits]], at_once: int, look: Callable[[], None] | None = None,
    batches: Sequence[Sequence[int]] | None = None,
) -> Iterator[Answer]:  # fmt: skip
    """Run tasks in children, ``at_once`` of them side by side, and pass on what they say.

    ``batches``: which tasks a child may do one after the other; without it each has a child of its own. Limits hold for
    every task by itself. A child ends with a task that fails, and another does the rest. If others came before the one
    that failed, it is done again first: none fails for what they left. ``look`` is called again and again meanwhile;
    what it raises ends them all.
    """
    waiting = deque([[number] for number in range(len(tasks))] if batches is None else map(list, batches))
    children: dict[int, _Child] = {}
    selector = selectors.DefaultSelector()
    try:
        while waiting or children:
            while waiting and len(children) < at_once:
                child = _Child([(number, *tasks[number]) for number in waiting.popleft()], list(children))
                children[child.pipe] = child
                selector.register(child.pipe, selectors.EVENT_READ)
            for key, _ in selector.select(timeout=1.0):
                child = children[key.fd]
                yield from child.read()
                if child.closed:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del children[key.fd]
                    if left := child.left():
                        waiting.appendleft(left)
            for child in children.values():
                child.keep_deadline()
            if look is not None:
                look()
    finally:
        for child in children.values():
            child.kill()
        selector.close()


class _Child:
    def __init__(self, batch: Sequence[tuple[int, Task, Limits]], siblings: Sequence[int]) -> None:
        self._batch, self._at = batch, 0  # the task that it is at, or that it comes to next
        self.deadline = time.monotonic() + self._limits.wall_s
        self.closed = self.late = False
        self._parts: list[bytes] = []  # of a line that has not ended: an answer may be long
        self.pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for inherited in (self.pipe, *siblings):  # a sibling that kept it open would keep it alive
                os.close(inherited)
            _be_child(batch, write)
        os.close(write)

    @property
    def _limits(self) -> Limits:
        return self._batch[self._at][2]

    def left(self) -> list[int]:
        """The tasks that it did not do: those after one that failed, and that one too unless it was the first."""
        return [number for number, *_ in self._batch[self._at :]]

    def read(self) -> Iterator[Answer]:
        chunk = os.read(self.pipe, 1 << 16)
        self._parts.append(chunk)
        if b"\n" in chunk:
            *lines, rest = b"".join(self._parts).split(b"\n")
            self._parts = [rest]
            for line in lines:
                yield from self._answer(loaded(line))
        if not chunk:
            _, status = os.waitpid(self.pid, 0)
            self.closed = True
            if self._at == 0:  # whatever killed it later may be the doing of those before
                yield Answer(self._batch[0][0], error=self._death(status))
                self._at = 1

    def _answer(self, said: dict[str, Any]) -> Iterator[Answer]:
        number, error = self._batch[self._at][0], said.get("error")
        if error is not None and self._at:
            return
        if "progress" not in said:
            self._at += 1
            if self._at < len(self._batch):
                self.deadline = time.monotonic() + self._limits.wall_s
        yield Answer(
            number,
            said.get("progress", 0),
            said.get("result"),
            IngestError(**error) if error is not None else None,
        )

    def _death(self, status: int) -> IngestError:
        if self.late:
            return IngestError("too_slow", Message("reading_it_took_longer_than", {"n": f"{self._limits.wall_s:.0f}"}))
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU:
                return IngestError("too_slow", Message("reading_it_used_more_than", {"n": self._limits.cpu_s}))
            return IngestError("crashed", Message("its_reader_was_stopped_by", {"signal": signal.Signals(number).name}))
        return IngestError(
            "crashed", Message("its_reader_ended_with_status", {"status": os.waitstatus_to_exitcode(status)})
        )

    def keep_deadline(self) -> None:
        if time.monotonic() > self.deadline and not self.late:
            self.late = True
            os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        if not self.closed:  # it has been waited for; its number may belong to somebody else by now
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.pipe)


def _be_child(batch: Sequence[tuple[int, Task, Limits]], write: int) -> None:
    """Run tasks and leave without ever returning to the parent's code."""
    code = 1
    try:
        faulthandler.disable()
        gc.disable()  # a child lives for a few files: between them is time enough
        gc.freeze()
        os.nice(5)
        die_with_parent()
        _limit(resource.RLIMIT_CORE, 0)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an OSError
        for _, task, limits in batch:
            if not _done(task, limits, write):
                break
            gc.collect()
        code = 0
    finally:
        os._exit(code)


def _done(task: Task, limits: Limits, write: int) -> bool:
    """Run one task within its limits and say what came of it; whether it went well."""

    def say(message: dict[str, object]) -> None:
        os.write(write, dumped(message).encode() + b"\n")

    _limit(resource.RLIMIT_AS, _inherited() + limits.memory_bytes)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_CPU, int(time.process_time()) + limits.cpu_s)
    try:
        say({"result": task(lambda done: say({"progress": done}))})
    except IngestError as error:
        say({"error": vars(no_room(error) or error)})
    except (MemoryError, duckdb.OutOfMemoryException):
        many = f"{limits.memory_bytes / GIB:.1f}".removesuffix(".0")
        say({"error": {"kind": "too_large", "message": Message("reading_it_needs_more_than", {"n": many})}})
    except Exception as error:  # a defect of ours must not look like a hang, and must say where it is
        say({"error": vars(no_room(error) or _refusal(error))})
    else:
        return True
    return False


def _refusal(error: Exception) -> IngestError:
    """What the system would not do, or a defect of ours and where it is."""
    if isinstance(error, OSError):
        return IngestError("system", Message("system_refused", {"error": error.strerror or error}))
    where = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return IngestError("defect", Message("npulens_failed_on_it_please", {"what": what}))


def die_with_parent() -> None:
    """A child whose parent was killed has nobody to answer to (Linux only; elsewhere it ends at its limits)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() == 1:
            os._exit(1)


def _inherited() -> int:
    """The address space that is there already: beyond its limit not even the stack could grow (Linux only)."""
    if sys.platform != "linux":
        return 0
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, hard))
