"""Loads an uploaded capture in a disposable, niced child process and tells how far it is.

Other people's files are parsed in a process that may die: never in the server, never in a thread of it. The child
writes its progress and its answer to two files beside the capture, so nothing here blocks and no pipe can fill.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from app.upload import Grant, discard

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 2  # loads that run side by side on one server; more wait their turn
NICENESS = 10
_TAIL = 8192

_running: list[subprocess.Popen[bytes]] = []
_lock = Lock()


@dataclass(frozen=True)
class Progress:
    """What the child is doing; ``total_bytes`` is None until it knows."""

    stage: str
    done_bytes: int
    total_bytes: int | None
    text: str


@dataclass(frozen=True)
class Outcome:
    """How a load ended: the entries of its report, or the one sentence of what went wrong."""

    runs: tuple[Mapping[str, Any], ...]
    error: str | None


@dataclass
class Load:
    """One capture on its way into the store."""

    grant: Grant
    store: Path
    name: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def _answer(self) -> Path:
        return self.grant.folder.with_name(self.grant.id + ".out")

    @property
    def _log(self) -> Path:
        return self.grant.folder.with_name(self.grant.id + ".err")

    def start(self) -> bool:
        """Starts the child if a place is free; True once it has been started."""
        if self.process:
            return True
        with _lock:
            _running[:] = [process for process in _running if process.poll() is None]
            if len(_running) >= AT_ONCE:
                return False
            command = [sys.executable, "-m", "app.cli", "load", str(self.grant.capture.resolve())]
            command += ["--store", str(self.store.resolve()), "--json", "--progress-json"]
            with self._answer.open("wb") as out, self._log.open("wb") as err:
                self.process = subprocess.Popen(
                    command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
            _running.append(self.process)
        with contextlib.suppress(OSError, AttributeError):  # gone already, or a system without priorities
            os.setpriority(os.PRIO_PROCESS, self.process.pid, NICENESS)
        return True

    def progress(self) -> Progress | None:
        """The newest progress line, None before the first."""
        for line in reversed(_tail(self._log).splitlines()):
            with contextlib.suppress(ValueError, TypeError, KeyError):
                said = json.loads(line)
                return Progress(str(said["stage"]), int(said["done_bytes"]), said["total_bytes"], str(said["text"]))
        return None

    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs. What was uploaded is removed: the store has what it needs."""
        if self.process is None or self.process.poll() is None:
            return None
        ended = _outcome(self._answer, self._log, self.process.returncode, f"{self.grant.folder.resolve()}/")
        discard(self.grant)
        self._answer.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
        return ended

    def stop(self) -> None:
        """Ends the child with its own children and forgets the capture."""
        if self.process is None:
            discard(self.grant)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()
        self.outcome()


def _outcome(answer: Path, log: Path, status: int, folder: str) -> Outcome:
    """What the child said; the folder it read from is nobody's business and is taken out of every text."""
    try:
        report = json.loads(answer.read_text("utf-8").replace(folder, ""))
        error = report.get("error")
        return Outcome(tuple(report.get("runs", ())), str(error["message"]) if error else None)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        plain = [line for line in _tail(log).splitlines() if line.strip() and not line.startswith("{")]
        return Outcome((), plain[-1].replace(folder, "") if plain else f"exit status {status}")


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _TAIL))
            return opened.read().decode("utf-8", "replace")
    except OSError:
        return ""
