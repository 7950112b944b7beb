"""Files on disk to typed tables. `ingest.load(path)` is the whole of it.

>>> from npulens import ingest
>>> report = ingest.load("capture_dir")          # into the default store
>>> report.runs[0].run_id, report.runs[0].status
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from npulens.ingest.errors import IngestError
from npulens.ingest.loading.load_process import process
from npulens.ingest.messages import Message, as_data, loaded
from npulens.ingest.store.place import default_dir, located

__all__ = ["FileFate", "IngestError", "LoadReport", "LoadedRun", "Progress", "load"]

#: What Python, its loader and the libraries say when there is none, the first of them before anything of ours runs.
_NO_MEMORY = ("MemoryError", "failed to map segment", "annot allocate memory", "Memory allocation", "bad_alloc")


@dataclass(frozen=True)
class Progress:
    """How far a load is."""

    stage: str
    text: str
    done_bytes: int = 0
    total_bytes: int = 0
    rows: int = 0  # of the ranks that are read


@dataclass(frozen=True)
class LoadedRun:
    """What became of one capture: a run, or a refusal (then run_id is None and error says why)."""

    run_id: str | None
    stored: str | None
    label: str | None
    formats: tuple[str, ...]
    ranks: tuple[int, ...]
    status: str
    reason: str | None
    events: int
    seconds: float
    coverage: tuple[dict[str, Any], ...]
    error: dict[str, Any] | None = None
    redacted: bool = False
    warnings: tuple[str, ...] = ()  # where the profiler's own sums disagree with what was read

    def as_dict(self) -> dict[str, Any]:
        """The keys that `npulens load --json` promises."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__}
        row.update(formats=list(self.formats), ranks=list(self.ranks), coverage=list(self.coverage))
        row.update(warnings=list(self.warnings), said=as_data(self.reason))
        if self.error is None:
            del row["error"]
        return row


@dataclass(frozen=True)
class FileFate:
    """What became of one file of an upload: read, beside (a capture, passed over) or refused."""

    path: str
    fate: str
    run_id: str | None
    reason: str | None


@dataclass(frozen=True)
class LoadReport:
    runs: tuple[LoadedRun, ...]
    files: tuple[FileFate, ...] = ()


def load(
    paths: str | Path | Sequence[str | Path],
    store: str | Path | None = None,
    *,
    label: str | None = None,
    join: str | None = None,
    max_disk: str | None = None,
    max_time: str | None = None,
    redact: bool = False,
    engine: str = "local",
    called: str | None = None,
    raw: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> LoadReport:
    """Load files, directories and archives into the store.

    The work happens in a process of its own; this one only waits. Raises IngestError when nothing could be tried (no
    such run to join, no place for the store). A capture that cannot be read is an entry of the report with its error.
    ``redact``: nothing stored names people, machines or places. ``max_disk`` ("20G") and ``max_time`` ("30m") limit the
    load; ingest/loading/quota.py has the defaults. ``called``: what the path is called where it came from; runs
    without a label are named after it. ``engine``: who reads the ranks, "local", "ray" or "ray://HEAD". ``raw``: how
    much the captures that the store keeps may take, such as "50G", or "off".
    """
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    request = {
        "paths": [str(Path(path).absolute()) for path in several],
        "store": str(default_dir() if store is None else located(store).absolute()),
        "label": label,
        "join": join,
        "max_disk": max_disk,
        "max_time": max_time,
        "redact": redact,
        "engine": engine,
        "called": called,
        "raw": raw,
    }
    answer = _ask_worker(request, progress)
    return LoadReport(
        tuple(_loaded(row) for row in answer["result"]), tuple(FileFate(**row) for row in answer["files"])
    )


def _ask_worker(request: dict[str, Any], progress: Callable[[Progress], None] | None) -> dict[str, Any]:
    """Let a process of its own do the work; what it answers."""
    with _temporary() as complaints:
        with process(complaints) as worker:
            worker.ask.write(json.dumps(request))
            worker.ask.close()
            answer: dict[str, Any] = {}
            for line in worker.answers:
                answer = loaded(line)
                if progress is not None and "stage" in answer:
                    progress(Progress(**answer))
        complaints.seek(0)
        complaint = complaints.read()
    if "error" in answer:
        raise IngestError(**answer["error"])
    if "result" not in answer:
        if any(sign in complaint for sign in _NO_MEMORY):
            raise IngestError("memory", Message("there_is_not_enough_memory"))
        text = Message(
            "loading_process_ended_with_status", {"status": worker.returncode, "error": complaint.strip()[-400:]}
        )
        raise IngestError("crashed", text)
    return answer


def _temporary() -> IO[str]:
    """A file for whatever the libraries print."""
    try:
        return tempfile.TemporaryFile("w+")
    except OSError as error:  # no directory for one: full, or a limit on files
        raise IngestError("system", Message("system_refused", {"error": error.strerror or error})) from error


def _loaded(row: dict[str, Any]) -> LoadedRun:
    several = ("formats", "ranks", "coverage", "warnings")
    return LoadedRun(**{**row, **{name: tuple(row.get(name, ())) for name in several}})
