"""What is said of a series: its percentiles, its spread, what lies far off, whether it was steady."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from npulens.collectors.harness.latency import Series
from npulens.collectors.harness.outliers import outliers
from npulens.collectors.harness.quantiles import quantiles
from npulens.collectors.harness.steady import Steadiness, steadiness


def of(series: Series, calls_wanted: int) -> dict[str, Any]:
    """Figures of the samples that count: all of them but a cold start. None is left out for being slow."""
    state = steadiness(series.ns)
    counted = series.ns[state.kept_from :]
    return {
        "clock": series.clock, "samples": len(counted), "wanted": calls_wanted,
        "steadiness": _steadiness(state), "counts": state.counts,
        "quantiles": [{**asdict(each), "needed": each.needed} for each in quantiles(counted)],
        **_spread(counted),
        "outliers": _outliers(series, counted, state.kept_from),
    }  # fmt: skip


def _steadiness(state: Steadiness) -> dict[str, Any]:
    return {"state": state.state, "kept_from": state.kept_from, "changed_at": state.changed_at, "change": state.change}


def _spread(samples: Sequence[int]) -> dict[str, Any]:
    if not samples:
        return {"min": None, "max": None, "mean": None, "deviation": None, "mad": None}
    middle = statistics.median(samples)
    return {
        "min": min(samples), "max": max(samples), "mean": statistics.fmean(samples),
        "deviation": statistics.stdev(samples) if len(samples) > 1 else None,
        "mad": statistics.median(abs(sample - middle) for sample in samples),
    }  # fmt: skip


def _outliers(series: Series, counted: Sequence[int], kept_from: int) -> dict[str, Any]:
    """How many, and of the farthest when they were and what else happened then."""
    found = outliers(counted)
    listed = [
        {"at": at + kept_from, "ns": ns, "events": series.events.get(at + kept_from, [])}
        for at, ns in zip(found.at, found.values)
    ]
    told = sum(bool(each["events"]) for each in listed)
    return {
        "count": found.count, "share": found.share, "low_fence": found.low_fence, "high_fence": found.high_fence,
        "listed": listed, "with_events": told,
    }  # fmt: skip
