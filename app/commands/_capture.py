"""RUN as people type it: what a run is called, or the path of a capture, which is loaded first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from npulens import ingest
from npulens.app.commands import load
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores

#: So many runs of a path are named.
_NAMED = 5


def run_of(store: Path, name: str, lang: str) -> str:
    """The id of the run. A path that no run is called by is loaded; what is odd about it goes to standard error."""
    try:
        return stores.resolve(store, name).run_id
    except IngestError as error:
        if error.kind != "unknown_run" or not name or not os.path.exists(name):
            raise
    report = ingest.load([Path(name)], store, progress=load.Bar().show if sys.stderr.isatty() else None)
    kept = [run.run_id for run in report.runs if run.run_id is not None]
    if len(kept) > 1:
        told = ", ".join(kept[:_NAMED]) + (", ..." if len(kept) > _NAMED else "")
        raise IngestError("several_runs", Message("path_holds_several_runs", {"n": len(kept), "runs": told}), name)
    if kept:
        load.odd(report, lang=lang)
        return kept[0]
    refused = next((run.error for run in report.runs if run.error is not None), None)
    if refused is None:
        raise IngestError("empty", Message("nothing_in_it_can_be_loaded"), name)
    raise IngestError(refused["kind"], refused["message"])


def runs_of(store: Path, names: str, lang: str) -> str:
    """The same of several between commas."""
    if os.path.exists(names):
        return run_of(store, names, lang)
    return ",".join(run_of(store, name, lang) if os.path.exists(name) else name for name in names.split(","))
