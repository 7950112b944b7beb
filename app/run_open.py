"""A run opened for pages: its tables, the views, and what was computed once of a large run and kept beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import duckdb

from npulens.analysis import views
from npulens.analysis.kept import KEPT, asked, instead, made_by
from npulens.analysis.run import Run
from npulens.analysis.serving.parts import KEPT as REQUESTS
from npulens.ingest.errors import IngestError
from npulens.ingest.store import kept, runs
from npulens.ingest.store.kept import Answer

#: A run of fewer events answers within about a second, so the server asks it itself.
LEAST_ASIDE = 100_000
#: Of a run of fewer events nothing is kept: its tables answer at once.
LEAST_EVENTS = 500_000


@lru_cache(1_000)
def large(store: Path, run_id: str) -> bool:
    """Whether a question of this run takes long."""
    try:
        return bool(runs.manifest(store, run_id)["events"] >= LEAST_ASIDE)
    except (IngestError, OSError, KeyError, TypeError):
        return False


def keep(
    store: Path, run_id: str, names: Iterable[str] = tuple(KEPT), least: int = LEAST_EVENTS, run: Run | None = None
) -> Mapping[str, Path]:
    """What is kept of a run, computed now where it is not there. Nothing of a small run, or where it cannot be.

    `run`: what was derived of it already.
    """
    try:
        if runs.manifest(store, run_id)["events"] < least:
            return {}
        return kept.make(store, run_id, _answers(names, run), [view.sql for view in views.views()])
    except (IngestError, OSError, KeyError, TypeError):  # a full disk, a run that is gone: pages compute it each time
        return {}


def opened(store: Path, run_id: str) -> duckdb.DuckDBPyConnection:
    """The run, with what is kept of it by now."""
    there = kept.there(store, run_id, _answers(KEPT))
    try:
        con = runs.open_run(store, run_id, kept=there)
    except IngestError:
        if not there:
            raise
        con, there = runs.open_run(store, run_id), {}
    if "launched" in there:
        instead(con)
    views.install(con)
    return con


def requests(store: Path, run_id: str) -> duckdb.DuckDBPyConnection:
    """The run with the sums of its requests, which are kept of a large one. Questions of requests need no views."""
    return runs.open_run(store, run_id, kept=keep_requests(store, run_id))


def keep_requests(store: Path, run_id: str, least: int = LEAST_EVENTS) -> Mapping[str, Path]:
    """Only the sums of its requests."""
    return keep(store, run_id, (REQUESTS,), least)


def _answers(names: Iterable[str], run: Run | None = None) -> list[Answer]:
    return [Answer(name, made_by(name), how) for name, how in asked(names, run).items()]
