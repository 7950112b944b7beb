"""The numbers that a loaded run gives to the history."""

from __future__ import annotations

from pathlib import Path

from npulens.app.nightly.gathering.results import Result, Value
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import history_run
from npulens.ingest.store import runs as stores


def of_run(store: Path, run_id: str) -> Result:
    """What a run measured, on what, and under which conditions."""
    info = stores.resolve(store, run_id)
    found = history_run.numbers(store, info)
    if found is None:
        raise IngestError("unknown_run", Message("run_was_deleted_meanwhile", {"run": run_id}))
    identity, points = found
    metrics = {point.metric: Value(point.value, point.unit, point.better) for point in points}
    if metrics:
        metrics |= _parts(store, info.run_id)
    return Result(
        metrics, identity.hardware, identity.host, identity.shapes, identity.configuration,
        dict(points[0].covariates) if points else {}, info.run_id, info.baseline, str(info.reason or ""),
    )  # fmt: skip


def _parts(store: Path, run_id: str) -> dict[str, Value]:
    """What the step is made of, each part with its own noise."""
    from npulens.analysis.regression import parts  # with scipy: half a second that only a night has to spend

    with stores.open_run(store, run_id) as con:
        found = parts.told(parts.measure(con))
    return {part.metric: Value(part.value, part.unit, "lower", part.error, part.share) for part in found}
