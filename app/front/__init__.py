"""npulens from Python: captures to runs, runs to findings, tables and figures.

>>> import npulens
>>> report = npulens.load("path/to/capture")  # what `npulens load` does; its runs tell their status and coverage
>>> run = npulens.open(report.runs[0].run_id)  # or the beginning of an id, or a label
>>> run.check().findings[0].words["en"].title
>>> run.sql("SELECT cause, sum(dur_ns) FROM device_gap GROUP BY ALL")
>>> run.figure("split").show()

This file is the package `npulens` itself; setup.py puts it above the folders of the repository. What a name needs is
imported when it is called: every process of npulens imports this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npulens.ingest import LoadReport
    from npulens.opened import Run

__all__ = ["load", "open"]


def load(paths: str | Path | Sequence[str | Path], store: str | Path | None = None) -> LoadReport:
    """Load files, directories and archives. `npulens.ingest.load` has every option."""
    from npulens import ingest

    return ingest.load(paths, store)


def open(run: str, store: str | Path | None = None) -> Run:
    """A run of the store by id, the beginning of one, or label; without one `npulens.ingest.IngestError` is raised."""
    from npulens import opened

    return opened.opened(run, store)
