"""Loads uploaded captures in disposable, niced child processes, one after the other, and tells how far they are.

Other people's files are parsed in a process that may die: never in the server, never in a thread of it. The child
writes its progress and its answer to two files beside the capture. So nothing here blocks and no pipe can fill. Loads
wait in one queue for a free place, whoever brought them: a visitor's page, a colleague's link or curl. None of them has
to stay for a load to end.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from npulens.app.intake import invitations
from npulens.app.intake.drop_folders import Grant, discard
from npulens.app.intake.invitations import Ticket
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import loaded
from npulens.ingest.store import notes

AT_ONCE = 2  # loads that run side by side on one server; more wait their turn
NICENESS = 12
_TAIL = 8192


@dataclass(frozen=True)
class Progress:
    """What the child is doing; ``total_bytes`` is None until it knows, ``rows`` until a rank is done."""

    stage: str
    done_bytes: int
    total_bytes: int | None
    text: str
    rows: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a load ended: the entries of its report, or the one sentence of what went wrong."""

    runs: tuple[Mapping[str, Any], ...]
    error: str | None
    files: tuple[Mapping[str, Any], ...] = ()  # what became of each

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that are in the store now."""
        return tuple(str(run["run_id"]) for run in self.runs if run.get("run_id"))


@dataclass
class Load:
    """One capture on its way into the store."""

    grant: Grant
    store: Path
    name: str
    ticket: Ticket | None = None  # what it counts against
    process: subprocess.Popen[bytes] | None = None
    waiting: bool = True  # its turn has yet to come
    _stopped: bool = False
    _ended: Outcome | None = None
    _lock: Lock = field(default_factory=Lock)
    done: Event = field(default_factory=Event)

    @property
    def _answer(self) -> Path:
        return self.grant.folder.with_name(self.grant.id + ".out")

    @property
    def _log(self) -> Path:
        return self.grant.folder.with_name(self.grant.id + ".err")

    def progress(self) -> Progress | None:
        """The newest progress line, None before the first."""
        for line in reversed(_tail(self._log).splitlines()):
            with contextlib.suppress(ValueError, TypeError, KeyError):
                said = json.loads(line)
                rows = said.get("rows")
                return Progress(
                    str(said["stage"]), int(said["done_bytes"]), said["total_bytes"], str(said["text"]), rows
                )
        return None

    def outcome(self) -> Outcome | None:
        """How it ended; None while it waits or runs."""
        return self._ended if self.done.is_set() else None

    def run(self) -> None:
        """Loads it, and removes what was uploaded: the store has what it needs."""
        self.waiting = False
        try:
            if self._start() and self.process is not None:
                self.process.wait()
            self._ended = self._said()
            self._ended = self._named(self._ended)
        except Exception as error:  # a full disk, a store that is gone, our own defect: whoever waits is told of it
            told = error.said() if isinstance(error, IngestError) else str(error) or type(error).__name__
            self._ended = self._ended or Outcome((), told)
        finally:
            with contextlib.suppress(OSError):
                discard(self.grant)
                self._answer.unlink(missing_ok=True)
                self._log.unlink(missing_ok=True)
            self.done.set()

    def _start(self) -> bool:
        """Starts the child; False if the load was stopped before its turn."""
        arguments = [str(self.grant.capture.resolve()), "--store", str(self.store.resolve()), "--json"]
        arguments += ["--called", self.name] if self.name else []
        line = {"arguments": [*arguments, "--progress-json"], "out": str(self._answer), "err": str(self._log)}
        with self._lock:
            if self._stopped:
                return False
            self.process = _take()
            with contextlib.suppress(OSError, AttributeError):  # gone already, or a system without priorities
                os.setpriority(os.PRIO_PROCESS, self.process.pid, NICENESS)
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError), self.process.stdin as told:
                told.write(json.dumps(line).encode() + b"\n")
        return True

    def _said(self) -> Outcome:
        if self._stopped or self.process is None:
            return Outcome((), "stopped")
        return _outcome(self._answer, self._log, self.process.returncode, f"{self.grant.folder.resolve()}/")

    def _named(self, outcome: Outcome) -> Outcome:
        """The names of its runs. What nobody could read does not use up its ticket; its bytes count all the same."""
        if self.ticket is not None and not outcome.run_ids:
            invitations.give_back(self.store, self.ticket, self.grant.files, 0)
        labels = notes.labels(self.store)
        return replace(
            outcome, runs=tuple({**run, "label": labels.get(str(run.get("run_id")))} for run in outcome.runs)
        )

    def stop(self) -> None:
        """Ends the child with its own children; what was uploaded is forgotten."""
        with self._lock:
            self._stopped = True
            if self.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGTERM)


_waiting: queue.Queue[Load] = queue.Queue()
_workers: list[Thread] = []
_hiring = Lock()


def submit(load: Load) -> Load:
    """Puts a load into the queue; it goes on whether or not anybody watches."""
    with _hiring:
        while len(_workers) < AT_ONCE:
            # Daemons: a server that is told to end does not wait for them; the child finishes by itself.
            worker = Thread(target=_work, name=f"load-{len(_workers)}", daemon=True)
            _workers.append(worker)
            worker.start()
    _waiting.put(load)
    return load


def waiting() -> int:
    """Loads whose turn has yet to come."""
    return _waiting.qsize()


def _work() -> None:
    while True:
        _waiting.get().run()
        with contextlib.suppress(OSError):  # no process to be had now: the next load starts its own
            ready()


_spares: list[subprocess.Popen[bytes]] = []
_sparing = Lock()


def ready() -> None:
    """Has a child wait for the next capture, with everything imported: half a second that nobody waits for."""
    with _sparing:
        if not _spares:
            _spares.append(_spare())


def _take() -> subprocess.Popen[bytes]:
    with _sparing:
        spare = _spares.pop() if _spares else _spare()
    if spare.poll() is None:
        return spare
    assert spare.stdin is not None
    spare.stdin.close()
    return _spare()


def _spare() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "npulens.app.intake.spare_process"], start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=dict(os.environ, OPENBLAS_NUM_THREADS="1"),
    )  # fmt: skip


def _outcome(answer: Path, log: Path, status: int, folder: str) -> Outcome:
    """What the child said; the folder it read from is nobody's business and is taken out of every text."""
    try:
        report = loaded(answer.read_text("utf-8").replace(folder, ""))
        error = report["said"] if "error" in report else None
        return Outcome(tuple(report.get("runs", ())), error, tuple(report.get("files", ())))
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
