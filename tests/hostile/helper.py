"""The long-lived process that loads hostile files: it imports once, then forks for each file.

Each fork runs the very `ingest.worker.main` that `ingest.load` starts, with the request on its standard input. What it
and its children used is what the kernel counted when they ended (wait4), not a sample.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from npulens.ingest import readers
from npulens.ingest.loading import worker

#: Seconds after which a load is taken for hung. It is far beyond what may be used: the machine may be busy.
HUNG_S = 120.0


def main() -> None:
    """Answer each request of standard input with one line: how the load ended and what it used."""
    readers.readers()
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(loaded(Path(asked["scratch"]), asked["request"])), flush=True)


def loaded(scratch: Path, request: dict[str, Any]) -> dict[str, Any]:
    (scratch / "request").write_text(json.dumps(request))
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _be_worker(scratch)
    hung = not _ends(pid)
    if hung:
        os.killpg(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    return {
        "hung": hung, "status": os.waitstatus_to_exitcode(status), "wall_s": time.monotonic() - begun,
        "cpu_s": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss << 10, "mine": _resident(),
    }  # fmt: skip


def _ends(pid: int) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], HUNG_S)[0])
    finally:
        os.close(descriptor)


def _be_worker(scratch: Path) -> None:
    code = 1
    try:
        os.setsid()
        for number, name, flags in ((0, "request", os.O_RDONLY), (1, "answer", os.O_WRONLY | os.O_CREAT),
                                    (2, "complaint", os.O_WRONLY | os.O_CREAT)):  # fmt: skip
            os.dup2(os.open(scratch / name, flags, 0o600), number)
        sys.stdin = os.fdopen(0)
        worker.main()
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(code)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
