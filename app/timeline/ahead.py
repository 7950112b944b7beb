"""Large runs are arranged for the timeline before anybody opens them: the newest first, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from npulens.app.aside.process import LONG
from npulens.ingest import objects
from npulens.ingest.errors import IngestError
from npulens.ingest.store import lod, seal
from npulens.ingest.store.runs import runs

#: Seconds between two looks at what was loaded.
EVERY_S = 30
#: So many runs of a store are looked at; those of fewer events are arranged in less time than anybody notices.
NEWEST, LEAST_EVENTS = 5, 1_000_000


def arrange(stores: Iterable[Path]) -> int:
    """Arranges what is not arranged yet; how many runs. A run in a bucket is fetched only when somebody opens it."""
    done = 0
    for store in stores:
        if objects.of(store) is not None:
            continue
        for run in runs(store)[:NEWEST]:
            if run.events < LEAST_EVENTS or seal.holds(lod.place(lod.home(store), run.run_id)):
                continue
            with suppress(IngestError):  # a full disk, a damaged run: whoever opens it is told
                LONG.ask((str(store), run.run_id), lod.build, store, run.run_id)
                done += 1
    return done
