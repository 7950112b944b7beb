"""Starts the process that does a load; the caller only waits for it.

A new interpreter, or a fork where this process has no threads: then nothing is imported twice. That is the command
line, and a process that has imported all of it ahead (app/intake/spare_process.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

#: Libraries that have threads of their own.
_WITH_THREADS = {"duckdb", "numpy", "pyarrow"}
_ahead = False  # said, not seen: who merely has the worker imported may have threads, which no fork survives


@dataclass
class LoadProcess:
    """A worker: what it is asked, what it answers, and how it ended once it is left."""

    ask: IO[str]
    answers: IO[str]
    returncode: int | None = None


def ahead() -> None:
    """Import all that a load needs, so that the loads of this process are forks. Only for one without threads."""
    global _ahead
    from npulens.ingest.loading import worker
    from npulens.ingest.readers import readers

    assert worker
    readers()
    _ahead = True


@contextmanager
def process(complaints: IO[str]) -> Iterator[LoadProcess]:
    """A worker whose standard error goes to ``complaints``; leaving waits for its end."""
    with _forked(complaints) if _ahead or _bare() else _started(complaints) as worker:
        yield worker


def _bare() -> bool:
    """Whether this process has one thread and nothing that would start others at the next question (Linux only)."""
    try:
        return len(os.listdir("/proc/self/task")) == 1 and sys.modules.keys().isdisjoint(_WITH_THREADS)
    except OSError:
        return False


@contextmanager
def _started(complaints: IO[str]) -> Iterator[LoadProcess]:
    command = [sys.executable, "-P", "-m", "npulens.ingest.loading.worker"]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")  # as below
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True, env=environment
    ) as started:
        assert started.stdin is not None and started.stdout is not None
        worker = LoadProcess(started.stdin, started.stdout)
        yield worker
        worker.returncode = started.wait()


@contextmanager
def _forked(complaints: IO[str]) -> Iterator[LoadProcess]:
    asked, ask = os.pipe()
    answers, answer = os.pipe()
    pid = os.fork()
    if pid == 0:
        for inherited in (ask, answers):  # or it would never see the end of what it is asked
            os.close(inherited)
        _be_worker(asked, answer, complaints.fileno())
    for theirs in (asked, answer):
        os.close(theirs)
    with os.fdopen(ask, "w") as asking, os.fdopen(answers) as answering:
        worker = LoadProcess(asking, answering)
        try:
            yield worker
        finally:
            asking.close()
            answering.close()
            worker.returncode = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _be_worker(asked: int, answer: int, complaints: int) -> None:
    """Run the worker and leave without ever returning to the parent's code."""
    code = 1
    try:
        for ours, standard in ((asked, 0), (answer, 1), (complaints, 2)):
            os.dup2(ours, standard)
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's idle threads would spin
        from npulens.ingest.loading import worker

        worker.main()
        code = 0
    finally:
        if code:
            traceback.print_exc()  # as the interpreter would say it at its end
        os._exit(code)
