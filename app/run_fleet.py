"""The fleet view of a run, from a summary that is computed once and kept. A bucket keeps it, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npulens.analysis.fleet.fleet import Fleet, fleet
from npulens.analysis.fleet.summary import SUMMARY
from npulens.analysis.views import views
from npulens.ingest import objects
from npulens.ingest.store import kept
from npulens.ingest.store.kept import Answer

#: Ranks from which on a load into a bucket makes the summary, so that nobody has to copy the run for it.
MANY = 64


def fleet_of(store: Path, run_id: str, top: int) -> Fleet:
    """What the summaries of a run's ranks say."""
    with kept.opened(summary(store, run_id)) as con:
        return fleet(con, top)


def summary(store: Path, run_id: str) -> Mapping[str, Path]:
    """Where the tables of a run's summary lie; computed unless they are here or in its bucket."""
    statements = [view.sql for view in views()]
    answers = [Answer(name, "\0".join((sql, *statements)), sql) for name, sql in SUMMARY.items()]
    places = kept.places(store, run_id, answers)
    bucket = objects.of(store)
    if bucket is not None:
        bucket.take(run_id, places.values())
    if not all(path.is_file() for path in places.values()):
        kept.make(store, run_id, answers, statements)
        if bucket is not None:
            bucket.give(run_id, places.values())
    return places
