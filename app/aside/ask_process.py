"""A visitor's own SELECT, asked in a process that is thrown away.

The server has many threads, and forking them is not safe. So a fresh interpreter runs this file and asks
(ingest/store/query.py, which forks once more and limits that child). It writes one JSON object that is never larger
than what a browser can take.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any

AT_ONCE = 2  # queries that run side by side on one server; more wait their turn
WALL_S = 100.0  # a little more than ingest/store/query.py gives a query
MOST_BYTES = 24_000_000  # of an answer
MOST_LETTERS = 10_000  # of one cell
MOST_QUERY = 50_000  # letters of a query
NICENESS = 5

_running: list[subprocess.Popen[bytes]] = []
_lock = Lock()
_PLACE = re.compile(r"LINE (\d+): (.*)\n( *)\^")


@dataclass(frozen=True)
class Refused:
    """Why there is no answer: a kind that the page has a sentence for, the database's words, and where."""

    kind: str
    message: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True)
class Answered:
    """The answer; ``cut`` where there were more rows, ``shortened`` cells were longer."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    cut: bool
    shortened: int
    seconds: float


@dataclass
class Asking:
    """One query under way."""

    store: Path
    run_id: str
    query: str
    process: subprocess.Popen[bytes] | None = None
    began: float = field(default_factory=time.monotonic)
    _out: IO[bytes] | None = None

    def start(self) -> bool:
        """Starts the child if a place is free; True once it has been started."""
        if self.process:
            return True
        with _lock:
            _running[:] = [process for process in _running if process.poll() is None]
            if len(_running) >= AT_ONCE:
                return False
            self._out = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
            command = [sys.executable, "-P", "-m", __name__, str(self.store.resolve()), self.run_id]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=self._out, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            _running.append(self.process)
        self.began = time.monotonic()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError), self.process.stdin as into:
            into.write(self.query.encode("utf-8", "replace"))
        return True

    @property
    def seconds(self) -> float:
        """How long it has been at work, or has waited for its turn."""
        return time.monotonic() - self.began

    def outcome(self) -> Answered | Refused | None:
        """How it ended; None while it runs."""
        if self.process is None or self._out is None or self._out.closed:
            return None
        if self.process.poll() is None:
            if self.seconds < WALL_S:
                return None
            self.stop()
            return Refused("too_slow", "")
        self._out.seek(0, os.SEEK_END)
        if self._out.tell() > 2 * MOST_BYTES:
            return Refused("too_large", "")
        self._out.seek(0)
        try:
            said = json.loads(self._out.read())
        except ValueError:
            return Refused("crashed", "")
        if "kind" in said:
            return Refused(said["kind"], said["message"], said["line"], said["column"])
        return Answered(tuple(said["columns"]), said["rows"], said["cut"], said["shortened"], said["seconds"])

    def stop(self) -> None:
        """Ends the child and the children it has, and forgets the answer."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self._out is not None:
            self._out.close()


def ended(store: Path, run_id: str, query: str, tell: Callable[[Asking], None]) -> Answered | Refused:
    """Asks and waits. ``tell`` is called while it waits; what it raises ends the query."""
    if len(query) > MOST_QUERY:
        return Refused("too_long", "")
    asking = Asking(store, run_id, query)
    try:
        while True:
            if asking.start() and (found := asking.outcome()) is not None:
                return found
            tell(asking)
            time.sleep(0.05 if asking.seconds < 2 else 0.25)
    finally:
        asking.stop()


def refused(kind: str, message: str, query: str) -> Refused:
    """The database's complaint in one line, and where it points."""
    first = message.split("\n\n")[0].strip()
    told = " ".join(line.strip() for line in first.splitlines())
    place = _PLACE.search(message)
    if not place:
        return Refused(kind, told)
    number, shown, blanks = int(place[1]), place[2], place[3]
    at = len(blanks) - len(f"LINE {number}: ")
    lines = query.splitlines()
    whole = lines[number - 1] if 0 < number <= len(lines) else ""
    if shown.startswith("..."):  # only a part of a long line is shown
        at += whole.find(shown[3:].removesuffix("...")) - 3
    return Refused(kind, told, number, max(at, 0) + 1)


def _fitting(answer: Any, cut: bool) -> dict[str, Any]:
    """As many rows as a browser can take, with cells it can show."""
    rows: list[list[Any]] = []
    size = shortened = 0
    for row in answer.rows:
        cells = []
        for cell in row:
            if isinstance(cell, list | dict):
                cell = json.dumps(cell, ensure_ascii=False)
            if isinstance(cell, str) and len(cell) > MOST_LETTERS:
                cell, shortened = cell[:MOST_LETTERS] + "…", shortened + 1
            cells.append(cell)
        size += len(json.dumps(cells))
        if size > MOST_BYTES:
            cut = True
            break
        rows.append(cells)
    return {"columns": answer.columns, "rows": rows, "cut": cut, "shortened": shortened}


def main(store: Path, run_id: str, query: str) -> dict[str, Any]:
    """What the child does."""
    from npulens.analysis.look.sql_answers import limited
    from npulens.analysis.views import views
    from npulens.ingest.errors import IngestError
    from npulens.ingest.store.query import MAX_ROWS, ask

    ready, began = [view.sql for view in views()], time.monotonic()
    try:
        answer, cut = ask(store, run_id, query, ready), False
    except IngestError as error:
        if error.kind != "too_many_rows":
            return vars(refused(error.kind, error.message, query))
        try:
            answer, cut = ask(store, run_id, limited(query, MAX_ROWS), ready), True
        except IngestError:  # a comment at its end, or the like: it cannot be cut
            return vars(refused(error.kind, error.message, query))
    return {**_fitting(answer, cut), "seconds": time.monotonic() - began}


if __name__ == "__main__":
    os.nice(NICENESS)
    # What is left over of the answer does not fit a browser: the memory of this process is limited too.
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    json.dump(main(Path(sys.argv[1]), sys.argv[2], sys.stdin.read()), sys.stdout)
