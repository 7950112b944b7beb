"""Runs that were asked about: open, judged once, and kept while they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

import duckdb

from npulens.analysis.engine import Check, check
from npulens.analysis.settings import Settings
from npulens.app import run_check, run_open
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import lines

#: Runs that stay open; each holds some tens of MB.
_MOST = 8
#: Runs that are judged side by side: a large one takes all of a machine.
_JUDGING = BoundedSemaphore(2)


@dataclass
class Held:
    """One run. Its lock is held while it is judged or read, so that heavy questions to a run come one by one."""

    con: duckdb.DuckDBPyConnection
    said: Check | None = None
    windows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of findings, with their spans and code
    lock: Lock = field(default_factory=Lock)


class Runs:
    """The open runs of a store, the one that was asked for longest ago closed first."""

    def __init__(self, store: Path, settings: Settings) -> None:
        self.store, self._settings = store, settings
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def asked(self, run_id: str) -> Iterator[Held]:
        """A run for one question. What DuckDB says of it is one sentence, and the run is opened again next time."""
        held = self._of(run_id)
        with held.lock:
            try:
                yield held
            except duckdb.Error as error:
                with self._lock:
                    self._held.pop(run_id, None)
                raise IngestError("sql", lines(str(error).strip())) from error

    def judged(self, held: Held) -> Check:
        """What the detectors say of a run that is being asked."""
        if held.said is None:
            run_check.ready(self._settings)
            with _JUDGING:
                held.said = check(held.con, None, self._settings)
        return held.said

    def _of(self, run_id: str) -> Held:
        with self._lock:
            if run_id not in self._held:
                self._held[run_id] = Held(run_open.opened(self.store, run_id))
            self._held.move_to_end(run_id)
            while len(self._held) > _MOST:  # closed when the last question to it is answered
                self._held.popitem(last=False)
            return self._held[run_id]
