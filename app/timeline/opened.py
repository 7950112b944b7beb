"""Runs opened for the timeline: a few at a time, each once, whatever the number of visitors.

Opening arranges a run that was never looked at (ingest/store/lod.py). Why its device idled, and then its critical path,
are found out behind that. All of it happens on threads of its own: a request waits a while for the first and never for
the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

import duckdb

from npulens.analysis import views
from npulens.analysis.timeline.gaps import Causes, Pieces, causes
from npulens.analysis.timeline.ids import Slots
from npulens.analysis.timeline.layout import Layout, gap_track, layout
from npulens.analysis.timeline.path import TRACK, Lane, lane
from npulens.analysis.timeline.tiles import Arranged, arranged
from npulens.app import run_open
from npulens.app.aside import measured as asked_of
from npulens.app.aside.process import LONG, SHORT
from npulens.app.timeline.request_values import Refused
from npulens.ingest.errors import IngestError
from npulens.ingest.store.lod import build, open_lod
from npulens.ingest.store.runs import open_run

T = TypeVar("T")
#: Runs that stay open; one may hold half a GB of its file in memory.
KEPT = 4
#: Seconds a request waits for a run to be arranged before it is told to come again.
PATIENCE_S = 30


@dataclass(frozen=True)
class Opened:
    """A run that requests are answered from; each takes a cursor of its own."""

    lod: duckdb.DuckDBPyConnection
    run: duckdb.DuckDBPyConnection
    how: Arranged
    layout: Layout
    slots: Slots
    causes: Future[Causes]
    path: Future[Lane]

    def known(self) -> Causes | None:
        """Why the devices idled; None while that is being found out, or where it could not be."""
        return self.causes.result() if self.causes.done() and self.causes.exception() is None else None

    def lane(self) -> Lane | None:
        """The critical path; None while it is being found, where it could not be, and where there is none."""
        found = self.path.result() if self.path.done() and self.path.exception() is None else None
        return found if found and len(found.pieces.start) else None

    def pieces(self) -> dict[int, Pieces]:
        """What is known of the tracks that are derived, by track."""
        known, on_path = self.known(), self.lane()
        found = {gap_track(rank): of for rank, of in (known.of_rank if known else {}).items()}
        return found if on_path is None else {**found, TRACK: on_path.pieces}


_bench = ThreadPoolExecutor(2, thread_name_prefix="timeline")
_thinking = ThreadPoolExecutor(1, thread_name_prefix="causes")
_open: OrderedDict[tuple[str, str], Future[Opened]] = OrderedDict()
_lock = Lock()


def opened(store: Path, run_id: str) -> Opened:
    """The run, opened; Refused where it is not there, cannot be read, or is still being arranged."""
    if not run_id.isalnum() or not (store / run_id / "manifest.json").is_file():
        raise Refused("unknown_run", 404)
    key = (str(store), run_id)
    with _lock:
        future = _open.get(key)
        if future is None or (future.done() and future.exception() is not None):
            future = _open[key] = _bench.submit(_opened, store, run_id)
        _open.move_to_end(key)
        while len(_open) > KEPT:
            _open.popitem(last=False)
    try:
        return future.result(PATIENCE_S)
    except TimeoutError:
        raise Refused("preparing", 503) from None
    except IngestError as error:
        raise Refused(error.kind, 404 if error.kind == "unknown_run" else 507) from error


def _opened(store: Path, run_id: str) -> Opened:
    if run_open.large(store, run_id):
        SHORT.ask((str(store), run_id), build, store, run_id)
    lod, run = open_lod(store, run_id), open_run(store, run_id)
    found = layout(lod, run)
    slots = Slots(rank.rank for rank in found.ranks)
    known = _thinking.submit(_asked, store, run_id, causes)
    return Opened(lod, run, arranged(lod), found, slots, known, _thinking.submit(_asked, store, run_id, lane))


def _asked(store: Path, run_id: str, measure: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
    if run_open.large(store, run_id):
        found: T = LONG.ask((str(store), run_id), asked_of.measured, str(store), run_id, None, measure, ())
        return found
    con = open_run(store, run_id)
    try:
        views.install(con)
        return measure(con)
    finally:
        con.close()
