"""A step as a process of its own, with a limit and a log. By a mark the next night finds what outlived this."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: In the environment of everything a night starts: which night that was.
MARK = "NPULENS_NIGHT"
_PATIENCE = 5.0  # seconds between asking a process to end and ending it
_TAIL = 300  # characters of a log that say why


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    status: int | None  # None: it was ended because its time was over
    seconds: float
    tail: str  # the end of what it said


def run(
    command: Sequence[str], log: Path, limit_s: float, mark: str, env: Mapping[str, str], directory: Path | None = None
) -> Ended:
    """Runs a command and waits; at the limit it and everything it started are ended. OSError where it cannot begin."""
    began = time.monotonic()
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            cwd=directory, env={**os.environ, **env, MARK: mark},
        )  # fmt: skip
        try:
            status: int | None = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(child)
    return Ended(status, time.monotonic() - began, _tail(log))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the group of a child: what it left running would disturb whatever is measured next."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE)
            if not _group(child.pid):
                return


def _group(pid: int) -> bool:
    """Whether anything of a group is left."""
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _tail(log: Path) -> str:
    raw = log.read_bytes()[-4 * _TAIL :].decode("utf-8", "replace")
    lines = [line.strip() for line in raw.splitlines() if line.strip()]
    return "".join(char if char.isprintable() else " " for char in " · ".join(lines[-3:]))[-_TAIL:]


def leftovers(mark: str) -> int:
    """Ends what a night that died left running, found by its mark; how many processes that were."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    for pid in found:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(found)
