"""Long questions are asked in processes beside the server. It goes on drawing, and their memory goes with them.

`python -m npulens.app.aside.process NICENESS` reads questions from standard input and writes answers to standard
output, each a pickle of our own. It keeps open what it was asked about last. It ends when it has had nothing to do for
a while.
"""

from __future__ import annotations

import atexit
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

T = TypeVar("T")
#: What a page waits for comes before what takes longer, and both before loads (app/intake/load_queue.py).
SOON, LATER = 3, 8
IDLE_S = 20.0  # without a question
_SOON = 5.0  # so long before it ends by itself it is asked nothing more
#: It may address so much; one that was larger than that ends with its answer.
MOST_MEMORY, MOST_KEPT = 8 << 30, 1 << 30


@dataclass
class _Child:
    """One process, and whom it was asked about last."""

    niceness: int = SOON
    lock: Lock = field(default_factory=Lock)
    about: object = None
    process: subprocess.Popen[bytes] | None = None
    answered: float = 0.0

    def ask(self, question: bytes) -> Any:
        """What it says; IngestError where it died of the question."""
        process = self._ready()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
            told, said, ends = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self.end()
            raise IngestError("crashed", Message("query_ended_without_answer")) from error
        self.answered = time.monotonic()
        if ends:
            self.end()
        if told:
            return said
        raise said

    def _ready(self) -> subprocess.Popen[bytes]:
        over = time.monotonic() - self.answered > IDLE_S - _SOON
        if self.process is not None and (over or self.process.poll() is not None):
            self.end()
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "npulens.app.aside.process", str(self.niceness)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                env=dict(os.environ, OPENBLAS_NUM_THREADS="1"),
            )  # fmt: skip
        return self.process

    def end(self) -> None:
        """Now, whatever it is doing."""
        process, self.process = self.process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


class Aside:
    """So many processes. Questions about one thing go to one process, one after the other."""

    def __init__(self, count: int, niceness: int = SOON) -> None:
        self._children = tuple(_Child(niceness) for _ in range(count))
        self._choosing = Lock()

    def ask(self, about: object, function: Callable[..., T], *given: object) -> T:
        """``function(*given)``, both of modules; ``about``: what the process has to open for it."""
        question = pickle.dumps((function, given))
        with self._choosing:
            child = min(self._children, key=lambda one: (one.about != about, one.lock.locked(), one.answered))
            child.about = about
        with child.lock:
            found: T = child.ask(question)
        return found

    def free(self) -> bool:
        """Whether one of them has nothing to do."""
        return not all(child.lock.locked() for child in self._children)

    def close(self) -> None:
        """Ends all of them."""
        for child in self._children:
            child.end()


#: What a page waits for, and what takes longer: judgements and what is derived of a whole run.
SHORT, LONG = Aside(2), Aside(1, LATER)
for each in (SHORT, LONG):
    atexit.register(each.close)


def main() -> None:
    """The process: its answers have standard output for themselves."""
    os.nice(int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions = sys.stdin.buffer  # whoever asks waits for the answer, so nothing is left in it meanwhile
    while select.select([questions], [], [], IDLE_S)[0]:
        try:
            function, given = pickle.load(questions)
        except EOFError:
            return
        out.write(_answer(function, given))
        out.flush()


def _answer(function: Callable[..., object], given: tuple[object, ...]) -> bytes:
    """Whether it is one, the answer or the error, and whether this process has taken so much that it had better end."""
    try:
        told = pickle.dumps((True, function(*given), _is_large()))
    except Exception as error:  # whoever asked is told, as if it had been asked there
        told = pickle.dumps((False, error, _is_large()))
    return told


def _is_large() -> bool:
    return _most_bytes() > MOST_KEPT


def _most_bytes() -> int:
    """The most that was resident. Linux counts what started a process to its ru_maxrss, but not to its VmHWM."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


if __name__ == "__main__":
    main()
