"""The numbers that a loaded run gives to the history."""

from __future__ import annotations

from pathlib import Path

from npulens.app.nightly.gathering.results import Result, Value
from npulens.app.settings.of_checks import in_force
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, stored
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
    metrics |= _requests(store, info.run_id)
    return Result(
        metrics, identity.hardware, identity.host, identity.shapes, identity.configuration,
        dict(points[0].covariates) if points else {}, info.run_id, info.baseline, str(info.reason or ""),
        stored(info.reason),
    )  # fmt: skip


def _parts(store: Path, run_id: str) -> dict[str, Value]:
    """What the step is made of, each part with its own noise."""
    from npulens.analysis.regression import parts  # with scipy: half a second that only a night has to spend

    with stores.open_run(store, run_id) as con:
        found = parts.told(parts.measure(con))
    return {part.metric: Value(part.value, part.unit, "lower", part.error, part.share) for part in found}


def _requests(store: Path, run_id: str) -> dict[str, Value]:
    """Percentiles and goodput of a serving run, and its mean iteration of each class."""
    from npulens.analysis.serving import compared  # with scipy, as above

    slo = in_force(None).slo
    with stores.open_run(store, run_id) as con:
        found = compared.side(con)
    if found is None:
        return {}
    told, errors = dict[str, Value](), compared.errors(found, slo)
    for name, value in compared.figures(found, slo).items():
        error = errors.get(name)
        if name == compared.GOODPUT:
            told[name] = Value(100 * value, "%", "higher", error)
        elif name.startswith(compared.ITERATION):
            told[f"iteration_ns {name.removeprefix(compared.ITERATION)}"] = Value(value, "ns", "lower", error)
        else:
            told[f"{name}_ns"] = Value(value, "ns", "lower", error)
    return told
