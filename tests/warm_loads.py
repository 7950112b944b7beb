"""A process that has imported all a load needs and forks for each: a load of the tests begins at once.

`ingest.load` starts an interpreter, which takes most of a second to import what it needs. The tests load some thousand
times. What the fork runs is the same worker, with the directory, the environment and the limits of whoever asks.
The dashboard does the same (app/intake/spare_process.py). Commands that tests start as processes are not touched.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from npulens.ingest.loading import load_process
from npulens.ingest.loading.load_process import LoadProcess

#: What a child inherits of whoever starts it.
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)
_address: str | None = None


@contextmanager
def started(complaints: IO[str]) -> Iterator[LoadProcess]:
    """A worker as `load_process` starts one, forked from the process that waits for this."""
    asked, ask = os.pipe()
    answers, answer = os.pipe()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(_waiting())
        told = {"cwd": os.getcwd(), "environment": {**os.environ, "OPENBLAS_NUM_THREADS": "1"}, "umask": _umask(),
                "limits": [resource.getrlimit(one) for one in _LIMITS]}  # fmt: skip
        socket.send_fds(line, [len(said := json.dumps(told).encode()).to_bytes(4, "big")],
                        [asked, answer, complaints.fileno()])  # fmt: skip
        line.sendall(said)
        for theirs in (asked, answer):
            os.close(theirs)
        with os.fdopen(ask, "w") as asking, os.fdopen(answers) as answering:
            worker = LoadProcess(asking, answering)
            try:
                yield worker
            finally:
                asking.close()
                answering.close()
                worker.returncode = int(line.recv(16) or b"-9")


def _umask() -> int:
    was = os.umask(0)
    os.umask(was)
    return was


def _waiting() -> str:
    """The address of this process's own forking process, which is started when it is first needed."""
    global _address
    if _address is None:
        place = tempfile.mkdtemp(prefix="loads-", dir=os.environ.get("NPULENS_TESTS_LOADED"))
        _address = os.path.join(place, "socket")
        ready, told = os.pipe()
        process = subprocess.Popen([sys.executable, "-m", "tests.warm_loads", _address, str(told)], pass_fds=[told],
                                   cwd=Path(__file__).resolve().parents[1], stdin=subprocess.PIPE)  # fmt: skip
        os.close(told)
        with os.fdopen(ready, "rb") as opened:
            assert opened.read(1) == b"!", "the process that forks for loads did not start"
        atexit.register(process.kill)
    return _address


def main() -> None:
    """Answers until whoever started it is gone: each connection is a load, and is told how that ended."""
    address, told = sys.argv[1], int(sys.argv[2])
    load_process.ahead()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    os.write(told, b"!")
    os.close(told)
    watched = selectors.DefaultSelector()
    watched.register(listener, selectors.EVENT_READ)
    watched.register(0, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            if key.fileobj == 0:  # nothing is ever written there
                return
            if key.fileobj is listener:
                line, _ = listener.accept()
                pid = _forked(line, listener)
                watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, line))
            else:
                watched.unregister(key.fd)
                os.close(key.fd)
                pid, line = key.data
                _, status = os.waitpid(pid, 0)
                with line:
                    line.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _forked(line: socket.socket, listener: socket.socket) -> int:
    head, fds, _, _ = socket.recv_fds(line, 4, 3)
    size, said = int.from_bytes(head, "big"), b""
    while len(said) < size:
        said += line.recv(size - len(said))
    asked = json.loads(said)
    pid = os.fork()
    if pid == 0:
        listener.close()
        line.close()
        os.chdir(asked["cwd"])
        os.umask(asked["umask"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        for one, limits in zip(_LIMITS, asked["limits"], strict=True):
            resource.setrlimit(one, limits)
        load_process._be_worker(*fds)
    for fd in fds:
        os.close(fd)
    return pid


if __name__ == "__main__":
    main()
