"""The numbers that a loaded run gives to the history."""

from __future__ import annotations

from pathlib import Path

from app.nightly.results import Result, Value
from ingest import history_run
from ingest import store as stores
from ingest.errors import IngestError


def of_run(store: Path, run_id: str) -> Result:
    """What a run measured, on what, and under which conditions."""
    info = stores.resolve(store, run_id)
    found = history_run.numbers(store, info)
    if found is None:
        raise IngestError("unknown_run", f"run {run_id} was deleted while the night looked at it")
    identity, points = found
    return Result(
        {point.metric: Value(point.value, point.unit, point.better) for point in points}, identity.hardware,
        identity.host, identity.shapes, identity.configuration, dict(points[0].covariates) if points else {},
        info.run_id, info.baseline, info.reason or "",
    )  # fmt: skip
